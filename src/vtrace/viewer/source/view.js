// The view: everything derived from the state, computed once for all parts of the page.
import { attribute, calibratedOn, exportedFor, sizeOf, support } from "./attribution.js";
import { isDark } from "./dom.js";
import { percent, rankingOf, scaleOf } from "./scale.js";
import { nameOfItem, positionsOf, targetTitle } from "./state.js";
import { followPaths } from "./wires.js";

const HINT =
  "Click a word or drag over a phrase to explain it. Hover over a patch to see which words it supports; click it to follow its paths.";
const NOTHING = { status: "off", scale: 1 };
const KEPT = 4; // results of the latest targets, so that pointing away from a word costs nothing

/** A function from the state to the view. A word that is pointed at is the target, for everything that is shown. */
export function lookout(trace) {
  const kept = new Map();
  return (state) => {
    const method = trace.methods[state.method];
    const pointed = state.preview && (method.matrix || exportedFor(method, state.preview)) ? state.preview : null;
    const target = pointed ?? state.target;
    const settings = { gamma: state.gamma, hops: state.hops, calibrated: state.calibrated, calibrateOn: state.calibrateOn };
    const key = JSON.stringify([state.method, target.positions, settings, state.pinned, state.strongest]);
    const found = kept.get(key) ?? settle(trace, state, target, method, settings);
    kept.delete(key);
    kept.set(key, found);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
    const { cards, paths, main, mainScale } = found;
    const lit = state.lit ?? state.pinned;
    const back = method.options.receivers === "token" ? 0 : 1;
    const dark = isDark();
    return {
      state, target, found, method, cards, paths, main, mainScale, dark,
      stops: dark ? trace.darkStops : trace.stops,
      title: targetTitle(trace, target),
      lit: state.lit,
      pinned: state.pinned,
      support: lit === null ? null : support(trace, method, positionsOf(trace.inputs[lit]), trace.said.map(positionsOf), settings),
      calibratedOn: calibratedOn(method, settings),
      canCalibrate: method.matrix ? Boolean(method.likelihoods) : main.calibration.status === "applied",
      predicted: (receiver) => trace.wordAt[receiver + back],
    }; // prettier-ignore
  };
}

/** Every method's result for the target, and the paths of the selected input. */
function settle(trace, state, target, method, settings) {
  const cards = trace.methods.map((one) => {
    const result = attribute(trace, one, target, settings);
    return { result, scale: result && scaleOf(trace.inputs, result.scores, state.strongest) };
  });
  const { result, scale } = cards[state.method];
  const main = result ?? { scores: new Float64Array(trace.kinds.length), calibration: NOTHING, missing: true };
  return {
    cards,
    main,
    mainScale: scale ?? scaleOf(trace.inputs, main.scores),
    paths: followPaths(trace, method, target, settings, state.pinned),
  };
}

/** What the colours of the response mean. */
export function shadingOf(trace, view) {
  if (!view.support) return HINT;
  const item = trace.inputs[view.lit ?? view.pinned];
  const most = percent(Math.max(...view.support));
  const what = item.panel === undefined ? nameOfItem(item) : "the marked patch";
  return `Words are shaded by how much each relies on ${what}, at most ${most}.`;
}

/** The view in a sentence or two, for screen readers. */
export function summaryOf(trace, view) {
  const [image, text] = [trace.image, trace.question].map((places) => percent(sizeOf(view.main.scores, places)));
  const best = rankingOf(view.mainScale.shares)
    .slice(0, 3)
    .map((k) => `${trace.inputs[k].label} ${percent(view.mainScale.shares[k])}`);
  return `${view.method.label}, ${view.title}: image ${image}, question ${text}. Strongest: ${best.join(", ")}.`;
}
