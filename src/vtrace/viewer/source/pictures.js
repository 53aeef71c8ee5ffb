// The pictures with their patches on the model's own grid.
import { element, isDark, make, showTip } from "./dom.js";
import { colourOf, inkOn, percent, rgb } from "./scale.js";

const OUTLINED = 0.12; // share of all inputs that "outline" shows at most,
const FAINT_OUTLINE = 0.05; // and how strong they are at least, relative to the strongest
const MARK = { light: "#1f1a24", dark: "#ffffff" };

/** Decoded pictures, ready to be drawn. */
export async function loadPictures(trace) {
  const pictures = trace.pictures.map((source) => make("img", { src: source, alt: "" }));
  await Promise.all(pictures.map((picture) => picture.decode()));
  return pictures;
}

/** Size a canvas for a panel, `width` pixels wide, and draw its picture, if the trace still has it. */
export function openPanel(canvas, trace, pictures, panel, width) {
  const [wide, high] = trace.panels[panel].size;
  const zoom = width / wide;
  canvas.width = Math.round(width);
  canvas.height = Math.round(high * zoom);
  const context = canvas.getContext("2d");
  const picture = pictures[trace.panels[panel].image];
  if (picture) context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return { context, zoom, picture };
}

/** Draw one panel, `width` pixels of the canvas wide. `view` is {mainScale, state, stops, lit, pinned, cursor}. */
export function paintPanel(canvas, trace, pictures, panel, view, width) {
  const { context, zoom, picture } = openPanel(canvas, trace, pictures, panel, width);
  const heat = view.state.look === "heat";
  if (!picture) fill(context, canvas, view.dark ? "#2a2330" : "#eeeaf0", 1);
  if (heat && picture) {
    context.globalCompositeOperation = "saturation";
    fill(context, canvas, "#808080", 0.6);
    context.globalCompositeOperation = "source-over";
  }
  const cells = trace.inputs.flatMap((item, k) => (item.panel === panel ? [k] : []));
  const floor = heat ? view.mainScale.floor : Math.max(view.mainScale.floor, strongestFloor(view.mainScale.shares));
  // weak ones first, so that strong outlines stay on top
  for (const k of cells.sort((a, b) => view.mainScale.shares[a] - view.mainScale.shares[b])) {
    const level = Math.min(1, view.mainScale.shares[k] / view.mainScale.full);
    if (view.mainScale.shares[k] < floor || (level < FAINT_OUTLINE && !heat)) continue;
    const [x, y, w, h] = cellFrame(trace.inputs[k].box, zoom);
    const colour = colourOf(view.stops, level);
    if (heat) {
      const strength = Math.max(0, level);
      if (picture) drawCell(context, picture, canvas, [x, y, w, h], strength);
      context.fillStyle = rgb(colour, view.state.opacity * (0.11 + 0.45 * strength));
      context.fillRect(x, y, w, h);
    } else {
      const pixel = view.pixel ?? 1;
      const line = Math.max(1.5 * pixel, Math.min(w, h, 64 * pixel) * (0.03 + 0.07 * level));
      const edge = pixel + line; // a line of the other lightness around it, so that it is seen on any picture
      context.globalAlpha = view.state.opacity * (0.45 + 0.55 * level);
      for (const [stroke, wide] of [[inkOn(colour), line + 2 * pixel], [rgb(colour), line]]) {
        context.strokeStyle = stroke;
        context.lineWidth = wide;
        context.strokeRect(x + edge / 2, y + edge / 2, w - edge, h - edge);
      }
      context.globalAlpha = 1;
    }
    if (view.state.numbers) writeShare(context, percent(view.mainScale.shares[k]), x, y, w, h, heat && level > 0.35 ? inkOn(colour) : null);
  }
  for (const [k, style] of [[view.lit, "solid"], [view.pinned, "solid"], [view.cursor, "dashed"]])
    if (k !== null && k !== undefined && trace.inputs[k].panel === panel)
      mark(context, cellFrame(trace.inputs[k].box, zoom), style, view.pixel ?? 1);
}

function fill(context, canvas, colour, alpha) {
  context.globalAlpha = alpha;
  context.fillStyle = colour;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.globalAlpha = 1;
}

/** A cell in its own colours: the stronger it is, the less of it is hidden. */
function drawCell(context, picture, canvas, [x, y, w, h], strength) {
  const [across, down] = [picture.naturalWidth / canvas.width, picture.naturalHeight / canvas.height];
  context.globalAlpha = strength;
  context.drawImage(picture, x * across, y * down, w * across, h * down, x, y, w, h);
  context.globalAlpha = 1;
}

/** Whole pixels, so that neighbours neither overlap nor leave a gap. */
export function cellFrame([left, top, right, bottom], zoom) {
  const [x, y] = [Math.round(left * zoom), Math.round(top * zoom)];
  return [x, y, Math.round(right * zoom) - x, Math.round(bottom * zoom) - y];
}

const strongestFloor = (shares) =>
  Float64Array.from(shares).sort().reverse()[Math.max(0, Math.round(OUTLINED * shares.length) - 1)];

/** Two lines, a dark one inside a light one, visible on any picture. */
function mark(context, [x, y, w, h], style, pixel) {
  context.setLineDash(style === "dashed" ? [4 * pixel, 3 * pixel] : []);
  for (const [colour, line] of [[MARK.dark, 4.5 * pixel], [MARK.light, 2 * pixel]]) {
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.strokeRect(x, y, w, h);
  }
  context.setLineDash([]);
}

function writeShare(context, text, x, y, w, h, ink) {
  const size = Math.min(h * 0.3, (w / text.length) * 1.15, 22);
  if (size < 7 || text.startsWith("<")) return;
  context.font = `600 ${size}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  if (!ink) {
    context.strokeStyle = "rgba(255,255,255,.85)";
    context.lineWidth = size / 4;
    context.strokeText(text, x + w / 2, y + h / 2);
  }
  context.fillStyle = ink ?? "#1f1a24";
  context.fillText(text, x + w / 2, y + h / 2);
}

/** Total share of all patches of a panel. */
const panelShare = (trace, shares, panel) =>
  trace.inputs.reduce((sum, item, k) => sum + (item.panel === panel ? Math.abs(shares[k]) : 0), 0);

/** Where a panel's patch is on the screen: its middle, in pixels of the window. */
export function patchMiddle(trace, k) {
  const item = trace.inputs[k];
  const frame = element(`panel-${item.panel}`).getBoundingClientRect();
  const [wide, high] = trace.panels[item.panel].size;
  const [left, top, right, bottom] = item.box;
  return [
    frame.left + ((left + right) / 2 / wide) * frame.width,
    frame.top + ((top + bottom) / 2 / high) * frame.height,
  ];
}

/** The panels; `act` is {light(k or null), pin(k), describe(k)}. Returns how to paint a view on them. */
export function showPictures(trace, pictures, act) {
  const panels = trace.panels.map((panel, index) => {
    const canvas = make("canvas", { id: `panel-${index}`, tabIndex: 0, className: panel.view ? "thumbnail" : "" });
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-roledescription", "grid of patches");
    canvas.setAttribute("aria-label", `${panel.title || "Picture"}: arrow keys move between patches, Enter follows one`);
    listenToPatches(canvas, trace, index, act);
    const figure = make("figure", {}, canvas);
    figure.style.setProperty("--aspect", String(panel.size[0] / panel.size[1])); // how large it can be on the screen
    element("pictures").append(figure);
    return canvas;
  });
  const captions = panels.length < 2 ? [] : panels.map((canvas) => make("figcaption", { className: "faint small" }));
  captions.forEach((caption, index) => panels[index].after(caption));
  element("pictures").className = panels.length > 1 ? "several" : "";
  let last = null;
  const paint = (view) => {
    last = view;
    const pixel = window.devicePixelRatio || 1;
    captions.forEach((caption, index) => {
      caption.textContent = `${trace.panels[index].title || "picture"}: ${percent(panelShare(trace, view.mainScale.shares, index))}`;
    });
    panels.forEach((canvas, index) => {
      const width = Math.max(1, canvas.clientWidth * pixel);
      const cursor = canvas.matches(":focus-visible") ? canvas.cursor : null;
      paintPanel(canvas, trace, pictures, index, { ...view, cursor, pixel, dark: isDark() }, width);
    });
  };
  const again = () => last && paint(last);
  new ResizeObserver(again).observe(element("pictures"));
  panels.forEach((canvas) => canvas.addEventListener("blur", again));
  return paint;
}

/** Pointer and keys on the patches of a panel; `act` as above. */
export function listenToPatches(canvas, trace, index, act) {
  const under = (event) => {
    const frame = canvas.getBoundingClientRect();
    const [wide, high] = trace.panels[index].size;
    const x = ((event.clientX - frame.left) / frame.width) * wide;
    const y = ((event.clientY - frame.top) / frame.height) * high;
    const found = trace.inputs.findIndex(
      ({ panel, box }) => panel === index && box[0] <= x && x < box[2] && box[1] <= y && y < box[3],
    );
    return found < 0 ? null : found;
  };
  let lit = null;
  canvas.addEventListener("pointermove", (event) => {
    const found = under(event);
    if (found !== lit && event.pointerType !== "touch") act.light(found);
    lit = found;
    showTip(found === null ? null : act.describe(found), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => {
    lit = null;
    act.light(null);
    showTip(null);
  });
  canvas.addEventListener("click", (event) => {
    const found = under(event);
    if (found === null) return;
    canvas.cursor = found; // where the arrow keys continue
    showTip(null);
    act.pin(found);
  });
  const cells = trace.inputs.flatMap((item, k) => (item.panel === index ? [k] : []));
  canvas.cursor = cells[0] ?? null;
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && act.light(canvas.cursor));
  canvas.addEventListener("blur", () => act.light(null));
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  canvas.addEventListener("keydown", (event) => {
    if (canvas.cursor === null) return;
    if (event.key === "Enter" || event.key === " ") act.pin(canvas.cursor);
    else if (steps[event.key]) {
      const [down, right] = steps[event.key];
      const { row, column } = trace.inputs[canvas.cursor];
      const next = cells.find((k) => trace.inputs[k].row === row + down && trace.inputs[k].column === column + right);
      if (next === undefined) return event.preventDefault();
      canvas.cursor = next;
      act.light(next, true);
    } else return;
    event.preventDefault();
  });
}
