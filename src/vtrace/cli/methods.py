"""`vtrace methods`."""

from __future__ import annotations

import json as jsonlib

from .options import JsonOption

METHODS_EXAMPLE = "Example:  vtrace methods --json | jq '.ifr.options'"


def methods_command(json: JsonOption = False) -> None:
    """List the attribution methods. Shows what each measures, its cost, and its status."""
    from ..methods.catalogue import CATALOGUE

    if json:
        from ..methods.registry import METHODS  # options are keywords of functions that need PyTorch

        facts = {
            name: {
                "about": m.about,
                "needs": list(m.needs),
                "cost": m.cost,
                "speed": m.speed,
                "status": m.status,
                "options": m.options,
            }
            for name, m in METHODS.items()
        }
        print(jsonlib.dumps(facts, indent=1))
        return
    from rich.table import Table

    from .terminal import Terminal

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("method", "what it measures", "forward passes", "status"):
        table.add_column(title, no_wrap=title == "method")
    for name, m in CATALOGUE.items():
        table.add_row(name, m.about, m.cost, m.status)
    Terminal().print(table)
    print("Options and defaults: vtrace methods --json. Formulas and limits: docs/methods")
