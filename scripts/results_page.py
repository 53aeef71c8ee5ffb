"""The pages of docs/results: every number and every sentence that compares methods comes from the runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from results_plan import GROUNDS, ResultsPlan
from results_sections import OWN, ModelResults, Section, results_of

from vtrace.faithfulness.tables import Table
from vtrace.faithfulness.verdicts import count_standings
from vtrace.system.files import write_atomically

TARGETS = {"answer": "answers", "response": "whole responses"}
HEAD = """# Results

Written by `make results` (`scripts/results.py`), seed 0. Every number, and every sentence that compares methods, is
computed from these runs. They use the test splits of Shapes (pictures) and Facts (text) and perturb inputs as in the
paper (K = 20 groups, likelihood of the whole frozen response, blurred patches, pad tokens for words) with a blur radius
of a quarter of the longer side, which removes what the answer needs. One method is *better* or *worse* than another,
*beats* it or *loses to* it, if the 95 % bootstrap interval of the paired difference excludes zero. Otherwise they are
*level*, which does not mean that they are equal. Intervals are not corrected for multiple comparisons.

All runs of these pages took {minutes:.0f} minutes by the clock, pauses and other work on the machine included.

How to read it:

- Two of the models are small and were trained on Shapes alone. The third, SmolLM2-135M-Instruct, has pretrained weights
  and reads text only. What holds on one ground may fail on another, and none of them is a large model that sees
  photographs.
- What only holds on the small models: ordered paths are ahead of the paper's sum everywhere. With pretrained weights,
  AttnLRP is the most faithful method that hides nothing, and the paper's method agrees best with the known evidence.
- Whatever the target of an attribution, the likelihood of the whole response is measured, as in the paper. This works
  against methods that are faithful to the answer alone, such as leave-one-out: an answer that copies the frozen
  reasoning no longer needs the picture.
- Refined methods hide their strongest inputs one at a time, which is close to what the curves measure
  ([refined](../methods/refined.md#when-it-misleads)). They and leave-one-out cost more passes than the others.
- In the joint setting, `vtrace` is calibrated, as the paper defines it; the others are not. Without a picture there is
  nothing to calibrate.
"""


def write_pages(plan: ResultsPlan) -> list[Path]:
    plan.pages.mkdir(parents=True, exist_ok=True)
    models = {model: results_of(plan, model) for model in plan.models}
    pages = {"index": _index(plan, models)}
    for model, found in models.items():
        pages |= _model_pages(plan, model, found)
    return [_write(plan.pages / f"{name}.md", text) for name, text in pages.items()]


def _write(path: Path, text: str) -> Path:
    return write_atomically(path, lambda file: file.write_text(text.rstrip() + "\n", "utf-8"))


def _index(plan: ResultsPlan, models: Mapping[str, ModelResults]) -> str:
    spent = plan.work / "minutes.json"
    minutes = json.loads(spent.read_text()) if spent.exists() else 0.0
    sections = [
        Section("RISE insertion", "\n".join(_insertion(models))),
        Section("By model", "\n".join(_links(plan, models))),
        Section("Overview", "\n".join(_overview(models))),
    ]
    return HEAD.format(minutes=minutes) + "\n" + _joined(sections)


def _insertion(models: Mapping[str, ModelResults]) -> Iterator[str]:
    """RISE insertion of all models in one table, with the cost of each method."""
    methods = [
        m for m in next(iter(models.values())).first.methods if all(m in f.main.methods for f in models.values())
    ]
    yield "On the test split; higher is better."
    yield ""
    yield f"| | {' | '.join(methods)} |"
    yield "|" + " --- |" * (len(methods) + 1)
    for model, found in models.items():
        for target in TARGETS:
            for setting in found.main.settings:
                if line := found.main.find(target, setting, "RISE ins"):
                    cells = [f"{line.cells[method].mean:.3f}" for method in methods]
                    yield f"| {GROUNDS[model].name}, {TARGETS[target]}, {setting} | {' | '.join(cells)} |"
    for model, found in models.items():
        passes = next(iter(found.main.runs.values())).passes
        cells = [f"{passes[method]:.0f}" if method in passes else "–" for method in methods]
        yield f"| {GROUNDS[model].name}: forward passes | {' | '.join(cells)} |"


def _links(plan: ResultsPlan, models: Mapping[str, ModelResults]) -> Iterator[str]:
    yield "| model | results | long tables | studies |"
    yield "|---|---|---|---|"
    for model in models:
        studies = f"[ablations]({model}-studies.md)" if (plan.pages / f"{model}-studies.md").exists() else ""
        links = [f"[summary and main table]({model}.md)", f"[every method, with intervals]({model}-tables.md)", studies]
        yield f"| {' | '.join([GROUNDS[model].title, *links])} |"


def _overview(models: Mapping[str, ModelResults]) -> Iterator[str]:
    """The paper's method and ours against every other: how often better, level and worse."""
    yield (
        "Two methods are compared for every target, in every setting, by RISE and MAS, in insertion and in deletion. "
        "Each cell counts how often the method of the column is better / level / worse than the method of the row."
    )
    yield ""
    columns = [(own, model, table) for own in OWN for model in models if (table := models[model].against.get(own))]
    titles = [f"{own}, {GROUNDS[model].name}" for own, model, _ in columns]
    yield f"| | {' | '.join(titles)} |"
    yield "|" + " --- |" * (len(columns) + 1)
    for rival in dict.fromkeys(name for found in models.values() for name in found.main.methods):
        cells = [_standings(table, own, rival) for own, _, table in columns]
        yield f"| {rival} | {' | '.join(cells)} |"


def _standings(table: Table, own: str, rival: str) -> str:
    if rival == own or rival not in table.methods:
        return ""
    counts = count_standings(table, rival)  # of the rival
    return f"{counts['worse']} / {counts['level']} / {counts['better']}"


def _model_pages(plan: ResultsPlan, model: str, found: ModelResults) -> dict[str, str]:
    title = GROUNDS[model].title
    pages = {f"{model}-tables": f"# {title}: long tables\n\n{found.about}\n\n[Summary]({model}.md)\n\n"}
    pages[f"{model}-tables"] += _joined(found.tables)
    links = [f"[Every method, with intervals]({model}-tables.md)"]
    if found.studies:
        items = f"On {plan.study_items} examples of the dev split unless a table says otherwise, so intervals are wide."
        pages[f"{model}-studies"] = f"# {title}: studies\n\n{items}\n\n{_joined(found.studies)}"
    if found.studies or (plan.pages / f"{model}-studies.md").exists():
        links.append(f"[Studies]({model}-studies.md)")
    pages[model] = f"# {title}\n\n{found.about}\n\n{' · '.join(links)}\n\n{_joined(found.summary)}"
    return pages


def _joined(sections: Sequence[Section]) -> str:
    return "\n\n".join(f"## {section.title}\n\n{section.text.rstrip()}" for section in sections)
