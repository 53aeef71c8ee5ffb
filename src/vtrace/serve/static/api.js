// The HTTP interface, as described in /openapi.json.

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
    throw new Problem(0, "The server does not respond. Is it still running?");
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
