"""`vtrace benchmarks`."""

from __future__ import annotations

import json as jsonlib

from .options import JsonOption

BENCHMARKS_EXAMPLE = "Example:  vtrace benchmarks --json | jq '.[] | select(.size < 1000) | .name'"


def benchmarks_command(json: JsonOption = False) -> None:
    """List the benchmarks with their size, licence and source."""
    from ..benchmarks.registry import describe_benchmarks

    if json:
        print(jsonlib.dumps(describe_benchmarks(), indent=1))
        return
    from rich.table import Table

    from .terminal import Terminal

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("benchmark", "title", "items", "licence", "source"):
        table.add_column(
            title, no_wrap=title in ("benchmark", "items"), justify="right" if title == "items" else "left"
        )
    for facts in describe_benchmarks():
        place = facts["hub"][0] if "hub" in facts else facts["from"]
        table.add_row(facts["name"], facts["title"], f"{facts['size']:,}", facts["licence"], place)
    Terminal().print(table)
    print("Sources with a slash are datasets on the Hugging Face hub. Offline: vtrace evaluate -b NAME --data FOLDER")
