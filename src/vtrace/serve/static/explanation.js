// One explanation: in work, ended without a result, or open in the viewer.

import { get, post, remove } from "./api.js";
import { make, notice, show } from "./dom.js";
import { FINAL, follow } from "./jobs.js";

const ENDED = {
  failed: "This could not be explained.",
  cancelled: "This was cancelled.",
  interrupted: "The server was stopped before this was finished.",
};

export async function explanation(id) {
  const facts = await get(`/api/explanations/${id}`);
  document.title = `${facts.question} · VTrace`;
  if (facts.status === "done") return viewer(facts);
  if (FINAL.has(facts.status)) return ended(facts);
  return working(facts);
}

function working(facts) {
  const status = make("p", { class: "status", role: "status" });
  const bar = make("progress", { "aria-label": "progress" });
  const text = make("p", { class: "stream", "aria-live": "off" });
  const cancel = make("button", { onclick: async () => { cancel.disabled = true; await post(`/api/explanations/${facts.id}/cancel`); } }, "Cancel");
  show(make("section", { class: "work" },
    make("img", { class: "picture", src: `/api/explanations/${facts.id}/picture`, alt: "the picture" }),
    make("div", {}, make("h1", {}, facts.question), status, bar, text, cancel)));

  return follow(facts.id, (state) => {
    status.textContent = words(state);
    if (state.status === "running" && state.total) { bar.max = state.total; bar.value = state.done; }
    else bar.removeAttribute("value");
    text.textContent = state.text;
    if (FINAL.has(state.status)) explanation(facts.id);
  });
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
  show(make("section", { class: "work" },
    make("img", { class: "picture", src: `/api/explanations/${facts.id}/picture`, alt: "the picture" }),
    make("div", {}, make("h1", {}, facts.question),
      notice(`${ENDED[facts.status]} ${facts.error && facts.status === "failed" ? facts.error : ""}`, "bad"),
      facts.response ? make("p", { class: "stream" }, facts.response) : null,
      make("div", { class: "actions" }, make("a", { class: "button primary", href: "#/" }, "Ask again"), deletion(facts)))));
}

function viewer(facts) {
  document.body.classList.add("framed");
  const page = `/api/explanations/${facts.id}/page`;
  show(
    make("div", { class: "toolbar" },
      make("span", { class: "title", title: facts.question }, facts.question),
      make("a", { class: "button primary", id: "save", href: `${page}?download=true`, download: "" }, "Save as file"),
      make("a", { class: "button", href: page, target: "_blank", rel: "noopener" }, "Open alone"),
      make("a", { class: "button", href: `/api/explanations/${facts.id}/result`, download: "" }, "JSON"),
      deletion(facts)),
    make("iframe", { src: page, title: `What the answer to “${facts.question}” relies on`, allow: "clipboard-write" }));
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
