"""`vtrace doctor`."""

from __future__ import annotations

import json as jsonlib
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ModelError
from .options import DtypeOption, JsonOption, ModelOption

if TYPE_CHECKING:
    from ..attribution.requirements import Examination


DOCTOR_EXAMPLE = "Example:  vtrace doctor --model Qwen/Qwen3-VL-8B-Instruct --tokens 3000"


def doctor_command(
    model: ModelOption = "pinhole",
    tokens: Annotated[
        int, typer.Option(metavar="N", min=2, help="Length of the sequence to plan for, prompt and response.")
    ] = 1024,
    dtype: DtypeOption = "",
    json: JsonOption = False,
) -> None:
    """Show versions, device, the model's family and support, and what a run will need. Loads no weights."""
    from ..attribution.requirements import examine

    facts = examine(model, tokens, dtype)
    if json:
        print(jsonlib.dumps(facts, indent=1))
    else:
        _print_facts(facts, tokens)
    if not facts["supported"]:
        raise typer.Exit(ModelError.exit_code)


def _print_facts(facts: Examination, tokens: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    packages = ", ".join(f"{name} {found or '(not installed)'}" for name, found in facts["packages"].items())
    rows = {
        "Python": facts["python"],
        "packages": packages,
        "device": facts["device"],
        "model": f"{facts['model']}: {facts['status']}",
    }
    if facts["supported"]:
        plan, heads = facts["plan"], facts["heads"]
        fit = "fit into" if facts["fits_context"] else "exceed"
        rows |= {
            "decoder": f"{facts['family']}, {facts['layers']} layers, {heads[0]} query and {heads[1]} key/value heads, "
            f"{plan['decoder_parameters'] / 1e6:,.1f} M of {plan['parameters'] / 1e6:,.1f} M parameters",
            "sequence": f"{tokens:,} tokens {fit} the context of {facts['context']:,}",
            "memory": f"about {_bytes(plan['total_bytes'])}: "
            f"{_bytes(plan['weights_bytes'])} for {facts['dtype']} weights, and the larger of "
            f"{_bytes(plan['cache_bytes'])} for keys and values during generation and "
            f"{_bytes(plan['working_bytes'] + plan['matrix_bytes'])} for activations and the pairwise matrix",
            "passes": plan["passes"],
        }
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for label, value in rows.items():
        table.add_row(Text(label, "dim"), Text(value))
    Console().print(table)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
