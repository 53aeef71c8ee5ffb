// Stage 2 in the page: paths through W summed in closed form, as multihop.py does.
//
// Sums can grow or shrink beyond the range of numbers, so every position keeps its logarithm. A substitution
// runs on plain numbers relative to a common exponent, and a row whose plain sum is too small to trust is
// summed again from logarithms.
import { rowStart } from "./quantised.js";

const EPSILON = 1e-12;
const TINY = 1e-280;
const SWELL = 138; // logarithm at which the common exponent is raised

/** γ / (max W + ε): what turns W into γŴ. */
export const edgeScale = (matrix, gamma) => gamma / (matrix.largest + EPSILON);

export function logAdd(a, b) {
  if (a < b) [a, b] = [b, a];
  return b === -Infinity ? a : a + Math.log1p(Math.exp(b - a));
}

/** log Σ exp of the chosen entries. */
export function logSum(logs, places) {
  let top = -Infinity;
  for (const place of places) top = Math.max(top, logs[place]);
  if (top === -Infinity) return top;
  let sum = 0;
  for (const place of places) sum += Math.exp(logs[place] - top);
  return top + Math.log(sum);
}

const nothing = (size) => new Float64Array(size).fill(-Infinity);

/** log of 0 and 1 for the positions of a set. */
export function indicator(size, positions) {
  const logs = nothing(size);
  for (const position of positions) logs[position] = 0;
  return logs;
}

/** log R·start: what goes from every position to the start set, over all paths. */
export function outflowAll(matrix, start, gamma) {
  const { size, values } = matrix;
  const logScale = Math.log(edgeScale(matrix, gamma));
  const sums = nothing(size);
  const total = nothing(size); // log of sums + start
  const plain = new Float64Array(size); // exp(total - common)
  let common = 0;
  for (let row = size - 1; row >= 0; row--) {
    const shift = rowStart(size, row) - row - 1;
    let sum = 0;
    for (let column = row + 1; column < size; column++) sum += values[shift + column] * plain[column];
    if (sum > TINY) sums[row] = Math.log(sum) + common + logScale;
    else {
      for (let column = row + 1; column < size; column++)
        if (total[column] > -Infinity && values[shift + column] > 0)
          sums[row] = logAdd(sums[row], Math.log(values[shift + column]) + total[column] + logScale);
    }
    total[row] = logAdd(sums[row], start[row]);
    if (total[row] - common > SWELL) {
      common = total[row];
      for (let column = row + 1; column < size; column++) plain[column] = Math.exp(total[column] - common);
    }
    plain[row] = Math.exp(total[row] - common);
  }
  return sums;
}

/** log start·R: what reaches every position from the start set, over all paths. */
export function reachAll(matrix, start, gamma) {
  const { size, values } = matrix;
  const logScale = Math.log(edgeScale(matrix, gamma));
  const sums = nothing(size);
  const total = nothing(size);
  const pushed = new Float64Array(size); // sums from earlier rows, divided by exp(common)
  let common = 0;
  let begun = false;
  for (let row = 0; row < size; row++) {
    if (pushed[row] > TINY) sums[row] = Math.log(pushed[row]) + common + logScale;
    else if (begun) {
      for (let source = 0; source < row; source++) {
        const edge = values[rowStart(size, source) + row - source - 1];
        if (edge > 0 && total[source] > -Infinity)
          sums[row] = logAdd(sums[row], Math.log(edge) + total[source] + logScale);
      }
    }
    total[row] = logAdd(sums[row], start[row]);
    if (total[row] === -Infinity) continue;
    begun = true;
    if (total[row] - common > SWELL) {
      const factor = Math.exp(common - total[row]);
      common = total[row];
      for (let column = row + 1; column < size; column++) pushed[column] *= factor;
    }
    const weight = Math.exp(total[row] - common);
    const shift = rowStart(size, row) - row - 1;
    if (weight > 0) for (let column = row + 1; column < size; column++) pushed[column] += weight * values[shift + column];
  }
  return sums;
}

/** W·x. */
function timesColumn(matrix, x) {
  const { size, values } = matrix;
  const out = new Float64Array(size);
  for (let row = 0; row < size; row++) {
    const shift = rowStart(size, row) - row - 1;
    let sum = 0;
    for (let column = row + 1; column < size; column++) sum += values[shift + column] * x[column];
    out[row] = sum;
  }
  return out;
}

/** x·W. */
function timesRow(matrix, x) {
  const { size, values } = matrix;
  const out = new Float64Array(size);
  for (let row = 0; row < size; row++) {
    if (!x[row]) continue;
    const shift = rowStart(size, row) - row - 1;
    for (let column = row + 1; column < size; column++) out[column] += x[row] * values[shift + column];
  }
  return out;
}

/** The same sums over paths of at most `hops` edges. */
function upTo(times, matrix, start, gamma, hops) {
  const scale = edgeScale(matrix, gamma);
  const top = start.reduce((a, b) => Math.max(a, b), -Infinity);
  if (top === -Infinity) return nothing(matrix.size);
  const begin = start.map((log) => Math.exp(log - top));
  let sums = new Float64Array(matrix.size);
  for (let hop = 0; hop < hops; hop++) {
    sums = times(
      matrix,
      sums.map((sum, place) => sum + begin[place]),
    );
    for (let place = 0; place < sums.length; place++) sums[place] *= scale;
  }
  return sums.map((sum) => Math.log(sum) + top);
}

/**
 * Path sums of W at one γ and one path length: `hops` is "all", "direct" or a number.
 * `passing` is log(1 + In): the weight of a position for paths that pass through it.
 */
export function flowsOf(matrix, gamma, hops) {
  const all = hops === "all";
  const length = hops === "direct" ? 1 : hops;
  const outflow = (start) =>
    all ? outflowAll(matrix, start, gamma) : upTo(timesColumn, matrix, start, gamma, length);
  const reach = (start) => (all ? reachAll(matrix, start, gamma) : upTo(timesRow, matrix, start, gamma, length));
  const passing =
    hops === "direct"
      ? new Float64Array(matrix.size)
      : reach(new Float64Array(matrix.size)).map((log) => logAdd(log, 0));
  return { matrix, gamma, outflow, reach, passing };
}

/** log u for one set of receivers; -Infinity from the first of them on. */
export function logScores(flows, receivers) {
  const first = Math.min(...receivers);
  const out = flows.outflow(indicator(flows.matrix.size, receivers));
  return out.map((log, place) => (place < first ? log + flows.passing[place] : -Infinity));
}
