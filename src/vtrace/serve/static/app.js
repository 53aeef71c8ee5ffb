// Which view is shown, by the part of the address behind the #.

import { ask } from "./ask.js";
import { notice, show } from "./dom.js";
import { explanation } from "./explanation.js";
import { history } from "./history.js";
import { item, run, runs } from "./runs.js";

const VIEWS = [
  [/^\/?$/, ask],
  [/^\/history$/, history],
  [/^\/explanations\/([0-9a-f]{32})$/, explanation],
  [/^\/runs$/, runs],
  [/^\/runs\/([^/]+)\/(all|right|wrong)\/page\/(\d+)$/, run],
  [/^\/runs\/([^/]+)\/(all|right|wrong)\/(\d+)$/, item],
];

let leave = null;
let turn = 0;

async function route() {
  const mine = ++turn;
  leave?.();
  leave = null;
  const path = location.hash.slice(1);
  for (const link of document.querySelectorAll("nav a")) {
    const own = link.getAttribute("href").slice(1);
    const current = own === "/" ? /^\/?$/.test(path) : path.startsWith(own);
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.classList.remove("framed");
  document.title = "VTrace";
  for (const [pattern, view] of VIEWS) {
    const match = pattern.exec(path);
    if (!match) continue;
    try {
      const left = await view(...match.slice(1).map(decodeURIComponent));
      if (mine === turn) leave = left ?? null;
      else left?.();
    } catch (problem) {
      if (mine === turn) show(notice(problem.message, "bad"));
    }
    return;
  }
  show(notice("There is no such page.", "bad"));
}

addEventListener("hashchange", route);
route();
