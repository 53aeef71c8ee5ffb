// Earlier explanations, newest first.

import { get } from "./api.js";
import { ago, make } from "./dom.js";

const PAGE = 48;

export async function history() {
  const list = make("div");
  const more = make("button", { onclick: load }, "Show more");
  let before = null;

  async function load() {
    const found = await get(`/api/explanations?count=${PAGE}${before ? `&before=${before}` : ""}`);
    list.append(cards(found));
    before = found.at(-1)?.number;
    more.hidden = found.length < PAGE;
    return found.length;
  }

  const count = await load();
  return { title: "History", nodes: [make("section", {}, make("h1", {}, "History"),
    count ? list : make("p", { class: "faint" }, "There are no explanations yet. ", make("a", { href: "#/" }, "Ask the first question.")),
    make("div", { class: "actions" }, more))] };
}

export function cards(found) {
  return make("ul", { class: "cards" }, found.map((one) => make("li", {},
    make("a", { href: `#/explanations/${one.id}` },
      make("img", { src: `/api/explanations/${one.id}/picture`, alt: "", loading: "lazy" }),
      make("span", { class: "card-text" },
        make("span", { class: "card-question" }, one.question),
        one.status === "done"
          ? make("span", { class: "card-answer" }, one.answer ?? one.response)
          : make("span", { class: `badge ${one.status}` }, one.status),
        make("span", { class: "faint" }, [one.methods.join(", "), one.model, ago(one.created), tried(one)].filter(Boolean).join(" · ")))))));
}

const tried = ({ experiments }) => (experiments ? `${experiments} experiment${experiments === 1 ? "" : "s"}` : "");
