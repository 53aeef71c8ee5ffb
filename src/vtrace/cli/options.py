"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from ..lvlm.devices import TENSOR_PARALLEL, check_device
from ..system.json_reader import parse_json
from ..system.option_check import MOST_SEED
from ..system.processes import process_count
from .outputs import FIGURE_ENDINGS, ending

if TYPE_CHECKING:
    from ..faithfulness.store import Shard
    from ..tracing.endpoint import Endpoint

_MODEL = "Hub id (or id@revision), folder, embedded model (pinhole, pinhole-internvl), smollm2, or pinhole-smollm2."
_METHODS = "Comma-separated method names (see: vtrace methods), or a group: instant, quick, all."
_SETTING = "METHOD.OPTION=VALUE"
_FRACTION = "FRACTION"


def _known_dtype(dtype: str) -> str:
    from ..lvlm.dtypes import find_dtype

    find_dtype(dtype)
    return dtype


def _known_family(family: str) -> str:
    from ..lvlm.family_choice import find_family

    find_family(family)
    return family


def _known_device(device: str) -> str:
    if device:
        check_device(device)
    return device


def one_process(device: str) -> str:
    if device == TENSOR_PARALLEL:
        raise InputError(
            f"--device {TENSOR_PARALLEL} works with: vtrace explain, vtrace compare; use --device auto here"
        )
    return _known_device(device)


def _split_or_one_process(device: str) -> str:
    """Several processes may not do the same work and write the same files."""
    if process_count() > 1 and device != TENSOR_PARALLEL:
        raise InputError(
            f"torchrun started {process_count()} processes; give --device {TENSOR_PARALLEL}, or start only one"
        )
    return _known_device(device)


ModelOption = Annotated[str, typer.Option("--model", "-m", metavar="MODEL", help=_MODEL)]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", metavar="MODEL", help=f"{_MODEL} Repeatable. Default: pinhole."),
]
TracedModelOption = Annotated[
    str, typer.Option("--model", "-m", metavar="MODEL", help=f"{_MODEL} Default: pinhole, or the model of --trace.")
]
EvaluatedModelOption = Annotated[
    str, typer.Option("--model", "-m", metavar="MODEL", help=f"{_MODEL} Default: pinhole, or the model of --traces.")
]
AdapterOption = Annotated[
    str,
    typer.Option("--adapter", metavar="ADAPTER", help="Folder or hub id with a PEFT adapter for the model."),
]
FamilyOption = Annotated[
    str,
    typer.Option(
        "--family",
        metavar="auto",
        help="auto: find out where the model's image tokens look by probing, if no family file describes it.",
        callback=_known_family,
    ),
]
InputsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="IMAGE… QUESTION",
        help="Pictures, then a question about them. Default: an embedded example.",
        show_default=False,
    ),
]
TargetOption = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        metavar="TARGET",
        help="Part of the response to explain: response, answer, reasoning, 'sentence 2', 'a phrase', '/a regex/', or "
        "'tokens 5-12'.",
    ),
]
ExampleOption = Annotated[
    str, typer.Option("--example", metavar="NAME", help="Explain this embedded example, such as test-7.")
]
ResponseOption = Annotated[
    str | None, typer.Option("--response", metavar="TEXT", help="Explain this response instead of generating one.")
]
TraceOption = Annotated[Path | None, typer.Option("--trace", metavar="FILE", help="Explain a saved trace (.json).")]
ChatOption = Annotated[
    Path | None,
    typer.Option(
        "--chat",
        metavar="FILE",
        help="Explain the last response of a conversation: JSON chat messages, pictures as file names.",
    ),
]
BudgetOption = Annotated[
    int, typer.Option("--max-new-tokens", metavar="N", min=1, help="Maximum length of a response, in tokens.")
]
BenchmarkBudgetOption = Annotated[
    int | None,
    typer.Option(
        "--max-new-tokens",
        metavar="N",
        min=1,
        help="Maximum length of a response, in tokens. Default: 2048, or the benchmark's (16 for facts).",
    ),
]
MemoryOption = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory that an explanation may use in all, such as 4GB; a pairwise matrix that does not fit is kept in a "
        "temporary file. Default: no limit.",
    ),
]
MethodsOption = Annotated[str, typer.Option("--methods", metavar="NAMES", help=_METHODS)]
OfferedMethodsOption = Annotated[
    str, typer.Option("--methods", metavar="NAMES", help=f"Methods that can be chosen. {_METHODS}")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar=_SETTING, help="Set an option of a method; repeatable.")
]
RefineOption = Annotated[
    int | None,
    typer.Option(
        "--refine",
        metavar="N",
        min=1,
        help="Hide the N strongest inputs of every method one at a time, and score them by the log-likelihood that the "
        "response loses: N + 1 more forward passes.",
    ),
]
CalibratedOption = Annotated[bool, typer.Option("--calibrated", help="Calibrate every method, as stage 3 does.")]
_BENCHMARK = "Benchmark to use (see: vtrace benchmarks), or your own CSV file, JSONL file or folder."
BenchmarkOption = Annotated[str, typer.Option("--benchmark", "-b", metavar="NAME", help=_BENCHMARK)]
EvaluatedBenchmarkOption = Annotated[
    str,
    typer.Option("--benchmark", "-b", metavar="NAME", help=f"{_BENCHMARK} Default: shapes, or that of --traces."),
]
ExplainedBenchmarkOption = Annotated[
    str,
    typer.Option(
        "--benchmark",
        "-b",
        metavar="NAME",
        help="Explain every question of a benchmark, or of your own CSV file, JSONL file or folder.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="PATH", help="Read the benchmark from this folder, Parquet or TSV file. Default: the hub."
    ),
]
BlurOption = Annotated[
    float | None,
    typer.Option(
        "--blur",
        metavar=_FRACTION,
        min=0.0,
        help="Blur radius as a fraction of the picture's longer side. Default: the benchmark's.",
    ),
]
SamplesOption = Annotated[
    Path | None, typer.Option("--samples", metavar="FILE", help="Use the responses in this lmms-eval log.")
]
LimitOption = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Use only the first N examples.")]
ShardOption = Annotated[
    str, typer.Option("--shard", metavar="I/N", help="Use every Nth example, starting with the Ith.")
]
SystemOption = Annotated[
    str | None,
    typer.Option(
        "--system",
        metavar="TEXT",
        help="System prompt; '' for none. Default: the paper's, or the benchmark's own.",
        show_default=False,
    ),
]
BatchOption = Annotated[
    int, typer.Option("--batch", metavar="N", min=1, help="Responses to generate together; fewer need less memory.")
]
EndpointOption = Annotated[
    str,
    typer.Option(
        "--endpoint",
        metavar="URL",
        help="Ask an OpenAI-compatible server, such as http://localhost:8000/v1. Its key is read from VTRACE_API_KEY "
        "or OPENAI_API_KEY.",
    ),
]
ServedModelOption = Annotated[
    str, typer.Option("--served-model", metavar="NAME", help="The name under which the server knows the model.")
]
ConcurrencyOption = Annotated[
    int, typer.Option("--concurrency", metavar="N", min=1, help="Requests to the server at a time.")
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long the server may take to answer.")
]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, max=MOST_SEED, help="Seed for stochastic methods.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
HtmlFileOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Write the interactive viewer as one HTML file.",
        callback=ending(".html", ".htm"),
    ),
]
FigureFileOption = Annotated[
    Path | None,
    typer.Option(
        "--figure",
        "--png",
        metavar="FILE",
        help="Write a figure: .png, or .pdf or .svg for a paper.",
        callback=ending(*FIGURE_ENDINGS),
    ),
]
DtypeOption = Annotated[
    str,
    typer.Option(
        "--dtype",
        metavar="DTYPE",
        help="float32, bfloat16, float16, int8 or int4. Default: float32 on a CPU, else the checkpoint's own.",
        callback=_known_dtype,
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="cpu, cuda, cuda:1, mps, xpu, or auto for all GPUs. Default: a GPU if there is one, else the CPU.",
        callback=one_process,
    ),
]
SplitDeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="cpu, cuda, cuda:1, mps, xpu, auto for all GPUs, or tensor-parallel to split the model over the processes "
        "of torchrun. Default: a GPU if there is one, else the CPU.",
        callback=_split_or_one_process,
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress.")]


def parse_settings(settings: list[str] | None) -> dict[str, dict[str, Any]]:
    """Parse METHOD.OPTION=VALUE into options by method. A value is read as JSON if possible, else as a string."""
    options: dict[str, dict[str, Any]] = {}
    for setting in settings or []:
        place, equals, text = setting.partition("=")
        method, dot, option = place.partition(".")
        if not (equals and dot and option):
            raise InputError(f"cannot read --set {setting!r}; write {_SETTING}, such as ifr.aggregate=span")
        try:
            value = parse_json(text, "")
        except InputError:
            value = text
        options.setdefault(method, {})[option.replace("-", "_")] = value
    return options


def parse_shard(text: str) -> Shard:
    from ..faithfulness.store import Shard

    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit()):
        raise InputError(f"cannot read --shard {text!r}; write it as I/N, such as 2/4")
    return Shard(int(number), int(count))


def parse_endpoint(url: str, served_model: str, concurrency: int, timeout: float) -> Endpoint | None:
    """The server that was given, if one was."""
    from ..tracing.endpoint import Endpoint

    if not url:
        if served_model:
            raise InputError("--served-model needs --endpoint, the address of the server")
        return None
    found = Endpoint(url, served_model, concurrency, timeout)
    found.check()
    return found


def split_names(text: str) -> list[str]:
    """Comma-separated names."""
    return [name.strip() for name in text.split(",")]
