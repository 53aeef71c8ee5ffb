// Sliders, buttons and keys. Each turns an action of the reader into a change of the state.
import { element, make } from "./dom.js";
import { findTarget } from "./targets.js";
import { beginning, gammaOf, lengthOf } from "./state.js";
import { listenToTheme } from "./theme.js";

const KEYS = [
  ["Tab", "next part of the page"],
  ["← → ↑ ↓", "in the response: next word; on a picture: next patch"],
  ["Enter", "explain the word; follow the patch"],
  ["Shift + ← →", "explain a phrase"],
  ["A, R", "explain the answer; the whole response"],
  ["[ and ]", "previous and next sentence"],
  ["M", "next method"],
  ["O", "heat or outline"],
  ["C", "calibrated or not"],
  ["Esc", "clear the selection; then explain the whole response"],
];

/** `update(changes)` changes the state. Returns how to show the state on the controls. */
export function showControls(trace, state, update) {
  const lengths = pathLengths(trace);
  const on = (id, event, action) => element(id).addEventListener(event, action);
  const say = (action) => {
    try {
      element("problem").hidden = true;
      action();
    } catch (error) {
      element("problem").hidden = false;
      element("problem").textContent = `${error.message}.`;
    }
  };
  const aim = (words) => say(() => update({ target: findTarget(trace, words) }));
  const step = (by) => {
    const names = sentencesOf(trace).map((target) => target.name);
    if (!names.length) return;
    const now = names.indexOf(state.target.name);
    aim(names[now < 0 ? (by > 0 ? 0 : names.length - 1) : (now + by + names.length) % names.length]);
  };

  element("hops").max = lengths.length - 1;
  element("gamma").max = Math.max(1.5, ...trace.methods.map((method) => method.options.gamma ?? 0));
  on("hops", "input", (event) => update({ hops: lengths[event.target.value] }));
  on("gamma", "input", (event) => update({ gamma: Number(event.target.value) }));
  on("strongest", "input", (event) => update({ strongest: event.target.value / 100 }));
  on("opacity", "input", (event) => update({ opacity: event.target.value / 100 }));
  on("numbers", "change", (event) => update({ numbers: event.target.checked }));
  on("calibrated", "change", (event) => update({ calibrated: event.target.checked }));
  on("calibrate-on", "change", (event) => update({ calibrateOn: event.target.value }));
  document.getElementsByName("look").forEach((radio) => radio.addEventListener("change", () => update({ look: radio.value })));
  on("reset", "click", () => update({ ...beginning(trace), target: state.target, method: state.method, regions: state.regions }));
  on("method", "change", (event) => update({ method: Number(event.target.value), pinned: state.pinned }));
  on("sentence", "change", (event) => event.target.value && aim(event.target.value));
  on("find", "submit", (event) => {
    event.preventDefault();
    const text = element("target-text").value.trim();
    const plain = text && !/^(["'“‘/]|tokens? |sentence |response$|answer$|reasoning$)/.test(text);
    aim(plain ? `"${text}"` : text);
  });
  listenToTheme(() => update({}));
  on("help", "click", () => element("keys").showModal());
  element("key-list").append(...KEYS.flatMap(([key, what]) => [make("dt", {}, key), make("dd", {}, what)]));

  const names = trace.targets.filter((target) => !target.name.startsWith("sentence "));
  const buttons = names.map((target) => {
    const title = { response: "Whole response", reasoning: "Reasoning", answer: "Answer" }[target.name];
    const button = make("button", { type: "button" }, title);
    button.addEventListener("click", () => aim(target.name));
    return [target, button];
  });
  element("target-buttons").append(...buttons.map(([, button]) => button));
  element("sentence").append(
    make("option", { value: "" }, "Sentence…"),
    ...sentencesOf(trace).map((target) => make("option", { value: target.name }, `${target.name.slice(9)}: ${excerpt(trace, target)}`)),
  );
  element("method").append(...trace.methods.map((method, k) => make("option", { value: String(k) }, method.label)));
  element("method-choice").hidden = trace.methods.length < 2;

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || element("keys").open) return;
    if (/^(text|number)$/.test(event.target.type) || event.target.tagName === "SELECT") return;
    const actions = {
      a: () => aim("answer"),
      r: () => aim("response"),
      "[": () => step(-1),
      "]": () => step(1),
      m: () => update({ method: (state.method + 1) % trace.methods.length }),
      o: () => update({ look: state.look === "heat" ? "outline" : "heat" }),
      c: () => update({ calibrated: !state.calibrated }),
      "?": () => element("keys").showModal(),
      Escape: () => (state.pinned === null ? aim("response") : update({ pinned: null })),
    };
    actions[event.key.length === 1 ? event.key.toLowerCase() : event.key]?.();
  });

  return (view) => {
    const { method } = view;
    const hops = lengthOf(state, method);
    const known = lengths.indexOf(hops);
    const gamma = gammaOf(state, method);
    set("hops", known < 0 ? lengths.length - 1 : known, lengthWords(hops), !method.matrix);
    set("gamma", gamma, gamma.toFixed(2), !method.matrix);
    set("strongest", 100 * state.strongest, state.strongest === 1 ? "100%" : `${Math.round(100 * state.strongest)}%`, false);
    set("opacity", 100 * state.opacity, `${Math.round(100 * state.opacity)}%`, false);
    element("numbers").checked = state.numbers;
    element("calibrated").checked = state.calibrated && view.canCalibrate;
    element("calibrated").disabled = !view.canCalibrate;
    element("calibrate-on").value = view.calibratedOn ?? "target";
    element("calibrate-on").disabled = !view.canCalibrate || !state.calibrated || !method.matrix;
    document.getElementsByName("look").forEach((radio) => (radio.checked = radio.value === state.look));
    element("method").value = String(state.method);
    for (const [target, button] of buttons) button.setAttribute("aria-pressed", target.name === state.target.name);
    element("sentence").value = state.target.name.startsWith("sentence ") ? state.target.name : "";
  };
}

function set(id, value, words, disabled) {
  element(id).value = value;
  element(id).disabled = disabled;
  element(id).setAttribute("aria-valuetext", words);
  element(`${id}-value`).textContent = disabled ? "–" : words;
}

/** Stops of the slider: direct edges, 1 to 8 hops (or as many as a method was run with), all. */
function pathLengths(trace) {
  const most = Math.max(8, ...trace.methods.map((method) => method.options.hops ?? 0));
  return ["direct", ...Array.from({ length: most }, (_, k) => k + 1), "all"];
}

function lengthWords(hops) {
  if (hops === "all") return "all";
  if (hops === "direct") return "direct edges only";
  return hops === 1 ? "1 hop" : `up to ${hops} hops`;
}

const sentencesOf = (trace) => trace.targets.filter((target) => target.name.startsWith("sentence "));

function excerpt(trace, target) {
  const text = target.positions.map((position) => trace.response.slice(...trace.offsets[position - trace.promptLength])).join("").trim();
  return text.length > 48 ? `${text.slice(0, 45)}…` : text;
}
