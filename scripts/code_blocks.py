"""Code in README and docs: run it, and compare what it prints with what the page says.

    python scripts/code_blocks.py            # run everything
    python scripts/code_blocks.py --write    # and write what was printed into the pages

A block whose title begins with "Checked, not run" is not run; the title gives the reason. Blocks of a page run one
after the other in one folder. A `text` block right after a block is what it prints.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = "Checked, not run: "
BLOCK = re.compile(r'^( *)```(\w*)(?: title="([^"]*)")?\n(.*?)^\1```\n', re.MULTILINE | re.DOTALL)
SET_UP = ("pip install", "make ")  # tests look up their extras and targets instead of running them
FEW = "1"  # examples, where a page measures more
PICTURES = ("photo.jpg", "officer.jpg", "before.jpg", "after.jpg", "map.png")


class Block(NamedTuple):
    """A block of code, and the span of the text below it that says what it prints."""

    language: str
    title: str
    text: str
    printed: tuple[int, int] | None

    @property
    def reason(self) -> str:
        """Why it is not run; empty if it is."""
        return self.title.removeprefix(NOT_RUN) if self.title.startswith(NOT_RUN) else ""


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page that are code."""
    found = list(BLOCK.finditer(text))
    blocks = []
    for block, after in zip_longest(found, found[1:]):
        if block[2] in ("python", "sh"):
            shows = after is not None and after[2] == "text" and not text[block.end() : after.start()].strip()
            unindented = re.sub(rf"^{block[1]}", "", block[4], flags=re.MULTILINE)
            blocks.append(Block(block[2], block[3] or "", unindented, after.span(4) if after and shows else None))
    return blocks


def commands_of(script: str) -> Iterator[str]:
    """The commands of a shell script, one by one, without comments."""
    for line in script.replace("\\\n", " ").splitlines():
        for command in re.split(r" && ", re.sub(r"(^|\s+)#.*", "", line)):
            if command.strip():
                yield command.strip()


def run_block(block: Block, names: dict[str, Any]) -> str:
    """Run a block in this folder, and return what it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}):
        if block.language == "python":
            exec(compile(block.text, "<docs>", "exec"), names)
        else:
            for command in commands_of(block.text):
                _run_command(command)
    return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().rstrip().splitlines())


def _run_command(command: str) -> None:
    if command.startswith(SET_UP):
        return
    words = shlex.split(command.partition(" | ")[0].partition(" > ")[0])
    if words[0] != "vtrace":
        raise ValueError(f"{words[0]} is not run here; give the block a title that begins with {NOT_RUN!r}")
    words = on_few_examples(words)
    from vtrace.cli.main import main

    errors = io.StringIO()
    try:
        with patch.object(sys, "argv", words), redirect_stderr(errors):
            main()
    except SystemExit as stop:
        if stop.code:
            raise ValueError(f"{command}: {errors.getvalue()}") from None


def on_few_examples(words: list[str]) -> list[str]:
    """The same command, but on one example where it would measure a benchmark."""
    if "--limit" in words:
        place = words.index("--limit") + 1
        return [*words[:place], FEW, *words[place + 1 :]]
    whole = words[1] in ("evaluate", "trace", "study") or "--benchmark" in words
    return [*words, "--limit", FEW] if whole and not {"--traces", "list"} & set(words) else words


def prepare(folder: Path) -> dict[str, Any]:
    """The files that pages use, and the names of the tutorial."""
    import vtrace

    example = vtrace.example()
    for name in PICTURES:
        example.images[0].convert("RGB").save(folder / name)
    lvlm = vtrace.load("pinhole")
    trace = vtrace.trace(lvlm, example)
    return {"vtrace": vtrace, "lvlm": lvlm, "trace": trace, "attribution": vtrace.attribute(lvlm, trace, "answer")}


def run_page(text: str, folder: Path, names: dict[str, Any]) -> str:
    """The page with what its blocks print now."""
    from vtrace.methods.registry import METHODS

    replaced = []
    with chdir(folder), patch.dict(METHODS):
        for block in blocks_of(text):
            if block.reason:
                continue
            printed = run_block(block, names)
            if block.printed:
                replaced.append((block.printed, printed))
    for (start, stop), printed in reversed(replaced):
        text = text[:start] + printed + text[stop:]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    parser.add_argument("--write", action="store_true", help="write what was printed into the pages")
    args = parser.parse_args()
    for page in args.pages:
        text = page.read_text("utf-8")
        if all(block.reason for block in blocks_of(text)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            now = run_page(text, Path(folder), prepare(Path(folder)))
        if now != text and args.write:
            page.write_text(now, "utf-8")
        print(f"{page.resolve().relative_to(ROOT)}: {'prints the same' if now == text else 'prints something else'}")


if __name__ == "__main__":
    main()
