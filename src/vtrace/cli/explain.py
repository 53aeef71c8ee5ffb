"""`vtrace explain`."""

from __future__ import annotations

import json as jsonlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..system.byte_count import parse_bytes
from ..system.processes import is_first_process
from .engines import (
    AddressOption,
    CpusOption,
    EngineChoice,
    EngineOption,
    GpusOption,
    WorkerLogsOption,
    WorkersOption,
)
from .explain_benchmark import BenchmarkRequest
from .options import (
    AdapterOption,
    BatchOption,
    BenchmarkBudgetOption,
    ChatOption,
    DataOption,
    DtypeOption,
    ExampleOption,
    ExplainedBenchmarkOption,
    FamilyOption,
    FigureFileOption,
    HtmlFileOption,
    InputsArgument,
    LimitOption,
    MemoryOption,
    QuietOption,
    RefineOption,
    ResponseOption,
    SamplesOption,
    SetOption,
    SplitDeviceOption,
    SystemOption,
    TargetOption,
    TracedModelOption,
    TraceOption,
    parse_settings,
)
from .outputs import STDOUT, check_outputs, figure_form, json_file, print_written
from .progress import spinner
from .sources import TraceSource
from .verify import PassesOption, verify_announced

EXPLAIN_EXAMPLES = """
Examples:\n
  vtrace explain\n
  vtrace explain photo.jpg "What is on the table?" --target answer\n
  vtrace explain photo.jpg "Is it new?" --html report.html --figure figure.pdf\n
  vtrace explain photo.jpg "Is it new?" --response "Final answer: yes"\n
  vtrace explain before.jpg after.jpg "What has changed?"\n
  vtrace explain --chat talk.json --target answer\n
  vtrace explain "Why is the sky blue?" --model HuggingFaceTB/SmolLM2-135M-Instruct\n
  vtrace explain --region cup=40,60,200,220 --region boxes.json --segment "on the table"\n
  vtrace explain --boxes evidence.json --figure figure.png\n
  vtrace explain --target answer --against "red star"\n
  vtrace explain --verify --target answer --html report.html\n
  vtrace explain --method vtrace-ordered --target answer\n
  vtrace explain --refine 16 --html report.html\n
  vtrace explain --trace saved.json --target "sentence 2"\n
  vtrace explain --benchmark mine.jsonl --verify --out explained\n
  vtrace explain --benchmark shapes --limit 12 --workers 2 --out explained\n
  vtrace explain --trace long.json --memory 4GB\n
  torchrun --nproc-per-node 2 -m vtrace.cli explain --device tensor-parallel\n
  vtrace explain --json - | jq .top
"""


def explain_command(
    images_and_question: InputsArgument = None,
    model: TracedModelOption = "",
    adapter: AdapterOption = "",
    family: FamilyOption = "",
    target: TargetOption = "response",
    method: Annotated[
        str,
        typer.Option("--method", metavar="NAME", help="Method to explain with (see: vtrace methods)."),
    ] = "vtrace",
    refine: RefineOption = None,
    set_: SetOption = None,
    example: ExampleOption = "",
    response: ResponseOption = None,
    trace: TraceOption = None,
    chat: ChatOption = None,
    save_trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the frozen trace as JSON.")] = None,
    json: Annotated[
        str, typer.Option(metavar="FILE", help="Write JSON; '-' prints it, without pictures and matrix.")
    ] = "",
    html: HtmlFileOption = None,
    figure: FigureFileOption = None,
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
        str,
        typer.Option(
            metavar="TOKENS", help="Likelihood that calibration measures: target, or response as in the paper."
        ),
    ] = "target",
    receivers: Annotated[
        str, typer.Option(metavar="POSITIONS", help="Where the target is read: predictor or token.")
    ] = "predictor",
    region: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REGION",
            help="Print the share of NAME=LEFT,TOP,RIGHT,BOTTOM (pixels), of the boxes in a COCO .json file, or of the "
            "values of a mask .png; repeatable. NAME@2 is on the second picture.",
        ),
    ] = None,
    segment: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Print the share of this part of the question; repeatable.")
    ] = None,
    boxes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the strongest evidence as merged boxes (COCO JSON), and draw them."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Show what speaks for the target and what for TEXT in its place."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Hide the evidence and ask the model again (see: vtrace verify).")
    ] = False,
    passes: PassesOption = 30,
    memory: MemoryOption = "",
    max_new_tokens: BenchmarkBudgetOption = None,
    dtype: DtypeOption = "",
    device: SplitDeviceOption = "",
    benchmark: ExplainedBenchmarkOption = "",
    data: DataOption = None,
    samples: SamplesOption = None,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Explain the responses that vtrace trace froze in this folder."),
    ] = None,
    limit: LimitOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder of a benchmark's explanations. Default: explained/BENCHMARK-MODEL."
        ),
    ] = None,
    system: SystemOption = None,
    batch: BatchOption = 16,
    workers: WorkersOption = 1,
    engine: EngineOption = None,
    address: AddressOption = "",
    gpus_per_worker: GpusOption = None,
    cpus_per_worker: CpusOption = None,
    worker_logs: WorkerLogsOption = False,
    quiet: QuietOption = False,
) -> None:
    """Explain which image patches and words one response relied on, or every response to a benchmark.

    With --benchmark, every question gets a viewer file, and a triage page lists them. Interrupted runs resume.
    """
    where = EngineChoice(workers, engine, address, gpus_per_worker, cpus_per_worker, worker_logs)
    whole = BenchmarkRequest(
        benchmark, data, samples, traces, limit, out, system, batch, model, adapter, family, dtype, device,
        max_new_tokens, target, memory, passes if verify else None, json, where,
    )  # fmt: skip
    whole.check(
        {
            "IMAGE… QUESTION": images_and_question,
            "--example": example,
            "--trace": trace,
            "--chat": chat,
            "--response": response,
            "--save-trace": save_trace,
            "--html": html,
            "--figure": figure,
            "--region": region,
            "--segment": segment,
            "--boxes": boxes,
            "--against": against,
            "--method": method if method != "vtrace" else "",
            "--refine": refine,
            "--set": set_,
        }
    )
    from ..attribution.options import Options

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
    if memory:
        parse_bytes(memory)
    if whole.asked:
        whole.run(options, quiet)
        return
    from ..attribution.findings.region_files import check_regions, read_regions
    from ..attribution.findings.regions import segment_region
    from ..methods.catalogue import check_name
    from ..tracing.defaults import MAX_NEW_TOKENS
    from ..tracing.spoken_text import spoken_text

    budget = max_new_tokens or MAX_NEW_TOKENS
    source = TraceSource(
        "explain", images_and_question, example, trace, chat, response, model, dtype, device, budget, adapter, family
    )
    check_outputs(html, figure, save_trace, boxes, json_file(json))
    check_regions(region or [])
    check_name(method)
    if against is not None:
        spoken_text(against)
    asked = source.read(target)
    asked.check_segments(segment or [])
    with spinner(quiet) as report:
        report(0, 0, "Loading PyTorch and transformers")
        from ..methods.contrast import contrast
        from ..methods.explanation import choose_method, explain
        from ..report.documents import attribution_document
        from ..report.save import save, save_boxes
        from ..report.wording import passes_text
        from ..tracing.targets import find_target
        from ..viewer.exported_methods import BESIDE_BUDGET, fitting_targets
        from ..viewer.page import write_page

        chosen = choose_method(method, refine, parse_settings(set_), options)
        lvlm, frozen = asked.open(report)
        report(0, 0, f"Explaining {len(frozen)} tokens by {chosen.name}")
        regions = (*read_regions(frozen, region or []), *(segment_region(frozen, text) for text in segment or []))
        page_targets = fitting_targets(frozen, find_target(frozen, target), BESIDE_BUDGET) if html else None
        explanation = explain(lvlm, frozen, target, chosen, page_targets=page_targets, memory=memory or None)
        attribution = replace(explanation.attribution, regions=regions)
        attribution = attribution.with_evidence_boxes() if boxes else attribution
        if against is not None:
            report(0, 0, f"Contrasting with {against!r}")
            attribution = replace(attribution, contrast=contrast(lvlm, frozen, against, target))
        if verify:
            verification = verify_announced(lvlm, attribution, report, passes=passes)
            attribution = replace(attribution, verification=verification)
        if not is_first_process():  # all have the same results
            return
        written = [save(frozen, save_trace, "json")] if save_trace else []
        written += [save_boxes(attribution, boxes)] if boxes else []
        remarks = {name: passes_text(count) for name, count in explanation.passes.items()} | explanation.missing
        written += [write_page([attribution, *explanation.others], html, remarks=remarks)] if html else []
        written += [save(attribution, figure, figure_form(figure))] if figure else []
        written += [save(attribution, place, "json")] if (place := json_file(json)) else []
    if json == STDOUT:
        print(jsonlib.dumps(attribution_document(attribution, whole=False), ensure_ascii=False))
    else:
        from ..report.attribution.console import show_attribution
        from .terminal import Terminal

        show_attribution(attribution, Terminal(), top)
    print_written(written)
