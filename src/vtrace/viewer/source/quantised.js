// W from its compact form: the strict upper triangle, row by row.

/** Bytes of a base64 text. */
export function bytesOf(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let k = 0; k < letters.length; k++) bytes[k] = letters.charCodeAt(k);
  return bytes;
}

/** What zlib compressed. */
export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** {size, largest, values}: values[rowStart(size, i) + j - i - 1] is W[i, j], i < j. */
export async function decodeMatrix(document) {
  const { size, bits, largest, step } = document;
  const planes = await inflate(bytesOf(document.data));
  const edges = (size * (size - 1)) / 2;
  if (bits === 32) {
    const whole = new Uint8Array(4 * edges);
    for (let plane = 0; plane < 4; plane++)
      for (let k = 0; k < edges; k++) whole[4 * k + plane] = planes[plane * edges + k];
    return { size, largest, bits, values: new Float32Array(whole.buffer) };
  }
  const top = 2 ** bits - 1;
  const table = new Float32Array(top + 1);
  for (let code = 1; code <= top; code++) table[code] = largest * Math.exp((code - top) * step);
  const values = new Float32Array(edges);
  for (let k = 0; k < edges; k++) values[k] = table[planes[k] | (planes[edges + k] << 8)];
  return { size, largest, bits, values };
}

/** Scores of a fixed method: float64 or float32 in base64. */
export const decodeScores = (text, bits) =>
  bits === 32 ? Float64Array.from(new Float32Array(bytesOf(text).buffer)) : new Float64Array(bytesOf(text).buffer);

/** Where row i of the triangle begins: the place of W[i, i + 1]. */
export const rowStart = (size, row) => (row * (2 * size - row - 1)) / 2;
