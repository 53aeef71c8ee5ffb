"""`vtrace compare-models`."""

from __future__ import annotations

import json as jsonlib
import shlex
from dataclasses import replace
from typing import Annotated

import typer

from .options import (
    BudgetOption,
    ChatOption,
    DeviceOption,
    DtypeOption,
    ExampleOption,
    FamilyOption,
    FigureFileOption,
    HtmlFileOption,
    InputsArgument,
    QuietOption,
    ResponseOption,
    TargetOption,
    TraceOption,
)
from .outputs import STDOUT, check_outputs, figure_form, json_file, print_written
from .progress import spinner
from .sources import TraceSource

COMPARE_MODELS_EXAMPLES = """
Examples:\n
  vtrace compare-models pinhole-half pinhole --target answer\n
  vtrace compare-models Qwen/Qwen3-VL-4B-Instruct out/my-adapter photo.jpg "What is on the table?" --html moved.html\n
  vtrace compare-models A B --trace saved.json --json - | jq '.moved[0]'
"""


def compare_models_command(
    first: Annotated[str, typer.Argument(metavar="A", help="A model, an adapter, or a folder with one.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one that reads prompts in the same way.")],
    images_and_question: InputsArgument = None,
    family: FamilyOption = "",
    method: Annotated[str, typer.Option(metavar="NAME", help="The method that both are explained with.")] = "vtrace",
    target: TargetOption = "response",
    example: ExampleOption = "",
    response: ResponseOption = None,
    trace: TraceOption = None,
    chat: ChatOption = None,
    json: Annotated[str, typer.Option(metavar="FILE", help="Write JSON; '-' prints it.")] = "",
    html: HtmlFileOption = None,
    figure: FigureFileOption = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Inputs to print.")] = 10,
    max_new_tokens: BudgetOption = 2048,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Explain one frozen response with two models: two rankings, and what moved. A generates the response."""
    command = shlex.join(["compare-models", first, second])
    source = TraceSource(
        command,
        images_and_question,
        example,
        trace,
        chat,
        response,
        first,
        dtype,
        device,
        max_new_tokens,
        family=family,
    )
    from ..lvlm.checkpoint_source import reach_checkpoint
    from ..methods.catalogue import check_name

    check_name(method)
    place = json_file(json)
    check_outputs(html, figure, place)
    asked = source.read(target)
    reach_checkpoint(second)
    with spinner(quiet) as report:
        report(0, 0, "Loading PyTorch and transformers")
        from ..methods.comparison import compare
        from ..methods.model_comparison import join_models, moves
        from ..report.comparison.console import show_comparison, show_moves
        from ..report.documents import model_comparison_document
        from ..report.save import save
        from ..system.files import write_atomically

        lvlm, frozen = asked.open(report)
        before, name = compare(lvlm, frozen, [method], target, progress=report), lvlm.name
        del lvlm  # only one of the models is in memory
        lvlm = replace(source, model=second).load(second, report)
        after = compare(lvlm, frozen, [method], target, progress=report)
        comparison = join_models(before, after, (name, lvlm.name))
        written = [save(comparison, html, "html")] if html else []
        written += [save(comparison, figure, figure_form(figure))] if figure else []
        document = jsonlib.dumps(model_comparison_document(comparison), ensure_ascii=False)
        written += [write_atomically(place, lambda path: path.write_text(document, encoding="utf-8"))] if place else []
    if json == STDOUT:
        print(document)
    else:
        from .terminal import Terminal

        show_comparison(comparison, Terminal())
        show_moves(moves(comparison)[:top], Terminal())
    print_written(written)
