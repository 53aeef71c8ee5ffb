// Light or dark: as the system says, or as the reader chose.
import { element, isDark } from "./dom.js";

const THEMES = { light: "☀ Light", dark: "☾ Dark" };

/** The button that goes from the system's colours to light, to dark, and back; `changed` is called after a change. */
export function listenToTheme(changed) {
  const root = document.documentElement;
  const apply = () => {
    root.classList.toggle("dark", isDark());
    changed();
  };
  element("theme").addEventListener("click", () => {
    const order = [undefined, ...Object.keys(THEMES)];
    const next = order[(order.indexOf(root.dataset.theme) + 1) % order.length];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    element("theme").textContent = THEMES[next] ?? "◐ Auto";
    element("theme").setAttribute("aria-label", `Colours: ${next ?? "same as the system"}`);
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  root.classList.toggle("dark", isDark());
}
