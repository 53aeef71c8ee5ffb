// Which questions are shown, and in which order. Pure functions of the rows and the reader's choices.

const VERDICTS = { correct: "right", wrong: "wrong", unparsed: "wrong", undecided: "unknown" };
const WORDS = { correct: "right", wrong: "wrong", unparsed: "unreadable", undecided: "undecided" };
const DOUBT = ["wrong", "unknown", "right"];

/** right, wrong or unknown. */
export const classOf = (row) => VERDICTS[row.verdict] ?? "unknown";

/** The verdict in a word; empty if the correct answer is not known. */
export const verdictWord = (row) => WORDS[row.verdict] ?? "";

/** Fewest inputs that change the answer when hidden; more than any if none do; null if nothing was verified. */
const hiddenInputs = (row) => row.verification && (row.verification.inputs ?? Infinity);

/** Columns that can be sorted. `first` is the order that a first click gives: 1 for the smallest on top. */
export const COLUMNS = [
  { name: "question", title: "question", first: 1, value: (row) => row.number },
  { name: "answer", title: "answer", first: 1, value: (row) => row.answer },
  { name: "verdict", title: "right or wrong", first: 1, value: (row) => DOUBT.indexOf(classOf(row)), needs: (row) => row.verdict },
  { name: "image", title: "image share", first: 1, value: (row) => row.image_share },
  { name: "dependence", title: "visual dependence, nats", first: 1, value: (row) => row.dependence },
  { name: "inside", title: "in the given box", first: 1, value: (row) => row.inside, needs: (row) => row.inside !== null },
  { name: "verify", title: "verified", first: -1, value: hiddenInputs, needs: (row) => row.verification },
  { name: "flags", title: "flags", first: -1, value: (row) => row.flags.length },
];

/** The columns that these rows have something for. */
export const columnsOf = (rows) => COLUMNS.filter(({ needs }) => !needs || rows.some(needs));

/** What is shown at first: the most flagged on top. */
export const firstChoice = () => ({ sort: "flags", order: -1, verdict: "", flag: "", text: "" });

/** The choices as the part of the address after #, without default values; and back. */
export function linkOfChoice(choice) {
  const first = firstChoice();
  const sorted = choice.sort !== first.sort || choice.order !== first.order;
  const changed = Object.entries(choice).filter(([name, value]) => (name === "sort" || name === "order" ? sorted : value !== first[name]));
  return new URLSearchParams(changed.map(([name, value]) => [name, String(value)])).toString();
}

export function choiceOf(link) {
  const asked = new URLSearchParams(link);
  const choice = firstChoice();
  for (const name of ["verdict", "flag", "text"]) choice[name] = asked.get(name) ?? "";
  if (COLUMNS.some(({ name }) => name === asked.get("sort"))) {
    choice.sort = asked.get("sort");
    choice.order = Number(asked.get("order")) === -1 ? -1 : 1;
  }
  return choice;
}

/** Rows that fit the choices, except for those named in `without`. */
export function matching(rows, choice, without = []) {
  const wanted = choice.text.toLowerCase();
  const tests = {
    verdict: (row) => !choice.verdict || classOf(row) === choice.verdict,
    flag: (row) => !choice.flag || row.flags.includes(choice.flag),
    text: (row) => [row.key, row.question, row.answer, row.gold, row.response].some((part) => part?.toLowerCase().includes(wanted)),
  };
  return rows.filter((row) => Object.entries(tests).every(([name, test]) => without.includes(name) || test(row)));
}

/** Rows in the chosen order; what is not known comes last, and equal rows keep the order of the benchmark. */
export function ordered(rows, choice) {
  const { value } = COLUMNS.find(({ name }) => name === choice.sort);
  const known = rows.filter((row) => value(row) !== null);
  known.sort((a, b) => choice.order * compare(value(a), value(b)) || a.number - b.number);
  return [...known, ...rows.filter((row) => value(row) === null)];
}

const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a === b ? 0 : a - b);
