"""Imports point one way: down this list. Whoever reads it from top to bottom has read Algorithm 1."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "vtrace"
ORDER = [
    "errors", "files", "types", "prompt", "spans", "targets", "conversation",
    "lvlm", "generate", "attention", "pairwise", "multihop", "calibrate", "attribution",
    "parallel", "perturb", "methods", "meter", "comparison", "documents", "colours", "viewer", "report",
    "benchmarks", "examples", "faithfulness", "studies", "doctor", "pinhole", "serve", "cli",
]  # fmt: skip
LATE = {("attribution", "report"), ("comparison", "report")}  # .save and notebook pictures, imported inside methods
MATHS = {
    "attention": {"torch"},
    "pairwise": {"torch"},
    "multihop": {"torch", "math"},
    "calibrate": {"math", "dataclasses"},
}


def imports(path: Path):
    """(home, imported home, whether at module level) for every import of the package by itself."""
    tree = ast.parse(path.read_text())
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    parts = path.relative_to(ROOT).parts
    home = parts[0].removesuffix(".py")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            up = len(parts) - node.level
            if up > 0:
                continue  # inside the same folder
            for name in [(node.module or "").split(".")[0]] if node.module else [a.name for a in node.names]:
                if name in ORDER:
                    yield home, name, id(node) not in inside


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_import_points_up(path):
    if path == ROOT / "__init__.py":
        return
    for home, name, at_top in imports(path):
        if (home, name) in LATE and not at_top:
            continue
        assert ORDER.index(name) <= ORDER.index(home), f"{path.name} imports {name}, which stands above it"


@pytest.mark.parametrize("module", MATHS)
def test_the_maths_knows_nothing_of_models(module):
    tree = ast.parse((ROOT / f"{module}.py").read_text())
    outside = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0)
    }
    assert outside - {"__future__", "collections"} <= MATHS[module]


def test_only_lvlm_imports_model_classes():
    for path in ROOT.rglob("*.py"):
        if path.is_relative_to(ROOT / "lvlm") or path.is_relative_to(ROOT / "pinhole"):
            continue
        assert "transformers import" not in path.read_text(), path


@pytest.mark.parametrize("module", ["vtrace", "vtrace.cli", "vtrace.faithfulness.formats"])
def test_what_needs_no_model_is_instant(module):
    code = f"import sys, {module}; print('torch' in sys.modules, 'transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_every_public_name_exists():
    import vtrace

    assert all(getattr(vtrace, name) is not None for name in vtrace.__all__)
    assert callable(vtrace.attribute), "the function, not a module of the same name"
