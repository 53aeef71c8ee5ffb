"""`vtrace compare`."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from ..system.processes import is_first_process
from .options import (
    AdapterOption,
    BudgetOption,
    CalibratedOption,
    ChatOption,
    DtypeOption,
    ExampleOption,
    FamilyOption,
    FigureFileOption,
    HtmlFileOption,
    InputsArgument,
    MethodsOption,
    QuietOption,
    RefineOption,
    ResponseOption,
    SetOption,
    SplitDeviceOption,
    TargetOption,
    TracedModelOption,
    TraceOption,
    parse_settings,
)
from .outputs import STDOUT, check_outputs, figure_form, json_file, print_note, print_written
from .progress import spinner
from .sources import TraceSource

COMPARE_EXAMPLES = """
Examples:\n
  vtrace compare --target answer\n
  vtrace compare photo.jpg "What is on the table?" --methods vtrace,ifr,attnlrp --html compare.html\n
  vtrace compare --methods vtrace,flowtracer --set flowtracer.mode=flow --calibrated\n
  vtrace compare --methods all --figure compare.pdf\n
  vtrace compare --json - | jq '.methods.ifr.seconds'
"""


def compare_command(
    images_and_question: InputsArgument = None,
    methods: MethodsOption = "quick",
    model: TracedModelOption = "",
    adapter: AdapterOption = "",
    family: FamilyOption = "",
    target: TargetOption = "response",
    example: ExampleOption = "",
    response: ResponseOption = None,
    trace: TraceOption = None,
    chat: ChatOption = None,
    refine: RefineOption = None,
    set_: SetOption = None,
    calibrated: CalibratedOption = False,
    json: Annotated[str, typer.Option(metavar="FILE", help="Write JSON; '-' prints it.")] = "",
    html: HtmlFileOption = None,
    figure: FigureFileOption = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Inputs to print for each method.")] = 3,
    max_new_tokens: BudgetOption = 2048,
    dtype: DtypeOption = "",
    device: SplitDeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Compare methods on one response. Shows what each finds, what it costs, and how well they agree."""
    source = TraceSource(
        "compare",
        images_and_question,
        example,
        trace,
        chat,
        response,
        model,
        dtype,
        device,
        max_new_tokens,
        adapter,
        family,
    )
    from ..methods.catalogue import parse_names, refine_all

    names, options = refine_all(parse_names(methods), parse_settings(set_), refine)
    check_outputs(html, figure, json_file(json))
    asked = source.read(target)
    with spinner(quiet) as report:
        report(0, 0, "Loading PyTorch and transformers")
        from ..methods.comparison import compare
        from ..methods.registry import find_method
        from ..report.comparison.console import show_comparison
        from ..report.documents import comparison_document
        from ..report.save import save

        for name, chosen in options.items():
            find_method(name).check(name, chosen)
        lvlm, frozen = asked.open(report)
        comparison = compare(lvlm, frozen, names, target, calibrated=calibrated, options=options, progress=report)
        if not is_first_process():  # all have the same results
            return
        written = [save(comparison, html, "html")] if html else []
        written += [save(comparison, figure, figure_form(figure))] if figure else []
        written += [save(comparison, place, "json")] if (place := json_file(json)) else []
    if json == STDOUT:
        print(jsonlib.dumps(comparison_document(comparison), ensure_ascii=False))
    else:
        from .terminal import Terminal

        show_comparison(comparison, Terminal(), top)
    print_written(written)
    for reason in comparison.failures.values():
        print_note(reason)
    for name, result in comparison.results.items():
        for warning in result.details.get("warnings", []):
            print_note(f"{name}: {warning}")
