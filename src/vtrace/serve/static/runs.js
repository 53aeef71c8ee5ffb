// Runs of `vtrace evaluate`, example by example.

import { get, post, server } from "./api.js";
import { make, notice, percent } from "./dom.js";

const PAGE = 50;
const KEPT = { all: "", correct: "&correct=true", wrong: "&correct=false" };

export async function runs() {
  const found = await get("/api/runs");
  return { title: "Runs", nodes: [make("section", {}, make("h1", {}, "Evaluation runs"),
    found.length ? table(["run", "model", "benchmark", "examples", "correct"], found.map((one) => one.error
      ? [one.name, one.error]
      : [make("a", { href: `#/runs/${encodeURIComponent(one.name)}/all/page/0` }, one.name), one.model, one.benchmark,
        String(one.items), one.graded ? percent(one.correct / one.graded) : "–"]))
      : make("p", { class: "faint" }, "There are no runs yet. Create one with ", make("code", {}, "vtrace evaluate --out runs/first"),
        ", and start the server with ", make("code", {}, "vtrace serve --runs runs"), "."))] };
}

export async function run(name, kept, page) {
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

  const curves = [...new Set(scores.flatMap((score) => Object.keys(score.curves)))];
  const evidence = [...new Set(scores.flatMap((score) => Object.keys(score.evidence)))];
  return { title: one.question, nodes: [make("section", {},
    make("p", { class: "faint" }, make("a", { href: "#/runs" }, "Runs"), " / ", make("a", { href: `${here}/page/${Math.floor(number / PAGE)}` }, name), ` / ${number + 1} of ${listed.total}`),
    make("div", { class: "work" },
      make("img", { class: "picture", src: `${path}/picture`, alt: "the picture" }),
      make("div", {}, make("h1", {}, one.question), make("p", { class: "stream" }, one.response),
        make("p", {}, mark(one.correct), " Expected: ", make("b", {}, one.gold ?? "–")), problem,
        make("div", { class: "actions" }, open,
          number > 0 ? make("a", { class: "button", href: `${here}/${number - 1}` }, "Previous") : null,
          number + 1 < listed.total ? make("a", { class: "button", href: `${here}/${number + 1}` }, "Next") : null))),
    make("h2", {}, "Faithfulness: RISE / MAS"),
    table(["method", "target", "image", ...curves], scores.map((score) => score.failure
      ? [score.method, score.target, score.failure]
      : [score.method, score.target, percent(score.image_share), ...curves.map((curve) => pair(score.curves[curve]))])),
    evidence.length ? make("h2", {}, "Agreement with the known evidence") : null,
    evidence.length ? table(["method", "target", ...evidence.map((kind) => kind.replaceAll("_", " "))], scores.filter((score) => !score.failure).map((score) =>
      [score.method, score.target, ...evidence.map((kind) => digits(score.evidence[kind]))])) : null)] };
}

function pair(curve) {
  return curve ? `${digits(curve.rise)} / ${digits(curve.mas)}` : "–";
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
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell) => make("td", {}, cell)))))));
}
