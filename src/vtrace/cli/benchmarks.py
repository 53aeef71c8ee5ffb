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
    table.add_column("benchmark", no_wrap=True)
    table.add_column("title")
    table.add_column("items", no_wrap=True, justify="right")
    table.add_column("licence")
    table.add_column("source", no_wrap=True)  # an address, whole
    for facts in describe_benchmarks():
        place = facts["hub"][0] if "hub" in facts else facts["from"]
        table.add_row(facts["name"], facts["title"], f"{facts['size']:,}", facts["licence"], place)
    Terminal().print(table)
    print("Sources with a slash are datasets on the Hugging Face hub. Offline: vtrace evaluate -b NAME --data FOLDER")
