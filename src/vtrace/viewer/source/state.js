// The page's data (the trace), the reader's choices (the state), and the link that encodes them.
import { decodeMatrix, decodeScores } from "./quantised.js";
import { findTarget, tokenWords } from "./targets.js";
import { findRegion, regionWords } from "./regions.js";
import { ownHops } from "./attribution.js";

/** The exported document in the form that the rest of the page works with. */
export async function prepare(data) {
  const matrices = await Promise.all(data.matrices.map(decodeMatrix));
  const places = (letter) => [...data.kinds].flatMap((kind, position) => (kind === letter ? [position] : []));
  const words = data.words.map(([kind, start, stop, text, before, after]) => ({
    kind, start, stop, text, before, after, shown: before !== undefined,
  })); // prettier-ignore
  const wordAt = new Array(data.kinds.length).fill(null);
  for (const word of words) for (let p = word.start; p < word.stop; p++) wordAt[p] = word;
  const inputAt = new Array(data.kinds.length).fill(-1);
  data.inputs.forEach((item, k) => {
    for (let p = item.start; p < item.stop; p++) inputAt[p] = k;
  });
  const methods = data.methods.map((method) => ({
    ...method,
    matrix: method.matrix === null ? null : matrices[method.matrix],
    likelihoods: method.likelihoods?.map((row) => row.map((value) => value ?? NaN)), // JSON has no infinity
    exported: method.exported.map((one) => ({
      ...one,
      scores: decodeScores(one.scores, one.bits),
      calibration: {
        ...one.calibration,
        imageDamage: one.calibration.image_damage,
        textDamage: one.calibration.text_damage,
        jointDamage: one.calibration.joint_damage,
      },
    })),
  }));
  return {
    ...data,
    words,
    wordAt,
    inputAt,
    methods,
    image: places("i"),
    question: places("q"),
    isImage: [...data.kinds].map((kind) => kind === "i"),
    tokens: data.kinds.length - data.promptLength,
    said: words.filter((word) => word.shown && word.kind === "r"),
  };
}

const range = (start, stop) => Array.from({ length: stop - start }, (_, k) => start + k);

export const positionsOf = (item) => range(item.start, item.stop);

/** The initial state, which "Reset" restores. */
export function beginning(trace) {
  return {
    target: trace.target, method: 0, gamma: null, hops: null, calibrated: true, calibrateOn: null, look: "outline",
    numbers: false, opacity: 1, strongest: 1, pinned: null, regions: [],
  }; // prettier-ignore
}

/** A patch or a question word in a sentence. */
export const nameOfItem = (item) => (item.panel === undefined ? `“${item.label}”` : item.label);

/** A target in a sentence: the words it covers, or its name. */
export function targetTitle(trace, target) {
  const spoken = { response: "the whole response", answer: "the answer", reasoning: "the reasoning" };
  if (!target.name.startsWith("tokens ")) return spoken[target.name] ?? target.name;
  const chosen = new Set(target.positions);
  const text = trace.said
    .filter((word) => positionsOf(word).some((position) => chosen.has(position)))
    .map((word, k) => (k ? word.before : "") + word.text + word.after)
    .join("")
    .trim();
  if (!text) return target.name;
  return `“${text.length > 60 ? text.slice(0, 57) + "…" : text}”`;
}

/** The state as the part of the address after #, without default values. */
export function linkOf(trace, state) {
  const first = beginning(trace);
  const known = trace.targets.find((target) => target.name === state.target.name);
  const fields = {
    target: state.target === first.target ? null : known ? known.name : tokenWords(trace, state.target.positions),
    method: state.method ? trace.methods[state.method].label : null,
    gamma: state.gamma,
    hops: state.hops,
    calibrated: state.calibrated ? null : "no",
    on: state.calibrateOn,
    look: state.look === first.look ? null : state.look,
    numbers: state.numbers ? "yes" : null,
    opacity: state.opacity === first.opacity ? null : state.opacity,
    strongest: state.strongest === first.strongest ? null : state.strongest,
    input: state.pinned === null ? null : trace.inputs[state.pinned].start,
  };
  const present = Object.entries(fields).filter(([, value]) => value !== null);
  present.push(...state.regions.map((region) => ["region", regionWords(region)]));
  return new URLSearchParams(present.map(([key, value]) => [key, String(value)])).toString();
}

/** The state that a link encodes; throws an Error with one line if it refers to something that does not exist. */
export function stateOf(trace, link) {
  const asked = new URLSearchParams(link);
  const state = beginning(trace);
  const number = (key, low, high) => {
    const value = Number(asked.get(key));
    return asked.has(key) && value >= low && value <= high ? value : null;
  };
  if (asked.has("target")) state.target = findTarget(trace, asked.get("target"));
  state.method = Math.max(0, trace.methods.findIndex((method) => method.label === asked.get("method")));
  state.gamma = number("gamma", 0, 10);
  state.hops = ["all", "direct"].includes(asked.get("hops")) ? asked.get("hops") : number("hops", 1, 100);
  state.calibrated = asked.get("calibrated") !== "no";
  state.calibrateOn = ["target", "response"].includes(asked.get("on")) ? asked.get("on") : null;
  state.look = asked.get("look") === "heat" ? "heat" : "outline";
  state.numbers = asked.get("numbers") === "yes";
  state.opacity = number("opacity", 0, 1) ?? state.opacity;
  state.strongest = number("strongest", 0.01, 1) ?? state.strongest;
  const input = asked.has("input") ? trace.inputAt[Number(asked.get("input"))] : -1;
  state.pinned = input >= 0 ? input : null;
  state.regions = asked.getAll("region").map((words) => findRegion(trace, words));
  return state;
}

/** γ and path length for a method: the reader's, or the method's own. */
export const lengthOf = (state, method) => state.hops ?? ownHops(method.options);
export const gammaOf = (state, method) => state.gamma ?? method.options.gamma ?? 1;
