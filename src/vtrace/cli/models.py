"""`vtrace models`."""

from __future__ import annotations

import json as jsonlib

from .options import JsonOption

MODELS_EXAMPLE = "Example:  vtrace models --json | jq '.families[].name'"


def models_command(json: JsonOption = False) -> None:
    """List supported model families and how each was verified, and refused ones with the reason."""
    from ..lvlm.checkpoint import EMBEDDED
    from ..lvlm.families.supported import FAMILIES, REFUSED

    if json:
        facts = {
            "families": [{"name": f.name, "model_types": list(f.model_types), "status": f.status} for f in FAMILIES],
            "refused": REFUSED,
            "embedded": list(EMBEDDED),
        }
        print(jsonlib.dumps(facts, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    for title, rows in (
        ("supported", [(f.name, ", ".join(f.model_types), f.status) for f in FAMILIES]),
        ("refused", [("", kind, reason) for kind, reason in REFUSED.items()]),
    ):
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for head in (title, "model type", "status" if title == "supported" else "reason"):
            table.add_column(head)
        for row in rows:
            table.add_row(*row)
        Console().print(table, "")
    print(f"Embedded models: {', '.join(EMBEDDED)}")
    print("Memory and passes of a model: vtrace doctor --model NAME")
