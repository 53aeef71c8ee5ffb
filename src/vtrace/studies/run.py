"""Run a study: evaluate its variants, then write its table and its plot."""

from __future__ import annotations

from pathlib import Path

from ..benchmarks import Benchmark
from ..faithfulness.run import Plan, Report, evaluate
from ..faithfulness.store import read_run
from ..faithfulness.tables import markdown, tabulate
from ..files import write_atomically
from ..lvlm import Lvlm
from . import find_study
from .plots import draw


def run_study(
    name: str, lvlm: Lvlm, benchmark: Benchmark, out: Path, *, limit: int | None = None, seed: int = 0,
    blur: float | None = None, report: Report = lambda done, total, key: None,
) -> list[Path]:  # fmt: skip
    """Measure what is missing, and write NAME.md, NAME.png and NAME.svg into `out`."""
    study = find_study(name)
    plan = Plan(
        methods=tuple(study.variants), targets=study.targets, seed=seed, blur=blur,
        options={label: options for label, (_, options) in study.variants.items() if options},
        variants={label: method for label, (method, _) in study.variants.items()},
    )  # fmt: skip
    folder = out / name
    evaluate(lvlm, benchmark, plan, folder, limit=limit, report=report)
    run = read_run(folder)
    table = tabulate(run, methods=list(study.variants), subsets=study.subsets, against=next(iter(study.variants)))
    text = f"# {name}\n\n{study.about[0].upper()}{study.about[1:]}.\n\n![{study.about}]({name}.png)\n\n" + markdown(
        table, intervals=True
    )
    page = write_atomically(folder / f"{name}.md", lambda file: file.write_text(text, "utf-8"))
    return [page, *draw(name, study, run, table, folder)]
