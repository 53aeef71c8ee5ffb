"""Every block of code in README and docs runs and prints what the page says, or says why it is only checked."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import vtrace
from support.pages import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from code_blocks import NOT_RUN, PAGES, PICTURES, SET_UP, blocks_of, commands_of, run_page

BLOCKS = {page: blocks_of(page.read_text("utf-8")) for page in PAGES}
RUN = [page for page, blocks in BLOCKS.items() if any(not block.reason for block in blocks)]
CHECKED = [(page, block) for page, blocks in BLOCKS.items() for block in blocks if block.reason]
FOREIGN = {
    "torchrun",
    "hf",
    "vllm",
    "curl",
    "export",
    "python",
    "swift",
    "uv",
}  # programs that only checked blocks call
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def names(pinhole, trace, tmp_path):
    """What pages start with: the pictures they name, and the objects of the tutorial."""
    for name in PICTURES:
        trace.images[0].convert("RGB").save(tmp_path / name)
    return {
        "vtrace": vtrace,
        "lvlm": pinhole,
        "trace": trace,
        "attribution": vtrace.attribute(pinhole, trace, "answer"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_a_page_prints_what_it_says(page, names, tmp_path):
    text = page.read_text("utf-8")
    now = run_page(text, tmp_path, names)
    assert now == text, f"run: python scripts/code_blocks.py --write {name_of(page)}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page):
    fences = re.findall(r"^ *```(.*)$", page.read_text("utf-8"), re.MULTILINE)[::2]
    for fence in fences:
        language, _, title = fence.partition(" ")
        assert language in ("python", "sh", "text", "json", "bibtex"), fence
        assert not title or re.fullmatch(rf'title="{NOT_RUN}.+"|title="[A-Z].+"', title), fence


@pytest.mark.parametrize(("page", "block"), CHECKED, ids=[f"{name_of(p)}-{k}" for k, (p, _) in enumerate(CHECKED)])
def test_a_block_that_is_not_run_could_be(page, block):
    for place in re.findall(r"\b((?:tests|bench|scripts)/[\w./]*\w)", block.reason):
        assert (ROOT / place).exists(), place
    if block.language == "sh":  # options are looked up in tests/test_docs.py
        for command in commands_of(block.text):
            first = re.search(r"(?:^|\$\()(?:[A-Z_]+=\S+ )*(\w+)(?=[ ]|$)", command)[1]
            assert first == "vtrace" or first in FOREIGN or command.startswith(SET_UP), command
        return
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "vtrace":
            module = importlib.import_module(node.module)
            assert all(hasattr(module, alias.name) for alias in node.names), node.module
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "vtrace":
            assert node.attr in vtrace.__all__, node.attr


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_installed_exists(page):
    for extras in re.findall(r"vtrace-attribution\[([\w,]+)\]", page.read_text("utf-8")):
        assert set(extras.split(",")) <= EXTRAS.keys(), extras
    for module in re.findall(r"^import (vtrace[\w.]*)", page.read_text("utf-8"), re.MULTILINE):
        assert find_spec(module), module


def test_the_json_of_the_pages_can_be_read():
    for page in PAGES:
        for block in re.findall(r"^```json\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                assert isinstance(importlib.import_module("json").loads(line), dict), line
