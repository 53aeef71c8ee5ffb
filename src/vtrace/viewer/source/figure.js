// The view as one PNG that speaks for itself: answer, pictures, texts, ranking, and where they come from.
import { sizeOf } from "./attribution.js";
import { drawCrop } from "./crops.js";
import { element, make } from "./dom.js";
import { paintPanel } from "./pictures.js";
import { strokeRegions } from "./region_list.js";
import { colourOf, inkOn, percent, rankingOf, rgb, shareOf } from "./scale.js";
import { nameOfItem } from "./state.js";

const ZOOM = 2; // pixels of the figure per unit of the layout
const [WIDTH, MARGIN, PICTURE, LINE] = [1100, 32, 420, 27];
const [HEAD, FOOT, BALANCE, RANK] = [44, 30, 70, 34]; // heights of the heading, the last line, the bar, and a rank
const RANKED = 8;
const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";

/** A canvas with the figure. */
export function drawFigure(trace, pictures, view) {
  const paper = view.dark ? { page: "#17131a", ink: "#efeaf2", faint: "#a79fae" } : { page: "#ffffff", ink: "#1f1a24", faint: "#6b6372" };
  const panels = trace.panels.map((panel, index) => {
    const canvas = make("canvas");
    paintPanel(canvas, trace, pictures, index, { ...view, cursor: null, pixel: ZOOM }, PICTURE * ZOOM * (panel.view ? 0.5 : 1));
    strokeRegions(canvas, trace, index, view, ZOOM);
    return canvas;
  });
  const measure = make("canvas").getContext("2d");
  measure.font = `17px ${FONT}`;
  const left = panels.length ? MARGIN + PICTURE + 36 : MARGIN;
  const width = WIDTH - left - MARGIN;
  const text = layText(trace, measure, width);
  const tall = panels.reduce((sum, canvas) => sum + canvas.height / ZOOM + 14, HEAD + 40);
  const listed = HEAD + text.height + BALANCE + RANK * Math.ceil(RANKED / 2) + 24;
  const canvas = make("canvas", { width: WIDTH * ZOOM, height: Math.ceil((Math.max(tall, listed) + 2 * MARGIN + FOOT) * ZOOM) });
  const context = canvas.getContext("2d");
  const high = canvas.height / ZOOM;
  context.scale(ZOOM, ZOOM);
  context.fillStyle = paper.page;
  context.fillRect(0, 0, WIDTH, high);
  write(context, element("heading").textContent, MARGIN, MARGIN + 18, `600 22px ${FONT}`, paper.ink, WIDTH - 2 * MARGIN);
  let y = MARGIN + HEAD;
  for (const panel of panels) {
    context.drawImage(panel, MARGIN, y, panel.width / ZOOM, panel.height / ZOOM);
    y += panel.height / ZOOM + 14;
  }
  const below = MARGIN + HEAD + text.height;
  drawLegend(context, view, paper, panels.length ? MARGIN : left, panels.length ? y : high - MARGIN - FOOT - 30, panels.length ? PICTURE : 400);
  drawText(context, view, paper, text, left, MARGIN + HEAD);
  drawBalance(context, trace, view, paper, left, below + 10, width);
  drawRanking(context, trace, pictures, view, paper, left, below + BALANCE, width);
  const day = new Date().toISOString().slice(0, 10);
  const facts = `Target: ${view.title} (underlined) · method: ${view.method.label} · model: ${trace.model} · VTrace ${trace.version} · ${day}`;
  write(context, facts, MARGIN, high - MARGIN, `12px ${FONT}`, paper.faint, WIDTH - 2 * MARGIN);
  return canvas;
}

function write(context, words, x, y, font, colour, width, align = "left") {
  context.font = font;
  context.fillStyle = colour;
  context.textAlign = align;
  context.textBaseline = "alphabetic";
  context.fillText(words, x, y, width);
}

/** Places of all shown words: [{word, x, y, width}], and of the two headings. */
function layText(trace, measure, width) {
  const words = [];
  const headings = [];
  let y = 0;
  for (const [kind, title] of [["q", "QUESTION"], ["r", "RESPONSE"]]) {
    headings.push([title, y + 10]);
    let x = 0;
    y += 36;
    for (const word of trace.words) {
      if (word.kind !== kind || !word.shown) continue;
      const size = measure.measureText(word.text).width;
      if (words.length && /\n/.test(word.before)) [x, y] = [0, y + LINE];
      else if (/\s/.test(word.before) && x > 0) x += 5;
      if (x > 0 && x + size > width) [x, y] = [0, y + LINE];
      words.push({ word, x, y, width: size });
      x += size;
      if (/\n/.test(word.after)) [x, y] = [0, y + LINE];
      else if (word.after) x += 5;
    }
    y += LINE + 8;
  }
  return { words, headings, height: y };
}

function drawText(context, view, paper, text, left, head) {
  const targeted = new Set(view.target.positions);
  for (const [title, y] of text.headings) write(context, title, left, head + y, `600 12px ${FONT}`, paper.faint);
  context.textAlign = "left";
  context.font = `17px ${FONT}`;
  for (const { word, x, y, width } of text.words) {
    const share = shareOf(view.main.scores, word.start, word.stop);
    const strength = share / view.mainScale.full;
    const hidden = strength <= 0.02 || (word.kind === "q" && share < view.mainScale.floor);
    const colour = colourOf(view.stops, strength);
    if (!hidden) {
      context.fillStyle = rgb(colour);
      context.beginPath();
      context.roundRect(left + x - 1, head + y - 17, width + 2, 23, 4);
      context.fill();
    }
    context.fillStyle = hidden ? paper.ink : inkOn(colour);
    context.fillText(word.text, left + x, head + y);
    if (targeted.has(word.start) || targeted.has(word.stop - 1)) {
      context.fillStyle = paper.ink;
      context.fillRect(left + x, head + y + 6, width, 2);
    }
  }
}

function drawLegend(context, view, paper, x, y, width) {
  const ramp = context.createLinearGradient(x, 0, x + width, 0);
  view.stops.forEach((stop, k) => ramp.addColorStop(k / (view.stops.length - 1), rgb(stop)));
  context.fillStyle = ramp;
  context.fillRect(x, y, width, 10);
  const font = `12px ${FONT}`;
  write(context, "0%", x, y + 26, font, paper.faint);
  write(context, "share of all inputs", x + width / 2, y + 26, font, paper.faint, width, "center");
  write(context, `${percent(view.mainScale.full)} or more`, x + width, y + 26, font, paper.faint, width, "right");
}

function drawBalance(context, trace, view, paper, left, y, width) {
  const [image, text] = [trace.image, trace.question].map((places) => sizeOf(view.main.scores, places));
  write(context, `image ${percent(image)}`, left, y, `14px ${FONT}`, paper.ink);
  write(context, `question ${percent(text)}`, left + width, y, `14px ${FONT}`, paper.ink, width, "right");
  for (const [from, part, level] of [[0, image, 0.8], [image, text, 0.35]]) {
    context.fillStyle = rgb(colourOf(view.stops, level));
    context.fillRect(left + from * width, y + 10, part * width, 10);
  }
}

/** The strongest inputs in two columns: rank, crop or word, share. */
function drawRanking(context, trace, pictures, view, paper, left, y, width) {
  const rows = Math.ceil(RANKED / 2);
  write(context, "STRONGEST INPUTS", left, y, `600 12px ${FONT}`, paper.faint);
  rankingOf(view.mainScale.shares)
    .slice(0, RANKED)
    .forEach((k, rank) => {
      const x = left + (rank < rows ? 0 : width / 2 + 12);
      const line = y + 10 + (rank % rows) * RANK;
      const item = trace.inputs[k];
      write(context, String(rank + 1), x + 10, line + 22, `13px ${FONT}`, paper.faint, 20, "right");
      const cropped = item.panel !== undefined && drawCrop(context, trace, pictures, k, x + 22, line + 2, RANK - 6);
      if (!cropped) write(context, nameOfItem(item), x + 22, line + 22, `15px ${FONT}`, paper.ink, width / 2 - 100);
      write(context, percent(view.mainScale.shares[k]), x + width / 2 - 16, line + 22, `15px ${FONT}`, paper.ink, 80, "right");
    });
}

/** Copy to the clipboard if that is allowed, otherwise download as a file. Says which. */
export async function copyFigure(canvas) {
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
    return "Copied";
  } catch {
    const link = make("a", { href: URL.createObjectURL(blob), download: "vtrace.png" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    return "Saved";
  }
}
