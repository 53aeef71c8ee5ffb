// Regions on the pictures and in a list: those that came with the file, and those that the reader draws.
import { element, make } from "./dom.js";
import { onDrag } from "./dragging.js";
import { boxRegion, findRegion, regionNotes, regionShare } from "./regions.js";
import { colourOf, percent, rgb } from "./scale.js";

/** `update({regions})` changes the reader's own. Returns how to show a view: all regions, with their shares. */
export function showRegions(trace, state, update) {
  const layers = trace.panels.map((panel, index) => layerOf(panel, element(`panel-${index}`)));
  let listed = []; // what the list shows
  let drawn = null; // the region that was just drawn, and now gets its name

  element("regions").hidden = !trace.regions.length && trace.panels.every((panel) => panel.image === null);
  trace.panels.forEach((panel, index) => {
    if (panel.image === null || panel.view) return;
    drawBoxes(panel, element(`panel-${index}`), (box) => {
      drawn = boxRegion(trace, freshName(trace, state.regions), box, panel.image);
      update({ regions: [...state.regions, drawn] });
    });
  });

  element("region-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const problem = element("region-problem");
    problem.hidden = true;
    try {
      update({ regions: [...state.regions, findRegion(trace, element("region-text").value)] });
      element("region-text").value = "";
    } catch (error) {
      problem.hidden = false;
      problem.textContent = `${error.message}.`;
    }
  });

  return (view) => {
    const all = regionsOf(trace, view);
    const shares = all.map((region) => regionShare(region, view.main.scores));
    layers.forEach((layer, index) => layer.replaceChildren(...boxesOf(trace, index, all, shares)));
    if (all.length !== listed.length || all.some((region, k) => region !== listed[k])) {
      element("region-list").replaceChildren(...all.map(rowOf));
      element("region-notes").textContent = regionNotes(all).join(" ");
    }
    listed = all;
    [...element("region-list").children].forEach((row, k) => fillRow(row, shares[k], view));
    if (drawn) element("region-list").lastChild.querySelector("input").select();
    drawn = null;
  };

  function rowOf(region) {
    const own = state.regions.indexOf(region);
    const name = own < 0 ? make("span", { className: "region-name" }, region.name) : nameField(own);
    const strip = make("span", { className: "strip" }, make("i"));
    return make("li", {}, name, strip, make("span", { className: "n" }), own < 0 ? "" : removal(own));
  }

  function nameField(own) {
    const field = make("input", { type: "text", value: state.regions[own].name, className: "region-name", spellcheck: false });
    field.setAttribute("aria-label", "Name of the region");
    field.addEventListener("change", () => {
      const name = field.value.trim() || state.regions[own].name;
      update({ regions: state.regions.map((region, k) => (k === own ? { ...region, name } : region)) });
    });
    field.addEventListener("keydown", (event) => event.key === "Enter" && field.blur());
    return field;
  }

  function removal(own) {
    const button = make("button", { type: "button", className: "remove" }, "×");
    button.setAttribute("aria-label", `Remove ${state.regions[own].name}`);
    button.addEventListener("click", () => update({ regions: state.regions.filter((_, k) => k !== own) }));
    return button;
  }
}

/** All regions of a view. Merged evidence belongs to the target and the method that it was found for. */
function regionsOf(trace, view) {
  const exported = view.state.method === 0 && view.target.name === trace.target.name;
  return [...trace.regions.filter((region) => region.kind !== "evidence" || exported), ...view.state.regions];
}

/** Draw the regions of a view on a canvas with a panel, for figures. */
export function strokeRegions(canvas, trace, index, view, pixel) {
  const { image, size, view: thumbnail } = trace.panels[index];
  const context = canvas.getContext("2d");
  context.font = `600 ${12 * pixel}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const region of thumbnail || image === null ? [] : regionsOf(trace, view)) {
    if (!region.box || region.image !== image) continue;
    const [left, top, right, bottom] = region.box.map((value) => (value * canvas.width) / size[0]);
    for (const [colour, line] of [["#1f1a24", 4 * pixel], ["#ffffff", 2 * pixel]]) {
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.strokeRect(left, top, right - left, bottom - top);
    }
    const name = `${region.name} ${percent(regionShare(region, view.main.scores))}`;
    const above = top > 20 * pixel ? top - 20 * pixel : top + 3 * pixel;
    context.fillStyle = "#1f1a24";
    context.fillRect(left, above, context.measureText(name).width + 12 * pixel, 18 * pixel);
    context.fillStyle = "#ffffff";
    context.fillText(name, left + 6 * pixel, above + 9 * pixel);
  }
}

function fillRow(row, share, view) {
  const bar = row.querySelector("i");
  bar.style.width = `${Math.min(100, Math.max(0, 100 * share))}%`;
  bar.style.backgroundColor = rgb(colourOf(view.stops, 0.7));
  row.querySelector(".n").textContent = percent(share);
}

function freshName(trace, drawn) {
  const names = new Set([...trace.regions, ...drawn].map((region) => region.name));
  let number = 1;
  while (names.has(`region ${number}`)) number++;
  return `region ${number}`;
}

/** A layer over a canvas, in which boxes are placed by per cent. */
function layerOf(panel, canvas) {
  const layer = make("div", { className: `layer ${canvas.className}` });
  layer.style.aspectRatio = `${panel.size[0]} / ${panel.size[1]}`;
  canvas.after(layer);
  return layer;
}

/** Let the reader draw boxes on a panel; `done(box)` receives each. */
export function drawBoxes(panel, canvas, done) {
  const band = make("div", { className: "region band", hidden: true });
  layerOf(panel, canvas).append(band);
  const moving = (box) => {
    band.hidden = !box;
    if (box) putBox(band, box, panel.size);
  };
  onDrag(canvas, panel.size, { moving, done });
}

function boxesOf(trace, index, regions, shares) {
  const { image, size, view } = trace.panels[index];
  if (view || image === null) return [];
  return regions.flatMap((region, k) => {
    if (!region.box || region.image !== image) return [];
    const box = make("div", { className: `region ${region.kind}` }, make("span", {}, `${region.name} ${percent(shares[k])}`));
    putBox(box, region.box, size);
    box.classList.toggle("low", region.box[1] < size[1] / 12); // its name has no room above it
    return [box];
  });
}

function putBox(node, [left, top, right, bottom], [wide, high]) {
  node.style.left = `${(100 * left) / wide}%`;
  node.style.width = `${(100 * (right - left)) / wide}%`;
  node.style.top = `${(100 * top) / high}%`;
  node.style.height = `${(100 * (bottom - top)) / high}%`;
}
