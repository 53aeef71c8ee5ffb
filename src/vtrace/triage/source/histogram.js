// How a number is distributed over the questions: a small histogram, right and wrong answers apart.
import { draw, make } from "./dom.js";
import { classOf } from "./rows.js";

const BINS = 20;
export const CLASSES = ["right", "wrong", "unknown"];

/** Counts by class in equal bins from low to high. */
export function binned(rows, value, low, high) {
  const bins = Array.from({ length: BINS }, () => ({ right: 0, wrong: 0, unknown: 0 }));
  for (const row of rows) {
    const place = high > low ? Math.floor((BINS * (value(row) - low)) / (high - low)) : 0;
    bins[Math.min(Math.max(place, 0), BINS - 1)][classOf(row)]++;
  }
  return bins;
}

/** The median; the mean of the two in the middle if there are two. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return (sorted[Math.ceil(middle) - 1] + sorted[Math.floor(middle)]) / 2;
}

/** A figure with the histogram of a value, which `words` writes. */
export function histogram(title, rows, value, words, ends = null) {
  const known = rows.filter((row) => value(row) !== null);
  if (!known.length) return null;
  const values = known.map(value);
  const [low, high] = ends ?? [Math.min(0, ...values), Math.max(...values)];
  const bins = binned(known, value, low, high);
  const most = Math.max(...bins.map((bin) => bin.right + bin.wrong + bin.unknown));
  const svg = draw("svg", { viewBox: `0 0 ${BINS} ${most}`, preserveAspectRatio: "none", role: "img" });
  const middle = words(median(values));
  svg.setAttribute("aria-label", `${title}: median ${middle}, from ${words(Math.min(...values))} to ${words(Math.max(...values))}, ${values.length} questions`);
  bins.forEach((bin, k) => {
    const edge = (place) => words(low + (place * (high - low)) / BINS);
    const counts = CLASSES.filter((name) => bin[name]).map((name) => `${bin[name]} ${name}`);
    const group = draw("g", {}, draw("title", {}, `${edge(k)} to ${edge(k + 1)}: ${counts.join(", ")}`));
    let top = most;
    for (const name of CLASSES) {
      top -= bin[name];
      if (bin[name]) group.append(draw("rect", { class: name, x: k + 0.06, y: top, width: 0.88, height: bin[name] }));
    }
    svg.append(group);
  });
  return make(
    "figure",
    {},
    make("figcaption", {}, make("span", {}, title), make("span", { className: "faint" }, `median ${middle}`)),
    svg,
    make("div", { className: "ends" }, make("span", {}, words(low)), make("span", {}, `tallest bar: ${most}`), make("span", {}, words(high))),
  );
}
