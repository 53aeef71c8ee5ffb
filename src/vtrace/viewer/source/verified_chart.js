// Likelihoods along the steps of a verification, one step per place on the axis, with a marker.
import { draw, make } from "./dom.js";

const [LEFT, RIGHT, TOP, BOTTOM, TALL] = [30, 74, 12, 44, 190];
const LEAST = 13; // between two labels

/** `choose(step)` is called on a click. Returns how to draw {steps, at, titles, verb}, and where its axis is. */
export function stepChart(box, choose) {
  const svg = draw("svg", { class: "chart", role: "img" });
  box.append(svg);
  let shown = null;
  const paint = (what) => {
    shown = what ?? shown;
    if (!shown) return null;
    const width = Math.max(240, box.clientWidth);
    const plot = width - LEFT - RIGHT;
    const { steps, at } = shown;
    const x = (k) => LEFT + (steps.length > 1 ? (k / (steps.length - 1)) * plot : plot / 2);
    const y = (value) => TOP + (1 - value) * (TALL - TOP - BOTTOM);
    svg.setAttribute("viewBox", `0 0 ${width} ${TALL}`);
    svg.setAttribute("aria-label", chartWords(shown));
    const every = Math.ceil(24 / (plot / Math.max(1, steps.length - 1)));
    svg.replaceChildren(
      ...[0, 0.5, 1].flatMap((value) => [
        draw("line", { x1: LEFT, x2: LEFT + plot, y1: y(value), y2: y(value), class: "rule" }),
        draw("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)),
      ]),
      draw("line", { x1: x(at), x2: x(at), y1: TOP - 6, y2: TALL - 26, class: "marker" }),
      ...linesOf(shown, x, y, LEFT + plot),
      ...steps.flatMap((step, k) => [
        draw("circle", { cx: x(k), cy: TALL - 31, r: k === at ? 5.5 : 4, class: step.changed ? "answer changed" : "answer" }),
        k % every && k !== at ? "" : draw("text", { x: x(k), y: TALL - 12, "text-anchor": "middle", class: k === at ? "now" : "" }, String(step.inputs)),
      ]),
    );
    return { left: LEFT, width: plot };
  };
  svg.addEventListener("click", (event) => {
    const frame = svg.getBoundingClientRect();
    const part = (event.clientX - frame.left - LEFT) / (frame.width - LEFT - RIGHT);
    choose(Math.min(shown.steps.length - 1, Math.max(0, Math.round(part * (shown.steps.length - 1)))));
  });
  return paint;
}

/** Measured likelihoods as lines, named at their ends. */
function linesOf({ steps, at, titles }, x, y, end) {
  const series = Object.keys(titles).map((name) => ({
    name,
    points: steps.flatMap((step, k) => (step[name] === null ? [] : [[k, step[name]]])),
  }));
  const drawn = series.filter(({ points }) => points.length > 1);
  const places = apart(drawn.map(({ points }) => y(points.at(-1)[1])));
  return drawn.flatMap(({ name, points }, k) => [
    draw("polyline", { points: points.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" "), class: `likelihood ${name}` }),
    ...points.map(([step, value]) => draw("circle", { cx: x(step), cy: y(value), r: step === at ? 4.5 : 2.5, class: `point ${name}` })),
    draw("text", { x: end + 8, y: places[k] + 4, class: `label ${name}` }, titles[name]),
  ]);
}

/** The same heights, moved until labels there neither touch nor leave the chart. */
function apart(heights) {
  const order = heights.map((_, k) => k).sort((a, b) => heights[b] - heights[a]); // the lowest first
  const placed = [...heights];
  let free = TALL - BOTTOM;
  for (const k of order) {
    placed[k] = Math.min(placed[k], free);
    free = placed[k] - LEAST;
  }
  return placed;
}

function chartWords({ steps, at, verb }) {
  const { inputs, answer, target } = steps[at];
  const measured = target === null ? "" : `, likelihood of the target ${target.toFixed(3)}`;
  return `Strongest ${inputs} inputs ${verb}: the model answers ${answer ?? "nothing"}${measured}`;
}

/** A small curve of values between 0 and 1. */
export function sparkline(values) {
  const [wide, high] = [110, 34];
  const points = values.map((value, k) => `${((k / (values.length - 1)) * wide).toFixed(1)},${(2 + (1 - value) * (high - 4)).toFixed(1)}`);
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${high}`, class: "spark", "aria-hidden": "true" });
  svg.append(draw("polyline", { points: points.join(" ") }));
  return make("span", {}, svg);
}
