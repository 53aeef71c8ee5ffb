// A choice of the reader selects and sorts the rows; the page shows them.
import { element, make } from "./dom.js";
import { CLASSES, histogram } from "./histogram.js";
import { choiceOf, classOf, COLUMNS, columnsOf, linkOfChoice, matching, ordered } from "./rows.js";
import { percent } from "./scale.js";
import { bodyRow, headCells, nats } from "./table.js";
import { listenToTheme } from "./theme.js";

const SHOWN_AT_ONCE = 100;
const MEANING = {
  "image share": "The part of all evidence that is in the pictures rather than in the question.",
  "visual dependence, nats": "How much the pictures raise the log-likelihood of what is explained: log p with them minus log p without. At 0 or below, the pictures do not help.",
  "in the given box": "The part of the image share that is inside the boxes given with the question. By chance it would be the part of the picture that the boxes cover.",
  verified: "The fewest inputs that change the answer when they are hidden and the model is asked again, and how often as many random inputs did.",
};

function openTriage() {
  const data = JSON.parse(element("data").textContent);
  const rows = data.items;
  const columns = columnsOf(rows);
  let choice = choiceOf(location.hash.slice(1));
  let shown = SHOWN_AT_ONCE;
  let linking = 0;

  function choose(changes) {
    choice = { ...choice, ...changes };
    shown = SHOWN_AT_ONCE;
    show();
    clearTimeout(linking); // browsers limit how often the address may change
    linking = setTimeout(() => history.replaceState(null, "", `#${linkOfChoice(choice)}`), 150);
  }

  const sort = (name) => {
    const again = choice.sort === name;
    choose({ sort: name, order: again ? -choice.order : COLUMNS.find((column) => column.name === name).first });
    element("items").querySelector(`th[data-column=${name}] button`)?.focus();
  };

  function chips(id, names, current, name) {
    const box = element(id);
    const focused = [...box.children].indexOf(document.activeElement);
    box.replaceChildren(
      ...names.map(([value, words, tip]) => {
        const fitting = matching(rows, { ...choice, [name]: value }).length;
        const chip = make("button", { type: "button", title: tip ?? "" }, words, make("span", {}, String(fitting)));
        chip.setAttribute("aria-pressed", current === value);
        chip.addEventListener("click", () => choose({ [name]: current === value ? "" : value }));
        return chip;
      }),
    );
    box.children[focused]?.focus();
  }

  function show() {
    const found = ordered(matching(rows, choice), choice);
    const present = CLASSES.filter((name) => rows.some((row) => classOf(row) === name));
    const verdicts = present.length > 1 ? present.map((name) => [name, name]) : [];
    chips("verdicts", [["", "all"], ...verdicts], choice.verdict, "verdict");
    const raised = Object.entries(data.flags).filter(([flag]) => rows.some((row) => row.flags.includes(flag)));
    chips("flags", raised.map(([flag, meaning]) => [flag, flag, meaning]), choice.flag, "flag");
    element("search").value = choice.text;
    element("sort").value = choice.sort;
    element("items").tHead.rows[0].replaceChildren(...headCells(rows, choice, sort));
    element("items").tBodies[0].replaceChildren(...found.slice(0, shown).map((row) => bodyRow(row, columns)));
    element("shown").textContent = `${found.length} of ${rows.length} questions, by ${COLUMNS.find(({ name }) => name === choice.sort).title}`;
    element("more").hidden = found.length <= shown;
    element("more").textContent = `Show ${Math.min(SHOWN_AT_ONCE, found.length - shown)} more`;
  }

  describe(data, rows);
  element("sort").append(...columns.map(({ name, title }) => make("option", { value: name }, title)));
  element("sort").addEventListener("change", (event) => sort(event.target.value));
  element("search").addEventListener("input", (event) => choose({ text: event.target.value }));
  element("more").addEventListener("click", () => {
    shown += SHOWN_AT_ONCE;
    show();
  });
  addEventListener("hashchange", () => {
    choice = choiceOf(location.hash.slice(1));
    show();
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.type === "search") return;
    event.preventDefault();
    element("search").focus();
  });
  listenToTheme(() => {});
  show();
  document.documentElement.dataset.ready = "yes";
}

/** Everything on the page that does not change. */
function describe(data, rows) {
  const count = rows.length === 1 ? "1 answer explained" : `${rows.length} answers explained`;
  element("heading").textContent = data.wanted > rows.length ? `${rows.length} of ${data.wanted} answers explained` : count;
  const target = { response: "whole responses", answer: "final answers" }[data.target] ?? data.target;
  element("about").textContent = [data.benchmark, data.family ? `${data.model} (probed)` : data.model, target].join(" · ");
  const unfinished = data.wanted - rows.length - data.left_out.length;
  const notes = unfinished > 0 ? [`${unfinished} questions are not explained yet: run the same command again to continue.`] : [];
  notes.push(...data.lost.map(({ file, reason }) => `Skipped ${file}: ${reason}`));
  element("notes").append(...notes.map((note) => make("p", { className: "note" }, note)));
  const classes = CLASSES.filter((name) => rows.some((row) => classOf(row) === name));
  element("plot-key").append(...classes.map((name) => make("span", {}, make("i", { className: name }), name)));
  element("plots").append(
    ...[
      histogram("image share", rows, (row) => row.image_share, percent, [0, 1]),
      histogram("visual dependence", rows, (row) => row.dependence, (value) => `${nats(value)} nats`),
      histogram("in the given box", rows, (row) => row.inside, percent, [0, 1]),
    ].filter(Boolean),
  );
  element("given-key").hidden = !rows.some((row) => row.given.length);
  const failed = [
    ...data.left_out,
    ...data.unverified.map(({ item, reason }) => ({ item, reason: `explained, but not verified: ${reason}` })),
  ];
  element("left-out").hidden = !failed.length;
  const lines = failed.map(({ item, reason }) => make("tr", {}, make("td", {}, item), make("td", {}, reason)));
  element("left-out").querySelector("tbody").append(...lines);
  const titles = new Set(columnsOf(rows).map(({ title }) => title));
  const meanings = [...Object.entries(MEANING).filter(([name]) => titles.has(name)), ...Object.entries(data.flags)];
  element("meaning").append(...meanings.flatMap(([name, words]) => [make("dt", {}, name), make("dd", {}, words)]));
}

openTriage();
