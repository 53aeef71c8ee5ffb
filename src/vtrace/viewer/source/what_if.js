// What if: the reader selects patches and words, the model is asked again, and both responses stand side by side.
import { make } from "./dom.js";
import { cancelExperiment, followExperiment, progressWords, runExperiment, sentenceOf } from "./experiments.js";
import { markedReply, markedResponse } from "./likelihood_marks.js";
import { rankingOf } from "./scale.js";
import { positionsOf } from "./state.js";
import { answerLine, countWords } from "./verified.js";

const QUICK = [1, 3, 5, 10]; // strongest inputs that one click selects

/**
 * `show({hidden, selected}, title)` puts inputs on the exhibit. Returns {box, toggle(k), add(ks), paint(view)}.
 * Without a server, only what was tried before can be looked at.
 */
export function showWhatIf(trace, show) {
  const live = trace.server && !trace.server.problem;
  const tried = trace.experiments.filter(({ request, status }) => isHiding(request) && status === "done").map((one) => outcomeOf(trace, one));
  const all = trace.inputs.map((_, k) => k);
  let selected = new Set();
  let shown = null; // what is looked at: an outcome, or one in progress
  let ranking = all;

  const count = make("p", { className: "count" });
  const buttons = [["hide", "Hide and ask again", "primary"], ["keep", "Keep only these", ""]].map(([kind, title, className]) => {
    const button = make("button", { type: "button", className }, title);
    button.addEventListener("click", () => ask(kind));
    return button;
  });
  const quick = QUICK.filter((size) => size < all.length).map((size) => {
    const button = make("button", { type: "button", className: "quick" }, String(size));
    button.setAttribute("aria-label", `Select the ${size === 1 ? "strongest input" : `${size} strongest inputs`}`);
    button.addEventListener("click", () => choose(new Set(ranking.slice(0, size))));
    return button;
  });
  const named = make("span", {}); // regions, each with a button that selects its inputs
  const clear = make("button", { type: "button", className: "plain" }, "clear");
  clear.addEventListener("click", () => choose(new Set()));
  const problem = make("p", { className: "note", hidden: true });
  problem.setAttribute("role", "alert");
  const outcome = make("div", { className: "outcome" });
  const list = make("ol", { className: "tried" });
  const history = make("div", {}, make("h3", {}, "Tried so far"), list);
  const box = make("div", {});
  if (trace.server?.problem) box.append(make("p", { className: "note" }, sentenceOf(trace.server.problem)));
  if (live) {
    box.append(
      make("ol", { className: "how" }, make("li", {}, "Click patches or words, or drag a box. Or take the strongest: ", ...quick.flatMap((button) => [button, " "]), named), make("li", {}, count, make("span", { className: "actions" }, ...buttons, clear))),
      problem,
    );
  }
  box.append(outcome, history);

  function choose(inputs) {
    selected = inputs;
    shown = null;
    problem.hidden = true;
    paint();
  }

  /** The selection that is being changed: that of the shown outcome, if there is one. */
  const current = () => (shown ? shown.selected : selected);

  function toggle(k) {
    const next = new Set(current());
    if (!next.delete(k)) next.add(k);
    choose(next);
  }

  function choiceOf(region) {
    const button = make("button", { type: "button", className: "quick" }, region.name);
    button.setAttribute("aria-label", `Select the region ${region.name}`);
    button.addEventListener("click", () => choose(inputsOf(trace, region)));
    return button;
  }

  /** Select all of these; if they all are, give them up. */
  function add(inputs) {
    const next = new Set(current());
    const known = inputs.every((k) => next.has(k));
    for (const k of inputs) if (known) next.delete(k); else next.add(k);
    choose(next);
  }

  async function ask(kind) {
    const chosen = [...current()].sort((a, b) => a - b);
    problem.hidden = true;
    const refusal = !chosen.length
      ? "Nothing is selected. Click patches or words of the question first."
      : chosen.length === all.length
        ? `All patches and words are selected, so ${kind === "keep" ? "nothing" : "everything"} would be hidden. Leave some out.`
        : "";
    if (refusal) return complain(refusal);
    const positions = chosen.flatMap((k) => positionsOf(trace.inputs[k]));
    await follow({ kind, positions }, (listen) => runExperiment(trace.server, { kind, positions }, listen));
  }

  /** Show an experiment while it runs, and its outcome. */
  async function follow(request, run) {
    const running = { ...outcomeOf(trace, { request }), progress: { status: "waiting" } };
    shown = running;
    paint();
    try {
      const record = await run((news) => {
        Object.assign(running, { id: news.id, text: news.text, progress: news });
        if (shown === running) paintOutcome();
      });
      if (record.status !== "done") throw new Error(sentenceOf(record.error ?? `the experiment was ${record.status}`));
      const found = outcomeOf(trace, record);
      tried.push(found);
      if (shown === running) shown = found;
    } catch (error) {
      if (shown === running) [selected, shown] = [running.selected, null]; // nothing is lost: it can be asked again
      complain(error.message);
    }
    paint();
  }

  function complain(words) {
    problem.hidden = false;
    problem.textContent = words;
  }

  function paint(view) {
    if (view) {
      ranking = rankingOf(view.mainScale.shares);
      named.replaceChildren(...[...trace.regions, ...view.state.regions].flatMap((region) => [choiceOf(region), " "]));
    }
    const chosen = [...current()];
    count.textContent = chosen.length ? `${countWords(trace, chosen)} selected` : "Nothing is selected yet";
    buttons.forEach((button) => (button.disabled = Boolean(shown?.progress)));
    clear.hidden = !chosen.length;
    paintOutcome();
    history.hidden = !tried.length;
    list.replaceChildren(...tried.map(rowOfTried));
    if (!shown) show({ hidden: new Set(), selected }, live ? "Select what to hide" : "What the model saw");
    else show({ hidden: shown.hidden, selected: new Set() }, `What the model sees: ${shown.what}`);
  }

  function paintOutcome() {
    outcome.hidden = !shown;
    if (!shown) return;
    if (outcome.of !== shown) outcome.replaceChildren(...(shown.progress ? runningParts(shown) : foundParts(shown)));
    outcome.of = shown;
    if (!shown.progress) return;
    shown.told.textContent = progressWords(shown.progress) || "Asking again …";
    shown.reply.textContent = shown.text;
  }

  function runningParts(running) {
    running.told = make("span", {});
    running.told.setAttribute("role", "status");
    running.reply = make("p", { className: "text" });
    const stop = make("button", { type: "button" }, "Cancel");
    stop.addEventListener("click", () => running.id && cancelExperiment(trace.server, running.id));
    return [make("p", { className: "working" }, make("span", { className: "spinner" }), running.told, stop), replies(running, running.reply)];
  }

  function foundParts(found) {
    const reply = make("p", { className: "text" });
    markedReply(trace.response, found.text, reply);
    const other = `Asked again with nothing hidden, the model answers “${found.firstAnswer ?? "nothing"}”; changes are judged against that.`;
    return [
      make("p", { className: "small faint" }, `${capital(found.what)}: the model answers`),
      answerLine(found.firstAnswer, found),
      replies(found, reply),
      make("p", { className: "faint small" }, "Marked words of the first response became less than half as likely; the stronger the mark, the less likely. Bold words of the new one are not in the first."),
      ...(found.firstAnswer === trace.answer ? [] : [make("p", { className: "note" }, other)]),
    ];
  }

  /** Both responses side by side. */
  function replies({ what, likelihoods }, reply) {
    const first = make("p", { className: "text" });
    markedResponse(trace, likelihoods, first);
    return make("div", { className: "replies" }, make("div", {}, make("h3", {}, "First response"), first), make("div", {}, make("h3", {}, `With ${what}`), reply));
  }

  function rowOfTried(one) {
    const button = make("button", { type: "button", className: "plain" }, capital(one.what));
    button.addEventListener("click", () => {
      shown = one;
      problem.hidden = true;
      paint();
    });
    button.setAttribute("aria-pressed", one === shown);
    const tag = make("span", { className: one.changed ? "tag changed" : "tag" }, one.changed ? "another answer" : "the same answer");
    return make("li", { className: one === shown ? "current" : "" }, button, make("span", {}, "→ ", make("strong", {}, one.answer ?? "(no answer)")), tag);
  }

  if (!live) shown = tried[0] ?? null;
  if (live) {
    for (const { id, request, status } of trace.experiments)
      if (isHiding(request) && (status === "waiting" || status === "running"))
        follow(request, (listen) => followExperiment(trace.server, id, listen));
  }
  return { box, toggle, add, paint, any: live || tried.length > 0 || Boolean(trace.server) };
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Inputs of which a region covers at least half. */
const inputsOf = (trace, region) =>
  new Set(region.positions.filter((_, k) => region.coverage[k] >= 0.5).map((position) => trace.inputAt[position]));

const isHiding = ({ kind }) => kind === "hide" || kind === "keep";

/** An experiment as the page shows it; sets hold inputs. */
function outcomeOf(trace, { id, request, text, result }) {
  const selected = new Set(request.positions.map((position) => trace.inputAt[position]));
  const others = trace.inputs.flatMap((_, k) => (selected.has(k) ? [] : [k]));
  const keep = request.kind === "keep";
  const named = countWords(trace, [...selected]);
  return {
    id, selected, text: text ?? "",
    hidden: keep ? new Set(others) : selected,
    what: keep ? `only ${named} shown` : `${named} hidden`,
    answer: result?.answer ?? null,
    firstAnswer: result?.first_answer ?? null,
    changed: result?.changed ?? false,
    likelihoods: result?.likelihoods ?? null,
  }; // prettier-ignore
}
