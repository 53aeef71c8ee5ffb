// The view: everything derived from the state, computed once for all parts of the page.
import { attribute, sizeOf, support } from "./attribution.js";
import { isDark } from "./dom.js";
import { percent, rankingOf, scaleOf } from "./scale.js";
import { nameOfItem, positionsOf, targetTitle } from "./state.js";
import { followPaths } from "./wires.js";

const HINT =
  "Click a word or drag over a phrase to explain it. Hover over a patch to see which words it supports; click it to follow its paths.";
const NOTHING = { status: "off", scale: 1 };

/** A function from the state to the view. What depends only on choices is cached while the pointer moves. */
export function lookout(trace) {
  let kept = { key: "" };
  return (state) => {
    const method = trace.methods[state.method];
    const settings = { gamma: state.gamma, hops: state.hops, calibrated: state.calibrated };
    const key = JSON.stringify([state.method, state.target.positions, settings, state.pinned, state.strongest]);
    if (key !== kept.key) kept = { key, ...settle(trace, state, method, settings) };
    const { cards, paths, main, mainScale } = kept;
    const previewed = state.preview && attribute(trace, method, state.preview, settings);
    const shown = previewed || main;
    const lit = state.lit ?? state.pinned;
    const back = method.options.receivers === "token" ? 0 : 1;
    const dark = isDark();
    return {
      state, method, cards, paths, main, mainScale, shown, dark, // the result of the target, and of what is shown
      scale: previewed ? scaleOf(trace.inputs, shown.scores, state.strongest) : mainScale,
      stops: dark ? trace.darkStops : trace.stops,
      title: targetTitle(trace, state.target),
      shownTitle: targetTitle(trace, previewed ? state.preview : state.target),
      lit: state.lit,
      pinned: state.pinned,
      support: lit === null ? null : support(trace, method, positionsOf(trace.inputs[lit]), trace.said.map(positionsOf), settings),
      canCalibrate: method.matrix ? Boolean(method.likelihoods) : main.calibration.status === "applied",
      predicted: (receiver) => trace.wordAt[receiver + back],
    }; // prettier-ignore
  };
}

/** Every method's result for the target, and the paths of the selected input. */
function settle(trace, state, method, settings) {
  const cards = trace.methods.map((one) => {
    const result = attribute(trace, one, state.target, settings);
    return { result, scale: result && scaleOf(trace.inputs, result.scores, state.strongest) };
  });
  const { result, scale } = cards[state.method];
  const main = result ?? { scores: new Float64Array(trace.kinds.length), calibration: NOTHING, missing: true };
  return {
    cards,
    main,
    mainScale: scale ?? scaleOf(trace.inputs, main.scores),
    paths: followPaths(trace, method, state.target, settings, state.pinned),
  };
}

/** What the colours of the response mean. */
export function shadingOf(trace, view) {
  if (!view.support) return HINT;
  const item = trace.inputs[view.lit ?? view.pinned];
  const most = percent(Math.max(...view.support));
  return `Words are shaded by how much each relies on ${nameOfItem(item)}, at most ${most}.`;
}

/** The view in a sentence or two, for screen readers. */
export function summaryOf(trace, view) {
  const [image, text] = [trace.image, trace.question].map((places) => percent(sizeOf(view.main.scores, places)));
  const best = rankingOf(view.mainScale.shares)
    .slice(0, 3)
    .map((k) => `${trace.inputs[k].label} ${percent(view.mainScale.shares[k])}`);
  return `${view.method.label}, ${view.title}: image ${image}, question ${text}. Strongest: ${best.join(", ")}.`;
}
