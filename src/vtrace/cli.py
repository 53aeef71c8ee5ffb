"""The command line: thin. Results go to stdout, progress and errors to stderr.

Exit codes: 0 fine, 2 bad input, 3 a model that cannot be used, 130 interrupted.
"""

from __future__ import annotations

import json as jsonlib
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from . import __version__
from .errors import InputError, ModelError, VTraceError

app = typer.Typer(
    add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="What did this vision-language model base its answer on?",
    epilog="Example:  vtrace explain picture.png 'Where is the red star?' --target answer --html report.html",
)  # fmt: skip

INTERRUPTED = 130
Model = Annotated[str, typer.Option("--model", "-m", help="Hub id, folder, or the embedded 'pinhole'.")]
AnyModel = Annotated[
    str, typer.Option("--model", "-m", help="Hub id, folder, or the embedded 'pinhole' (the default).")
]
Question = Annotated[list[str] | None, typer.Argument(metavar="[IMAGE… QUESTION]", show_default=False)]
TargetOption = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        help="response, answer, reasoning, 'sentence 2', '\"a phrase\"', '/a regex/', or 'tokens 5-12'.",
    ),
]
ExampleOption = Annotated[str, typer.Option("--example", help="Which embedded example to explain, such as test-7.")]
ResponseOption = Annotated[str, typer.Option("--response", help="Explain this text instead of generating one.")]
TraceOption = Annotated[Path | None, typer.Option("--trace", help="Explain a saved trace.")]
BudgetOption = Annotated[int, typer.Option("--max-new-tokens", min=1, help="Token budget of the response.")]
DtypeOption = Annotated[str, typer.Option("--dtype", help="float32, bfloat16, …; default: by device.")]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu, cuda, …; default: a GPU if there is one.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


def _show_version(value: bool) -> None:
    if value:
        print(f"vtrace {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


@app.command(
    epilog="""
Examples:\n
  vtrace explain\n
  vtrace explain photo.jpg "What is on the table?" --target answer\n
  vtrace explain photo.jpg "Is it new?" --html report.html --png figure.png\n
  vtrace explain photo.jpg "Is it new?" --response "Final answer: yes"\n
  vtrace explain --trace saved.json --target "sentence 2"\n
  vtrace explain --json - | jq .top
"""
)
def explain(
    images_and_question: Question = None,
    model: AnyModel = "",
    target: TargetOption = "response",
    example: ExampleOption = "",
    response: ResponseOption = "",
    trace: TraceOption = None,
    save_trace: Annotated[Path | None, typer.Option(help="Save the frozen trace (.json).")] = None,
    json: Annotated[str, typer.Option(help="Write JSON here; '-' prints the scores without pictures and matrix.")] = "",
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a figure.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Lines of the ranking to print.")] = 10,
    gamma: Annotated[float, typer.Option(min=0.0, help="Weight of longer paths.")] = 1.0,
    centring: Annotated[bool, typer.Option("--centring/--no-centring", help="Centre within modality.")] = True,
    multihop: Annotated[bool, typer.Option("--multihop/--no-multihop", help="Sum indirect paths.")] = True,
    calibrate: Annotated[bool, typer.Option("--calibrate/--no-calibrate", help="Image and text on one scale.")] = True,
    calibrate_on: Annotated[str, typer.Option(help="'response' (the paper's) or 'target'.")] = "response",
    receivers: Annotated[str, typer.Option(help="'predictor' or 'token'.")] = "predictor",
    max_new_tokens: BudgetOption = 2048,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Explain one answer: which image patches and words did it rely on?"""
    _check_sources(images_and_question, example, trace, response)
    for place in (html, png, save_trace, Path(json) if json not in ("", "-") else None):
        _check_writable(place)
    with _progress(quiet) as say:
        say("Loading PyTorch and transformers")
        from .attribution import attribute, make_options
        from .files import attribution_document
        from .report import save_html, save_json, save_png

        options = make_options(
            gamma=gamma, centring=centring, multihop=multihop, calibrate=calibrate, calibrate_on=calibrate_on,
            receivers=receivers,
        )  # fmt: skip
        lvlm, frozen = _freeze(say, images_and_question, example, trace, response, model, max_new_tokens, dtype, device)
        say(f"Tracing {len(frozen)} tokens: 1 captured pass" + (" and 3 padded ones" if calibrate else ""))
        attribution = attribute(lvlm, frozen, target, **vars(options))
        written = [save_json(frozen, save_trace)] if save_trace else []
        written += [save_html(attribution, html)] if html else []
        written += [save_png(attribution, png)] if png else []
        written += [save_json(attribution, json)] if json not in ("", "-") else []
    if json == "-":
        print(jsonlib.dumps(attribution_document(attribution, whole=False), ensure_ascii=False))
    else:
        from rich.console import Console

        from .report.console import show

        show(attribution, Console(), top)
    for place in written:
        print(f"wrote {place}", file=sys.stderr)


@app.command(
    epilog="""
Examples:\n
  vtrace compare --target answer\n
  vtrace compare photo.jpg "What is on the table?" --methods vtrace,ifr,attnlrp --html compare.html\n
  vtrace compare --methods vtrace,flowtracer --set flowtracer.mode=flow --calibrated\n
  vtrace compare --methods all --png compare.png\n
  vtrace compare --json - | jq '.methods.ifr.seconds'
"""
)
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
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="METHOD.OPTION=VALUE", help="Change an option; repeatable.")
    ] = None,
    calibrated: Annotated[bool, typer.Option("--calibrated", help="Calibrate every method, as stage 3 does.")] = False,
    json: Annotated[str, typer.Option(help="Write JSON here; '-' prints it.")] = "",
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a figure.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Pieces of evidence to print for each method.")] = 3,
    max_new_tokens: BudgetOption = 2048,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Compare methods on one answer: what each finds, what it costs, how far they agree."""
    _check_sources(images_and_question, example, trace, response)
    for place in (html, png, Path(json) if json not in ("", "-") else None):
        _check_writable(place)
    with _progress(quiet) as say:
        say("Loading PyTorch and transformers")
        from .comparison import compare as run
        from .files import write_atomically
        from .methods import METHODS, find_method, names_of
        from .report.comparison import comparison_document, save, show

        groups = {"instant": names_of("instant"), "quick": names_of("instant", "quick"), "all": list(METHODS)}
        names = groups.get(methods) or [name.strip() for name in methods.split(",")]
        for name in names:
            find_method(name)
        options = _parse_settings(set_ or [])
        lvlm, frozen = _freeze(say, images_and_question, example, trace, response, model, max_new_tokens, dtype, device)
        comparison = run(
            lvlm, frozen, names, target, calibrated=calibrated, options=options,
            say=lambda name, done, total: say(f"{name} {done}/{total}" if total else name),
        )  # fmt: skip
        document = jsonlib.dumps(comparison_document(comparison), ensure_ascii=False)
        written = [save(comparison, place) for place in (html, png) if place]
        if json not in ("", "-"):
            written.append(write_atomically(json, lambda file: file.write_text(document, "utf-8")))
    if json == "-":
        print(document)
    else:
        from rich.console import Console

        show(comparison, Console(), top)
    for place in written:
        print(f"wrote {place}", file=sys.stderr)
    for reason in comparison.failures.values():
        print(f"vtrace: {reason}", file=sys.stderr)


@app.command(epilog="Example:  vtrace methods --json | jq '.ifr.options'")
def methods(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """The attribution methods: what they measure, what they need, what they cost."""
    from .methods import METHODS

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


@app.command(epilog="Example:  vtrace doctor --model Qwen/Qwen3-VL-8B-Instruct --tokens 3000")
def doctor(
    model: Model = "pinhole",
    tokens: Annotated[int, typer.Option(min=2, help="Length of the sequence to plan for.")] = 1024,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Versions, device, the model's family and support, and what a run will need. Loads no weights."""
    from .doctor import examine

    facts = examine(model, tokens)
    if json:
        print(jsonlib.dumps(facts, indent=1))
    else:
        _print_facts(facts, tokens)
    if not facts["supported"]:
        raise typer.Exit(ModelError.exit_code)


def _print_facts(facts: dict[str, Any], tokens: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    packages = ", ".join(f"{name} {found or '(not installed)'}" for name, found in facts["packages"].items())
    rows = {
        "Python": facts["python"],
        "packages": packages,
        "device": f"{facts['device']}; numbers in {facts['dtype']} precision",
        "model": f"{facts['model']}: {facts['status']}",
    }
    if facts["supported"]:
        plan, heads = facts["plan"], facts["heads"]
        fit = "fit" if facts["fits_context"] else "do NOT fit"
        rows |= {
            "decoder": f"{facts['family']}, {facts['layers']} layers, {heads[0]} heads on {heads[1]} key/value heads, "
            f"{plan['parameters'] / 1e6:,.1f} M parameters",
            "sequence": f"{tokens:,} tokens {fit} into the context of {facts['context']:,}",
            "memory": f"{_bytes(plan['weights_bytes'])} of decoder weights, {_bytes(plan['working_bytes'])} to work, "
            f"{_bytes(plan['matrix_bytes'])} for the pairwise matrix",
            "passes": plan["passes"],
        }
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for label, value in rows.items():
        table.add_row(Text(label, "dim"), Text(value))
    Console().print(table)


def _check_sources(images_and_question: list[str] | None, example: str, trace: Path | None, response: str) -> None:
    sources = {"pictures": images_and_question, "--example": example, "--trace": trace}
    if len(given := [name for name, value in sources.items() if value]) > 1:
        raise InputError(f"{given[0]} and {given[1]} exclude each other; give one of them")
    if trace and response:
        raise InputError("--trace has a response already; leave out --response")
    if images_and_question and len(images_and_question) < 2:
        raise InputError("give at least one picture and a question: IMAGE… QUESTION")


def _freeze(
    say: Any, images_and_question: list[str] | None, example: str, trace: Path | None, response: str, model: str,
    max_new_tokens: int, dtype: str, device: str,
) -> tuple[Any, Any]:  # fmt: skip
    """The model, and the frozen trace: read from a file, or asked for now."""
    from .examples import SHOWN
    from .examples import example as embedded
    from .files import read
    from .generate import as_example
    from .generate import trace as ask
    from .lvlm import load
    from .types import Trace

    frozen = None
    if trace is not None:
        loaded = read(trace)
        frozen = loaded if isinstance(loaded, Trace) else loaded.trace
        model = model or frozen.model
    elif images_and_question:
        asked = as_example(images_and_question[:-1], images_and_question[-1])
    else:
        asked = embedded(example or SHOWN)
    model = model or "pinhole"
    say(f"Loading {model}")
    lvlm = load(model, dtype=dtype or None, device=device or None)
    if frozen is None:
        say("Asking the model")
        frozen = ask(lvlm, asked, response=response or None, max_new_tokens=max_new_tokens)
    return lvlm, frozen


def _parse_settings(settings: list[str]) -> dict[str, dict[str, Any]]:
    """METHOD.OPTION=VALUE; values are JSON where they can be, and words otherwise."""
    options: dict[str, dict[str, Any]] = {}
    for setting in settings:
        place, equals, text = setting.partition("=")
        method, dot, option = place.partition(".")
        if not (equals and dot and option):
            raise InputError(
                f"cannot read --set {setting!r}; write it as method.option=value, as in ifr.aggregate=span"
            )
        try:
            value = jsonlib.loads(text)
        except jsonlib.JSONDecodeError:
            value = text
        options.setdefault(method, {})[option.replace("-", "_")] = value
    return options


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _check_writable(path: Path | None) -> None:
    """Before minutes of work: is there a folder, and may we write to it?"""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a file name")
    if not path.absolute().parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; create it first")
    if not os.access(path.absolute().parent, os.W_OK):
        raise InputError(f"cannot write {path}: the folder {path.absolute().parent} is read-only; choose another")


@contextmanager
def _progress(quiet: bool):
    """A spinner on stderr with the current step, when someone is watching."""
    if quiet or not sys.stderr.isatty():
        yield lambda message: None
        return
    from rich.console import Console

    with Console(stderr=True).status("Starting") as status:
        yield lambda message: status.update(message)


def main() -> None:
    """Entry point: errors a user can act on become one line and an exit code."""
    try:
        _quieten()
        app(standalone_mode=True)
    except VTraceError as error:
        print(f"vtrace: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        print("vtrace: out of memory; use a smaller picture, a smaller model, or --device cpu", file=sys.stderr)
        sys.exit(ModelError.exit_code)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:  # typer has already turned the key press into an exit
            print("vtrace: interrupted; no file was left half-written", file=sys.stderr)
        raise


def _quieten() -> None:
    """Keep the libraries' own progress bars and notices off stderr, unless the user asked for them."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


if __name__ == "__main__":
    main()
