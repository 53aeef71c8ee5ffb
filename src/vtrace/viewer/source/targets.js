// Targets in words, as on the command line: response, answer, sentence 2, "a phrase", /a regex/, tokens 5-12.

/** {name, positions} of a target in words; throws an Error with one line for the reader. */
export function findTarget(trace, words) {
  const text = words.trim();
  const named = trace.targets.find((target) => target.name === text);
  if (named) return named;
  if (text === "answer") throw new Error("the response has no “Final answer:” line");
  if (text === "reasoning") throw new Error("the response has no reasoning before its answer");
  let match = text.match(/^sentence[ :]?(-?\d+)$/);
  if (match) return sentence(trace, Number(match[1]));
  match = text.match(/^tokens?[ :]([\d,-]+)$/);
  if (match) return tokens(trace, match[1], text);
  match = text.match(/^(["'“‘])(.+?)["'”’](?: ?#(\d+))?$/s);
  if (match) return phrase(trace, match[2], Number(match[3] ?? 1));
  if (text.length > 2 && text.startsWith("/") && text.endsWith("/")) return pattern(trace, text.slice(1, -1));
  throw new Error("write a target as: response, answer, sentence 2, \"a phrase\", /a regex/ or tokens 5-12");
}

function sentence(trace, number) {
  const all = trace.targets.filter((target) => target.name.startsWith("sentence "));
  const found = all.at(number > 0 ? number - 1 : number);
  if (!number || !found) throw new Error(`there is no sentence ${number}: the response has ${all.length}`);
  return found;
}

function tokens(trace, list, name) {
  const positions = new Set();
  for (const part of list.split(",")) {
    const [low, high = low] = part.split("-").map((piece) => (piece === "" ? NaN : Number(piece)));
    if (!(low >= 0 && low <= high && high < trace.tokens)) throw new Error(`the response has tokens 0 to ${trace.tokens - 1}`);
    for (let token = low; token <= high; token++) positions.add(trace.promptLength + token);
  }
  return { name, positions: [...positions].sort((a, b) => a - b) };
}

function phrase(trace, wanted, number) {
  const spans = [];
  for (let at = trace.response.indexOf(wanted); at >= 0; at = trace.response.indexOf(wanted, at + wanted.length))
    spans.push([at, at + wanted.length]);
  if (!spans.length) throw new Error(`the response does not contain “${wanted}”`);
  if (!spans[number - 1]) throw new Error(`the response contains “${wanted}” ${spans.length} times`);
  const name = `"${wanted}"` + (spans.length > 1 ? ` #${number}` : "");
  return ofSpans(trace, [spans[number - 1]], name);
}

function pattern(trace, source) {
  let compiled;
  try {
    compiled = new RegExp(source, "gu");
  } catch {
    throw new Error(`the regular expression “${source}” is not valid`);
  }
  const spans = [...trace.response.matchAll(compiled)]
    .filter((match) => match[0])
    .map((match) => [match.index, match.index + match[0].length]);
  if (!spans.length) throw new Error(`nothing in the response matches /${source}/`);
  return ofSpans(trace, spans, `/${source}/`);
}

/** Tokens that overlap the spans, without blank ones at their ends. */
function ofSpans(trace, spans, name) {
  const positions = new Set();
  for (const [low, high] of spans) {
    const shared = ([from, to]) => trace.response.slice(Math.max(from, low), Math.min(to, high));
    const found = trace.offsets.flatMap(([from, to], token) => (from < high && to > low ? [token] : []));
    const blank = (token) => !shared(trace.offsets[token]).trim();
    while (found.length && blank(found[0])) found.shift();
    while (found.length && blank(found.at(-1))) found.pop();
    for (const token of found) positions.add(trace.promptLength + token);
  }
  if (!positions.size) throw new Error(`no token covers ${name}`);
  return { name, positions: [...positions].sort((a, b) => a - b) };
}

/** Runs of positions as the grammar writes them: tokens 5-12,20. */
export function tokenWords(trace, positions) {
  const runs = [];
  for (const position of positions) {
    const token = position - trace.promptLength;
    if (runs.length && runs.at(-1)[1] === token - 1) runs.at(-1)[1] = token;
    else runs.push([token, token]);
  }
  return "tokens " + runs.map(([low, high]) => (low === high ? low : `${low}-${high}`)).join(",");
}
