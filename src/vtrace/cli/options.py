"""What commands share: options, inputs, outputs, progress."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from ..system.files import read_json

Model = Annotated[str, typer.Option("--model", "-m", help="Hub id (also id@revision), folder, or embedded 'pinhole'.")]
AnyModel = Annotated[
    str, typer.Option("--model", "-m", help="Hub id (also id@revision), folder, or embedded 'pinhole' (the default).")
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
ChatOption = Annotated[
    Path | None,
    typer.Option("--chat", help="Explain the end of a conversation: chat messages in JSON, pictures as file names."),
]
BudgetOption = Annotated[int, typer.Option("--max-new-tokens", min=1, help="Token budget of the response.")]
DtypeOption = Annotated[
    str, typer.Option("--dtype", help="float32, bfloat16, float16, int8 or int4; default: by device.")
]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, or auto for all GPUs; default: a GPU.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


def check_sources(
    images_and_question: list[str] | None,
    example: str,
    trace: Path | None,
    chat: Path | None,
    response: str,
    model: str,
) -> None:
    sources = {"pictures": images_and_question, "--example": example, "--trace": trace, "--chat": chat}
    if len(given := [name for name, value in sources.items() if value]) > 1:
        raise InputError(f"{given[0]} and {given[1]} exclude each other; give one of them")
    if trace and response:
        raise InputError("--trace has a response already; leave out --response")
    if images_and_question and len(images_and_question) < 2 and model in ("", "pinhole", "pinhole-internvl"):
        raise InputError("give at least one picture and a question: IMAGE… QUESTION")


def freeze(
    say: Any, images_and_question: list[str] | None, example: str, trace: Path | None, chat: Path | None,
    response: str, model: str, max_new_tokens: int, dtype: str, device: str,
) -> tuple[Any, Any]:  # fmt: skip
    """The model, and the frozen trace: read from a file, or asked for now."""
    from ..benchmarks.embedded import SHOWN
    from ..benchmarks.embedded import example as embedded
    from ..lvlm.load import load
    from ..report.documents import read
    from ..tracing.example import as_example, from_chat
    from ..tracing.generate import trace as ask
    from ..types import Trace

    frozen = None
    more: dict[str, Any] = {"response": response or None}
    if trace is not None:
        loaded = read(trace)
        frozen = loaded if isinstance(loaded, Trace) else loaded.trace
        model = model or frozen.model
    elif chat is not None:
        read_in = from_chat(read_chat(chat), chat.parent)
        asked = read_in.example
        more = {"response": response or read_in.response}
        more |= {} if read_in.system is None else {"system": read_in.system}
    elif images_and_question:
        asked = as_example(images_and_question[:-1], images_and_question[-1])
    else:
        asked = embedded(example or SHOWN)
    model = model or "pinhole"
    say(f"Loading {model}")
    lvlm = load(model, dtype=dtype or None, device=device or None)
    if frozen is None:
        say("Asking the model")
        frozen = ask(lvlm, asked, max_new_tokens=max_new_tokens, **more)
    return lvlm, frozen


def read_chat(path: Path) -> list[Any]:
    """Messages of a conversation, from a JSON file that is a list of them or has one under "messages"."""
    found = read_json(path, "a conversation in JSON")
    found = found.get("messages") if isinstance(found, dict) else found
    if not isinstance(found, list) or not found:
        raise InputError(f"{path} holds no list of messages; see: vtrace explain --help")
    return found


def parse_settings(settings: list[str]) -> dict[str, dict[str, Any]]:
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
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        options.setdefault(method, {})[option.replace("-", "_")] = value
    return options


def check_writable(path: Path | None) -> None:
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
def progress(quiet: bool):
    """A spinner on stderr with the current step, when someone is watching."""
    if quiet or not sys.stderr.isatty():
        yield lambda message: None
        return
    from rich.console import Console

    with Console(stderr=True).status("Starting") as status:
        yield lambda message: status.update(message)
