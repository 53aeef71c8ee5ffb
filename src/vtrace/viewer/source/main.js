// One state, one way through: a change, what follows from it, and what is shown of that.
import { attribute, exportedFor, sizeOf, support } from "./attribution.js";
import { showControls } from "./controls.js";
import { element, isDark, make } from "./dom.js";
import { showBalance, showLegend, showRanking } from "./evidence.js";
import { copyFigure, drawFigure } from "./figure.js";
import { showMethods } from "./methods.js";
import { loadPictures, showPictures } from "./pictures.js";
import { percent, rankingOf, scaleOf } from "./scale.js";
import { beginning, linkOf, nameOfItem, positionsOf, prepare, stateOf, targetTitle } from "./state.js";
import { tokenWords } from "./targets.js";
import { drawWires, followPaths, listPaths } from "./wires.js";
import { showQuestion, showResponse } from "./words.js";

const HINT =
  "Click a word or drag over a phrase to explain it. Point at a patch to see the words it supports; click it to follow its paths.";
const EMPTY = { status: "off", scale: 1 };

async function open() {
  const trace = await prepare(JSON.parse(element("data").textContent));
  const pictures = await loadPictures(trace);
  const state = { ...beginning(trace), preview: null, lit: null };
  let view = null;
  let followed = { key: "", paths: null };

  /** Everything that is shown, from the state. */
  function look() {
    const method = trace.methods[state.method];
    const settings = { gamma: state.gamma, hops: state.hops, calibrated: state.calibrated };
    const nothing = { scores: new Float64Array(trace.kinds.length), calibration: EMPTY, missing: true };
    const cards = trace.methods.map((one, k) => {
      if (k !== state.method && trace.methods.length < 2) return {};
      const result = attribute(trace, one, state.target, settings);
      return { result, scale: result && scaleOf(trace.evidence, result.scores, state.strongest) };
    });
    const main = cards[state.method].result ?? nothing;
    const previewed = state.preview && attribute(trace, method, state.preview, settings);
    const shown = previewed || main;
    const mainScale = cards[state.method].scale ?? scaleOf(trace.evidence, main.scores, state.strongest);
    const lit = state.lit ?? state.pinned;
    const key = JSON.stringify([state.method, state.target.positions, settings, state.pinned]);
    if (key !== followed.key) followed = { key, paths: followPaths(trace, method, state.target, settings, state.pinned) };
    const back = method.options.receivers === "token" ? 0 : 1;
    return {
      state, method, main, mainScale, shown, cards,
      scale: previewed ? scaleOf(trace.evidence, shown.scores, state.strongest) : mainScale,
      stops: isDark() ? trace.darkStops : trace.stops,
      dark: isDark(),
      title: targetTitle(trace, state.target),
      shownTitle: targetTitle(trace, previewed ? state.preview : state.target),
      lit: state.lit,
      pinned: state.pinned,
      support: lit === null ? null : support(trace, method, positionsOf(trace.evidence[lit]), trace.said.map(positionsOf), settings),
      canCalibrate: method.matrix ? Boolean(method.likelihoods) : main.calibration.status === "applied",
      paths: followed.paths,
      predicted: (receiver) => receiver + back,
      predicts: (receiver) => (trace.wordAt[receiver + back] ? `“${trace.wordAt[receiver + back].text}”` : ""),
    }; // prettier-ignore
  }

  /** A glance at something: pictures and words follow, nothing else does. */
  function glance(changes) {
    Object.assign(state, changes);
    view = look();
    paintPictures(view);
    question.paint(view);
    response.paint(view);
    showBalance(trace, view);
    showLegend(trace, view);
    element("hint").textContent = shading();
  }

  /** What the colours of the response say. */
  function shading() {
    if (!view.support) return HINT;
    const item = trace.evidence[state.lit ?? state.pinned];
    const most = Math.max(...view.support);
    return `Words are shaded by how much each relies on ${nameOfItem(item)}: the darkest by ${percent(most)} of its evidence.`;
  }

  /** A choice: everything follows, also the address. */
  function update(changes) {
    glance({ ...changes, lit: null, preview: null });
    showRanking(trace, view, act);
    listPaths(trace, view, act, spans);
    drawWires(trace, view, spans);
    paintCards(view);
    paintControls(view);
    describeMissing();
    const link = linkOf(trace, state);
    history.replaceState(null, "", link ? `#${link}` : location.pathname + location.search);
    element("status").textContent = summary();
  }

  function describeMissing() {
    const problem = element("problem");
    if (!view.main.missing) {
      if (problem.dataset.missing) problem.hidden = true;
      delete problem.dataset.missing;
      return;
    }
    problem.dataset.missing = "yes";
    problem.hidden = false;
    const links = view.method.exported.map((one) => {
      const button = make("button", { type: "button", className: "plain" }, one.name);
      button.addEventListener("click", () => update({ target: { name: one.name, positions: one.positions } }));
      return button;
    });
    problem.replaceChildren(`${view.method.label} keeps no matrix and was not run for ${view.title}. It was for: `, ...links.flatMap((link, k) => (k ? [", ", link] : [link])));
  }

  function summary() {
    const [image, text] = [trace.image, trace.question].map((places) => sizeOf(view.main.scores, places));
    const best = rankingOf(view.mainScale.shares)
      .slice(0, 3)
      .map((k) => `${trace.evidence[k].label} ${percent(view.mainScale.shares[k])}`);
    return `${view.method.label}, ${view.title}: image ${percent(image)}, question ${percent(text)}. Strongest: ${best.join(", ")}.`;
  }

  const targetOf = (words) => {
    const positions = words.flatMap(positionsOf);
    return { name: tokenWords(trace, positions), positions };
  };

  const act = {
    light(k, aloud = false) {
      if (k === state.lit) return;
      glance({ lit: k });
      if (aloud) element("status").textContent = act.describe(k).join(". ");
    },
    pin: (k) => update({ pinned: state.pinned === k ? null : k }),
    describe(k) {
      const item = trace.evidence[k];
      const lines = [`${nameOfItem(item)} · ${percent(view.scale.shares[k])}`, `of the evidence for ${view.shownTitle}`];
      const helped = view.support && state.lit === k ? strongestWords(view.support) : "";
      return helped ? [...lines, `supports most: ${helped}`] : lines;
    },
    describeWord(word) {
      const target = targetOf([word]);
      if (!view.method.matrix && !exportedFor(view.method, target)) return [`“${word.text}”`, `${view.method.label} has no scores of its own for it`];
      const [image, text] = [trace.image, trace.question].map((places) => sizeOf(view.shown.scores, places));
      const best = rankingOf(view.scale.shares)[0];
      return [
        `“${word.text}” · image ${percent(image)}, question ${percent(text)}`,
        `strongest: ${trace.evidence[best].label} ${percent(view.scale.shares[best])}`,
      ];
    },
    preview: (word) => (word || state.preview) && glance({ preview: word && targetOf([word]) }),
    choose: (words) => update({ target: targetOf(words) }),
    sentence(word) {
      const found = trace.targets.find((target) => target.name.startsWith("sentence ") && target.positions.includes(word.start));
      if (found) update({ target: found });
    },
    method: (k) => update({ method: k }),
    target: (target) => update({ target }),
  };

  function strongestWords(shares) {
    return rankingOf(shares)
      .slice(0, 3)
      .filter((k) => shares[k] > 0)
      .map((k) => `“${trace.said[k].text}” ${percent(shares[k])}`)
      .join(", ");
  }

  element("heading").textContent = trace.answer ? `Answer: ${trace.answer}` : "No final answer";
  element("about").textContent = [trace.heading || "What the model based it on", trace.model, `${trace.kinds.length} tokens`].join(" · ");
  element("notes").append(...trace.warnings.map((note) => make("p", { className: "note" }, note)));
  const paintPictures = showPictures(trace, pictures, act);
  const question = showQuestion(trace, act);
  const response = showResponse(trace, act);
  const paintCards = showMethods(trace, pictures, act);
  const paintControls = showControls(trace, state, update);
  const spans = new Map([...question.spans, ...response.spans]);

  const fromLink = () => {
    try {
      update(stateOf(trace, location.hash.slice(1)));
    } catch (error) {
      update(beginning(trace));
      element("problem").hidden = false;
      element("problem").textContent = `The link asks for a target that is not here: ${error.message}.`;
    }
  };
  addEventListener("hashchange", fromLink);
  new ResizeObserver(() => {
    for (const column of document.querySelectorAll(".seen, .told")) // stay in sight where they fit
      column.classList.toggle("held", column.offsetHeight + 32 < innerHeight);
    drawWires(trace, view, spans);
  }).observe(document.body);
  addEventListener("scroll", () => drawWires(trace, view, spans), { passive: true }); // columns stay, text moves
  element("copy-png").addEventListener("click", async () => flash("copy-png", await copyFigure(drawFigure(trace, pictures, view))));
  element("copy-link").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      flash("copy-link", "Copied");
    } catch {
      flash("copy-link", "It is in the address bar");
    }
  });
  fromLink();
  document.documentElement.dataset.ready = "yes";
}

function flash(id, words) {
  const button = element(id);
  button.dataset.label ??= button.textContent;
  button.textContent = words;
  setTimeout(() => (button.textContent = button.dataset.label), 1600);
}

open();
