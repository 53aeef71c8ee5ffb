// Which view is shown, by the part of the address after the #.

import { ask } from "./ask.js";
import { notice } from "./dom.js";
import { explanation } from "./explanation.js";
import { history } from "./history.js";
import { item, run, runs } from "./runs.js";

const VIEWS = [
  [/^\/?$/, ask],
  [/^\/history$/, history],
  [/^\/explanations\/([0-9a-f]{32})$/, explanation],
  [/^\/runs$/, runs],
  [/^\/runs\/([^/]+)$/, run],
  [/^\/runs\/([^/]+)\/(all|correct|wrong)\/page\/(\d+)$/, run],
  [/^\/runs\/([^/]+)\/(all|correct|wrong)\/(\d+)$/, item],
];

let leave = null;
let turn = 0;

// A view is its nodes and, if it needs them, a title, whether it fills the window, and what to do when it is left.
// A view that arrives after another one was requested is not shown.
async function route() {
  const mine = ++turn;
  const path = location.hash.slice(1);
  markCurrent(path);
  const view = await viewOf(path);
  if (mine !== turn) return view.leave?.();
  leave?.();
  leave = view.leave ?? null;
  document.title = view.title ? `${view.title} · VTrace` : "VTrace";
  document.body.classList.toggle("framed", Boolean(view.framed));
  document.getElementById("main").replaceChildren(...view.nodes.filter((node) => node !== null));
}

async function viewOf(path) {
  for (const [pattern, view] of VIEWS) {
    const match = pattern.exec(path);
    if (!match) continue;
    try {
      return await view(...match.slice(1).map(decodeURIComponent));
    } catch (problem) {
      return { nodes: [notice(problem.message, "bad")] };
    }
  }
  return { nodes: [notice("There is no such page.", "bad")] };
}

function markCurrent(path) {
  for (const link of document.querySelectorAll("header nav a")) {
    const own = link.getAttribute("href").slice(1);
    const current = own === "/" ? /^\/?$/.test(path) : path.startsWith(own);
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

addEventListener("hashchange", route);
route();
