"""The pages of docs/results: every number and every sentence that compares methods comes from the runs."""

from __future__ import annotations

from pathlib import Path

from results_index import index_page
from results_plan import GROUNDS, ResultsPlan
from results_sections import ModelResults, joined, results_of, study_sections

from vtrace.system.files import write_atomically

ABOUT_STUDIES = (
    "On the first examples of the dev split. Each table says how many; they are few, so intervals are wide. "
    "Seconds depend on what else the machine did ([studies](../explanation/faithfulness.md#studies)). "
    "`python scripts/results.py --studies-only` measures and writes all of it."
)


def write_pages(plan: ResultsPlan) -> list[Path]:
    plan.pages.mkdir(parents=True, exist_ok=True)
    models = {model: results_of(plan, model) for model in plan.models}
    studies = write_study_pages(plan)  # first, because the other pages link to those that there are
    pages = {"index": index_page(plan.pages, models)}
    for model, found in models.items():
        pages |= _model_pages(plan, model, found)
    return [*studies, *(_write(plan.pages / f"{name}.md", text) for name, text in pages.items())]


def write_study_pages(plan: ResultsPlan) -> list[Path]:
    """The pages of the models that have studies, which need no run of the test split."""
    plan.pages.mkdir(parents=True, exist_ok=True)
    written = []
    for model in plan.models:
        if sections := study_sections(plan, model):
            head = f"# {GROUNDS[model].title}: studies\n\n{ABOUT_STUDIES}"
            written.append(_write(_study_page(plan, model), f"{head}\n\n{joined(sections)}"))
    return written


def _study_page(plan: ResultsPlan, model: str) -> Path:
    return plan.pages / f"{model}-studies.md"


def _write(path: Path, text: str) -> Path:
    return write_atomically(path, lambda file: file.write_text(text.rstrip() + "\n", "utf-8"))


def _model_pages(plan: ResultsPlan, model: str, found: ModelResults) -> dict[str, str]:
    title = GROUNDS[model].title
    pages = {f"{model}-tables": f"# {title}: long tables\n\n{found.about}\n\n[Summary]({model}.md)\n\n"}
    pages[f"{model}-tables"] += joined(found.tables)
    links = [f"[Every method, with intervals]({model}-tables.md)"]
    if _study_page(plan, model).exists():
        links.append(f"[Studies]({model}-studies.md)")
    pages[model] = f"# {title}\n\n{found.about}\n\n{' · '.join(links)}\n\n{joined(found.summary)}"
    return pages
