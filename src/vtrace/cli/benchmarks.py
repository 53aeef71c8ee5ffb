"""`vtrace benchmarks`."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer


def benchmarks(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """The benchmarks: how large they are, under which licence, and where they come from."""
    from ..benchmarks.registry import describe_benchmarks

    if json:
        print(jsonlib.dumps(describe_benchmarks(), indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("benchmark", "what it is", "items", "licence", "from"):
        table.add_column(
            title, no_wrap=title in ("benchmark", "items"), justify="right" if title == "items" else "left"
        )
    for facts in describe_benchmarks():
        place = facts["hub"][0] if "hub" in facts else facts["from"]
        table.add_row(facts["name"], facts["title"], f"{facts['size']:,}", facts["licence"], place)
    Console().print(table)
    print("Names with a slash are datasets on the hub. Offline: vtrace evaluate --benchmark NAME --data FOLDER")
