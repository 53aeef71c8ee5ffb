// Question and response with shaded words, and all ways of choosing a word.
import { element, make, showTip } from "./dom.js";
import { colourOf, inkOn, percent, rgb, shareOf } from "./scale.js";

const FAINTEST = 0.02; // strength below which a word is not shaded

/** Colour a word by a strength between 0 and 1. */
export function shade(span, stops, strength) {
  const shown = strength > FAINTEST;
  const colour = colourOf(stops, strength);
  span.style.backgroundColor = shown ? rgb(colour) : "";
  span.style.color = shown ? inkOn(colour) : "";
}

/** Spans of the shown words of a kind, with the blanks between them. */
export function spansOf(trace, kind, into) {
  const spans = new Map();
  for (const word of trace.words) {
    if (word.kind !== kind || !word.shown) continue;
    const span = make("span", { className: "w" }, word.text);
    spans.set(word, span);
    into.append(spans.size > 1 ? word.before : "", span, word.after);
  }
  return spans;
}

/** Question words are inputs: hover to highlight one, click to follow it. */
export function showQuestion(trace, act) {
  const spans = spansOf(trace, "q", element("question"));
  for (const [word, span] of spans) {
    const k = trace.inputAt[word.start];
    span.tabIndex = 0;
    span.setAttribute("role", "button");
    span.addEventListener("pointerenter", (event) => {
      if (event.pointerType !== "touch") act.light(k);
      showTip(act.describe(k), event.clientX, event.clientY);
    });
    span.addEventListener("pointerleave", () => {
      act.light(null);
      showTip(null);
    });
    span.addEventListener("focus", () => span.matches(":focus-visible") && act.light(k));
    span.addEventListener("blur", () => act.light(null));
    span.addEventListener("click", () => act.pin(k));
    span.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      act.pin(k);
    });
  }
  const paint = (view) => {
    for (const [word, span] of spans) {
      const k = trace.inputAt[word.start];
      const share = view.mainScale.shares[k];
      shade(span, view.stops, share < view.mainScale.floor ? 0 : share / view.mainScale.full);
      span.classList.toggle("marked", k === view.lit || k === view.pinned);
      span.setAttribute("aria-label", `${word.text}, ${percent(share)} of all inputs`);
      span.setAttribute("aria-pressed", k === view.pinned);
    }
  };
  return { paint, spans };
}

/** Response words are targets: `act` is {choose(words), preview(word or null), sentence(word)}. */
export function showResponse(trace, act) {
  const box = element("response");
  const spans = spansOf(trace, "r", box);
  const words = [...spans.keys()];
  const all = [...spans.values()];
  let anchor = null; // word where a drag or a selection with Shift began
  let dragging = false;
  let cursor = 0;
  const indexOf = (target) => all.indexOf(target.closest?.(".w"));
  const run = (to) => words.slice(Math.min(anchor, to), Math.max(anchor, to) + 1);
  const outline = (chosen) => all.forEach((span, k) => span.classList.toggle("dragged", chosen.includes(words[k])));
  const moveTo = (k) => {
    all[cursor].tabIndex = -1;
    cursor = Math.min(Math.max(k, 0), all.length - 1);
    all[cursor].tabIndex = 0;
    all[cursor].focus();
  };
  all.forEach((span, k) => {
    span.setAttribute("role", "option");
    span.tabIndex = k ? -1 : 0;
  });
  box.addEventListener("pointerdown", (event) => {
    const k = indexOf(event.target);
    if (k < 0 || event.button) return;
    if (!event.shiftKey || anchor === null) anchor = k;
    dragging = event.pointerType !== "touch";
    outline(run(k));
  });
  box.addEventListener("pointermove", (event) => {
    const k = indexOf(event.target);
    if (dragging && k >= 0) outline(run(k));
  });
  box.addEventListener("pointerover", (event) => {
    const k = indexOf(event.target);
    if (k < 0 || dragging || event.pointerType === "touch") return;
    act.preview(words[k]);
    showTip(act.describeWord(words[k]), event.clientX, event.clientY);
  });
  box.addEventListener("pointerleave", () => {
    act.preview(null);
    showTip(null);
  });
  addEventListener("pointerup", (event) => {
    if (anchor === null || !all.some((span) => span.classList.contains("dragged"))) return;
    const chosen = words.filter((_, k) => all[k].classList.contains("dragged"));
    dragging = false;
    outline([]);
    if (!box.contains(event.target) && chosen.length < 2) return;
    cursor = words.indexOf(chosen.at(-1));
    act.choose(chosen);
  });
  box.addEventListener("dblclick", (event) => indexOf(event.target) >= 0 && act.sentence(words[indexOf(event.target)]));
  box.addEventListener("focusin", (event) => {
    const k = indexOf(event.target);
    if (k >= 0 && all[k].matches(":focus-visible")) act.preview(words[k]);
  });
  box.addEventListener("focusout", () => act.preview(null));
  box.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -8, ArrowDown: 8, Home: -all.length, End: all.length };
    if (event.key in steps) {
      const from = cursor;
      moveTo(cursor + steps[event.key]);
      if (event.shiftKey) {
        anchor ??= from;
        act.choose(run(cursor));
      } else anchor = null;
    } else if (event.key === "Enter" || event.key === " ") {
      anchor = cursor;
      act.choose([words[cursor]]);
    } else return;
    event.preventDefault();
  });
  const paint = (view) => {
    const targeted = new Set(view.target.positions);
    const most = view.support ? Math.max(...view.support, 1e-300) : 0;
    words.forEach((word, k) => {
      const share = view.support ? view.support[k] : shareOf(view.main.scores, word.start, word.stop);
      shade(all[k], view.stops, view.support ? share / most : share / view.mainScale.full);
      let chosen = false;
      for (let p = word.start; p < word.stop; p++) chosen ||= targeted.has(p);
      all[k].classList.toggle("target", chosen);
      all[k].setAttribute("aria-selected", chosen);
      all[k].setAttribute("aria-label", `${word.text}, ${percent(share)}`);
    });
  };
  return { paint, spans };
}
