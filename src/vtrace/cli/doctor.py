"""`vtrace doctor`."""

from __future__ import annotations

import json as jsonlib
import shutil
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ModelError
from ..system.byte_count import format_bytes
from .options import DtypeOption, FamilyOption, JsonOption, MemoryOption, ModelOption

if TYPE_CHECKING:
    from ..attribution.requirements import Examination, Requirements


DOCTOR_EXAMPLE = """
Examples:\n
  vtrace doctor --model Qwen/Qwen3-VL-8B-Instruct --tokens 3000\n
  vtrace doctor --tokens 32000 --memory 4GB
"""


def doctor_command(
    model: ModelOption = "pinhole",
    family: FamilyOption = "",
    tokens: Annotated[
        int, typer.Option(metavar="N", min=2, help="Length of the sequence to plan for, prompt and response.")
    ] = 1024,
    memory: MemoryOption = "",
    dtype: DtypeOption = "",
    json: JsonOption = False,
) -> None:
    """Show versions, device, the model's family and support, and what a run will need. Loads no weights."""
    from ..attribution.requirements import examine

    facts = examine(model, tokens, dtype, memory, family)
    if json:
        print(jsonlib.dumps(facts, indent=1))
    else:
        _print_facts(facts, tokens)
    if not facts["supported"]:
        raise typer.Exit(ModelError.exit_code)


def _print_facts(facts: Examination, tokens: int) -> None:
    from rich.table import Table
    from rich.text import Text

    from ..attribution.requirements import TO_BE_PROBED
    from .terminal import Terminal

    known = facts["supported"] and facts["status"] != TO_BE_PROBED
    packages = ", ".join(f"{name} {found or '(not installed)'}" for name, found in facts["packages"].items())
    rows = {
        "Python": facts["python"],
        "packages": packages,
        "device": facts["device"],
        "model": f"{facts['model']}: {'supported; ' if known else ''}{facts['status']}",
    }
    if facts["supported"]:
        plan, heads = facts["plan"], facts["heads"]
        fit = "fit into" if facts["fits_context"] else "exceed"
        rows |= {
            "decoder": f"{facts['family']}, {facts['layers']} layers, {heads[0]} query and {heads[1]} key/value heads, "
            f"{plan['decoder_parameters'] / 1e6:,.1f} M of {plan['parameters'] / 1e6:,.1f} M parameters",
            "sequence": f"{tokens:,} tokens {fit} the context of {facts['context']:,}",
            "memory": _memory(plan, facts["dtype"]),
            "matrix": _matrix(plan),
            "passes": plan["passes"],
        }
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for label, value in rows.items():
        table.add_row(Text(label, "dim"), Text(value))
    Terminal().print(table)


def _memory(plan: Requirements, dtype: str) -> str:
    libraries = f"{format_bytes(plan['libraries_bytes'])} for Python and its libraries, "
    explained = plan["working_bytes"] + (0 if plan["disk_bytes"] else plan["matrix_bytes"])
    return (
        f"about {format_bytes(plan['total_bytes'])}: {libraries if plan['libraries_bytes'] else ''}"
        f"{format_bytes(plan['weights_bytes'])} for {dtype} weights, and the larger of "
        f"{format_bytes(plan['cache_bytes'])} for keys and values during generation and {format_bytes(explained)} "
        f"for activations{'' if plan['disk_bytes'] else ' and the pairwise matrix'}"
    )


def _matrix(plan: Requirements) -> str:
    size = format_bytes(plan["matrix_bytes"])
    if not plan["disk_bytes"]:
        return f"{size}, in memory"
    from ..system.scratch_file import scratch_folder

    folder = scratch_folder()
    free = format_bytes(shutil.disk_usage(folder).free)
    return f"{size}, in a temporary file in {folder}, which has {free} free: it does not fit into the memory budget"
