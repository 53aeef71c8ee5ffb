// One explanation: still running, ended without a result, or open in the viewer.

import { get, post, remove } from "./api.js";
import { make, notice } from "./dom.js";
import { FINAL, follow } from "./jobs.js";

const ENDED = {
  failed: "The explanation failed",
  cancelled: "The explanation was cancelled",
  interrupted: "The server stopped before the explanation was finished",
};

export async function explanation(id) {
  const facts = await get(`/api/explanations/${id}`);
  const view = facts.status === "done" ? viewer : FINAL.has(facts.status) ? ended : working;
  return { title: facts.question, ...view(facts) };
}

function working(facts) {
  const status = make("p", { class: "status", role: "status" });
  const bar = make("progress", { "aria-label": "progress" });
  const text = make("p", { class: "stream", "aria-live": "off" });
  const cancel = make("button", { onclick: async () => { cancel.disabled = true; await post(`/api/explanations/${facts.id}/cancel`); } }, "Cancel");
  const leave = follow(facts.id, (state) => {
    status.textContent = words(state);
    if (state.status === "running" && state.total) { bar.max = state.total; bar.value = state.done; }
    else bar.removeAttribute("value");
    text.textContent = state.text;
    if (FINAL.has(state.status)) dispatchEvent(new Event("hashchange")); // the same address now shows another view
  });
  return { nodes: [beside(facts, status, bar, text, cancel)], leave };
}

function beside(facts, ...parts) {
  return make("section", { class: "work" },
    make("img", { class: "picture", src: `/api/explanations/${facts.id}/picture`, alt: "the picture" }),
    make("div", {}, make("h1", {}, facts.question), parts));
}

function words(state) {
  if (state.status === "waiting") {
    if (!state.place) return "Waiting";
    return state.place === 1 ? "Next in the queue" : `Number ${state.place} in the queue`;
  }
  if (state.status !== "running") return "";
  const step = state.total ? ` · ${state.done} of ${state.total}` : "";
  return state.stage.charAt(0).toUpperCase() + state.stage.slice(1) + step;
}

function ended(facts) {
  const why = facts.status === "failed" && facts.error ? `: ${facts.error}` : "";
  return { nodes: [beside(facts,
    notice(`${ENDED[facts.status]}${why}.`, "bad"),
    facts.response ? make("p", { class: "stream" }, facts.response) : null,
    make("div", { class: "actions" }, make("a", { class: "button primary", href: "#/" }, "Ask another question"), deletion(facts)))] };
}

function viewer(facts) {
  const page = `/api/explanations/${facts.id}/page`;
  return { framed: true, nodes: [
    make("div", { class: "toolbar" },
      make("span", { class: "title", title: facts.question }, facts.question),
      make("a", { class: "button primary", id: "save", href: `${page}?download=true`, download: "" }, "Save as HTML"),
      make("a", { class: "button", href: page, target: "_blank", rel: "noopener" }, "Open in new tab"),
      make("a", { class: "button", href: `/api/explanations/${facts.id}/result`, download: "" }, "Save as JSON"),
      deletion(facts)),
    make("iframe", { src: page, title: `What the answer to “${facts.question}” relies on`, allow: "clipboard-write" })] };
}

function deletion(facts) {
  return make("button", {
    onclick: async () => {
      if (!confirm("Delete this explanation from the history?")) return;
      await remove(`/api/explanations/${facts.id}`);
      location.hash = "#/history";
    },
  }, "Delete");
}
