"""Run a study: measure its items, then write its table and its plot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from ..benchmarks.benchmark import Benchmark
from ..errors import InputError, VTraceError, running
from ..faithfulness.render import markdown
from ..faithfulness.run import Plan, check_blur, evaluate, noise
from ..faithfulness.statistics import Summary, summarise
from ..faithfulness.store import read_run
from ..faithfulness.tables import tabulate
from ..lvlm.model import Lvlm
from ..system.files import write_atomically
from ..tracing.generate import trace
from ..types import Progress, silent
from .balance import balanced
from .journal import Journal
from .plots import draw, draw_profile
from .profiles import Point, Profile
from .study import Study, find_study

LIMIT = 50
Means = dict[tuple[str, str], list[tuple[float, Summary]]]  # by panel and series: x, and y over items


def run_study(
    name: str, lvlm: Lvlm, benchmark: Benchmark, out: Path, *, limit: int | None = None, seed: int = 0,
    blur: float | None = None, progress: Progress = silent,
) -> list[Path]:  # fmt: skip
    """Measure what is missing, and write NAME.md, NAME.png and NAME.svg into `out`/NAME."""
    study, folder = find_study(name), out / name
    if isinstance(study, Study):
        return _run_variants(name, study, lvlm, benchmark, folder, limit or LIMIT, seed, blur, progress)
    items = _measure(study, lvlm, benchmark, folder, limit or study.limit, seed, blur, progress)
    measured = [points for points in items.values() if not isinstance(points, str)]
    means = _means(study, measured)
    left_out = Counter(reason for reason in items.values() if isinstance(reason, str))
    facts = f"{lvlm.name} on {benchmark.name}, {len(items) - left_out.total()} examples, seed {seed}.\n"
    facts += "".join(f"Left out, {count} of {len(items)}: {reason}.\n" for reason, count in left_out.items())
    page = _page(name, study.about, _tables(study, means, measured) + f"\n{facts}", folder)
    return [page, *draw_profile(name, study, means, folder)]


def _run_variants(
    name: str, study: Study, lvlm: Lvlm, benchmark: Benchmark, folder: Path, limit: int, seed: int,
    blur: float | None, progress: Progress,
) -> list[Path]:  # fmt: skip
    plan = Plan(
        methods=tuple(study.variants), targets=study.targets, seed=seed, blur=blur, calibrated=study.calibrated,
        options={label: options for label, (_, options) in study.variants.items() if options},
        variants={label: method for label, (method, _) in study.variants.items()},
    )  # fmt: skip
    only = balanced(lvlm, benchmark, limit, folder, progress) if "incorrect" in study.subsets else None
    evaluate(lvlm, benchmark, plan, folder, limit=limit, only=only, progress=progress)
    run = read_run(folder)
    present = {row["method"] for row in run.rows["result"]}
    lost = {row["method"]: row["reason"] for row in run.rows["failure"] if row["method"] not in present}
    variants = [label for label in study.variants if label in present]
    table = tabulate(run, methods=variants, subsets=study.subsets, against=next(iter(variants), None))
    if not table.lines:
        failures = [reason for facts in table.runs.values() for reason in facts.failures]
        reasons = "; ".join(failures) or "none of them succeeded on the same items"
        raise InputError(f"the variants of {name} cannot be compared: {reasons}")
    text = markdown(table, intervals=True)
    text += "".join(f"Failed everywhere: {label}: {reason}\n" for label, reason in lost.items())
    return [
        _page(name, study.about, text, folder),
        *draw(name, study, run, table, folder),
    ]


def _page(name: str, about: str, tables: str, folder: Path) -> Path:
    text = f"# {name}\n\n{about[0].upper()}{about[1:]}.\n\n![{about}]({name}.png)\n\n{tables}"
    return write_atomically(folder / f"{name}.md", lambda file: file.write_text(text, "utf-8"))


def _measure(
    profile: Profile, lvlm: Lvlm, benchmark: Benchmark, folder: Path, limit: int, seed: int, blur: float | None,
    progress: Progress,
) -> dict[str, list[Point] | str]:  # fmt: skip
    """Points of every item, or why it has none. What went wrong is tried again the next time."""
    radius = benchmark.blur if blur is None else check_blur(blur)
    settings = {
        "model": lvlm.name, "revision": lvlm.revision, "benchmark": benchmark.name, "seed": seed, "blur": radius,
        "dtype": lvlm.dtype,
    }  # fmt: skip
    keys = [benchmark.key(index) for index in range(min(limit, benchmark.size))]
    lost: dict[str, str] = {}
    with Journal(folder / "points.jsonl", settings) as journal:
        missing = [index for index, key in enumerate(keys) if key not in journal.known]
        for done, index in enumerate(missing, len(keys) - len(missing)):
            progress(done, len(keys), keys[index])
            try:
                with running("the study"):
                    frozen = trace(lvlm, benchmark.example(index))
                    journal.add(keys[index], profile.measure(lvlm, frozen, radius, noise(seed, index)))
            except VTraceError as error:
                lost[keys[index]] = str(error)
        progress(len(keys), len(keys))
        return {key: lost[key] if key in lost else journal.known[key] for key in keys}


def _means(profile: Profile, items: list[list[Point]]) -> Means:
    collected: dict[tuple[str, str], dict[float, list[tuple[float, float]]]] = {}
    for panel, series, x, y in (point for points in items for point in points):
        place = 0.0 if profile.panels[panel].scatter else x
        collected.setdefault((panel, series), {}).setdefault(place, []).append((x, y))
    return {
        key: [
            (float(np.mean([x for x, _ in pairs])), _summary(np.array([y for _, y in pairs])))
            for _, pairs in sorted(places.items())
        ]
        for key, places in collected.items()
    }


def _summary(values: np.ndarray) -> Summary:
    return summarise({"": values}, None, True, draws=2000)[""]


def _tables(profile: Profile, means: Means, items: list[list[Point]]) -> str:
    """One table per panel: series by x. Not every example has points in every panel."""
    counts = Counter(panel for points in items for panel in {where for where, *_ in points})
    text = ""
    for title, panel in profile.panels.items():
        count = f"{title}, {counts[title]} examples"
        rows = {series: points for (where, series), points in means.items() if where == title}
        if panel.scatter:
            text += f"| {count} | {panel.x} | {panel.y} |\n| --- | --- | --- |\n"
            text += "".join(f"| {name} | {p[0][0]:.3f} | {p[0][1].mean:.3f} |\n" for name, p in rows.items()) + "\n"
            continue
        places = sorted({x for points in rows.values() for x, _ in points})
        heads = [(panel.ticks or {}).get(x, f"{x:.4g}") for x in places]
        text += f"| {count}: {panel.y} by {panel.x} | {' | '.join(heads)} |\n|{' --- |' * (len(heads) + 1)}\n"
        for name, points in rows.items():
            values = {x: f"{s.mean:.3f}" if abs(s.mean) < 100 else f"{s.mean:.0f}" for x, s in points}
            text += f"| {name} | {' | '.join(values.get(x, '') for x in places)} |\n"
        text += "\n"
    return text
