"""The first page of docs/results: all models side by side.

What it says of each model is also kept in a file beside it, so that a model that is measured alone does not remove the
others from the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from results_plan import FIRST, GROUNDS
from results_sections import OWN, ModelResults, Section, joined

from vtrace.faithfulness.tables import Table
from vtrace.faithfulness.verdicts import count_standings
from vtrace.system.files import write_atomically

OVERVIEW = "overview.json"
TARGETS = {"answer": "answers", "response": "whole responses"}
HEAD = """# Results

Written by `make results` (`scripts/results.py`), seed 0. Every number, and every sentence that compares methods, is
computed from these runs. They use the test splits of Shapes (pictures) and Facts (text) and perturb inputs as in the
paper (K = 20 groups, likelihood of the whole frozen response, blurred patches, pad tokens for words) with a blur radius
of a quarter of the longer side, which removes what the answer needs. One method is *better* or *worse* than another,
*beats* it or *loses to* it, if the 95 % bootstrap interval of the paired difference excludes zero. Otherwise they are
*level*, which does not mean that they are equal. Intervals are not corrected for multiple comparisons.

How to read it:

- Two of the models are small and were trained on Shapes alone. The third, SmolLM2-135M-Instruct, has pretrained weights
  and reads text only. What holds on one ground may fail on another, and none of them is a large model that sees
  photographs.
- What only holds on the small models: ordered paths are ahead of the paper's sum everywhere. With pretrained weights,
  they are ahead in insertion and behind in MAS deletion, AttnLRP has the highest insertion of all methods that hide
  nothing, and the paper's method tells the known evidence best from all other words, ordered paths from other facts.
- Whatever the target of an attribution, the likelihood of the whole response is measured, as in the paper. This works
  against methods that are faithful to the answer alone, such as leave-one-out: an answer that copies the frozen
  reasoning no longer needs the picture.
- Refined methods hide their strongest inputs one at a time, which is close to what the curves measure
  ([refined](../methods/refined.md#when-it-misleads)). They and leave-one-out cost more passes than the others.
- In the joint setting, `vtrace` is calibrated, as the paper defines it; the others are not. Without a picture there is
  nothing to calibrate.
"""


class Overview(NamedTuple):
    """What the first page says of one model."""

    insertion: Mapping[str, Mapping[str, float]]  # RISE insertion: of a target and a setting, of each method
    passes: Mapping[str, float]  # of each method
    standings: Mapping[str, Mapping[str, str]]  # of each of our own methods against every other


def index_page(pages: Path, measured: Mapping[str, ModelResults]) -> str:
    """The page, with the models that were measured now and those that were measured before."""
    place = pages / OVERVIEW
    before = json.loads(place.read_text("utf-8")) if place.exists() else {}
    known = {model: Overview(**found) for model, found in before.items()}
    known |= {model: _overview_of(found) for model, found in measured.items()}
    known = {model: known[model] for model in GROUNDS if model in known}
    text = json.dumps({model: found._asdict() for model, found in known.items()}, indent=1)
    write_atomically(place, lambda file: file.write_text(text + "\n", "utf-8"))
    sections = [
        Section("RISE insertion", "\n".join(_insertion(known))),
        Section("By model", "\n".join(_links(pages, list(known)))),
        Section("Overview", "\n".join(_standings(known))),
    ]
    return HEAD + "\n" + joined(sections)


def _overview_of(found: ModelResults) -> Overview:
    lines = {
        f"{words}, {setting}": line
        for target, words in TARGETS.items()
        for setting in found.main.settings
        if (line := found.main.find(target, setting, "RISE ins"))
    }
    return Overview(
        {name: {method: round(cell.mean, 4) for method, cell in line.cells.items()} for name, line in lines.items()},
        {method: round(passes, 1) for method, passes in next(iter(found.main.runs.values())).passes.items()},
        {
            own: {rival: _standing(table, rival) for rival in table.methods if rival != own}
            for own, table in found.against.items()
        },
    )


def _standing(table: Table, rival: str) -> str:
    counts = count_standings(table, rival)  # of the rival
    return f"{counts['worse']} / {counts['level']} / {counts['better']}"


def _insertion(models: Mapping[str, Overview]) -> Iterator[str]:
    """RISE insertion of all models in one table, with the cost of each method."""
    rows = [row for found in models.values() for row in found.insertion.values()]
    methods = [name for name in FIRST if all(name in row for row in rows)]
    yield "On the test split; higher is better."
    yield ""
    yield f"| | {' | '.join(methods)} |"
    yield "|" + " --- |" * (len(methods) + 1)
    for model, found in models.items():
        for name, row in found.insertion.items():
            yield f"| {GROUNDS[model].name}, {name} | {' | '.join(f'{row[method]:.3f}' for method in methods)} |"
    for model, found in models.items():
        cells = [f"{found.passes[method]:.0f}" if method in found.passes else "–" for method in methods]
        yield f"| {GROUNDS[model].name}: forward passes | {' | '.join(cells)} |"


def _links(pages: Path, models: Sequence[str]) -> Iterator[str]:
    yield "| model | results | long tables | studies |"
    yield "|---|---|---|---|"
    for model in models:
        studies = f"[ablations]({model}-studies.md)" if (pages / f"{model}-studies.md").exists() else ""
        links = [f"[summary and main table]({model}.md)", f"[every method, with intervals]({model}-tables.md)", studies]
        yield f"| {' | '.join([GROUNDS[model].title, *links])} |"


def _standings(models: Mapping[str, Overview]) -> Iterator[str]:
    """The paper's method and ours against every other: how often better, level and worse."""
    yield (
        "Two methods are compared for every target, in every setting, by RISE and MAS, in insertion and in deletion. "
        "Each cell counts how often the method of the column is better / level / worse than the method of the row."
    )
    yield ""
    columns = {
        f"{own}, {GROUNDS[model].name}": found.standings[own]
        for own in OWN
        for model, found in models.items()
        if own in found.standings
    }
    yield f"| | {' | '.join(columns)} |"
    yield "|" + " --- |" * (len(columns) + 1)
    for rival in dict.fromkeys(name for found in models.values() for row in found.insertion.values() for name in row):
        yield f"| {rival} | {' | '.join(row.get(rival, '') for row in columns.values())} |"
