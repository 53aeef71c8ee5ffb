"""The messages of all errors that VTrace raises, read from its source, and those on the page that explains them.

`python scripts/error_messages.py` prints the rows that the page lacks, and those whose message is gone.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "vtrace"
PAGE = ROOT / "docs" / "reference" / "errors.md"
ROW = re.compile(r"^\| `(.+?)` \| ([\d, ]+) \| (.+?) \| (.+?) \|$", re.MULTILINE)
BASES = {"VTraceError": 2, "InputError": 2, "ModelError": 3}  # with their exit codes
GAP = "…"  # what is different each time


class Message(NamedTuple):
    """What an error says, with a gap for every value."""

    text: str
    exit_code: int


def explained_messages() -> set[Message]:
    """The messages on the page."""
    rows = ROW.findall(PAGE.read_text("utf-8"))
    return {Message(text, int(code)) for text, codes, _, _ in rows for code in codes.split(", ")}


@functools.cache
def error_messages() -> dict[Message, str]:
    """Every message with the module that raises it first."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    codes = _exit_codes(trees.values())
    found: dict[Message, str] = {}
    for path, tree in trees.items():
        module = path.relative_to(SOURCE).with_suffix("").as_posix()
        for scope in ast.walk(tree):
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
                for call in _own_calls(scope):
                    if isinstance(call.func, ast.Name) and call.func.id in codes and call.args:
                        for text in _texts(call.args[0], _assigned(scope)):
                            if re.search(r"\w{3}", text):  # else it passes another message on
                                found.setdefault(Message(text, codes[call.func.id]), module)
    return found


def _exit_codes(trees: Iterable[ast.Module]) -> dict[str, int]:
    """Error classes of the package, by name."""
    codes = dict(BASES)
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for base in node.bases:
                    if isinstance(base, ast.Name) and base.id in BASES:
                        codes[node.name] = codes.get(node.name, BASES[base.id])
    return codes


def _own_calls(scope: ast.AST) -> Iterator[ast.Call]:
    """Calls in a function, without those of functions inside it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _own_calls(child)


def _assigned(scope: ast.AST) -> dict[str, ast.expr]:
    """Values of names that the function sets."""
    return {
        target.id: node.value
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _texts(node: ast.expr, names: dict[str, ast.expr]) -> list[str]:
    """The texts that an expression can have."""
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.JoinedStr(values=values):
            texts = [""]
            for value in values:
                parts = [value.value] if isinstance(value, ast.Constant) else _parts(value, names)
                texts = [text + part for text in texts for part in parts]
            return texts
        case ast.IfExp(body=body, orelse=other):
            return [*_texts(body, names), *_texts(other, names)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [first + second for first in _texts(left, names) for second in _texts(right, names)]
        case ast.Name(id=name) if name in names:
            return _texts(names[name], {})
        case _:
            return [GAP]


def _parts(value: ast.expr, names: dict[str, ast.expr]) -> list[str]:
    """A value inside a text: its own texts if it chooses between two, else a gap."""
    inner = value.value if isinstance(value, ast.FormattedValue) else value
    return _texts(inner, {}) if isinstance(inner, ast.IfExp) else [GAP]


def main() -> None:
    raised, explained = error_messages(), explained_messages()
    for message, module in raised.items():
        if message not in explained:
            print(f"missing ({module}): | `{message.text}` | {message.exit_code} | CAUSE | CURE |")
    for message in explained - raised.keys():
        print(f"gone: {message.text} ({message.exit_code})")


if __name__ == "__main__":
    main()
