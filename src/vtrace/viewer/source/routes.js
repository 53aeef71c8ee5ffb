// Routes: the strongest single paths from an input to the target, and the words its credit passes through.
import { edgeScale, indicator, logSum, outflowAll, reachAll } from "./multihop.js";
import { rowStart } from "./quantised.js";

/** log of the weights of source positions: what each passes on in its score, (1 + In). */
function sourceWeights(flows, sources) {
  const start = indicator(flows.matrix.size, sources);
  for (const source of sources) start[source] = flows.passing[source];
  return start;
}

/**
 * The `count` strongest paths from the sources to the receivers: [{positions, share}], share of all the credit
 * that goes from the sources to the receivers. Dynamic programming over positions, the `count` best per position.
 */
export function strongestRoutes(flows, sources, receivers, count) {
  const { matrix, gamma } = flows;
  const { size, values } = matrix;
  const start = sourceWeights(flows, sources);
  const last = Math.max(...receivers);
  const logScale = Math.log(edgeScale(matrix, gamma));
  const best = new Float64Array(size * count).fill(-Infinity);
  const from = new Int32Array(size * count).fill(-1); // index in `best` that a path came from
  for (let row = Math.min(...sources); row < last; row++) {
    if (start[row] > -Infinity) insert(best, from, row, count, start[row], -1);
    if (best[row * count] === -Infinity) continue;
    const shift = rowStart(size, row) - row - 1;
    for (let column = row + 1; column <= last; column++) {
      const edge = values[shift + column];
      if (edge <= 0) continue;
      const log = Math.log(edge) + logScale;
      for (let rank = 0; rank < count; rank++) {
        const value = best[row * count + rank] + log;
        if (value <= best[column * count + count - 1]) break;
        insert(best, from, column, count, value, row * count + rank);
      }
    }
  }
  const ends = receivers
    .flatMap((receiver) => Array.from({ length: count }, (_, rank) => receiver * count + rank))
    .filter((place) => best[place] > -Infinity && from[place] >= 0)
    .sort((a, b) => best[b] - best[a])
    .slice(0, count);
  const total = credit(flows, sources, outflowAll(matrix, indicator(size, receivers), gamma));
  return ends.map((end) => {
    const positions = [];
    for (let place = end; place >= 0; place = from[place]) positions.unshift(Math.floor(place / count));
    return { positions, share: Math.exp(best[end] - total) };
  });
}

function insert(best, from, node, count, value, origin) {
  const base = node * count;
  let rank = count - 1;
  if (value <= best[base + rank]) return;
  while (rank > 0 && best[base + rank - 1] < value) {
    best[base + rank] = best[base + rank - 1];
    from[base + rank] = from[base + rank - 1];
    rank--;
  }
  best[base + rank] = value;
  from[base + rank] = origin;
}

/** log of all the credit that goes from the sources to the receivers. */
function credit(flows, sources, out) {
  return logSum(
    out.map((log, place) => log + flows.passing[place]),
    sources,
  );
}

/**
 * Through which words the credit of the sources passes on its way to the receivers: for each word
 * [start, stop] the share of it, by paths that visit any of the word's positions between their ends.
 */
export function passages(flows, sources, receivers, words) {
  const { matrix, gamma } = flows;
  const reach = reachAll(matrix, sourceWeights(flows, sources), gamma);
  const out = outflowAll(matrix, indicator(matrix.size, receivers), gamma);
  const total = credit(flows, sources, out);
  return words.map(([start, stop]) => {
    if (total === -Infinity) return 0;
    const top = reach.slice(start, stop).reduce((a, b) => Math.max(a, b), -Infinity);
    if (top === -Infinity) return 0;
    const between = pathsWithin(matrix, start, stop, gamma);
    const entering = []; // paths that meet the word for the first time at this position
    let share = 0;
    for (let k = 0; k < stop - start; k++) {
      let first = Math.exp(reach[start + k] - top);
      for (let earlier = 0; earlier < k; earlier++) first -= entering[earlier] * between[earlier][k];
      entering.push(Math.max(0, first));
      share += entering[k] * Math.exp(out[start + k] + top - total);
    }
    return share;
  });
}

/** R between the positions of one word; these paths stay within the word. */
function pathsWithin(matrix, start, stop, gamma) {
  const scale = edgeScale(matrix, gamma);
  const size = stop - start;
  const sums = Array.from({ length: size }, () => new Float64Array(size));
  for (let i = size - 1; i >= 0; i--)
    for (let k = i + 1; k < size; k++) {
      const edge = scale * matrix.values[rowStart(matrix.size, start + i) + k - i - 1];
      sums[i][k] += edge;
      for (let j = k + 1; j < size; j++) sums[i][j] += edge * sums[k][j];
    }
  return sums;
}
