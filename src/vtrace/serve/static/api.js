// The HTTP interface, as it is described in /openapi.json.

export class Problem extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

async function send(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Problem(0, "The server does not answer. Is it still running?");
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const text = await answer.text();
  let detail = text;
  try {
    detail = JSON.parse(text).detail;
  } catch { /* plain text */ }
  throw new Problem(answer.status, sentence(detail), Number(answer.headers.get("retry-after")));
}

function sentence(text) {
  const line = String(text);
  return line.charAt(0).toUpperCase() + line.slice(1) + (/[.!?]$/.test(line) ? "" : ".");
}

export const get = (path) => send(path);
export const post = (path, body) => send(path, { method: "POST", body });
export const remove = (path) => send(path, { method: "DELETE" });

let facts = null;
export async function server() {
  facts ??= await get("/api/server");
  return facts;
}

// Jobs are followed while this tab is open, whatever view it shows: closing the tab gives them up.
const followed = new Map();
const FINAL = new Set(["done", "failed", "cancelled", "interrupted"]);

export function follow(id, listener) {
  let job = followed.get(id);
  if (!job) {
    const source = new EventSource(`/api/explanations/${id}/events`);
    job = { state: { status: "waiting", text: "" }, listeners: new Set(), source };
    followed.set(id, job);
    job.source.onmessage = (message) => {
      const news = JSON.parse(message.data);
      job.state = { ...news, text: job.state.text + news.text };
      for (const tell of job.listeners) tell(job.state);
      if (FINAL.has(news.status)) {
        job.source.close();
        followed.delete(id);
      }
      showBusy();
    };
    job.source.onerror = () => {
      if (job.source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      followed.delete(id);
      showBusy();
    };
  }
  job.listeners.add(listener);
  listener(job.state);
  showBusy();
  return () => job.listeners.delete(listener);
}

function showBusy() {
  const busy = document.getElementById("busy");
  const ids = [...followed.keys()];
  busy.hidden = ids.length === 0;
  busy.textContent = `${ids.length} in work`;
  if (ids.length) busy.href = `#/explanations/${ids.at(-1)}`;
}
