"""`vtrace serve`."""

from __future__ import annotations

import math
import os
import re
import secrets
import signal
import socket
import sys
from contextlib import ExitStack, closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .options import (
    BudgetOption,
    DeviceOption,
    DtypeOption,
    FamilyOption,
    ModelsOption,
    OfferedMethodsOption,
    QuietOption,
)
from .progress import spinner

SERVE_EXAMPLES = """
Examples:\n
  vtrace serve\n
  vtrace serve --model Qwen/Qwen3-VL-4B-Instruct --methods vtrace,ifr,rollout\n
  vtrace serve --runs runs --port 9000\n
  VTRACE_TOKEN=$(openssl rand -hex 16) vtrace serve --host 0.0.0.0
"""


def serve_command(
    model: ModelsOption = None,
    family: FamilyOption = "",
    methods: OfferedMethodsOption = "vtrace,vtrace-ordered,ifr,flashtrace,rollout,attnlrp",
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to listen on. Any address other than loopback needs a token."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port to listen on; 0 for any free port.")
    ] = 8765,
    token: Annotated[
        str,
        typer.Option(
            metavar="TOKEN",
            envvar="VTRACE_TOKEN",
            help="Token that clients must send. Default: none on loopback, else random.",
        ),
    ] = "",
    store: Annotated[
        Path | None, typer.Option(metavar="FILE", help="History file. Default: ~/.local/share/vtrace/history.sqlite.")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder with runs of 'vtrace evaluate' to browse.")
    ] = None,
    keep: Annotated[
        int,
        typer.Option(
            metavar="MB", min=1, help="Maximum size of the history, in megabytes; the oldest entries go first."
        ),
    ] = 2000,
    queue: Annotated[int, typer.Option(metavar="N", min=1, help="Number of requests that may wait.")] = 16,
    upload: Annotated[int, typer.Option(metavar="MB", min=1, help="Maximum size of a request, in megabytes.")] = 32,
    pixels: Annotated[
        int, typer.Option(metavar="MP", min=1, help="Maximum size of the pictures in a request, in megapixels.")
    ] = 24,
    grace: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.0, max=3600.0, help="Time that running work may take to finish on exit."),
    ] = 30.0,
    max_new_tokens: BudgetOption = 1024,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Start a local web application with an HTTP interface. Ask a question and see what the answer relies on."""
    from ..lvlm.checkpoint_source import reach_checkpoint
    from ..lvlm.devices import check_device_here
    from ..methods.catalogue import parse_names

    _check(token, runs, grace)
    names, chosen = model or ["pinhole"], parse_names(methods)
    for name in names:
        reach_checkpoint(name)
    check_device_here(device)
    with ExitStack() as opened:
        opened.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _stop))
        with spinner(quiet) as report:
            report(0, 0, "Loading PyTorch and transformers")
            from ..lvlm.checkpoint import read_config
            from ..lvlm.dtypes import find_dtype
            from ..lvlm.families.supported import has_pictures
            from ..lvlm.family_choice import find_family
            from ..lvlm.hub import fetch_checkpoint
            from ..lvlm.load import load, starting_family
            from ..serve.evaluation_runs import EvaluationRuns
            from ..serve.history import History
            from ..serve.model_cache import ModelCache
            from ..serve.security import Limits, is_loopback
            from ..serve.server import run_server, take_address
            from ..serve.service import ExplanationService

            limits = Limits(
                upload_bytes=upload * 10**6,
                pixels=pixels * 10**6,
                waiting=queue,
                grace=grace,
                new_tokens=max_new_tokens,
            )
            for name in names:
                checkpoint = reach_checkpoint(name)
                if not has_pictures(starting_family(read_config(checkpoint, name), name, family)):
                    raise InputError(
                        f"{name} takes no pictures, and the web application asks about pictures; "
                        f'use: vtrace explain --model {name} "QUESTION" --html report.html'
                    )
                fetch_checkpoint(checkpoint)
            listening = opened.enter_context(take_address(host, port))
            history = opened.enter_context(closing(History(_store(store), keep * 10**6)))
            asked = find_family(family)
            models = ModelCache(names, lambda name: load(name, find_dtype(dtype), device or None, family=asked))
            report(0, 0, f"Loading {names[0]}")
            models.get(names[0])
        token = token or ("" if is_loopback(host) else secrets.token_urlsafe(24))
        listening.listen(128)  # clients that connect before the server is ready wait instead of being refused
        print(f"VTrace is at {_address(host, listening, token)}", flush=True)
        print(f"history: {history.path}; stop with Ctrl-C", file=sys.stderr)
        with suppress(KeyboardInterrupt):
            service = ExplanationService(models, chosen, history, limits)
            run_server(service, EvaluationRuns(runs), listening, token)


def _stop(*_: object) -> None:
    """On SIGTERM before the server runs: what is open is closed."""
    sys.exit(0)


def _check(token: str, runs: Path | None, grace: float) -> None:
    """Check requirements before any slow work."""
    if missing := [name for name in ("fastapi", "uvicorn", "python_multipart") if find_spec(name) is None]:
        raise InputError(f"{missing[0]} is not installed; install it with: pip install 'vtrace-attribution[serve]'")
    if token and not re.fullmatch("[A-Za-z0-9_-]{16,}", token):
        raise InputError("the token needs at least 16 letters, digits, '-' or '_'; try: openssl rand -hex 16")
    if not math.isfinite(grace):
        raise InputError("--grace must be a number of seconds")
    if runs is not None and not os.path.isdir(runs):
        raise InputError(f"there is no folder {runs}; create a run with: vtrace evaluate --out {runs}/first")


def _address(host: str, listening: socket.socket, token: str) -> str:
    where = f"[{host}]" if ":" in host else host
    return f"http://{where}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")


def _store(given: Path | None) -> Path:
    if given is not None:
        return given
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "vtrace" / "history.sqlite"
