// Nodes, never markup: text from users and models is only ever set as text.

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function notice(text, kind = "") {
  return make("p", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" }, text);
}

export function ago(seconds) {
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  const past = seconds - Date.now() / 1000;
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(past) >= size) return words.format(Math.round(past / size), unit);
  }
  return "just now";
}

export function percent(share) {
  return share === null ? "–" : `${(100 * share).toFixed(0)}%`;
}
