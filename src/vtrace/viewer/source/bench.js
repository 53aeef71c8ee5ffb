// The bench: a verification that is played step by step, and what the reader tries.
import { element, make } from "./dom.js";
import { followExperiment, progressWords, runExperiment, sentenceOf } from "./experiments.js";
import { showExhibit } from "./hiding.js";
import { percent } from "./scale.js";
import { nameOfItem, targetTitle } from "./state.js";
import { showVerification } from "./verified.js";
import { showWhatIf } from "./what_if.js";

const INTRO = "A share is not a proof. Here the evidence is hidden, patches by a blur and words by padding, and the model is asked again.";

/** Returns how to show a view. */
export function showBench(trace, pictures) {
  const found = [...trace.verifications, ...trace.experiments.filter((one) => one.request.kind === "verify" && one.result).map((one) => one.result)];
  const live = trace.server && !trace.server.problem;
  let view = null;
  let verification = null;
  let tab = "";
  const paintExhibit = showExhibit(trace, pictures, live && {
    toggle: (k) => own(() => whatIf.toggle(k)),
    add: (inputs) => own(() => whatIf.add(inputs)),
    describe: (k) => [nameOfItem(trace.inputs[k]), view ? `${percent(view.mainScale.shares[k])} of all inputs for ${view.title}` : ""],
  });
  const put = (shown, title) => {
    element("exhibit-title").textContent = title;
    paintExhibit(shown);
  };
  const whatIf = showWhatIf(trace, (shown, title) => tab === "own" && put(shown, title));
  element("what-if").append(whatIf.box);
  element("bench").hidden = !found.length && !whatIf.any;
  element("bench").classList.toggle("live", Boolean(live));
  element("bench-intro").textContent = INTRO;
  const tabs = [["verified", found.length ? "Verified steps" : "Verify"], ["own", live ? "Try it yourself" : "Tried by hand"]].map(([name, title]) => {
    const button = make("button", { type: "button" }, title);
    button.addEventListener("click", () => turn(name));
    return [name, button];
  });
  element("bench-tabs").append(...tabs.map(([, button]) => button));
  element("bench-tabs").hidden = !(whatIf.any && (found.length || live));

  /** Select something, where what was selected is shown. */
  function own(select) {
    if (tab !== "own") turn("own");
    select();
  }

  function turn(name) {
    tab = name;
    for (const [other, button] of tabs) button.setAttribute("aria-pressed", other === name);
    element("verified").hidden = name !== "verified";
    element("what-if").hidden = name !== "own";
    verification?.pause();
    if (name === "own") whatIf.paint(view);
    else if (verification) verification.paint();
    else put({ hidden: new Set(), selected: new Set() }, "What the model saw");
  }

  function openVerification(one) {
    verification = showVerification(trace, one, (hidden, title) => tab === "verified" && put({ hidden, selected: new Set() }, title));
    const about = make("p", { className: "faint small" }, `Evidence for ${targetTitle(trace, one.target)}, as ${one.method} ranks it:`);
    element("verified").replaceChildren(about, verification.box);
    tabs[0][1].textContent = "Verified steps";
    verification.open();
    showVerdict(one.verdict);
  }

  /** Ask the server to verify, once. */
  function offerVerification() {
    const button = make("button", { type: "button", className: "primary" }, "Verify this explanation");
    const status = make("p", { className: "working", hidden: true });
    status.setAttribute("role", "status");
    const words = `The strongest inputs for ${targetTitle(trace, trace.target)} are hidden, more and more of them, and the model is asked again each time; random sets of the same size show whether that means anything. At most 30 forward passes and 8 batches of answers.`;
    element("verified").replaceChildren(make("p", {}, words), button, status);
    const run = async (start) => {
      button.disabled = true;
      status.hidden = false;
      try {
        const record = await start((news) => status.replaceChildren(make("span", { className: "spinner" }), progressWords(news) || "Verifying …"));
        if (record.status !== "done") throw new Error(sentenceOf(record.error ?? `the verification was ${record.status}`));
        openVerification(record.result);
      } catch (error) {
        button.disabled = false;
        status.replaceChildren(error.message);
      }
    };
    button.addEventListener("click", () => run((listen) => runExperiment(trace.server, { kind: "verify" }, listen)));
    const begun = trace.experiments.find(({ request, status }) => request.kind === "verify" && (status === "waiting" || status === "running"));
    if (begun) run((listen) => followExperiment(trace.server, begun.id, listen));
  }

  if (found.length) {
    tab = "verified";
    openVerification(found.at(-1));
  } else if (live) {
    offerVerification();
    showVerdict("");
  }
  turn(found.length ? "verified" : "own");
  return (now) => {
    view = now;
    if (!element("bench").hidden) turn(tab);
  };
}

/** The verdict under the heading, with the way to its proof. */
function showVerdict(verdict) {
  const link = make("a", { href: "#bench" }, verdict ? "See the proof" : "Hide the evidence and ask again");
  link.addEventListener("click", (event) => {
    event.preventDefault(); // the address holds the state
    element("bench").scrollIntoView({ behavior: "smooth" });
  });
  element("verdict").hidden = false;
  element("verdict").replaceChildren(
    make("strong", {}, verdict ? "Put to the test" : "Is this reliable?"),
    ...(verdict ? [make("span", {}, verdict)] : []),
    link,
  );
}
