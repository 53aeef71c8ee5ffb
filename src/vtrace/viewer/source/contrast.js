// Why this answer and not that one: what speaks for which, with a sign.
import { nodeOfItem } from "./crops.js";
import { element, make } from "./dom.js";
import { timesLikelier } from "./dependence.js";
import { followExperiment, progressWords, runExperiment, sentenceOf } from "./experiments.js";
import { cellFrame, openPanel } from "./pictures.js";
import { percent, scaleOf } from "./scale.js";
import { positionsOf } from "./state.js";
import { spansOf } from "./words.js";

const ROWS = 10;
const COLOURS = { for: [157, 41, 122], against: [13, 115, 119] }; // readable apart with every common colour blindness

/** A share with its sign, if it has one when it is rounded. */
export const signedPercent = (share) => (Math.abs(share) < 0.001 ? "0%" : `${share > 0 ? "+" : "−"}${percent(Math.abs(share))}`);

/** Returns how to show a view. */
export function showContrasts(trace, pictures) {
  const live = trace.server && !trace.server.problem;
  const found = [
    ...(trace.contrast ? [trace.contrast] : []),
    ...trace.experiments.filter((one) => one.request.kind === "against" && one.result).map((one) => one.result),
  ];
  const drawn = new Map(); // contrast → its two columns
  let at = found.length - 1;
  let view = null;
  const tabs = make("div", { className: "tabs", role: "group" });
  tabs.setAttribute("aria-label", "Which alternative");
  const shown = make("div", { className: "bench" });
  const problem = make("p", { className: "note", hidden: true });
  problem.setAttribute("role", "alert");
  const status = make("span", { className: "working", hidden: true });
  status.setAttribute("role", "status");
  const field = make("input", { type: "text", id: "against", placeholder: "another answer", autocomplete: "off", spellcheck: false, maxLength: 1000 });
  const said = make("label", { htmlFor: "against" });
  const button = make("button", { type: "submit", className: "primary" }, "Compare");
  const form = make("form", { className: "against" }, said, field, button, status);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const against = field.value;
    if (!against.trim()) return complain("Type another answer first, such as “red star”.");
    run((listen) => runExperiment(trace.server, { kind: "against", against, target: replaced(trace, view).positions }, listen));
  });
  element("contrast").hidden = !live && !found.length;
  const intro = "Both answers are put after the same reasoning. What speaks for the one and what for the other?";
  element("contrast-body").append(make("p", { className: "faint" }, intro), ...(live ? [form, problem] : []), tabs, shown);

  function complain(words) {
    problem.hidden = false;
    problem.textContent = words;
  }

  async function run(start) {
    button.disabled = true;
    problem.hidden = true;
    status.hidden = false;
    status.textContent = "Comparing …";
    try {
      const record = await start((news) => status.replaceChildren(make("span", { className: "spinner" }), progressWords(news) || "Comparing …"));
      if (record.status !== "done") throw new Error(sentenceOf(record.error ?? `the comparison was ${record.status}`));
      found.push(record.result);
      at = found.length - 1;
      field.value = "";
    } catch (error) {
      complain(error.message); // what was typed stays
    }
    button.disabled = false;
    status.hidden = true;
    paint();
  }

  function paint() {
    if (live) said.textContent = `Why “${replaced(trace, view).text}” and not`;
    tabs.hidden = found.length < 2;
    tabs.replaceChildren(...found.map((one, k) => {
      const choice = make("button", { type: "button" }, `not “${one.against}”`);
      choice.setAttribute("aria-pressed", k === at);
      choice.addEventListener("click", () => {
        at = k;
        paint();
      });
      return choice;
    }));
    shown.hidden = !found.length;
    if (!found.length) return;
    if (!drawn.has(found[at])) drawn.set(found[at], contrastColumns(trace, pictures, found[at]));
    if (shown.firstChild !== drawn.get(found[at])[0]) shown.replaceChildren(...drawn.get(found[at]));
  }

  const begun = live && trace.experiments.find(({ request, status: one }) => request.kind === "against" && (one === "waiting" || one === "running"));
  if (begun) run((listen) => followExperiment(trace.server, begun.id, listen));
  return (now) => {
    view = now;
    if (!element("contrast").hidden) paint();
  };
}

/** What an alternative replaces: the target if it is one run of words inside the response, otherwise the answer. */
function replaced(trace, view) {
  const isRun = (positions) => positions.length && positions.at(-1) - positions[0] === positions.length - 1 && positions[0] > trace.promptLength;
  const answer = trace.targets.find((target) => target.name === "answer");
  const whole = ["response", "reasoning"].includes(view.state.target.name) || view.state.target.name.startsWith("sentence ");
  const target = (isRun(view.state.target.positions) && !whole) || !answer ? view.state.target : answer;
  const [low, high] = [target.positions[0], target.positions.at(-1)].map((position) => trace.offsets[position - trace.promptLength]);
  return { positions: target.positions, text: trace.response.slice(low[0], high[1]).trim() };
}

/** The two columns: picture and question on the left, the likelihoods and the table on the right. */
function contrastColumns(trace, pictures, contrast) {
  const scores = Float64Array.from(contrast.scores);
  const { shares } = scaleOf(trace.inputs, scores);
  const most = shares.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
  const canvases = trace.panels.map((panel, index) => {
    const canvas = make("canvas", { className: panel.view ? "thumbnail" : "" });
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Evidence for ${contrast.answer} and for ${contrast.against}`);
    new ResizeObserver(() => paintSigned(canvas, trace, pictures, index, shares, most)).observe(canvas);
    return canvas;
  });
  const question = make("p", { className: "text" });
  for (const [word, span] of spansOf(trace, "q", question)) {
    const share = shares[trace.inputAt[word.start]];
    const level = Math.abs(share) / most;
    if (level < 0.03) continue;
    span.style.backgroundColor = `color-mix(in srgb, var(--${share > 0 ? "for" : "against"}) ${Math.round(10 + 38 * level)}%, transparent)`;
    span.title = signedPercent(share);
  }
  const key = make("p", { className: "key small" }, make("i", { className: "for" }), `for “${contrast.answer}”`, make("i", { className: "against" }), `for “${contrast.against}”`);
  const difference = contrast.log_likelihood - contrast.against_log_likelihood;
  const likelier = difference >= 0 ? [contrast.answer, contrast.against] : [contrast.against, contrast.answer];
  return [
    make("div", { className: "exhibit" }, ...canvases.map((canvas) => make("figure", {}, canvas)), key, question),
    make(
      "div",
      { className: "trial" },
      make("p", { className: "verdict" }, `After the same reasoning, “${likelier[0]}” is ${timesLikelier(Math.abs(difference)).replace("likelier", "as likely")} as “${likelier[1]}”.`),
      make("p", { className: "faint small" }, `Log-likelihoods: ${logOf(contrast.log_likelihood)} and ${logOf(contrast.against_log_likelihood)} nats. Method: ${contrast.method}. Shares of the difference; their sizes sum to 100%.`),
      contrastTable(trace, pictures, contrast, shares, most),
    ),
  ];
}

const logOf = (value) => value.toFixed(2).replace("-", "−");

const tint = (share, alpha) => `rgba(${(share > 0 ? COLOURS.for : COLOURS.against).join(",")},${alpha.toFixed(2)})`;

function paintSigned(canvas, trace, pictures, panel, shares, most) {
  const width = Math.round(canvas.clientWidth * (devicePixelRatio || 1));
  if (!width || width === canvas.width) return; // it is not shown, or only its height has changed
  const { context, zoom } = openPanel(canvas, trace, pictures, panel, width);
  context.fillStyle = "rgba(255,255,255,.35)";
  context.fillRect(0, 0, canvas.width, canvas.height);
  trace.inputs.forEach((item, k) => {
    const level = Math.abs(shares[k]) / most;
    if (item.panel !== panel || level < 0.03) return;
    const [x, y, w, h] = cellFrame(item.box, zoom);
    const line = Math.max(2, Math.min(w, h) * (0.04 + 0.07 * level));
    context.fillStyle = tint(shares[k], 0.08 + 0.3 * level);
    context.fillRect(x, y, w, h);
    context.strokeStyle = tint(shares[k], 0.35 + 0.65 * level);
    context.lineWidth = line;
    context.strokeRect(x + line / 2, y + line / 2, w - line, h - line);
    if (level < 0.12 || h < 24) return;
    context.font = `700 ${Math.min(h * 0.5, 26)}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = tint(shares[k], 1);
    context.strokeStyle = "rgba(255,255,255,.9)";
    context.lineWidth = 4;
    const sign = shares[k] > 0 ? "+" : "−"; // colour is not the only carrier
    context.strokeText(sign, x + w / 2, y + h / 2);
    context.fillText(sign, x + w / 2, y + h / 2);
  });
}

function contrastTable(trace, pictures, contrast, shares, most) {
  const of = (values, k) => positionsOf(trace.inputs[k]).reduce((sum, position) => sum + values[position], 0);
  const order = shares.map((_, k) => k).sort((a, b) => Math.abs(shares[b]) - Math.abs(shares[a])).slice(0, ROWS);
  const rows = order.map((k) => {
    const bar = make("i", { className: shares[k] > 0 ? "for" : "against" });
    bar.style.width = `${(50 * Math.abs(shares[k])) / most}%`;
    return make(
      "tr",
      {},
      make("td", {}, nodeOfItem(trace, pictures, k)),
      make("td", { className: "n" }, signedPercent(of(contrast.evidence, k))),
      make("td", { className: "n" }, signedPercent(of(contrast.counter_evidence, k))),
      make("td", { className: "n" }, signedPercent(shares[k])),
      make("td", { className: "two-sided" }, bar),
    );
  });
  const heads = [["patch or word", ""], [`for “${contrast.answer}”`, "n"], [`for “${contrast.against}”`, "n"], ["difference", "n"], ["", ""]];
  const head = make("tr", {}, ...heads.map(([title, className]) => make("th", { scope: "col", className }, title)));
  return make("div", { className: "scroll" }, make("table", { className: "contrast" }, make("thead", {}, head), make("tbody", {}, ...rows)));
}
