// Experiments on the server that this page came from. A page that was opened from a file has none.

const ENDED = new Set(["done", "failed", "cancelled", "interrupted"]);
const SILENT = "The server does not respond. Is it still running?";

async function call(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error(SILENT);
  }
  const document = await answer.json().catch(() => ({}));
  if (answer.ok) return document;
  throw new Error(sentenceOf(document.detail ?? "the server refused this"));
}

export function sentenceOf(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** Submit an experiment and follow it to its end; `listen` receives its progress and the new response so far. */
export async function runExperiment(server, request, listen) {
  const headers = { "content-type": "application/json" };
  const made = await call(server.path, { method: "POST", headers, body: JSON.stringify(request) });
  return followExperiment(server, made.id, listen);
}

/** The experiment, when it has ended. */
export function followExperiment(server, id, listen) {
  return new Promise((done, fail) => {
    let text = "";
    const source = new EventSource(`${server.path}/${id}/events`);
    source.onmessage = (message) => {
      const news = JSON.parse(message.data);
      text += news.text; // after a lost connection the browser names the last event, and the text continues from there
      listen({ ...news, id, text });
      if (!ENDED.has(news.status)) return;
      source.close();
      call(`${server.path}/${id}`).then(done, fail);
    };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) fail(new Error(SILENT));
      else listen({ status: "lost", id, text, stage: "", done: 0, total: 0, place: 0 });
    };
  });
}

export const cancelExperiment = (server, id) => call(`${server.path}/${id}/cancel`, { method: "POST" });

/** How far an experiment is, in words. */
export function progressWords({ status, place, stage, done, total }) {
  if (status === "lost") return "Waiting for the server …";
  if (status === "waiting") return place > 1 ? `Number ${place} in the queue` : "Next in the queue";
  if (status !== "running" || !stage) return "";
  return stage.charAt(0).toUpperCase() + stage.slice(1) + (total > 3 ? ` · ${done} of ${total}` : " …");
}
