// The colour scale that patches and words share.

/** Colour of a strength between 0 and 1 on a ramp of stops. */
export function colourOf(stops, strength) {
  const place = Math.min(Math.max(strength, 0), 1) * (stops.length - 1);
  const index = Math.min(Math.floor(place), stops.length - 2);
  return stops[index].map((low, k) => Math.round(low + (stops[index + 1][k] - low) * (place - index)));
}

export const rgb = (colour, alpha = 1) => `rgba(${colour.join(",")},${alpha})`;

/** Black or white, whichever contrasts more with a colour: at least 4.5 to 1. */
export function inkOn(colour) {
  const light = [0.2126, 0.7152, 0.0722].reduce((sum, weight, k) => sum + weight * (colour[k] / 255) ** 2.2, 0);
  return light > 0.18 ? "#000000" : "#ffffff";
}

/** A share in per cent, as in figures and the console. */
export function percent(share) {
  const size = Math.abs(share);
  if (size === 0) return "0%";
  if (size < 0.001) return share < 0 ? ">-0.1%" : "<0.1%";
  return `${(100 * share).toFixed(size >= 0.0995 ? 0 : 1)}%`;
}

/**
 * Share of each input, the strongest of them, and how strong an input has to be to be shown when only the strongest
 * part (0 to 1) of them is.
 */
export function scaleOf(inputs, scores, part = 1) {
  const shares = inputs.map((item) => shareOf(scores, item.start, item.stop));
  const full = shares.reduce((a, b) => Math.max(a, b), 0) || 1;
  const sorted = Float64Array.from(shares).sort().reverse();
  const kept = Math.max(1, Math.round(part * sorted.length));
  const floor = part >= 1 ? -Infinity : sorted[kept - 1];
  return { shares, full, floor };
}

/** Score of a run of positions. */
export function shareOf(scores, start, stop) {
  let sum = 0;
  for (let position = start; position < stop; position++) sum += scores[position];
  return sum;
}

/** Indices of the inputs, strongest first; equal ones keep their order. */
export const rankingOf = (shares) => shares.map((_, k) => k).sort((a, b) => shares[b] - shares[a] || a - b);
