"""The pages of docs/results: every number and every sentence that compares methods comes from the runs."""

from __future__ import annotations

from pathlib import Path

from results_index import index_page
from results_plan import GROUNDS, ResultsPlan
from results_sections import ModelResults, joined, results_of

from vtrace.system.files import write_atomically


def write_pages(plan: ResultsPlan) -> list[Path]:
    plan.pages.mkdir(parents=True, exist_ok=True)
    models = {model: results_of(plan, model) for model in plan.models}
    pages = {"index": index_page(plan.pages, models)}
    for model, found in models.items():
        pages |= _model_pages(plan, model, found)
    return [_write(plan.pages / f"{name}.md", text) for name, text in pages.items()]


def _write(path: Path, text: str) -> Path:
    return write_atomically(path, lambda file: file.write_text(text.rstrip() + "\n", "utf-8"))


def _model_pages(plan: ResultsPlan, model: str, found: ModelResults) -> dict[str, str]:
    title = GROUNDS[model].title
    pages = {f"{model}-tables": f"# {title}: long tables\n\n{found.about}\n\n[Summary]({model}.md)\n\n"}
    pages[f"{model}-tables"] += joined(found.tables)
    links = [f"[Every method, with intervals]({model}-tables.md)"]
    if found.studies:
        items = f"On {plan.study_items} examples of the dev split unless a table says otherwise, so intervals are wide."
        pages[f"{model}-studies"] = f"# {title}: studies\n\n{items}\n\n{joined(found.studies)}"
    if found.studies or (plan.pages / f"{model}-studies.md").exists():
        links.append(f"[Studies]({model}-studies.md)")
    pages[model] = f"# {title}\n\n{found.about}\n\n{' · '.join(links)}\n\n{joined(found.summary)}"
    return pages
