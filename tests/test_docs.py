"""Documents that cannot go stale: what they say is compared with the code, the files and the measurements."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from typing import Any

import click
import pytest
import typer

import vtrace
from support.pages import ROOT, stated_method_costs, stated_overheads, table_with, tables_of
from vtrace.cli.main import app
from vtrace.lvlm.families.supported import FAMILIES, has_pictures
from vtrace.methods.flashtrace import span_scores, stop_tokens
from vtrace.methods.registry import METHODS, Method, options_of, run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.targets import find_target

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
MAKE_TARGETS = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
RESULTS = "docs/results/index.md"


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def test_the_reference_pages_are_current(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    reference = importlib.import_module("reference")
    for name, write in reference.PAGES.items():
        assert text_of(f"docs/reference/{name}") == write(), "run: make docs"


@pytest.mark.parametrize("page", NAMES)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)\)", text_of(page)):
        place = (ROOT / page).parent / link
        if place.parent.name == "gallery" and place.suffix == ".html":  # made from a document when the site is built
            place = place.with_suffix(".json")
        assert link.startswith("http") or place.exists(), link


@pytest.mark.parametrize("page", NAMES)
def test_no_page_has_a_gap(page):
    assert "<!--" not in text_of(page)


@pytest.mark.parametrize("page", NAMES)
def test_files_that_are_mentioned_exist(page):
    for place in re.findall(r"`((?:src|tests|docs|bench|scripts|examples)/[\w./-]+)`", text_of(page)):
        assert (ROOT / place).exists(), place


@pytest.mark.parametrize("page", NAMES)
def test_commands_that_are_mentioned_exist(page):
    text = text_of(page)
    for target in re.findall(r"(?:`|^)make\s+([\w-]+)", text, re.MULTILINE):
        assert target in MAKE_TARGETS, f"make {target}"
    for module in re.findall(r"python -m (vtrace[\w.]*)", text):
        assert find_spec(module), module
    for script in re.findall(r"python ((?:bench|scripts|docs|examples)/\S+?\.py)", text):
        assert (ROOT / script).exists(), script


@pytest.mark.parametrize("page", NAMES)
def test_options_of_commands_exist(page):
    commands = typer.main.get_command(app).commands
    for line in re.findall(r"^\s*(?:\S+=\S+ )?(vtrace \w.*)$", text_of(page), re.MULTILINE):
        for command in re.split(r" && | \| ", line.partition("  #")[0].partition("     (")[0]):
            words = shlex.split(command.partition(" > ")[0])
            if words[:1] != ["vtrace"] or words[1].startswith("-"):
                continue
            known = {flag for option in commands[words[1]].params for flag in flags_of(option)}
            assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, command


def flags_of(parameter: click.Parameter) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts, "--help"]


def test_the_index_of_methods_is_the_registry():
    rows = table_with("docs/methods/README.md", "name", "page", "cost in forward passes")
    stated = [[row["name"], *list(row.values())[2:]] for row in rows]
    assert stated == [
        [f"`{name}`" + " †" * (m.speed == "slow"), m.about, m.cost, m.status] for name, m in METHODS.items()
    ]


def page_of(method: str) -> str:
    index = table_with("docs/methods/README.md", "name", "page")
    row = next(row for row in index if row["name"].split("`")[1] == method)
    return "docs/methods/" + re.search(r"\((\w+\.md)\)", row["page"])[1]


@pytest.mark.parametrize("name", METHODS)
def test_a_page_lists_the_options_of_its_method_with_their_defaults(name):
    stated: dict[str, Any] = {}
    for row in table_with(page_of(name), "option", "default"):
        if row.get("method", f"`{name}`") == f"`{name}`" and row["option"] != "none":
            options = re.findall(r"`(\w+)`", row["option"])
            stated |= zip(options, map(value_of, row["default"].split(", ")), strict=True)
    after = METHODS[name].after  # options of the method that it refines are on that method's page
    assert stated == pytest.approx(options_of(after) if after else METHODS[name].options)


def value_of(text: str) -> Any:
    """A default as a page writes it: `"word"`, `True`, 0.5 or 1/12."""
    if text.startswith("`"):
        return {"True": True, "False": False, "None": None}.get(text.strip("`"), text.strip('`"'))
    return float(Fraction(text))


def forward_passes(method: Method) -> int:
    """The number that the cost of a method begins with."""
    return int(re.match(r"\d+", method.cost)[0])


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.speed != "slow"])
def test_a_method_runs_as_many_forward_passes_as_the_tables_say(pinhole, trace, name):
    counted: list[int] = []
    session = TraceSession.open(pinhole, trace)
    hook = pinhole.seam.decoder.register_forward_pre_hook(
        lambda module, args, kwargs: counted.append(len(kwargs["inputs_embeds"])), with_kwargs=True
    )
    try:
        run_method(name, session, find_target(trace, "answer"))
    finally:
        hook.remove()
    assert sum(counted) == forward_passes(METHODS[name])


@pytest.mark.slow
def test_the_effect_of_stop_tokens_in_the_ratio_of_flashtrace(monkeypatch):
    """As much as the page says: the public package sets their scores to zero before it forms the ratio."""

    def masked(session, *arguments):
        found = span_scores(session, *arguments)
        return found._replace(scores=found.scores * ~stop_tokens(session.trace))

    lvlm = vtrace.load("pinhole-internvl")
    effects = []
    for number in range(6):
        frozen = vtrace.trace(lvlm, vtrace.example(f"test-{number}"))
        session = TraceSession.open(lvlm, frozen)
        for target in map(partial(find_target, frozen), ("response", "answer")):
            ours = run_method("flashtrace", session, target).scores[frozen.inputs]
            with monkeypatch.context() as patched:
                patched.setattr("vtrace.methods.flashtrace.span_scores", masked)
                theirs = run_method("flashtrace", session, target).scores[frozen.inputs]
            effects.append(abs(ours - theirs).max() / ours.max())
    percent = re.search(r"changes by\s+up\s+to\s+(\d+)\s+%", text_of("docs/methods/flashtrace.md"))[1]
    assert round(100 * max(effects)) == int(percent)


def test_numbers_of_methods_and_families():
    assert f"{len(METHODS)} attribution methods" in text_of("CHANGELOG.md")
    pictures, text = (
        {kind for f in FAMILIES if has_pictures(f) is shown for kind in f.model_types} for shown in (True, False)
    )
    assert f"{len(pictures)} image-text model types and {len(text)} text-only decoders" in text_of("CHANGELOG.md")


def test_the_readme_is_short():
    assert len(text_of("README.md").splitlines()) <= 120


@pytest.mark.parametrize("model", ["pinhole", "pinhole-internvl"])
def test_the_page_has_the_accuracies_of_the_embedded_models(model):
    folder = "checkpoint" if model == "pinhole" else "checkpoint_internvl"
    measured = json.loads(text_of(f"src/vtrace/pinhole/{folder}/accuracy.json"))
    (rows,) = [table.rows for table in tables_of(ROOT / "docs/results/embedded-models.md") if table.heads[0] == "task"]
    first = 1 if model == "pinhole" else 3
    stated = {row[0]: (row[first], row[first + 1], row[5]) for row in rows}
    assert stated == {
        task: tuple(f"{facts[column]:.3f}" for column in ("accuracy", "blank", "majority"))
        for task, facts in measured["tasks"].items()
    }
    assert f"{measured['mean']:.3f}" in text_of("docs/results/embedded-models.md")


def test_the_overview_has_the_numbers_of_the_models():
    pages = {text.splitlines()[0].split()[1]: text for text in map(text_of, NAMES) if "## Test split" in text}
    rows = [row for row in table_with(RESULTS, "", "vtrace", "random") if "passes" not in row[""]]
    assert len(rows) == 9
    for row in rows:
        model, target, setting = row.pop("").split(", ")
        measured = rise_insertion(pages[model], {"answers": "answer", "whole responses": "response"}[target], setting)
        assert row == {method: measured[method] for method in row}, (model, target, setting)


def rise_insertion(page: str, target: str, setting: str) -> dict[str, str]:
    """Means by method from the first table of the test split."""
    lines = page.partition("## Test split")[2].splitlines()
    heads = next(line for line in lines if line.startswith("| target"))
    row = next(line for line in lines if re.match(rf"\| {target} \| 200 \| {setting} \| RISE ins", line))
    return {
        head.strip(): re.sub(r"[^\d.]", "", re.sub(r"</?u>", "", cell))
        for head, cell in zip(heads.split("|")[1:-1], row.split("|")[1:-1], strict=True)
    }


def test_the_claims_of_the_readme_are_those_of_the_table():
    assert "is ahead of it in all 16 comparisons on each" in " ".join(text_of("README.md").split())
    rows = table_with(RESULTS, "", "vtrace-ordered, Pinhole", "vtrace-ordered, Pinhole-InternVL")
    (against,) = [row for row in rows if row[""] == "vtrace"]
    assert against["vtrace-ordered, Pinhole"] == against["vtrace-ordered, Pinhole-InternVL"] == "16 / 0 / 0"


def test_what_the_overview_says_of_pretrained_weights_is_in_the_tables():
    (row,) = [row for row in table_with(RESULTS, "", "vtrace", "random") if "SmolLM2" in row[""] and "," in row[""]]
    tracing = {name: float(mean) for name, mean in row.items() if name not in ("", "loo", "vtrace-ordered-refined")}
    assert max(tracing, key=lambda name: tracing[name]) == "attnlrp"
    table = next(iter(tables_of(ROOT / "docs/results/smollm2-tables.md")))
    (evidence,) = [row for row in table.records() if row["metric"] == "auc ↑"]
    assert evidence["vtrace"].startswith("**")  # the best of the row


def test_the_readme_has_the_costs_of_other_packages():
    (stated,) = [
        row for row in table_with("README.md", "VTrace", "flashtrace 0.1") if row[""].startswith("forward passes")
    ]
    costs = {(row["package"].split()[0], row["what"]): row["passes at 1,024 tokens"].split()[0] for row in peers()}
    assert stated["VTrace"].startswith(costs["vtrace", "`vtrace`, all paths"])
    assert stated["flashtrace 0.1"].startswith(costs["flashtrace", "FlashTrace, 1 hop"])
    assert stated["captum 0.9"] in [cost for (package, _), cost in costs.items() if package == "captum"]
    found = [cost for (package, _), cost in costs.items() if package == "inseq"]
    assert re.findall(r"\d+", stated["inseq 0.7"]) == found


def peers() -> list[dict[str, str]]:
    return table_with("docs/results/cost.md", "package", "passes at 1,024 tokens")


def test_the_cost_tables_can_be_read():
    assert [row["tokens"] for row in stated_overheads()] == [1024, 2048]  # what bench/overhead.py measures by default
    assert all(value > 0 for row in stated_overheads() for value in row.values())
    costs = stated_method_costs()
    assert set(costs) <= set(METHODS)
    assert all(cost > 0 for cost in costs.values())


def test_the_method_page_names_every_option_of_the_method():
    stated = {
        re.match(r"`(\w+)", row["option"])[1] for row in table_with("docs/explanation/method.md", "option", "effect")
    }
    assert stated == set(METHODS["vtrace"].options)


def test_contributing_lists_the_rooms_from_the_bottom_up():
    rooms = [name for row in table_with("CONTRIBUTING.md", "room") for name in re.findall(r"`(\w+)`", row["room"])]
    order = re.search(r"^ROOMS = \((.*?)\)", text_of("tests/test_architecture.py"), re.MULTILINE | re.DOTALL)[1]
    assert rooms == re.findall(r'"(\w+)"', order)


def test_contributing_lists_the_folders_of_tests():
    listed = {
        name for row in table_with("CONTRIBUTING.md", "folder") for name in re.findall(r"`tests/(\w+)", row["folder"])
    }
    folders = {path.stem for path in (ROOT / "tests").iterdir() if list(path.glob("test_*.py"))}
    assert folders <= listed
