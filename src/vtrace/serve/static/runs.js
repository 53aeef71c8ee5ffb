// Runs of `vtrace evaluate`, example by example.

import { get, post, server } from "./api.js";
import { make, notice, percent } from "./dom.js";

const PAGE = 50;
const CHANCE = "base"; // the part of the inputs that is evidence
const METRICS = ["energy", "pointing", "auc", "recall_5", "recall_10", "recall_20", "dependence_20", CHANCE];
const KEPT = { all: "", correct: "&correct=true", wrong: "&correct=false" };

export async function runs() {
  const found = await get("/api/runs");
  return { title: "Runs", nodes: [make("section", {}, make("h1", {}, "Evaluation runs"),
    found.length ? table(["run", "model", "benchmark", "examples", "correct", "RISE insertion, image ↑"], found.map((one) => one.error
      ? [one.name, make("span", { class: "bad-text" }, one.error)]
      : [make("a", { href: `#/runs/${encodeURIComponent(one.name)}/all/page/0` }, one.name), one.model, one.benchmark,
        String(one.items), one.graded ? percent(one.correct / one.graded) : "–", ranking(one.rises)]))
      : make("p", { class: "faint" }, "There are no runs yet. Create one with ", make("code", {}, "vtrace evaluate --out runs/first"),
        ", and start the server with ", make("code", {}, "vtrace serve --runs runs"), "."))] };
}

export async function run(name, kept = "all", page = 0) {
  const number = Number(page);
  const here = `#/runs/${encodeURIComponent(name)}`;
  const found = await get(`/api/runs/${encodeURIComponent(name)}/items?offset=${number * PAGE}&count=${PAGE}${KEPT[kept]}`);
  const pages = Math.ceil(found.total / PAGE);
  return { title: name, nodes: [make("section", {},
    make("p", { class: "faint" }, make("a", { href: "#/runs" }, "Runs")), make("h1", {}, name),
    make("nav", { class: "tabs", "aria-label": "Which examples" }, Object.keys(KEPT).map((kind) =>
      make("a", { href: `${here}/${kind}/page/0`, "aria-current": kind === kept ? "true" : null }, kind))),
    table(["", "question", "answer", "expected"], found.items.map((one, index) => [
      mark(one.correct),
      make("a", { href: `${here}/${kept}/${number * PAGE + index}` }, one.question), one.answer ?? "–", one.gold ?? "–"])),
    make("div", { class: "actions" },
      number > 0 ? make("a", { class: "button", href: `${here}/${kept}/page/${number - 1}` }, "Previous") : null,
      pages > 1 ? make("span", { class: "faint" }, `${number + 1} of ${pages}`) : null,
      number + 1 < pages ? make("a", { class: "button", href: `${here}/${kept}/page/${number + 1}` }, "Next") : null))] };
}

export async function item(name, kept, place) {
  const number = Number(place);
  const here = `#/runs/${encodeURIComponent(name)}/${kept}`;
  const run = `/api/runs/${encodeURIComponent(name)}`;
  const [facts, listed] = await Promise.all([server(), get(`${run}/items?offset=${number}&count=1${KEPT[kept]}`)]);
  if (!listed.items.length) return { nodes: [notice("There is no such example.", "bad")] };
  const path = `${run}/items/${encodeURIComponent(listed.items[0].key)}`;
  const { facts: one, scores } = await get(path);
  const known = new Set(facts.methods.map((method) => method.name));
  const methods = [...new Set(scores.map((score) => score.method))].filter((method) => known.has(method));
  const problem = make("div", { "aria-live": "polite" });
  const open = make("button", { class: "primary", onclick: explain }, "Open in the viewer");

  async function explain() {
    open.disabled = true;
    const chosen = methods.slice(0, facts.limits.methods).map((method) => `methods=${encodeURIComponent(method)}`).join("&");
    try {
      const made = await post(`${path}/explanations?${chosen}`);
      location.hash = `#/explanations/${made.id}`;
    } catch (trouble) {
      problem.replaceChildren(notice(trouble.message, "bad"));
      open.disabled = false;
    }
  }

  const curves = [...new Set(scores.flatMap((score) => Object.keys(score.curves)))].sort((a, b) => Number(isUp(b)) - Number(isUp(a)));
  const sorted = byScore(scores, curves.find(isUp));
  return { title: one.question, nodes: [make("section", {},
    make("p", { class: "faint" }, make("a", { href: "#/runs" }, "Runs"), " / ", make("a", { href: `${here}/page/${Math.floor(number / PAGE)}` }, name), ` / ${number + 1} of ${listed.total}`),
    make("div", { class: "work" },
      make("img", { class: "picture", src: `${path}/picture`, alt: "the picture" }),
      make("div", {}, make("h1", {}, one.question), make("p", { class: "stream" }, one.response),
        make("p", {}, mark(one.correct), " Expected: ", make("b", {}, one.gold ?? "–")), problem,
        make("div", { class: "actions" }, open,
          number > 0 ? make("a", { class: "button", href: `${here}/${number - 1}` }, "Previous") : null,
          number + 1 < listed.total ? make("a", { class: "button", href: `${here}/${number + 1}` }, "Next") : null))),
    make("h2", {}, "Faithfulness: RISE / MAS. ↑ higher is better, ↓ lower is better; the best of a target in bold"),
    table(["method", "target", "image share", ...curves.map((curve) => `${curve} ${isUp(curve) ? "↑" : "↓"}`)], sorted.map((score) => score.failure
      ? [score.method, score.target, make("span", { class: "bad-text" }, score.failure)]
      : [score.method, score.target, percent(score.image_share), ...curves.map((curve) => pair(sorted, score, curve))])),
    ...["image", "question"].flatMap((kind) => agreement(sorted, kind)))] };
}

// How well the known evidence in the picture, or in the question, was found.
function agreement(scores, kind) {
  const measured = new Set(scores.flatMap((score) => Object.keys(score.evidence)));
  const names = METRICS.filter((name) => measured.has(`${kind} ${name}`));
  const of = (name) => (score) => score.evidence[`${kind} ${name}`];
  if (!names.length) return [];
  return [
    make("h2", {}, `Agreement with the known evidence: ${kind} ↑`),
    table(["method", "target", ...names.map((name) => (name === CHANCE ? "by chance" : name.replace(/_(\d+)/, " at $1%").replace("_", " ")))],
      scores.filter((score) => !score.failure).map((score) => [score.method, score.target,
        ...names.map((name) => (name === CHANCE ? digits(of(name)(score)) : marked(scores, score, of(name), true)))])),
  ];
}

const isUp = (curve) => curve.endsWith("insertion");

// The strongest methods of a run, the best in bold.
function ranking(rises) {
  const order = Object.entries(rises).sort((a, b) => b[1] - a[1]);
  if (!order.length) return "–";
  const [[best, most], ...others] = order.map(([method, rise]) => [method, digits(rise)]);
  const shown = others.slice(0, 2).map(([method, rise]) => ` · ${method} ${rise}`).join("");
  const more = others.length > 2 ? ` and ${others.length - 2} more` : "";
  return make("span", {}, make("b", {}, `${best} ${most}`), make("span", { class: "faint" }, shown + more));
}

// Targets apart, and in each the best by the first curve on top; failures last.
function byScore(scores, curve) {
  const areas = (score) => ["rise", "mas"].map((area) => score.curves[curve]?.[area] ?? -Infinity);
  const better = ([a, b], [c, d]) => (c === a ? (d === b ? 0 : d - b) : c - a);
  const targets = [...new Set(scores.map((score) => score.target))];
  return [...scores].sort((a, b) => targets.indexOf(a.target) - targets.indexOf(b.target)
    || Number(Boolean(a.failure)) - Number(Boolean(b.failure)) || better(areas(a), areas(b)));
}

// A number, in bold if another method of the same target has a worse one, and none a better one.
function marked(scores, score, value, up) {
  const own = value(score);
  if (own === null || own === undefined) return "–";
  const others = scores.filter((one) => one.target === score.target && !one.failure).map(value).filter((one) => one !== null && one !== undefined);
  const [low, high] = [digits(Math.min(...others)), digits(Math.max(...others))];
  const best = low !== high && digits(own) === (up ? high : low);
  return best ? make("b", { title: "best" }, digits(own)) : digits(own);
}

function pair(scores, score, curve) {
  if (!score.curves[curve]) return "–";
  const [rise, mas] = ["rise", "mas"].map((area) => marked(scores, score, (one) => one.curves[curve]?.[area], isUp(curve)));
  return make("span", { class: "pair" }, rise, " / ", mas);
}

function digits(value) {
  return value === null || value === undefined ? "–" : value.toFixed(3);
}

function mark(correct) {
  if (correct === null) return "";
  return make("span", { class: `mark ${correct ? "correct" : "wrong"}` }, correct ? "✓ correct" : "✗ wrong");
}

function table(heads, rows) {
  return make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell, k) => make("td", { "data-label": heads[k] }, cell)))))));
}
