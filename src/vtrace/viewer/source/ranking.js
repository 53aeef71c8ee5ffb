// The balance of image and question, the legend, and the ranking of patches and words.
import { calibrationDetails, calibrationSentence } from "./calibrate.js";
import { sizeOf } from "./attribution.js";
import { nodeOfItem } from "./crops.js";
import { element, make } from "./dom.js";
import { colourOf, percent, rankingOf, rgb } from "./scale.js";

const LISTED = 12;
const LEFT_OUT = "Shown without calibration: image and question scores are not on the same scale.";

export function showBalance(trace, view) {
  const [image, text] = [trace.image, trace.question].map((places) => sizeOf(view.main.scores, places));
  element("image-share").textContent = `image ${percent(image)}`;
  element("text-share").textContent = `question ${percent(text)}`;
  const bar = element("balance");
  bar.setAttribute("aria-label", `image ${percent(image)}, question ${percent(text)}`);
  bar.children[0].style.width = `${100 * image}%`;
  bar.children[1].style.width = `${100 * text}%`;
  bar.children[0].style.backgroundColor = rgb(colourOf(view.stops, 0.8));
  bar.children[1].style.backgroundColor = rgb(colourOf(view.stops, 0.35));
  const left = view.canCalibrate && !view.state.calibrated;
  const { calibration } = view.main;
  const details = left ? "" : calibrationDetails(calibration);
  element("calibration").textContent = left ? LEFT_OUT : calibrationSentence(calibration, view.calibratedOn);
  element("calibration-details").textContent = details;
  element("calibration-details").parentElement.hidden = !details;
}

export function showLegend(trace, view) {
  const stops = view.stops.map((stop) => rgb(stop)).join(",");
  element("legend").querySelector(".ramp").style.backgroundImage = `linear-gradient(90deg,${stops})`;
  const negative = view.mainScale.shares.some((share) => share < 0);
  element("legend-label").textContent =
    `share of all inputs for ${view.title}` + (negative ? "; negative shares are not shaded" : "");
  element("legend-full").textContent = `${percent(view.mainScale.full)} or more`;
}

/** The table; `act` is {light(k or null), pin(k)}. */
export function showRanking(trace, pictures, view, act) {
  element("ranking-title").textContent = `Strongest inputs for ${view.title}`;
  const order = rankingOf(view.mainScale.shares).slice(0, LISTED);
  const full = view.mainScale.shares[order[0]] || 1;
  const rows = order.map((k, rank) => {
    const share = view.mainScale.shares[k];
    const level = Math.max(0, share / full);
    const bar = make("i");
    bar.style.width = `${Math.round(100 * level)}%`;
    bar.style.backgroundColor = rgb(colourOf(view.stops, 0.25 + 0.6 * level));
    const button = make("button", { type: "button", className: "plain", title: "Follow its paths" }, nodeOfItem(trace, pictures, k));
    button.setAttribute("aria-label", trace.inputs[k].label);
    button.setAttribute("aria-pressed", k === view.pinned);
    button.addEventListener("click", () => act.pin(k));
    const row = make(
      "tr",
      { className: k === view.pinned ? "pinned" : "" },
      make("td", { className: "n faint" }, String(rank + 1)),
      make("td", {}, button),
      make("td", { className: "n" }, percent(share)),
      make("td", { className: "strip" }, bar),
    );
    row.addEventListener("pointerenter", () => act.light(k));
    row.addEventListener("pointerleave", () => act.light(null));
    return row;
  });
  element("ranking").tBodies[0].replaceChildren(...rows);
}
