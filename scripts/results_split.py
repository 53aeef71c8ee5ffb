"""One long text of results becomes pages: an overview, and for every model its results, long tables and studies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

FOLDED = re.compile(r'<details markdown="1"><summary>(.+?)</summary>\n\n(.*?)\n\n</details>\n+', re.DOTALL)
MEASURED_ROW = re.compile(r"^\|[^|]*\|[^|]*\| (?:image|joint) \|")  # the other rows compare with known evidence
TARGETS = {"answer": "answers", "response": "whole responses"}


class Section(NamedTuple):
    """A heading without its signs, and the text below it."""

    title: str
    text: str


def split_pages(text: str, titles: Mapping[str, str]) -> dict[str, str]:
    """Texts by the name of the page. `titles` has the heading of every model's chapter."""
    head, chapters = _sections(text, "## ")
    models = {name: chapter for chapter in chapters for name, title in titles.items() if title == chapter.title}
    pages = {"index": "\n".join([head, *_overview(chapters, models)])}
    for name, chapter in models.items():
        pages |= _model_pages(name, chapter)
    return pages


def _overview(chapters: Sequence[Section], models: Mapping[str, Section]) -> list[str]:
    lines = [*_insertion(models), "## By model", "", "| model | results | long tables | studies |", "|---|---|---|---|"]
    for name, chapter in models.items():
        links = [f"[summary and main table]({name}.md)", f"[every method, with intervals]({name}-tables.md)"]
        studies = f"[ablations]({name}-studies.md)" if "\n### Studies\n" in chapter.text else ""
        lines.append(f"| {' | '.join([chapter.title, *links, studies])} |")
    others = [f"## {chapter.title}\n{chapter.text}" for chapter in chapters if chapter not in models.values()]
    return [*lines, "", *others]


def _insertion(models: Mapping[str, Section]) -> list[str]:
    """RISE insertion of all models in one table."""
    lines = ["## RISE insertion", "", "On the test split; higher is better.", ""]
    for chapter in models.values():
        heads, *rows = _main_table(chapter.text)
        if len(lines) == 4:
            lines += [f"| {' | '.join(['', *heads[4:]])} |", "|" + " --- |" * (len(heads) - 3)]
        for target, words in TARGETS.items():
            for row in rows:
                if row[0] == target and row[2] in ("image", "joint") and row[3].startswith("RISE ins"):
                    plain = [re.sub(r"[^\d.–]|</?u>", "", cell) for cell in row[4:]]
                    lines.append(f"| {chapter.title.partition(' (')[0]}, {words}, {row[2]} | {' | '.join(plain)} |")
    return [*lines, ""]


def _main_table(chapter: str) -> list[list[str]]:
    """Cells of the first table of the test split: the heads, and the rows."""
    lines = chapter.partition("### Test split")[2].lstrip("\n").splitlines()
    table = list(takewhile(lambda line: line.startswith("|"), lines))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in (table[0], *table[2:])]


def _model_pages(name: str, chapter: Section) -> dict[str, str]:
    about, sections = _sections(chapter.text, "### ")
    shown, behind, studies = [], [], ""
    for section in sections:
        if section.title == "Studies":
            studies = section.text.replace("\n#### ", "\n## ")
            continue
        behind += [Section(title, f"\n\n{text}\n") for title, text in FOLDED.findall(section.text)]
        section = section._replace(text=FOLDED.sub("", section.text))
        if re.match(r"Other|All methods|HETA", section.title):
            behind.append(section)
        elif section.title == "Test split":
            behind.insert(0, section)
            shown.append(section._replace(text=_measured_rows(section.text)))
        else:
            shown.append(section)
    links = [f"[Every method, with intervals]({name}-tables.md)", f"[Studies]({name}-studies.md)"]
    more = " · ".join(links if studies else links[:1])
    pages = {
        name: f"# {chapter.title}\n{about}{more}\n\n{_joined(shown)}",
        f"{name}-tables": f"# {chapter.title}: long tables\n{about}[Summary]({name}.md)\n\n{_joined(behind)}",
    }
    if studies:
        pages[f"{name}-studies"] = f"# {chapter.title}: studies\n{studies}"
    return {page: text.rstrip() + "\n" for page, text in pages.items()}


def _measured_rows(text: str) -> str:
    """The test split's table without the rows of known evidence, which the long tables have."""
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("| target"))
    stop = next((k for k in range(start, len(lines)) if not lines[k].startswith("|")), len(lines))
    rows = [line for line in lines[start + 2 : stop] if MEASURED_ROW.match(line)]
    return "\n".join([*lines[: start + 2], *rows, *lines[stop:]]) + "\n"


def _sections(text: str, sign: str) -> tuple[str, list[Section]]:
    """The text before the first heading of a level, and the sections."""
    head, *parts = re.split(rf"^{sign}", text, flags=re.MULTILINE)
    return head, [Section(*re.match(r"(.*)\n?((?s:.*))", part).groups()) for part in parts]  # type: ignore[union-attr]


def _joined(sections: Sequence[Section]) -> str:
    return "\n".join(f"## {section.title}\n{section.text.rstrip()}\n" for section in sections)
