// Paths of a selected patch or question word: drawn over picture and text, and listed.
import { methodFlows, receiversOf } from "./attribution.js";
import { nodeOfItem } from "./crops.js";
import { draw, element, make } from "./dom.js";
import { patchMiddle } from "./pictures.js";
import { passages, strongestRoutes } from "./routes.js";
import { colourOf, percent, rgb } from "./scale.js";
import { positionsOf } from "./state.js";

const ROUTES = 5;
const VIA = 6;
const DRAWN = 0.01; // weaker routes are listed, but not drawn over the text

/** {routes, via} of the selected input; null where the method has no matrix. */
export function followPaths(trace, method, target, settings, pinned) {
  if (pinned === null || !method.matrix) return null;
  // paths of any length count: the limit on hops is for scores
  const flows = methodFlows(method, { ...settings, hops: "all" });
  const sources = positionsOf(trace.inputs[pinned]);
  const receivers = receiversOf(method, target.positions);
  const before = trace.said.filter((word) => word.start < Math.max(...receivers));
  const shares = passages(flows, sources, receivers, before.map((word) => [word.start, word.stop]));
  const via = before
    .map((word, k) => ({ word, share: shares[k] }))
    .filter(({ share }) => share > 0)
    .sort((a, b) => b.share - a.share)
    .slice(0, VIA);
  return { routes: strongestRoutes(flows, sources, receivers, ROUTES), via };
}

/** A position as a stop of a route. */
function nameOf(trace, pictures, position) {
  const k = trace.inputAt[position];
  if (k >= 0 && trace.inputs[k].panel !== undefined) return nodeOfItem(trace, pictures, k, 26);
  const word = trace.wordAt[position];
  if (!word) return `token ${position}`;
  return word.kind === "t" ? `${word.text} (prompt)` : `“${word.text}”`;
}

/** The panel next to the ranking. */
export function listPaths(trace, pictures, view, act, spans) {
  const box = element("paths");
  if (view.pinned === null) {
    const hint = view.method.matrix
      ? "Click a patch, a question word or a row of the ranking to see how it reaches the target: the words it passes through, and the strongest routes."
      : `${view.method.label} has scores only on this page; paths need the pairwise matrix of vtrace.`;
    return box.replaceChildren(make("p", { className: "faint small" }, hint));
  }
  const close = make("button", { type: "button", className: "plain" }, "clear selection");
  close.addEventListener("click", () => act.pin(view.pinned));
  const share = view.mainScale.shares[view.pinned];
  const head = make(
    "p",
    { className: "small followed" },
    make("strong", {}, nodeOfItem(trace, pictures, view.pinned)),
    ` ${percent(share)} of all inputs for ${view.title} · `,
    close,
  );
  if (!view.paths) return box.replaceChildren(head, make("p", { className: "faint small" }, `${view.method.label} gives scores only, so there are no paths to show.`));
  if (!view.paths.routes.length) return box.replaceChildren(head, make("p", { className: "faint small" }, "No path leads from it to the target."));
  box.replaceChildren(
    head,
    make("h3", {}, "Passes through"),
    viaList(trace, view, spans),
    make("h3", {}, "Strongest routes"),
    make("ol", { className: "routes" }, ...view.paths.routes.map((route) => routeLine(trace, pictures, view, route))),
    make("p", { className: "faint small" }, "Shares of its contribution to the target, over paths of any length. One path can pass through several words. Routes under 1% are not drawn."),
  );
}

function viaList(trace, view, spans) {
  const list = make("ul", { className: "via" });
  const most = view.paths.via[0]?.share;
  for (const { word, share } of view.paths.via) {
    const bar = make("i");
    bar.style.width = `${(100 * share) / most}%`;
    bar.style.backgroundColor = rgb(colourOf(view.stops, 0.25 + (0.6 * share) / most));
    const before = trace.wordAt[word.start - 1]; // distinguishes several equal words
    const context = before?.shown && before.kind === "r" ? [make("span", { className: "faint" }, `${before.text}${word.before || before.after}`)] : [];
    const line = make("li", {}, make("span", {}, ...context, word.text), make("span", { className: "strip" }, bar), make("span", { className: "n" }, percent(share)));
    line.addEventListener("pointerenter", () => spans.get(word).classList.add("marked"));
    line.addEventListener("pointerleave", () => spans.get(word).classList.remove("marked"));
    list.append(line);
  }
  if (!most) list.append(make("li", { className: "faint" }, "no response word: it reaches the target directly"));
  return list;
}

function routeLine(trace, pictures, view, route) {
  const names = route.positions.map((position) => nameOf(trace, pictures, position));
  const line = make("li", {});
  names.forEach((name, k) => line.append(k ? " → " : "", make("span", { className: "stop" }, name)));
  const told = view.predicted(route.positions.at(-1));
  if (told) line.append(" → ", make("span", { className: "stop target" }, `“${told.text}”`));
  line.append(make("span", { className: "n faint" }, ` ${percent(route.share)}`));
  return line;
}

/** Curves over the stage, from the selected input through words to the target. */
export function drawWires(trace, view, spans) {
  const wires = element("wires");
  wires.replaceChildren();
  if (!view.paths) return;
  const stage = element("stage").getBoundingClientRect();
  wires.setAttribute("viewBox", `0 0 ${stage.width} ${stage.height}`);
  const middle = (position) => {
    const k = trace.inputAt[position];
    if (k >= 0 && trace.inputs[k].panel !== undefined) {
      const [x, y] = patchMiddle(trace, k);
      return [x - stage.left, y - stage.top];
    }
    const span = spans.get(trace.wordAt[position]);
    if (!span) return null; // the prompt's own words are not shown
    const frame = span.getBoundingClientRect();
    return [(frame.left + frame.right) / 2 - stage.left, frame.top - stage.top + 2];
  };
  const most = view.paths.routes[0]?.share || 1;
  const drawn = view.paths.routes.filter((route) => route.share >= DRAWN);
  drawn.reverse().forEach((route) => {
    const told = view.predicted(route.positions.at(-1));
    const points = route.positions.map(middle).filter(Boolean);
    const end = told && middle(told.start);
    if (end) points.push(end);
    if (points.length < 2) return;
    const strength = Math.sqrt(route.share / most);
    const path = points
      .map(([x, y], k) => (k ? bend(points[k - 1], [x, y]) : `M${x.toFixed(1)},${y.toFixed(1)}`))
      .join("");
    const attributes = { d: path, "stroke-width": (1.5 + 2.5 * strength).toFixed(1), opacity: (0.35 + 0.65 * strength).toFixed(2) };
    wires.append(draw("path", { ...attributes, class: "halo" }), draw("path", { ...attributes, class: "wire" }));
    points.forEach(([x, y], k) => wires.append(draw("circle", { cx: x, cy: y, r: k === 0 || k === points.length - 1 ? 4.5 : 3.2, class: "knot" })));
  });
}

/** A curve that leaves sideways between columns and arches above a line of text. */
function bend([x, y], [toX, toY]) {
  const far = Math.abs(toX - x) > 160 && Math.abs(toY - y) > 30;
  const lift = Math.min(46, 10 + Math.abs(toX - x) / 5);
  const [a, b] = far
    ? [[x + (toX - x) * 0.5, y], [toX - (toX - x) * 0.3, toY - 30]]
    : [[x, y - lift], [toX, toY - lift]];
  return `C${[...a, ...b, toX, toY].map((value) => value.toFixed(1)).join(",")}`;
}
