// Scores of every position for a target, and the reverse: which words a patch or question word supports.
import { calibrate, likelihoodsOf } from "./calibrate.js";
import { flowsOf, indicator, logScores, logSum } from "./multihop.js";

/** Path length a method was run with: "all", "direct" or a number. */
export const ownHops = (options) => (options.multihop === false ? "direct" : options.hops || "all");

const sameTarget = (a, b) => a.length === b.length && a.every((position, k) => position === b[k]);

/** How many exported targets are offered where a target has no scores. Parts and sentences come first. */
export const OFFERED_TARGETS = 12;

/** What a method exported for a target, if anything. */
export const exportedFor = (method, target) =>
  method.exported.find((one) => sameTarget(one.positions, target.positions));

/** Positions whose hidden states predict the target's tokens (or the tokens themselves). */
export function receiversOf(method, positions) {
  const back = method.options.receivers === "token" ? 0 : 1;
  return positions.map((position) => position - back);
}

const memory = new WeakMap(); // matrix → its most recent flows; γ and hops change rarely, targets often

/** Flows of a method's matrix at its γ and path length, or at those of the settings. */
export function methodFlows(method, settings) {
  const gamma = settings.gamma ?? method.options.gamma;
  const hops = settings.hops ?? ownHops(method.options);
  const key = `${gamma} ${hops}`;
  const kept = memory.get(method.matrix) ?? new Map();
  memory.set(method.matrix, kept);
  if (!kept.has(key)) {
    if (kept.size > 8) kept.clear();
    kept.set(key, { ...flowsOf(method.matrix, gamma, hops), sums: new Map() });
  }
  return kept.get(key);
}

/** {scores, calibration} of a target by a method; null if the method has no scores for it. */
export function attribute(trace, method, target, settings) {
  if (!method.matrix) return fixed(trace, exportedFor(method, target), settings.calibrated);
  const logs = logScores(methodFlows(method, settings), receiversOf(method, target.positions));
  const inputs = [...trace.image, ...trace.question];
  let top = -Infinity;
  for (const place of inputs) top = Math.max(top, logs[place]);
  if (top === -Infinity) top = 0;
  // a response token can outweigh every input by more than the range of numbers
  const raw = logs.map((log) => Math.min(Math.exp(log - top), Number.MAX_VALUE));
  const calibration = calibrate(
    settings.calibrated ? likelihoodsFor(trace, method, target.positions, settings) : null,
    sumOf(raw, trace.image),
    sumOf(raw, trace.question),
  );
  for (const place of trace.image) raw[place] *= calibration.scale;
  return { scores: normalise(raw, inputs), calibration };
}

function fixed(trace, exported, calibrated) {
  if (!exported) return null;
  if (calibrated || exported.calibration.scale === 1)
    return { scores: exported.scores, calibration: exported.calibration };
  const raw = exported.scores.slice();
  for (const place of trace.image) raw[place] /= exported.calibration.scale;
  return { scores: normalise(raw, [...trace.image, ...trace.question]), calibration: exported.calibration };
}

/** Whose likelihood calibration measures: "target" or "response"; the reader's choice, or the method's own. */
export const calibratedOn = (method, settings) => (method.matrix && settings.calibrateOn) || method.options.calibrate_on;

function likelihoodsFor(trace, method, positions, settings) {
  const tokens = calibratedOn(method, settings) === "target" ? positions.map((p) => p - trace.promptLength) : null;
  return likelihoodsOf(method.likelihoods, tokens);
}

export const sumOf = (values, places) => places.reduce((sum, place) => sum + values[place], 0);

export const sizeOf = (values, places) => places.reduce((sum, place) => sum + Math.abs(values[place]), 0);

function normalise(raw, inputs) {
  const total = sizeOf(raw, inputs) || 1;
  return raw.map((value) => value / total);
}

/**
 * Share of one input (its positions) among all inputs of each word, with every word as its own target.
 * Two path sums serve all words: what image and question positions together give to every position.
 */
export function support(trace, method, input, words, settings) {
  if (!method.matrix) return null;
  const flows = methodFlows(method, settings);
  const weighted = (positions) => {
    const start = indicator(flows.matrix.size, positions);
    for (const position of positions) start[position] = flows.passing[position];
    return flows.reach(start);
  };
  const whole = (kind) => {
    if (!flows.sums.has(kind)) flows.sums.set(kind, weighted(trace[kind]));
    return flows.sums.get(kind);
  };
  const [own, image, question] = [weighted(input), whole("image"), whole("question")];
  const isImage = trace.isImage[input[0]];
  return words.map((positions) => {
    const receivers = receiversOf(method, positions);
    const [mine, fromImage, fromText] = [own, image, question].map((logs) => logSum(logs, receivers));
    const top = Math.max(fromImage, fromText);
    if (top === -Infinity || mine === -Infinity) return 0;
    const [imageSum, textSum] = [Math.exp(fromImage - top), Math.exp(fromText - top)];
    const likelihoods = settings.calibrated ? likelihoodsFor(trace, method, positions, settings) : null;
    const { scale } = calibrate(likelihoods, imageSum, textSum);
    return ((isImage ? scale : 1) * Math.exp(mine - top)) / (scale * imageSum + textSum);
  });
}

/** Spearman's rank correlation of two score vectors over the inputs; NaN where one of them is constant. */
export function rankCorrelation(a, b, places) {
  const [x, y] = [a, b].map((values) => ranks(places.map((place) => values[place])));
  const mean = (places.length - 1) / 2;
  let [xy, xx, yy] = [0, 0, 0];
  for (let k = 0; k < x.length; k++) {
    xy += (x[k] - mean) * (y[k] - mean);
    xx += (x[k] - mean) ** 2;
    yy += (y[k] - mean) ** 2;
  }
  return xy / Math.sqrt(xx * yy);
}

/** Ranks from 0; equal values share their mean rank. */
function ranks(values) {
  const order = values.map((_, k) => k).sort((a, b) => values[a] - values[b]);
  const out = new Float64Array(values.length);
  for (let low = 0; low < order.length; ) {
    let high = low;
    while (high < order.length && values[order[high]] === values[order[low]]) high++;
    for (let k = low; k < high; k++) out[order[k]] = (low + high - 1) / 2;
    low = high;
  }
  return out;
}
