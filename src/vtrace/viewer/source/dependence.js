// Visual dependence: by how many nats the image raises the log-likelihood of every response word.
import { draw, element, make, showTip } from "./dom.js";
import { colourOf, rgb } from "./scale.js";

const [HEIGHT, BELOW] = [34, 8]; // of the bars, in units of the drawing; below the line for words the image makes less likely
const NAMED = 3; // words that are written above their bars
const APART = 0.14; // of the width, between two of them

/** Nats of every shown response word; null if the image was never hidden. */
export function wordDependence(trace, method) {
  if (!method.likelihoods || !trace.image.length) return null;
  const [clean, without] = method.likelihoods;
  return trace.said.map(({ start, stop }) => {
    let nats = 0;
    for (let p = start - trace.promptLength; p < stop - trace.promptLength; p++) nats += clean[p] - without[p];
    return Number.isFinite(nats) ? nats : 0; // a padded pass can give no likelihood at all
  });
}

/** The strip; `act` is {preview(word or null), choose(words)}. Returns how to show a view. */
export function showDependence(trace, act, spans) {
  const box = element("dependence");
  const labels = make("div", { className: "dependence-names" });
  const strip = draw("svg", { viewBox: `0 0 ${trace.said.length} ${HEIGHT + BELOW}`, preserveAspectRatio: "none", role: "img" });
  box.append(make("h3", {}, "What the image adds to each word"), labels, strip, make("p", { className: "faint small" }));
  let shown = null;
  const at = (event) => {
    const frame = strip.getBoundingClientRect();
    return Math.min(trace.said.length - 1, Math.max(0, Math.floor(((event.clientX - frame.left) / frame.width) * trace.said.length)));
  };
  let lit = null;
  const light = (k) => {
    if (lit !== null) spans.get(trace.said[lit]).classList.remove("marked");
    lit = k;
    if (k !== null) spans.get(trace.said[k]).classList.add("marked");
  };
  strip.addEventListener("pointermove", (event) => {
    const k = at(event);
    if (k !== lit) light(k);
    showTip(dependenceLines(trace.said[k], shown[k]), event.clientX, event.clientY);
  });
  strip.addEventListener("pointerleave", () => {
    light(null);
    showTip(null);
  });
  strip.addEventListener("click", (event) => act.choose([trace.said[at(event)]]));

  return (view) => {
    const nats = wordDependence(trace, view.method) ?? trace.methods.map((method) => wordDependence(trace, method)).find(Boolean);
    box.hidden = !nats;
    if (!nats) return;
    shown = nats;
    const most = Math.max(1, ...nats);
    const targeted = new Set(view.target.positions);
    const bars = nats.map((value, k) => {
      const size = value > 0 ? (value / most) * HEIGHT : Math.min(BELOW, (-value / most) * HEIGHT);
      const colour = value > 0 ? rgb(colourOf(view.stops, 0.3 + (0.6 * value) / most)) : "var(--against)";
      return draw("rect", { x: k + 0.08, y: value > 0 ? HEIGHT - size : HEIGHT, width: 0.84, height: Math.max(0.5, size), fill: colour, class: "nats" });
    });
    const chosen = trace.said.flatMap((word, k) => (targeted.has(word.start) ? [draw("rect", { x: k, y: HEIGHT + BELOW - 2, width: 1, height: 2, class: "chosen" })] : []));
    strip.replaceChildren(draw("rect", { x: 0, y: HEIGHT - 0.25, width: nats.length, height: 0.5, class: "line" }), ...bars, ...chosen);
    labels.replaceChildren(...namesAbove(trace, nats));
    const best = nats.indexOf(Math.max(...nats));
    strip.setAttribute("aria-label", `Visual dependence: highest for “${trace.said[best].text}”, ${nats[best].toFixed(1)} nats`);
    box.lastChild.textContent = `Log-likelihood of the word with the image minus without it; at most ${nats[best].toFixed(1)} nats, which is ${timesLikelier(nats[best])}.`;
  };
}

/** The words with the tallest bars, if they do not cover each other. */
function namesAbove(trace, nats) {
  const chosen = [];
  for (const k of nats.map((_, k) => k).sort((a, b) => nats[b] - nats[a])) {
    if (chosen.length >= NAMED || nats[k] < 0.5) break;
    if (chosen.every((other) => Math.abs(other - k) / nats.length > APART)) chosen.push(k);
  }
  return chosen.map((k) => {
    const name = make("span", {}, trace.said[k].text);
    const place = (k + 0.5) / nats.length;
    name.style.left = `${100 * place}%`;
    name.style.transform = `translateX(${place < 0.1 ? 0 : place > 0.9 ? -100 : -50}%)`;
    return name;
  });
}

/** A word's dependence in a tip. */
export function dependenceLines(word, nats) {
  const effect = nats >= 0 ? `the image makes it ${timesLikelier(nats)}` : `the image makes it ${timesLikelier(-nats).replace("likelier", "less likely")}`;
  return [`“${word.text}” · ${nats.toFixed(1)} nats`, Math.abs(nats) < 0.05 ? "the image makes no difference to it" : effect];
}

/** e to the power of so many nats, in words. */
export function timesLikelier(nats) {
  const factor = Math.exp(nats);
  if (factor >= 1e15) return `10^${Math.round(nats / Math.LN10)} times likelier`;
  const style = { notation: factor >= 1e6 ? "compact" : "standard", compactDisplay: "long", maximumSignificantDigits: 2 };
  return `${new Intl.NumberFormat("en", style).format(factor)} times likelier`;
}
