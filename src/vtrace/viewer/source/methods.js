// Methods, or models, side by side: small multiples of picture and question, and what moved between two models.
import { OFFERED_TARGETS, rankCorrelation, sizeOf } from "./attribution.js";
import { nodeOfItem } from "./crops.js";
import { element, isDark, make } from "./dom.js";
import { paintPanel } from "./pictures.js";
import { percent, rankingOf } from "./scale.js";
import { shade, spansOf } from "./words.js";

const MOVED = 10; // rows

/** One card per method; `act` is {method(k), target(target)}. */
export function showMethods(trace, pictures, act) {
  element("methods").hidden = trace.methods.length < 2;
  if (trace.methods.length < 2) return () => {};
  const models = trace.compared === "model";
  if (models) nameModels();
  const cards = trace.methods.map((method, index) => {
    const facts = make("small", { className: "faint" });
    const choose = make("button", { type: "button", className: "plain" }, method.label);
    choose.addEventListener("click", () => act.method(index));
    const canvases = trace.panels.map((panel) => make("canvas", { className: panel.view ? "thumbnail" : "" }));
    canvases.forEach((canvas) => {
      canvas.setAttribute("role", "img");
      canvas.addEventListener("click", () => act.method(index));
    });
    const question = make("p", { className: "text" });
    const spans = spansOf(trace, "q", question);
    const best = make("p", { className: "faint small bests" });
    const empty = make("p", { className: "faint small" });
    const content = make("div", {}, ...canvases, question, best);
    const remark = method.remark ? [make("p", { className: "faint small" }, method.remark)] : [];
    const card = make("article", {}, make("h3", {}, choose, facts), content, empty, ...remark);
    element("cards").append(card);
    return { method, card, facts, canvases, spans, best, empty, content };
  });
  return (view) => {
    cards.forEach((card, index) => paintCard(trace, pictures, act, view, card, index));
    if (models) paintMoves(trace, pictures, view.cards);
  };
}

function nameModels() {
  element("compared").textContent = "Model";
  element("methods-title").textContent = "Models side by side";
  element("methods-note").textContent = element("methods-note").textContent.replaceAll("method", "model");
}

/** The patches and words whose shares differ most between two models. */
function paintMoves(trace, pictures, [first, second]) {
  const table = element("moved");
  table.hidden = !first.result || !second.result;
  if (table.hidden) return;
  const [before, after] = [first.scale.shares, second.scale.shares];
  const [old, recent] = [before, after].map((shares) => new Map(rankingOf(shares).map((k, rank) => [k, rank + 1])));
  const change = (k) => after[k] - before[k];
  const moved = [...before.keys()].sort((a, b) => Math.abs(change(b)) - Math.abs(change(a))).slice(0, MOVED);
  const number = (text) => make("td", { className: "n" }, text);
  const rows = moved.map((k) =>
    make(
      "tr",
      {},
      make("td", {}, nodeOfItem(trace, pictures, k, 24)),
      number(percent(before[k])),
      number(percent(after[k])),
      number(`${change(k) < 0 ? "−" : "+"}${(100 * Math.abs(change(k))).toFixed(1)} points`),
      number(`${old.get(k)} → ${recent.get(k)}`),
    ),
  );
  table.tBodies[0].replaceChildren(...rows);
}

function paintCard(trace, pictures, act, view, card, index) {
  const { result, scale } = view.cards[index];
  card.card.classList.toggle("current", index === view.state.method);
  card.content.hidden = !result;
  card.empty.hidden = Boolean(result);
  if (!result) {
    card.facts.textContent = "";
    const links = card.method.exported.slice(0, OFFERED_TARGETS).map((target) => {
      const button = make("button", { type: "button", className: "plain" }, target.name);
      button.addEventListener("click", () => act.target({ name: target.name, positions: target.positions }));
      return button;
    });
    card.empty.replaceChildren("Not run for this target. Available targets: ", ...links.flatMap((link, k) => (k ? [", ", link] : [link])));
    return;
  }
  const places = [...trace.image, ...trace.question];
  const likeness = view.cards[view.state.method].result
    ? rankCorrelation(result.scores, view.cards[view.state.method].result.scores, places)
    : NaN;
  const own = index === view.state.method ? "shown above" : Number.isNaN(likeness) ? "" : `ρ ${likeness.toFixed(2)}`;
  const image = sizeOf(result.scores, trace.image);
  card.facts.textContent = [`image ${percent(image)}`, own].filter(Boolean).join(" · ");
  const small = { ...view, mainScale: scale, lit: view.lit, cursor: null, pixel: devicePixelRatio || 1, dark: isDark() };
  card.canvases.forEach((canvas, panel) => {
    const width = Math.max(1, (canvas.clientWidth || 240) * small.pixel);
    paintPanel(canvas, trace, pictures, panel, { ...small, state: { ...view.state, numbers: false } }, width);
    canvas.setAttribute("aria-label", `${card.method.label}: image ${percent(image)}`);
  });
  for (const [word, span] of card.spans) {
    const share = scale.shares[trace.inputAt[word.start]];
    shade(span, view.stops, share < scale.floor ? 0 : share / scale.full);
    span.title = percent(share);
  }
  const top = rankingOf(scale.shares).slice(0, 3);
  card.best.replaceChildren(...top.map((k) => make("span", {}, nodeOfItem(trace, pictures, k, 24), ` ${percent(scale.shares[k])}`)));
}
