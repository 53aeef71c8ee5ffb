"""Run a study: measure what is missing, then write its tables and its plot."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from ..benchmarks.benchmark import Benchmark
from ..errors import VTraceError, running
from ..faithfulness.item import ChangedExampleError
from ..faithfulness.plan import check_blur
from ..lvlm.model import Lvlm
from ..system.error_log import record_bug
from ..system.files import write_atomically
from ..types import Progress, silent
from .figures import add_title, save_figure
from .registry import find_study
from .store import StudyStore
from .study import Findings, Found, Study, StudySetup


def run_study(
    name: str,
    lvlm: Lvlm,
    benchmark: Benchmark,
    out: Path,
    *,
    limit: int | None = None,
    seed: int = 0,
    blur: float | None = None,
    progress: Progress = silent,
) -> list[Path]:
    """Measure what is missing, and write NAME.md, and NAME.png, .pdf and .svg, into `out`/NAME."""
    study, folder = find_study(name), out / name
    setup = StudySetup(lvlm, benchmark, seed, benchmark.blur if blur is None else check_blur(blur))
    findings = measure_study(study, setup, folder, limit or study.limit, progress)
    report = study.report(findings)
    page = _write_page(study.name, study.about, report.tables, folder)
    add_title(report.figure, f"{study.name.capitalize()}: {study.about}", _measured_on(findings))
    return [page, *_write_plots(study.name, report.figure, folder)]


def measure_study(
    study: Study[Found], setup: StudySetup, folder: Path, limit: int, progress: Progress = silent
) -> Findings[Found]:
    """The findings of the study on its examples. Examples that were left out are tried again next time."""
    with StudyStore(folder, study.settings(setup)) as store:
        keys = {number: setup.benchmark.key(number) for number in study.choose(setup, store, limit, progress)}
        known = {key: study.decode(value) for key, value in store.measurements().items()}
        missing = [n for n, key in keys.items() if key not in known or not study.is_complete(known[key])]
        left_out: dict[str, str] = {}
        for done, number in enumerate(missing, len(keys) - len(missing)):
            key = keys[number]
            progress(done, len(keys), key)
            try:
                with running("the study"):
                    known[key] = study.measure(setup, number, known.get(key))
            except ChangedExampleError:
                raise
            except VTraceError as error:
                left_out[key] = str(error)
                continue
            except Exception as error:  # a bug of ours on one item must not stop the study
                left_out[key] = record_bug(error, folder, f"item {key}")
                continue
            store.save(key, known[key])
        progress(len(keys), len(keys))
    found = {key: known[key] for key in keys.values() if key in known}
    return Findings(setup, found, {key: reason for key, reason in left_out.items() if key not in found})


def _write_page(name: str, about: str, tables: str, folder: Path) -> Path:
    text = f"# {name}\n\n{about[0].upper()}{about[1:]}.\n\n![{about}]({name}.png)\n\n{tables}"
    return write_atomically(folder / f"{name}.md", lambda file: file.write_text(text, "utf-8"))


def _measured_on(findings: Findings[Found]) -> str:
    setup, count = findings.setup, len(findings.found)
    return f"{setup.lvlm.name} on {setup.benchmark.name}, {count} {'example' if count == 1 else 'examples'}"


def _write_plots(name: str, figure: Figure, folder: Path) -> list[Path]:
    return [save_figure(figure, folder / f"{name}.{ending}") for ending in ("png", "pdf", "svg")]
