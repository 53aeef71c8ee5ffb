// Crops: a patch is shown, not named by row and column, which are words that models use for other things.
import { make } from "./dom.js";
import { nameOfItem } from "./state.js";

const AROUND = 0.3; // of a patch's sides, shown around it, fainter

/** Part of its picture that a crop shows: the patch with what is around it, inside the picture. */
function cropBox({ box: [left, top, right, bottom] }, [wide, high]) {
  const half = (0.5 + AROUND) * Math.max(right - left, bottom - top);
  const span = Math.min(2 * half, wide, high);
  const from = (middle, size) => Math.min(Math.max(middle - span / 2, 0), size - span);
  return [from((left + right) / 2, wide), from((top + bottom) / 2, high), span];
}

/** Draw the crop of a patch into a square of a context. */
export function drawCrop(context, trace, pictures, k, x, y, side) {
  const item = trace.inputs[k];
  const { image, size } = trace.panels[item.panel];
  const picture = pictures[image];
  if (!picture) return false;
  const zoom = picture.naturalWidth / size[0];
  const [left, top, span] = cropBox(item, size);
  const inside = item.box.map((edge, n) => ((edge - (n % 2 ? top : left)) / span) * side);
  context.save();
  context.beginPath();
  context.roundRect(x, y, side, side, side * 0.12);
  context.clip();
  context.drawImage(picture, left * zoom, top * zoom, span * zoom, span * zoom, x, y, side, side);
  context.beginPath();
  context.rect(x, y, side, side);
  context.rect(x + inside[0], y + inside[1], inside[2] - inside[0], inside[3] - inside[1]);
  context.fillStyle = "rgba(255,255,255,.4)";
  context.fill("evenodd");
  context.strokeStyle = "rgba(31,26,36,.85)";
  context.lineWidth = side / 34;
  context.strokeRect(x + inside[0], y + inside[1], inside[2] - inside[0], inside[3] - inside[1]);
  context.restore();
  return true;
}

/** A patch as its crop, a word in quotes; a patch of a lost picture by its label. */
export function nodeOfItem(trace, pictures, k, side = 34) {
  const item = trace.inputs[k];
  if (item.panel === undefined) return document.createTextNode(nameOfItem(item));
  const pixel = globalThis.devicePixelRatio || 1;
  const canvas = make("canvas", { className: "crop", width: side * pixel, height: side * pixel });
  if (!drawCrop(canvas.getContext("2d"), trace, pictures, k, 0, 0, side * pixel)) return document.createTextNode(item.label);
  canvas.style.width = canvas.style.height = `${side}px`;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", item.label);
  return canvas;
}
