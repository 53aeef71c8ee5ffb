// A verification played step by step: what was hidden or kept, how likely the response was then, and the new answer.
import { make } from "./dom.js";
import { sentenceOf } from "./experiments.js";
import { percent } from "./scale.js";
import { sparkline, stepChart } from "./verified_chart.js";

const PACE = 1100; // milliseconds per step when it is played

/** Patches and words of a set of inputs, in words; `total` adds "of 64". */
export function countWords(trace, inputs, total = null) {
  const count = (image, all) => all.filter((k) => (trace.inputs[k].panel !== undefined) === image).length;
  const parts = [["patch", "patches", true], ["word", "words", false]].flatMap(([one, many, image]) => {
    const own = count(image, inputs);
    const every = total ? count(image, total) : own;
    return own ? [`${total ? `${own} of ${every}` : own} ${every === 1 ? one : many}`] : [];
  });
  return parts.join(" and ") || "nothing";
}

/** `show(hidden inputs, title)` puts a step on the exhibit. Returns {open(), paint()}. */
export function showVerification(trace, found, show) {
  const order = found.order.map((positions) => trace.inputAt[positions[0]]);
  const sides = { necessary: "Hide the strongest", sufficient: "Keep only the strongest" };
  let [side, at, playing] = ["necessary", 0, 0];
  const steps = () => found[side].curve;
  const hiddenAt = (step) => new Set(side === "necessary" ? order.slice(0, step.inputs) : order.slice(step.inputs));
  const first = () => Math.max(0, steps().findIndex((step) => step.inputs === found[side].inputs));

  const choices = Object.entries(sides).map(([name, title]) => {
    const button = make("button", { type: "button" }, title);
    button.addEventListener("click", () => {
      [side, at] = [name, 0];
      at = first();
      paint();
    });
    return [name, button];
  });
  const chart = make("div", { className: "chart-box" });
  const paintChart = stepChart(chart, (k) => go(k));
  const slider = make("input", { type: "range", min: 0, step: 1 });
  slider.setAttribute("aria-label", "Step of the verification");
  slider.addEventListener("input", () => go(Number(slider.value)));
  const play = make("button", { type: "button", className: "play" }, "▶ Play");
  play.addEventListener("click", () => (playing ? pause() : start()));
  const axis = make("span", { className: "faint small" });
  const told = make("div", { className: "outcome" });
  told.setAttribute("aria-live", "polite");
  const box = make(
    "div",
    {},
    make("p", { className: "verdict" }, found.verdict),
    ...found.warnings.map((note) => make("p", { className: "note" }, sentenceOf(note))),
    make("div", { className: "tabs" }, ...choices.map(([, button]) => button), play),
    chart,
    make("div", { className: "slide" }, slider),
    axis,
    told,
    detailsOf(found),
  );
  new ResizeObserver(() => align()).observe(chart);

  function go(k) {
    pause();
    at = k;
    paint();
  }

  function start() {
    if (at >= steps().length - 1) at = 0;
    play.textContent = "❚❚ Pause";
    paint();
    playing = setInterval(() => {
      at += 1;
      paint();
      if (at >= steps().length - 1) pause();
    }, PACE);
  }

  function pause() {
    clearInterval(playing);
    playing = 0;
    play.textContent = "▶ Play";
  }

  function align() {
    const place = paintChart();
    if (!place) return;
    slider.style.marginLeft = `${place.left - 8}px`;
    slider.style.width = `${place.width + 16}px`;
  }

  function paint() {
    const step = steps()[at];
    const verb = side === "necessary" ? "hidden" : "kept";
    const titles = { target: found.target.name === "response" ? null : "target", response: "response", random: "random" };
    if (!titles.target) delete titles.target;
    for (const [name, button] of choices) button.setAttribute("aria-pressed", name === side);
    slider.max = steps().length - 1;
    slider.value = at;
    slider.setAttribute("aria-valuetext", `${step.inputs} inputs ${verb}`);
    paintChart({ steps: steps(), at, titles, verb });
    align();
    axis.textContent = `strongest inputs ${verb}; above: likelihood of what was said first. ● another answer, ○ the same answer`;
    const chosen = order.slice(0, step.inputs);
    const what = step.inputs ? `${countWords(trace, chosen, order)} ${verb}, ${percent(step.share)} of the evidence` : side === "necessary" ? "Nothing hidden" : "Everything hidden";
    told.replaceChildren(make("p", { className: "small faint" }, what), answerLine(found.answer, step), likelihoodLine(step, found.target.name));
    show(hiddenAt(step), side === "necessary" ? `What the model sees: ${step.inputs ? countWords(trace, chosen) + " hidden" : "everything"}` : `What the model sees: ${step.inputs ? "only " + countWords(trace, chosen) : "nothing"}`);
  }

  return {
    box,
    open() {
      at = first();
      paint();
    },
    paint,
    pause,
  };
}

/** The new answer, and whether it is another one. */
export function answerLine(first, { answer, changed }) {
  const tag = make("span", { className: changed ? "tag changed" : "tag" }, changed ? "another answer" : "the same answer");
  const said = (text) => (text === null ? "(no answer)" : text);
  const words = changed ? [make("s", {}, said(first)), " → ", make("strong", {}, said(answer))] : [said(answer)];
  return make("p", { className: "answer" }, make("span", {}, ...words), " ", tag);
}

function likelihoodLine(step, target) {
  if (step.response === null) return make("p", { className: "faint small" }, "Likelihoods were not measured at this step.");
  const parts = [`response ${step.response.toFixed(3)}`];
  if (target !== "response") parts.unshift(`${target} ${step.target.toFixed(3)}`);
  if (step.random !== null) parts.push(`${step.random.toFixed(3)} with as many random inputs hidden`);
  return make("p", { className: "faint small" }, `Likelihood per token of what was said first: ${parts.join(", ")}.`);
}

/** The table of every step, the comparison, and the cost. */
function detailsOf(found) {
  const table = (title, side) => [
    make("h3", {}, title),
    make("div", { className: "scroll" }, make(
      "table",
      { className: "steps" },
      make("thead", {}, make("tr", {}, ...["inputs", "share", "response", "target", "random", "answer"].map((head) => make("th", { scope: "col", className: head === "answer" ? "" : "n" }, head)))),
      make("tbody", {}, ...side.curve.map((step) => make(
        "tr",
        { className: step.inputs === side.inputs ? "found" : "" },
        ...[String(step.inputs), percent(step.share), number(step.response), number(step.target), number(step.random)].map((text) => make("td", { className: "n" }, text)),
        make("td", { className: step.changed ? "" : "faint" }, step.answer ?? "(no answer)"),
      ))),
    )),
  ];
  const curves = [["Insertion", found.insertion], ["Deletion", found.deletion]].filter(([, curve]) => curve.rise !== null);
  return make(
    "details",
    { className: "more" },
    make("summary", {}, "Every step that was tried"),
    ...table("Strongest inputs hidden", found.necessary),
    ...table("Only the strongest inputs kept", found.sufficient),
    make("h3", {}, "Faithfulness of this explanation"),
    ...curves.map(([title, curve]) => make("p", { className: "small curve" }, sparkline(curve.response), `${title}: RISE ${curve.rise.toFixed(3)}, MAS ${curve.mas.toFixed(3)} over ${curve.response.length - 1} steps`)),
    make("p", { className: "faint small" }, [lowestWords(found), `Cost: ${found.passes} forward passes, ${found.generations} generations (${found.sequences} responses).`].filter(Boolean).join(" ")),
  );
}

const number = (value) => (value === null ? "" : value.toFixed(3));

function lowestWords({ lowest, necessary }) {
  if (!lowest.draws || !necessary.count) return "";
  const effect = lowest.changed ? "changes" : "does not change";
  return `Hiding as many of the lowest ranked inputs ${effect} the answer.`;
}
