"""`vtrace compare` and `vtrace methods`."""

from __future__ import annotations

import json as jsonlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from .options import (
    AnyModel,
    BudgetOption,
    ChatOption,
    DeviceOption,
    DtypeOption,
    ExampleOption,
    Question,
    QuietOption,
    ResponseOption,
    TargetOption,
    TraceOption,
    check_sources,
    check_writable,
    freeze,
    parse_settings,
    progress,
)

EXAMPLES = """
Examples:\n
  vtrace compare --target answer\n
  vtrace compare photo.jpg "What is on the table?" --methods vtrace,ifr,attnlrp --html compare.html\n
  vtrace compare --methods vtrace,flowtracer --set flowtracer.mode=flow --calibrated\n
  vtrace compare --methods all --png compare.png\n
  vtrace compare --json - | jq '.methods.ifr.seconds'
"""


def compare(
    images_and_question: Question = None,
    methods: Annotated[
        str,
        typer.Option(
            "--methods", help="Names with commas between them (see: vtrace methods), or 'instant', 'quick', 'all'."
        ),
    ] = "quick",
    model: AnyModel = "",
    target: TargetOption = "response",
    example: ExampleOption = "",
    response: ResponseOption = "",
    trace: TraceOption = None,
    chat: ChatOption = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="METHOD.OPTION=VALUE", help="Change an option; repeatable.")
    ] = None,
    calibrated: Annotated[bool, typer.Option("--calibrated", help="Calibrate every method, as stage 3 does.")] = False,
    json: Annotated[str, typer.Option(help="Write JSON here; '-' prints it.")] = "",
    html: Annotated[Path | None, typer.Option(help="Write the viewer: one self-contained page.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a figure.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Pieces of evidence to print for each method.")] = 3,
    max_new_tokens: BudgetOption = 2048,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Compare methods on one answer: what each finds, what it costs, how far they agree."""
    check_sources(images_and_question, example, trace, chat, response, model)
    for place in (html, png, Path(json) if json not in ("", "-") else None):
        check_writable(place)
    with progress(quiet) as say:
        say("Loading PyTorch and transformers")
        from ..methods.comparison import compare as run
        from ..methods.registry import parse_names
        from ..report.comparison.console import show_comparison
        from ..report.documents import comparison_document
        from ..report.save import save

        names = parse_names(methods)
        options = parse_settings(set_ or [])
        lvlm, frozen = freeze(
            say, images_and_question, example, trace, chat, response, model, max_new_tokens, dtype, device
        )
        comparison = run(
            lvlm, frozen, names, target, calibrated=calibrated, options=options,
            progress=lambda done, total, label="": say(f"{label} {done}/{total}" if total else label),
        )  # fmt: skip
        written = [save(comparison, html, "html")] if html else []
        written += [save(comparison, png, "png")] if png else []
        written += [save(comparison, json, "json")] if json not in ("", "-") else []
    if json == "-":
        print(jsonlib.dumps(comparison_document(comparison), ensure_ascii=False))
    else:
        from rich.console import Console

        show_comparison(comparison, Console(), top)
    for place in written:
        print(f"wrote {place}", file=sys.stderr)
    for reason in comparison.failures.values():
        print(f"vtrace: {reason}", file=sys.stderr)


def methods(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """The attribution methods: what they measure, what they need, what they cost."""
    from ..methods.registry import METHODS

    if json:
        facts = {
            name: {
                "about": m.about, "needs": list(m.needs), "cost": m.cost, "speed": m.speed, "status": m.status,
                "options": m.options,
            }
            for name, m in METHODS.items()
        }  # fmt: skip
        print(jsonlib.dumps(facts, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("method", "what it measures", "forward passes", "status"):
        table.add_column(title, no_wrap=title == "method")
    for name, m in METHODS.items():
        table.add_row(name, m.about, m.cost, m.status)
    Console().print(table)
    print("Options and their defaults: vtrace methods --json; what each is good for: docs/methods")
