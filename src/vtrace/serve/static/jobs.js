// Jobs of this tab. The one in view is followed; the others are polled, so that the server does not cancel them.
// Only one stream is open at a time, because a browser allows no more than six connections to a server.

import { get } from "./api.js";

export const FINAL = new Set(["done", "failed", "cancelled", "interrupted"]);
const EVERY = 2000; // milliseconds, well below the server's time limit
const mine = new Set();

export function follow(id, listener) {
  mine.add(id);
  showBusy();
  let text = "";
  const source = new EventSource(`/api/explanations/${id}/events`);
  source.onmessage = (message) => {
    const news = JSON.parse(message.data);
    text += news.text; // after a lost connection the browser names the last event, and the text continues from there
    if (FINAL.has(news.status)) {
      source.close();
      forget(id);
    }
    listener({ ...news, text });
  };
  return () => source.close();
}

async function ask(id) {
  try {
    const facts = await get(`/api/explanations/${id}`);
    if (FINAL.has(facts.status)) forget(id);
  } catch (problem) {
    if (problem.status) forget(id);
  }
}

function forget(id) {
  mine.delete(id);
  showBusy();
}

function showBusy() {
  const busy = document.getElementById("busy");
  busy.hidden = mine.size === 0;
  busy.textContent = `${mine.size} in progress`;
  if (mine.size) busy.href = `#/explanations/${[...mine].at(-1)}`;
}

setInterval(() => mine.forEach(ask), EVERY);
