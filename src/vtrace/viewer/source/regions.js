// Named boxes on a picture and their shares, as regions.py defines them.

/** Positions of a picture that a box covers, and the part of each. */
export function covered(trace, image, box) {
  const parts = trace.inputs.flatMap((item) => {
    if (item.panel === undefined || trace.panels[item.panel].image !== image) return [];
    const part = overlap(item.box, box);
    return part > 0 ? [[item.start, part]] : [];
  });
  return { positions: parts.map(([position]) => position), coverage: parts.map(([, part]) => part) };
}

/** The part of a cell that lies in a box. */
function overlap(cell, box) {
  const wide = Math.max(0, Math.min(cell[2], box[2]) - Math.max(cell[0], box[0]));
  const high = Math.max(0, Math.min(cell[3], box[3]) - Math.max(cell[1], box[1]));
  const area = (cell[2] - cell[0]) * (cell[3] - cell[1]);
  return area > 0 ? (wide * high) / area : 0;
}

/** A region's part of the scores of all positions. */
export const regionShare = (region, scores) =>
  region.positions.reduce((sum, position, k) => sum + region.coverage[k] * scores[position], 0);

/** A box as a region; throws an Error with one line for the reader. */
export function boxRegion(trace, name, box, image = 0) {
  const panel = trace.panels.find((one) => one.image === image);
  const count = new Set(trace.panels.map((one) => one.image).filter((one) => one !== null)).size;
  if (!panel) throw new Error(`region ${name} is on picture ${image + 1}, but there ${count === 1 ? "is" : "are"} ${count}`);
  const [left, top, right, bottom] = box;
  if (!(left < right && top < bottom))
    throw new Error(`region ${name} is empty; write left,top,right,bottom with left < right and top < bottom`);
  const [wide, high] = panel.size;
  const inside = [Math.max(left, 0), Math.max(top, 0), Math.min(right, wide), Math.min(bottom, high)];
  if (!(inside[0] < inside[2] && inside[1] < inside[3]))
    throw new Error(`region ${name} lies outside its picture, which has ${wide} x ${high} pixels`);
  const cut = inside.some((value, k) => Math.abs(value - box[k]) >= 1);
  return { name, kind: "box", image, box: inside, cut, ...covered(trace, image, inside) };
}

/** A region in words, as on the command line: cup=40,60,200,220, or cup@2=… on the second picture. */
export function findRegion(trace, words) {
  const number = "(-?\\d+(?:\\.\\d+)?)";
  const match = words.trim().match(new RegExp(`^(.+?)(?:@(\\d+))?=${[number, number, number, number].join(" *, *")}$`));
  if (!match) throw new Error("write a region as name=left,top,right,bottom in pixels, such as cup=40,60,200,220");
  return boxRegion(trace, match[1].trim(), match.slice(3).map(Number), Number(match[2] ?? 1) - 1);
}

/** The words that `findRegion` reads. */
export function regionWords({ name, image, box }) {
  const numbers = box.map((value) => Number(value.toFixed(1))).join(",");
  return `${name}${image ? `@${image + 1}` : ""}=${numbers}`;
}

/** Notes on boxes that leave their picture, and on every two with common pixels: their shares count those twice. */
export function regionNotes(regions) {
  const cut = regions.filter((region) => region.cut);
  return [...cut.map(({ name }) => `Region ${name} is cut: a part of it lies outside its picture.`), ...overlapNotes(regions)];
}

function overlapNotes(regions) {
  const boxes = regions.filter((region) => region.kind === "box");
  return boxes.flatMap((one, k) =>
    boxes
      .slice(k + 1)
      .filter((other) => one.image === other.image && overlap(one.box, other.box) > 0)
      .map((other) => `Regions ${one.name} and ${other.name} overlap; what they have in common counts for both.`),
  );
}
