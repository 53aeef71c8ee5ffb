// The table of questions: one row each, with a thumbnail, numbers, and a link to its viewer file.
import { draw, make } from "./dom.js";
import { classOf, columnsOf, verdictWord } from "./rows.js";
import { percent } from "./scale.js";

export const nats = (value) => (value === null ? "–" : `${Math.abs(value) < 0.05 ? "0.0" : value.toFixed(1).replace("-", "−")}`);

const CELLS = {
  question: (row) => [make("strong", {}, make("a", { href: row.page }, row.key)), make("span", { title: row.question }, row.question)],
  answer: (row) => [
    make("span", {}, row.answer ?? "–", ...(row.verdict && row.verdict !== "correct" ? [make("small", {}, `expected: ${row.gold}`)] : [])),
  ],
  verdict: (row) => [make("span", { className: `verdict ${classOf(row)}` }, `${{ right: "✓", wrong: "✗" }[classOf(row)] ?? "–"} ${verdictWord(row)}`.trim())],
  image: (row) => [withMeter(percent(row.image_share), row.image_share)],
  dependence: (row) => [make("span", {}, nats(row.dependence))],
  inside: (row) => [row.inside === null ? "–" : withMeter(percent(row.inside), row.inside, `by chance ${percent(row.covered)}`)],
  verify: (row) => [row.verification ? tested(row.verification) : "–"],
  flags: (row) => (row.flags.length ? [make("ul", { className: "flags" }, ...row.flags.map((flag) => make("li", {}, flag)))] : []),
};
const KINDS = { question: "about-item", answer: "answer", image: "n", dependence: "n", inside: "n", verify: "told-verdict" };

function withMeter(words, part, note = "") {
  const bar = make("i");
  bar.style.width = `${100 * Math.min(1, part)}%`;
  return make("span", {}, words, make("span", { className: "meter" }, bar), ...(note ? [make("small", {}, note)] : []));
}

/** The verification in a few words, and its verdict on demand. */
function tested({ verdict, inputs, draws, changed }) {
  const words = inputs === null ? "no change" : `changes with ${inputs} hidden · random: ${changed} of ${draws}`;
  return make("details", {}, make("summary", {}, words), make("p", { className: "faint" }, verdict));
}

function thumbnailOf(row) {
  if (!row.thumbnail) return [];
  const picture = make("img", { src: row.thumbnail, alt: "", loading: "lazy" });
  const boxes = draw("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none" });
  for (const [kind, list] of [["given", row.given], ["evidence", row.evidence]])
    for (const [left, top, right, bottom] of list) {
      const place = { x: left, y: top, width: right - left, height: bottom - top };
      boxes.append(draw("rect", { class: "under", ...place }), draw("rect", { class: kind, ...place }));
    }
  const link = make("a", { href: row.page, className: "thumb", tabIndex: -1 }, picture, boxes);
  link.setAttribute("aria-hidden", "true"); // the name of the question is the same link
  if (row.pictures > 1) link.append(make("small", {}, `1 of ${row.pictures}`));
  return [link];
}

/** Head cells with buttons that sort; `sort` is called with the name of a column. */
export function headCells(rows, choice, sort) {
  const cells = columnsOf(rows).map(({ name, title }) => {
    const button = make("button", { type: "button" }, title);
    button.addEventListener("click", () => sort(name));
    const cell = make("th", { scope: "col", className: KINDS[name] === "n" ? "n" : "", role: "columnheader" }, button);
    cell.dataset.column = name;
    if (choice.sort === name) cell.setAttribute("aria-sort", choice.order > 0 ? "ascending" : "descending");
    return cell;
  });
  return [make("th", { scope: "col", role: "columnheader" }, make("span", { className: "hidden" }, "picture")), ...cells];
}

export function bodyRow(row, columns) {
  const line = make("tr", { role: "row" }, make("td", { role: "cell" }, ...thumbnailOf(row)));
  for (const { name, title } of columns) {
    const cell = make("td", { role: "cell", className: KINDS[name] ?? "" }, ...CELLS[name](row));
    if (name !== "question") cell.dataset.label = title;
    line.append(cell);
  }
  return line;
}
