"""The floor plan: rooms from the bottom up, imports that point down, names that mean one thing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "vtrace"
# From the bottom up: a module may import from its own room and from those before it.
ROOMS = (
    "errors",
    "types",
    "system",
    "scheduling",
    "lvlm",
    "tracing",
    "attribution",
    "methods",
    "benchmarks",
    "faithfulness",
    "studies",
    "viewer",
    "report",
    "triage",
    "pinhole",
    "credit",
    "serve",
    "cli",
)
MATHS = ("attention", "triangle", "pairwise", "multihop", "calibrate", "shares", "options", "pipeline")
EMPTY_WORDS = {"utils", "util", "helpers", "common", "misc", "manager", "base", "core", "stuff", "work", "own", "v2"}
FILES = sorted(ROOT.rglob("*.py"))


def module_of(path: Path) -> str:
    """Dotted name below `vtrace`; empty for the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path) -> Iterator[str]:
    """Every module of the package that a file imports: early or late, relative or absolute, by name or as text."""
    inside = [*path.relative_to(ROOT).parent.parts]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = inside[: len(inside) - node.level + 1]
            yield from _targets([*base, *((node.module or "").split(".") if node.module else [])], node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vtrace":
            yield from _targets((node.module or "").split(".")[1:], node)
        elif isinstance(node, ast.Import):
            yield from (
                a.name.removeprefix("vtrace").lstrip(".") for a in node.names if a.name.split(".")[0] == "vtrace"
            )
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            name = ast.unparse(node.args[0]).lstrip("f").strip("'\"")
            if name.startswith(("vtrace", ".")):
                yield name


def _targets(parts: list[str], node: ast.ImportFrom) -> Iterator[str]:
    """`from package import module` imports a module; `from module import name` imports from one."""
    base = ".".join(parts)
    for alias in node.names:
        full = f"{base}.{alias.name}".lstrip(".")
        yield full if full in MODULES else base


def edges() -> Iterator[tuple[str, str]]:
    """Importing and imported module."""
    for module, path in MODULES.items():
        yield from ((module, target) for target in imported(path))


def room(module: str) -> str:
    return module.split(".")[0]


def test_every_module_lives_in_a_room():
    assert {room(module) for module in MODULES if module} == set(ROOMS)
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "types.py", "errors.py"}


def test_imports_point_down(capsys):
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for module, target in edges():
        if not module:
            continue  # the root: see below
        assert target, f"{module} imports the root, which stands above it"
        assert target in MODULES, f"{module} imports {target}, which this test does not know"
        assert ROOMS.index(room(target)) <= ROOMS.index(room(module)), f"{module} may not import {target}"
        found[room(module)][room(target)] += 1
    sizes = Counter(room(module) for module in MODULES if module)
    with capsys.disabled():
        print("\nroom          modules  imports from")
        for name in ROOMS:
            below = ", ".join(
                f"{other} {found[name][other]}" for other in ROOMS if found[name][other] and other != name
            )
            print(f"{name:<13} {sizes[name]:>7}  {below or '–'}")


def test_no_module_imports_itself_on_a_detour():
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for module, target in edges():
        if module and module != target:
            graph[module].add(target)
    list(TopologicalSorter(graph).static_order())  # raises and names the modules of a loop


def test_the_root_names_what_users_import_and_who_presents_and_verifies_results():
    """It stands above all rooms, and no room imports it. At once it imports next to nothing; it names the homes of the
    public names, for when they are first used, and the presenter, the verifier and the world of the embedded models:
    results know neither the reports drawn from them, nor how they are put to the test, nor the benchmarks."""
    import vtrace

    late = {*vtrace._HOME.values(), "report.save", "benchmarks.shapes.membership"}
    text = (ROOT / "__init__.py").read_text("utf-8")
    provided = ("system.embedded_world", "system.presentation", "system.verification")
    at_once = {node.module for node in parsed(ROOT / "__init__.py").body if isinstance(node, ast.ImportFrom)}
    assert at_once == {"__future__", "importlib", "typing", *provided, "system.version"}
    assert {target for target in imported(ROOT / "__init__.py") if target in MODULES} <= late | at_once
    assert text.count("import_module(") == 4  # a public name, the presenter, the world, and the verifier
    assert late <= set(MODULES)


def test_only_the_root_exports_for_others():
    """`from vtrace.methods import flashtrace` is a module, because packages re-export nothing."""
    for path in FILES:
        if path.name == "__init__.py" and path.parent != ROOT:
            code = [node for node in parsed(path).body if not isinstance(node, ast.Expr)]
            assert not code, f"{path} should hold a docstring at most"


@pytest.mark.parametrize("name", MATHS)
def test_the_maths_knows_nothing_of_models(name):
    allowed = {"__future__", "collections", "dataclasses", "math", "typing", "numpy", "torch", "jaxtyping"}
    for node in ast.walk(parsed(ROOT / "attribution" / f"{name}.py")):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert (node.module or "").split(".")[0] in allowed
        elif isinstance(node, ast.ImportFrom) and node.level > 1:
            assert node.module in ("types", "errors", "lvlm.layer", "system.option_check")


def test_only_lvlm_and_the_embedded_models_know_transformers():
    for path in FILES:
        if room(module_of(path)) in ("lvlm", "pinhole"):
            continue
        for node in ast.walk(parsed(path)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not any(name.split(".")[0] == "transformers" for name in names), path


def test_pictures_of_users_are_decoded_in_one_place():
    decoding = {module for module, path in MODULES.items() if "Image.open(" in path.read_text("utf-8")}
    assert decoding == {"tracing.pictures", "report.notebook_cell"}  # the latter reads a figure of our own


def public_names(path: Path) -> Iterator[str]:
    """Functions, classes, constants and aliases that a module defines and does not hide."""
    for node in parsed(path).body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        yield from (name for name in names if not name.startswith("_"))


def test_no_public_name_has_two_meanings():
    homes: dict[str, list[str]] = defaultdict(list)
    for module, path in MODULES.items():
        for name in set(public_names(path)) - {"main"}:  # of whatever can be run as a program
            homes[name].append(module)
    twice = {name: modules for name, modules in homes.items() if len(modules) > 1}
    assert not twice, "\n".join(f"{name}: {', '.join(modules)}" for name, modules in sorted(twice.items()))


def test_module_names_say_something():
    assert not [module for module in MODULES if EMPTY_WORDS & set(re.split("[._]", module))]


@pytest.mark.parametrize(
    "module",
    [
        "vtrace",
        "vtrace.cli.main",
        "vtrace.faithfulness.render",
        "vtrace.faithfulness.traces",
        "vtrace.benchmarks.registry",
        "vtrace.methods.catalogue",
        "vtrace.lvlm.families.supported",
        "vtrace.report.trace_document",
    ],
)
def test_what_needs_no_model_is_instant(module):
    code = f"import sys, {module}; print('torch' in sys.modules, 'transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_every_public_name_exists_and_type_checkers_see_the_same():
    import vtrace

    assert all(getattr(vtrace, name) is not None for name in vtrace.__all__)
    assert callable(vtrace.attribute), "the function, not a module of the same name"
    block = next(node for node in parsed(ROOT / "__init__.py").body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == vtrace._HOME


def test_files_stay_small():
    long = {module: len(path.read_text("utf-8").splitlines()) for module, path in MODULES.items()}
    assert not {module: count for module, count in long.items() if count > 400}
    assert sum(count > 300 for count in long.values()) <= 5
