// The first response beside a new one: words that became less likely are marked, and so are words that are new.
import { make } from "./dom.js";

const HALF = Math.LN2; // nats by which a word has to fall to be marked: it is half as likely
const DARKEST = 8; // nats
const LONGEST = 1500; // words; longer texts are not compared word by word

/** The shown response words, marked by how much less likely they became; `likelihoods` are two rows of log p. */
export function markedResponse(trace, likelihoods, into) {
  trace.said.forEach((word, k) => {
    const sum = (row) => row.slice(word.start - trace.promptLength, word.stop - trace.promptLength).reduce((a, b) => a + b, 0);
    const [before, after] = likelihoods ? likelihoods.map(sum) : [0, 0];
    const span = make("span", { className: "w" }, word.text);
    if (before - after > HALF) {
      span.classList.add("fallen");
      span.style.setProperty("--fall", `${Math.round(15 + 35 * Math.min(1, (before - after) / DARKEST))}%`);
      span.title = `likelihood ${chance(before)} → ${chance(after)}`;
    }
    into.append(k ? word.before : "", span, word.after);
  });
}

const chance = (log) => {
  const percent = 100 * Math.exp(log);
  return percent >= 0.1 ? `${percent.toFixed(percent < 10 ? 1 : 0)}%` : "<0.1%";
};

/** A new response, with the words that are not in the first one marked. */
export function markedReply(first, text, into) {
  const parts = text.split(/(\s+)/);
  const words = parts.filter((_, k) => k % 2 === 0);
  const fresh = newWords(first.split(/\s+/).filter(Boolean), words);
  into.replaceChildren(...parts.map((part, k) => (k % 2 || !fresh[k / 2] ? part : make("strong", { className: "fresh" }, part))));
}

/** Which words of the second text are not part of the longest common sequence with the first. */
export function newWords(first, second) {
  if (first.length > LONGEST || second.length > LONGEST) return second.map(() => false);
  const rows = Array.from({ length: first.length + 1 }, () => new Uint16Array(second.length + 1));
  for (let i = first.length - 1; i >= 0; i--)
    for (let j = second.length - 1; j >= 0; j--)
      rows[i][j] = first[i] === second[j] ? rows[i + 1][j + 1] + 1 : Math.max(rows[i + 1][j], rows[i][j + 1]);
  const fresh = second.map(() => true);
  for (let i = 0, j = 0; i < first.length && j < second.length; ) {
    if (first[i] === second[j]) {
      fresh[j++] = false;
      i++;
    } else if (rows[i + 1][j] >= rows[i][j + 1]) i++;
    else j++;
  }
  return fresh;
}
