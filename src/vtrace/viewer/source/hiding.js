// The prompt as the model sees it with some inputs hidden: patches blurred, words struck out. Also what is selected.
import { element, isDark, make } from "./dom.js";
import { cellFrame, listenToPatches, openPanel } from "./pictures.js";
import { drawBoxes } from "./region_list.js";
import { spansOf } from "./words.js";

const BLUR = 1 / 12; // radius, as a fraction of the longer side
const [CHOSEN, INK, PAPER] = ["#9d297a", "#1f1a24", "#ffffff"]; // on pictures, which are the same in light and dark mode

/**
 * The exhibit: pictures and question. `act` is {toggle(k), add(ks), describe(k)}, or null if nothing can be selected.
 * Returns how to show {hidden, selected}, both sets of inputs.
 */
export function showExhibit(trace, pictures, act) {
  let last = null;
  let lit = null;
  const panels = trace.panels.map((panel) => {
    const canvas = make("canvas", { className: panel.view ? "thumbnail" : "" });
    const figure = make("figure", {}, canvas);
    figure.style.setProperty("--aspect", String(panel.size[0] / panel.size[1]));
    element("exhibit-pictures").append(figure);
    return canvas;
  });
  element("exhibit-pictures").className = panels.length > 1 ? "several" : "";
  const spans = spansOf(trace, "q", element("exhibit-question"));
  const paint = (shown) => {
    last = shown;
    const pixel = devicePixelRatio || 1;
    panels.forEach((canvas, index) => {
      const cursor = canvas.matches(":focus-visible") ? canvas.cursor : lit;
      paintHidden(canvas, trace, pictures, index, { ...shown, cursor, pixel }, Math.max(1, canvas.clientWidth * pixel));
      if (!act) canvas.setAttribute("aria-label", `${trace.panels[index].title || "Picture"} with hidden patches blurred`);
    });
    for (const [word, span] of spans) {
      const k = trace.inputAt[word.start];
      span.classList.toggle("gone", shown.hidden.has(k));
      span.classList.toggle("chosen", shown.selected.has(k));
      if (act) span.setAttribute("aria-checked", shown.selected.has(k));
    }
  };
  const again = () => last && paint(last);
  new ResizeObserver(again).observe(element("exhibit-pictures"));
  const light = (k) => {
    lit = k;
    again();
  };
  if (act) {
    panels.forEach((canvas, index) => selectPatches(canvas, trace, index, { ...act, light }));
    panels.forEach((canvas) => canvas.addEventListener("blur", again));
    for (const [word, span] of spans) selectWord(span, () => act.toggle(trace.inputAt[word.start]));
  } else panels.forEach((canvas) => canvas.setAttribute("role", "img"));
  return paint;
}

/** Patches are selected by clicks, by boxes, and with the keyboard. */
function selectPatches(canvas, trace, index, act) {
  const panel = trace.panels[index];
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", "grid of patches");
  canvas.setAttribute("aria-label", `${panel.title || "Picture"}: arrow keys move between patches, Enter selects one`);
  listenToPatches(canvas, trace, index, { ...act, pin: act.toggle });
  drawBoxes(panel, canvas, (box) => act.add(patchesIn(trace, index, box)));
}

function selectWord(span, toggle) {
  span.tabIndex = 0;
  span.setAttribute("role", "checkbox");
  span.addEventListener("click", toggle);
  span.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle();
  });
}

/** Patches of a panel whose middle lies in a box; the one under a box that holds none. */
function patchesIn(trace, index, [left, top, right, bottom]) {
  const cells = trace.inputs.flatMap((item, k) => (item.panel === index ? [k] : []));
  const middle = ({ box }) => [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
  const inside = cells.filter((k) => {
    const [x, y] = middle(trace.inputs[k]);
    return left <= x && x <= right && top <= y && y <= bottom;
  });
  if (inside.length) return inside;
  const [x, y] = [(left + right) / 2, (top + bottom) / 2];
  return cells.filter((k) => {
    const { box } = trace.inputs[k];
    return box[0] <= x && x < box[2] && box[1] <= y && y < box[3];
  });
}

/** Draw a panel with hidden patches blurred and hatched, and selected ones framed. */
function paintHidden(canvas, trace, pictures, panel, { hidden, selected, cursor, pixel }, width) {
  const { context, zoom, picture } = openPanel(canvas, trace, pictures, panel, width);
  const cells = trace.inputs.flatMap((item, k) => (item.panel === panel ? [[k, cellFrame(item.box, zoom)]] : []));
  const gone = cells.filter(([k]) => hidden.has(k));
  const mostly = gone.length > cells.length / 2;
  if (gone.length) {
    const [veil, lines] = mostly && isDark() ? [INK, PAPER] : [PAPER, INK]; // a large bright area would dazzle
    context.save();
    context.beginPath();
    for (const [, frame] of gone) context.rect(...frame);
    context.clip();
    if (picture) drawBlurred(context, picture, canvas);
    context.globalAlpha = mostly ? 0.55 : 0.35;
    context.fillStyle = veil;
    context.fillRect(0, 0, canvas.width, canvas.height);
    hatch(context, canvas, pixel, lines, mostly ? 0.14 : 0.4);
    context.restore();
  }
  const framed = mostly ? cells.filter(([k]) => !hidden.has(k)) : gone;
  for (const [, frame] of framed) outlineCell(context, frame, mostly ? CHOSEN : INK, mostly ? 2.5 * pixel : 1.5 * pixel);
  for (const [k, frame] of cells) {
    if (!selected.has(k)) continue;
    context.globalAlpha = 0.28;
    context.fillStyle = CHOSEN;
    context.fillRect(...frame);
    context.globalAlpha = 1;
    outlineCell(context, frame, CHOSEN, 2.5 * pixel);
  }
  const pointed = cells.find(([k]) => k === cursor);
  if (pointed) outlineCell(context, pointed[1], INK, 1.5 * pixel);
}

/** A line inside a lighter one, visible on any picture. */
function outlineCell(context, [x, y, w, h], colour, line) {
  context.strokeStyle = "rgba(255,255,255,.9)";
  context.lineWidth = 2 * line;
  context.strokeRect(x + line / 2, y + line / 2, w - line, h - line);
  context.strokeStyle = colour;
  context.lineWidth = line;
  context.strokeRect(x + line / 2, y + line / 2, w - line, h - line);
}

/** About the blur that hides patches from the model: the picture made tiny, and large again. */
function drawBlurred(context, picture, canvas) {
  const side = 0.5 / BLUR / Math.max(canvas.width, canvas.height);
  const tiny = make("canvas", { width: Math.max(2, Math.round(canvas.width * side)), height: Math.max(2, Math.round(canvas.height * side)) });
  const small = tiny.getContext("2d");
  small.imageSmoothingQuality = "high";
  small.drawImage(picture, 0, 0, tiny.width, tiny.height);
  context.imageSmoothingQuality = "high";
  context.drawImage(tiny, 0, 0, canvas.width, canvas.height);
}

function hatch(context, canvas, pixel, colour, alpha) {
  context.globalAlpha = alpha;
  context.strokeStyle = colour;
  context.lineWidth = pixel;
  context.beginPath();
  for (let x = -canvas.height; x < canvas.width; x += 7 * pixel) {
    context.moveTo(x, canvas.height);
    context.lineTo(x + canvas.height, 0);
  }
  context.stroke();
}
