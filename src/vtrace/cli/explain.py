"""`vtrace explain`."""

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
    progress,
)

EXAMPLES = """
Examples:\n
  vtrace explain\n
  vtrace explain photo.jpg "What is on the table?" --target answer\n
  vtrace explain photo.jpg "Is it new?" --html report.html --png figure.png\n
  vtrace explain photo.jpg "Is it new?" --response "Final answer: yes"\n
  vtrace explain before.jpg after.jpg "What has changed?"\n
  vtrace explain --chat talk.json --target answer\n
  vtrace explain "Why is the sky blue?" --model HuggingFaceTB/SmolLM2-135M-Instruct\n
  vtrace explain --trace saved.json --target "sentence 2"\n
  vtrace explain --json - | jq .top
"""


def explain(
    images_and_question: Question = None,
    model: AnyModel = "",
    target: TargetOption = "response",
    example: ExampleOption = "",
    response: ResponseOption = "",
    trace: TraceOption = None,
    chat: ChatOption = None,
    save_trace: Annotated[Path | None, typer.Option(help="Save the frozen trace (.json).")] = None,
    json: Annotated[str, typer.Option(help="Write JSON here; '-' prints the scores without pictures and matrix.")] = "",
    html: Annotated[Path | None, typer.Option(help="Write the viewer: one self-contained page.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a figure.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Lines of the ranking to print.")] = 10,
    gamma: Annotated[float, typer.Option(min=0.0, help="Weight of longer paths.")] = 1.0,
    centring: Annotated[bool, typer.Option("--centring/--no-centring", help="Centre within modality.")] = True,
    multihop: Annotated[bool, typer.Option("--multihop/--no-multihop", help="Sum indirect paths.")] = True,
    hops: Annotated[int, typer.Option(min=0, help="Longest path that counts; 0 for all.")] = 0,
    calibrate: Annotated[bool, typer.Option("--calibrate/--no-calibrate", help="Image and text on one scale.")] = True,
    calibrate_on: Annotated[str, typer.Option(help="'response' (the paper's) or 'target'.")] = "response",
    receivers: Annotated[str, typer.Option(help="'predictor' or 'token'.")] = "predictor",
    max_new_tokens: BudgetOption = 2048,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Explain one answer: which image patches and words did it rely on?"""
    check_sources(images_and_question, example, trace, chat, response, model)
    for place in (html, png, save_trace, Path(json) if json not in ("", "-") else None):
        check_writable(place)
    with progress(quiet) as say:
        say("Loading PyTorch and transformers")
        from ..attribution.options import Options
        from ..methods.vtrace import attribute
        from ..report.documents import attribution_document
        from ..report.save import save

        options = Options.of(
            {
                "gamma": gamma, "centring": centring, "multihop": multihop, "hops": hops, "calibrate": calibrate,
                "calibrate_on": calibrate_on, "receivers": receivers,
            }
        )  # fmt: skip
        lvlm, frozen = freeze(
            say, images_and_question, example, trace, chat, response, model, max_new_tokens, dtype, device
        )
        say(f"Tracing {len(frozen)} tokens: 1 captured pass" + (" and 3 padded ones" if calibrate else ""))
        attribution = attribute(lvlm, frozen, target, **vars(options))
        written = [save(frozen, save_trace, "json")] if save_trace else []
        written += [save(attribution, html, "html")] if html else []
        written += [save(attribution, png, "png")] if png else []
        written += [save(attribution, json, "json")] if json not in ("", "-") else []
    if json == "-":
        print(jsonlib.dumps(attribution_document(attribution, whole=False), ensure_ascii=False))
    else:
        from rich.console import Console

        from ..report.attribution.console import show_attribution

        show_attribution(attribution, Console(), top)
    for place in written:
        print(f"wrote {place}", file=sys.stderr)
