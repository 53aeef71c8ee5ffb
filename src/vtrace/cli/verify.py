"""`vtrace verify`."""

from __future__ import annotations

import json as jsonlib
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    BlurOption,
    BudgetOption,
    ChatOption,
    DeviceOption,
    DtypeOption,
    ExampleOption,
    FamilyOption,
    HtmlFileOption,
    InputsArgument,
    QuietOption,
    ResponseOption,
    SeedOption,
    TargetOption,
    TracedModelOption,
    TraceOption,
)
from .outputs import STDOUT, check_outputs, json_file, print_note, print_written
from .progress import spinner
from .sources import TraceSource

if TYPE_CHECKING:
    from ..attribution.findings.verification import Verification
    from ..attribution.result import Attribution
    from ..lvlm.model import Lvlm
    from ..types import Progress

VERIFY_EXAMPLES = """
Examples:\n
  vtrace verify\n
  vtrace verify photo.jpg "What is on the table?" --target answer --setting image\n
  vtrace verify --method ifr --passes 60\n
  vtrace verify --trace saved.json --html report.html\n
  vtrace verify --json - | jq .verdict
"""

PassesOption = Annotated[
    int, typer.Option("--passes", metavar="N", min=1, help="Maximum number of forward passes for likelihoods.")
]
GenerationsOption = Annotated[
    int, typer.Option("--generations", metavar="N", min=1, help="How often the model may be asked again, in batches.")
]
DrawsOption = Annotated[int, typer.Option("--draws", metavar="N", min=1, help="Random sets to compare with.")]
SettingOption = Annotated[
    str, typer.Option("--setting", metavar="INPUTS", help="Which inputs are hidden: joint, image or question.")
]


def verify_command(
    images_and_question: InputsArgument = None,
    method: Annotated[str, typer.Option(metavar="NAME", help="Method to verify (see: vtrace methods).")] = "vtrace",
    model: TracedModelOption = "",
    family: FamilyOption = "",
    target: TargetOption = "response",
    example: ExampleOption = "",
    response: ResponseOption = None,
    trace: TraceOption = None,
    chat: ChatOption = None,
    setting: SettingOption = "joint",
    passes: PassesOption = 30,
    generations: GenerationsOption = 8,
    draws: DrawsOption = 8,
    blur: BlurOption = None,
    seed: SeedOption = 0,
    json: Annotated[str, typer.Option(metavar="FILE", help="Write the verification as JSON; '-' prints it.")] = "",
    html: HtmlFileOption = None,
    max_new_tokens: BudgetOption = 2048,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Verify an explanation: hide the evidence it names, ask the model again, and show what changes."""
    source = TraceSource(
        "verify",
        images_and_question,
        example,
        trace,
        chat,
        response,
        model,
        dtype,
        device,
        max_new_tokens,
        family=family,
    )
    from ..methods.catalogue import check_name
    from ..system.option_check import check_option
    from ..types import Setting

    check_name(method)
    check_option("setting", setting, Setting)
    check_outputs(html, json_file(json))
    asked = source.read(target)
    with spinner(quiet) as report:
        report(0, 0, "Loading PyTorch and transformers")
        from ..attribution.findings.verification_document import verification_document
        from ..methods.registry import keeps_layers, run_method
        from ..methods.session import TraceSession
        from ..report.save import save
        from ..system.files import write_atomically
        from ..tracing.targets import find_target

        lvlm, frozen = asked.open(report)
        found = find_target(frozen, target)
        report(0, 0, f"Explaining with {method}")
        session = TraceSession.open(lvlm, frozen, keep_layers=keeps_layers([method]))
        attribution = run_method(method, session, found)
        options = {"setting": setting, "passes": passes, "generations": generations, "draws": draws, "seed": seed}
        verification = verify_announced(
            lvlm, attribution, report, **options, **({} if blur is None else {"blur": blur})
        )
        text = jsonlib.dumps(verification_document(verification), ensure_ascii=False)
        written = [save(replace(attribution, verification=verification), html, "html")] if html else []
        if place := json_file(json):
            written.append(write_atomically(place, lambda file: file.write_text(text, "utf-8")))
    if json == STDOUT:
        print(text)
    else:
        from ..report.verification_console import show_verification
        from .terminal import Terminal

        show_verification(verification, Terminal())
    print_written(written)
    for note in attribution.warnings:
        print_note(note)


def verify_announced(lvlm: Lvlm, attribution: Attribution, report: Progress, **options: Any) -> Verification:
    """Say on stderr what verifying costs at most, then verify."""
    from ..faithfulness.verification_plan import VerificationPlan
    from ..faithfulness.verify import run_plan

    plan = VerificationPlan.of(attribution, **options)
    cost = plan.cost
    print(
        f"verifying: at most {cost.passes} forward passes and {cost.generations} generations "
        f"({cost.sequences} responses)",
        file=sys.stderr,
    )
    return run_plan(lvlm, attribution, plan, report)
