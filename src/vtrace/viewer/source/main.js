// Data flows one way: a change updates the state, the view is computed from it, and the page shows the view.
import { OFFERED_TARGETS, exportedFor, sizeOf } from "./attribution.js";
import { showControls } from "./controls.js";
import { element, make } from "./dom.js";
import { showBalance, showLegend, showRanking } from "./ranking.js";
import { showBench } from "./bench.js";
import { nodeOfItem } from "./crops.js";
import { showContrasts } from "./contrast.js";
import { dependenceLines, showDependence, wordDependence } from "./dependence.js";
import { copyFigure, drawFigure } from "./figure.js";
import { showMethods } from "./methods.js";
import { loadPictures, showPictures } from "./pictures.js";
import { showRegions } from "./region_list.js";
import { percent, rankingOf } from "./scale.js";
import { beginning, linkOf, nameOfItem, positionsOf, prepare, stateOf } from "./state.js";
import { tokenWords } from "./targets.js";
import { lookout, shadingOf, summaryOf } from "./view.js";
import { drawWires, listPaths } from "./wires.js";
import { showQuestion, showResponse } from "./words.js";

async function open() {
  const trace = await prepare(JSON.parse(element("data").textContent));
  const pictures = await loadPictures(trace);
  const state = { ...beginning(trace), preview: null, lit: null };
  const look = lookout(trace);
  let view = null;
  let linking = 0;

  /** On hover: everything that is shown is about the word that is pointed at. */
  function glance(changes, again = false) {
    Object.assign(state, changes);
    const before = view?.found;
    view = look(state);
    paintPictures(view);
    question.paint(view);
    response.paint(view);
    showBalance(trace, view);
    showLegend(trace, view);
    paintRegions(view);
    element("hint").textContent = shadingOf(trace, view);
    if (view.found === before && !again) return;
    showRanking(trace, pictures, view, act);
    listPaths(trace, pictures, view, act, spans);
    drawWires(trace, view, spans);
    paintCards(view);
    paintDependence(view);
  }

  /** On a choice: the same, and the controls and the address. */
  function update(changes) {
    glance({ ...changes, lit: null, preview: null }, true);
    paintControls(view);
    paintBench(view);
    paintContrast(view);
    describeMissing();
    element("status").textContent = summaryOf(trace, view);
    clearTimeout(linking); // browsers limit how often the address may change
    linking = setTimeout(() => location.protocol !== "about:" && history.replaceState(null, "", address()), 150);
  }

  /** A link to what is shown. */
  function address() {
    const link = linkOf(trace, state);
    return location.href.split("#")[0] + (link && `#${link}`);
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
    const links = view.method.exported.slice(0, OFFERED_TARGETS).map((one) => {
      const button = make("button", { type: "button", className: "plain" }, one.name);
      button.addEventListener("click", () => update({ target: { name: one.name, positions: one.positions } }));
      return button;
    });
    problem.replaceChildren(`${view.method.label} gives scores only, and was not run for ${view.title}. Available targets: `, ...links.flatMap((link, k) => (k ? [", ", link] : [link])));
  }

  const targetOf = (words) => {
    const positions = words.flatMap(positionsOf);
    return { name: tokenWords(trace, positions), positions };
  };

  const act = {
    light(k, aloud = false) {
      if (k === state.lit) return;
      glance({ lit: k });
      if (aloud) element("status").textContent = [trace.inputs[k].label, ...act.describe(k)].join(". ");
    },
    pin: (k) => update({ pinned: state.pinned === k ? null : k }),
    describe(k) {
      const item = trace.inputs[k];
      const name = item.panel === undefined ? nameOfItem(item) : "this patch";
      const lines = [`${name} · ${percent(view.mainScale.shares[k])}`, `of all inputs for ${view.title}`];
      const helped = view.support && state.lit === k ? strongestWords(view.support) : "";
      return helped ? [...lines, `supports most: ${helped}`] : lines;
    },
    describeWord(word) {
      const target = targetOf([word]);
      if (!view.method.matrix && !exportedFor(view.method, target)) return [`“${word.text}”`, `${view.method.label} was not run for this word`];
      const [image, text] = [trace.image, trace.question].map((places) => sizeOf(view.main.scores, places));
      const best = rankingOf(view.mainScale.shares)[0];
      const nats = wordDependence(trace, view.method)?.[trace.said.indexOf(word)];
      return [
        `“${word.text}” · image ${percent(image)}, question ${percent(text)}`,
        make("span", { className: "followed" }, "strongest: ", nodeOfItem(trace, pictures, best), ` ${percent(view.mainScale.shares[best])}`),
        ...(nats === undefined ? [] : [dependenceLines(word, nats)[1]]),
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
  element("about").textContent = [trace.heading || "What the answer is based on", trace.model, `${trace.kinds.length} tokens`].join(" · ");
  element("notes").append(...trace.warnings.map((note) => make("p", { className: "note" }, note)));
  const paintPictures = showPictures(trace, pictures, act);
  const question = showQuestion(trace, act);
  const response = showResponse(trace, act);
  const paintCards = showMethods(trace, pictures, act);
  const paintControls = showControls(trace, state, update);
  const spans = new Map([...question.spans, ...response.spans]);
  const paintRegions = showRegions(trace, state, update);
  const paintDependence = showDependence(trace, act, spans);
  const paintBench = showBench(trace, pictures);
  const paintContrast = showContrasts(trace, pictures);

  const fromLink = () => {
    try {
      update(stateOf(trace, location.hash.slice(1)));
    } catch (error) {
      update(beginning(trace));
      element("problem").hidden = false;
      element("problem").textContent = `The link names a target that is not in this response: ${error.message}.`;
    }
  };
  addEventListener("hashchange", fromLink);
  new ResizeObserver(() => {
    for (const column of document.querySelectorAll(".seen, .told")) // stay visible if they fit
      column.classList.toggle("held", column.offsetHeight + 32 < innerHeight);
    drawWires(trace, view, spans);
  }).observe(document.body);
  addEventListener("scroll", () => drawWires(trace, view, spans), { passive: true }); // columns are sticky, text scrolls
  element("copy-png").addEventListener("click", async () => flash("copy-png", await copyFigure(drawFigure(trace, pictures, view))));
  element("copy-link").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(address());
      flash("copy-link", "Copied");
    } catch {
      flash("copy-link", "Copy it from the address bar");
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
