// The view as one PNG: pictures, question and response, legend, and what is shown.
import { sizeOf } from "./attribution.js";
import { make } from "./dom.js";
import { paintPanel } from "./pictures.js";
import { colourOf, inkOn, percent, rgb, shareOf } from "./scale.js";

const ZOOM = 2; // pixels of the figure per unit of the layout
const [WIDTH, MARGIN, PICTURE, LINE] = [1100, 32, 420, 27];
const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";

/** A canvas with the figure. */
export function drawFigure(trace, pictures, view) {
  const paper = view.dark ? { page: "#17131a", ink: "#efeaf2", faint: "#a79fae" } : { page: "#ffffff", ink: "#1f1a24", faint: "#6b6372" };
  const panels = trace.panels.map((panel, index) => {
    const canvas = make("canvas");
    paintPanel(canvas, trace, pictures, index, { ...view, cursor: null, pixel: ZOOM }, PICTURE * ZOOM * (panel.view ? 0.5 : 1));
    return canvas;
  });
  const measure = make("canvas").getContext("2d");
  measure.font = `17px ${FONT}`;
  const left = panels.length ? MARGIN + PICTURE + 36 : MARGIN;
  const text = layText(trace, measure, WIDTH - left - MARGIN);
  const tall = panels.reduce((sum, canvas) => sum + canvas.height / ZOOM + 14, 0);
  const canvas = make("canvas", { width: WIDTH * ZOOM, height: Math.ceil((Math.max(tall + 60, text.height + 130) + 2 * MARGIN) * ZOOM) });
  const context = canvas.getContext("2d");
  context.scale(ZOOM, ZOOM);
  context.fillStyle = paper.page;
  context.fillRect(0, 0, WIDTH, canvas.height / ZOOM);
  let y = MARGIN;
  for (const panel of panels) {
    context.drawImage(panel, MARGIN, y, panel.width / ZOOM, panel.height / ZOOM);
    y += panel.height / ZOOM + 14;
  }
  drawLegend(context, view, paper, panels.length ? MARGIN : left, panels.length ? y : text.height + 60, panels.length ? PICTURE : 400);
  drawText(context, view, paper, text, left);
  drawFacts(context, trace, view, paper, left, MARGIN + text.height + 26, WIDTH - left - MARGIN);
  return canvas;
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

function drawText(context, view, paper, text, left) {
  const targeted = new Set(view.state.target.positions);
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  context.font = `600 12px ${FONT}`;
  context.fillStyle = paper.faint;
  for (const [title, y] of text.headings) context.fillText(title, left, MARGIN + y);
  context.font = `17px ${FONT}`;
  for (const { word, x, y, width } of text.words) {
    const share = shareOf(view.main.scores, word.start, word.stop);
    const strength = share / view.mainScale.full;
    const hidden = strength <= 0.02 || (word.kind === "q" && share < view.mainScale.floor);
    const colour = colourOf(view.stops, strength);
    if (!hidden) {
      context.fillStyle = rgb(colour);
      context.beginPath();
      context.roundRect(left + x - 1, MARGIN + y - 17, width + 2, 23, 4);
      context.fill();
    }
    context.fillStyle = hidden ? paper.ink : inkOn(colour);
    context.fillText(word.text, left + x, MARGIN + y);
    if (targeted.has(word.start) || targeted.has(word.stop - 1)) {
      context.fillStyle = paper.ink;
      context.fillRect(left + x, MARGIN + y + 6, width, 2);
    }
  }
}

function drawLegend(context, view, paper, x, y, width) {
  const ramp = context.createLinearGradient(x, 0, x + width, 0);
  view.stops.forEach((stop, k) => ramp.addColorStop(k / (view.stops.length - 1), rgb(stop)));
  context.fillStyle = ramp;
  context.fillRect(x, y, width, 10);
  context.font = `12px ${FONT}`;
  context.fillStyle = paper.faint;
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  context.fillText("0%", x, y + 26);
  context.textAlign = "center";
  context.fillText("share of all inputs", x + width / 2, y + 26);
  context.textAlign = "right";
  context.fillText(`${percent(view.mainScale.full)} or more`, x + width, y + 26);
}

function drawFacts(context, trace, view, paper, left, y, width) {
  const [image, text] = [trace.image, trace.question].map((places) => sizeOf(view.main.scores, places));
  context.font = `14px ${FONT}`;
  context.fillStyle = paper.ink;
  context.textAlign = "left";
  context.fillText(`image ${percent(image)}`, left, y);
  context.textAlign = "right";
  context.fillText(`question ${percent(text)}`, left + width, y);
  for (const [from, part, level] of [[0, image, 0.8], [image, text, 0.35]]) {
    context.fillStyle = rgb(colourOf(view.stops, level));
    context.fillRect(left + from * width, y + 10, part * width, 10);
  }
  context.font = `12px ${FONT}`;
  context.fillStyle = paper.faint;
  context.textAlign = "left";
  context.fillText(`${view.method.label} · target: ${view.title} (underlined) · model: ${trace.model}`, left, y + 42, width);
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
