"""`vtrace explain`."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from ..system.byte_count import parse_bytes
from ..system.processes import is_first_process
from .options import (
    BudgetOption,
    ChatOption,
    DtypeOption,
    ExampleOption,
    HtmlFileOption,
    InputsArgument,
    MemoryOption,
    PngFileOption,
    QuietOption,
    ResponseOption,
    SplitDeviceOption,
    TargetOption,
    TracedModelOption,
    TraceOption,
)
from .outputs import STDOUT, check_outputs, json_file, print_written
from .progress import spinner
from .sources import TraceSource

EXPLAIN_EXAMPLES = """
Examples:\n
  vtrace explain\n
  vtrace explain photo.jpg "What is on the table?" --target answer\n
  vtrace explain photo.jpg "Is it new?" --html report.html --png figure.png\n
  vtrace explain photo.jpg "Is it new?" --response "Final answer: yes"\n
  vtrace explain before.jpg after.jpg "What has changed?"\n
  vtrace explain --chat talk.json --target answer\n
  vtrace explain "Why is the sky blue?" --model HuggingFaceTB/SmolLM2-135M-Instruct\n
  vtrace explain --trace saved.json --target "sentence 2"\n
  vtrace explain --trace long.json --memory 4GB\n
  torchrun --nproc-per-node 2 -m vtrace.cli explain --device tensor-parallel\n
  vtrace explain --json - | jq .top
"""


def explain_command(
    images_and_question: InputsArgument = None,
    model: TracedModelOption = "",
    target: TargetOption = "response",
    example: ExampleOption = "",
    response: ResponseOption = "",
    trace: TraceOption = None,
    chat: ChatOption = None,
    save_trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the frozen trace as JSON.")] = None,
    json: Annotated[
        str, typer.Option(metavar="FILE", help="Write JSON; '-' prints it, without pictures and matrix.")
    ] = "",
    html: HtmlFileOption = None,
    png: PngFileOption = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Inputs to print.")] = 10,
    gamma: Annotated[float, typer.Option(metavar="WEIGHT", min=0.0, help="Weight of longer paths.")] = 1.0,
    centring: Annotated[bool, typer.Option("--centring/--no-centring", help="Centre writes by modality.")] = True,
    multihop: Annotated[bool, typer.Option("--multihop/--no-multihop", help="Sum indirect paths.")] = True,
    hops: Annotated[
        int, typer.Option(metavar="N", min=0, help="Maximum edges of a path into or out of a token; 0 for no limit.")
    ] = 0,
    calibrate: Annotated[
        bool, typer.Option("--calibrate/--no-calibrate", help="Put image and text on one scale.")
    ] = True,
    calibrate_on: Annotated[
        str, typer.Option(metavar="TOKENS", help="Likelihood that calibration measures: response or target.")
    ] = "response",
    receivers: Annotated[
        str, typer.Option(metavar="POSITIONS", help="Where the target is read: predictor or token.")
    ] = "predictor",
    memory: MemoryOption = "",
    max_new_tokens: BudgetOption = 2048,
    dtype: DtypeOption = "",
    device: SplitDeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Explain which image patches and words one response relied on."""
    source = TraceSource(images_and_question, example, trace, chat, response, model, dtype, device, max_new_tokens)
    source.check()
    check_outputs(html, png, save_trace, json_file(json))
    if memory:
        parse_bytes(memory)
    with spinner(quiet) as report:
        report(0, 0, "Loading PyTorch and transformers")
        from ..attribution.options import Options
        from ..methods.vtrace import attribute
        from ..report.documents import attribution_document
        from ..report.save import save

        options = Options.of(
            {
                "gamma": gamma,
                "centring": centring,
                "multihop": multihop,
                "hops": hops,
                "calibrate": calibrate,
                "calibrate_on": calibrate_on,
                "receivers": receivers,
            }
        )
        lvlm, frozen = source.open(report)
        passes = "4 forward passes" if calibrate and frozen.patches else "1 forward pass"
        report(0, 0, f"Tracing {len(frozen)} tokens: {passes}")
        attribution = attribute(lvlm, frozen, target, memory=memory or None, **vars(options))
        if not is_first_process():  # all have the same results
            return
        written = [save(frozen, save_trace, "json")] if save_trace else []
        written += [save(attribution, html, "html")] if html else []
        written += [save(attribution, png, "png")] if png else []
        written += [save(attribution, place, "json")] if (place := json_file(json)) else []
    if json == STDOUT:
        print(jsonlib.dumps(attribution_document(attribution, whole=False), ensure_ascii=False))
    else:
        from rich.console import Console

        from ..report.attribution.console import show_attribution

        show_attribution(attribution, Console(), top)
    print_written(written)
