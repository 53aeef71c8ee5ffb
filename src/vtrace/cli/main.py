"""The command line. Results go to stdout, progress and errors to stderr.

Exit codes: 0 success, 2 invalid input, 3 unusable model, 4 an error inside VTrace, 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
import warnings
from typing import Annotated, Any, NoReturn, Protocol, runtime_checkable

import typer

from ..errors import InputError, ModelError, VTraceError, is_lost_process, is_out_of_memory, one_line
from ..system.error_log import report_bug
from ..system.processes import is_first_process, process_count, process_rank
from ..system.version import __version__
from .benchmarks import BENCHMARKS_EXAMPLE, benchmarks_command
from .compare import COMPARE_EXAMPLES, compare_command
from .compare_models import COMPARE_MODELS_EXAMPLES, compare_models_command
from .credit import CREDIT_EXAMPLES, credit_command
from .doctor import DOCTOR_EXAMPLE, doctor_command
from .evaluate import EVALUATE_EXAMPLES, evaluate_command
from .explain import EXPLAIN_EXAMPLES, explain_command
from .merge import MERGE_EXAMPLES, merge_command
from .methods import METHODS_EXAMPLE, methods_command
from .models import MODELS_EXAMPLE, models_command
from .serve import SERVE_EXAMPLES, serve_command
from .study import STUDY_EXAMPLES, study_command
from .table import TABLE_EXAMPLES, table_command
from .trace import TRACE_EXAMPLES, trace_command
from .verify import VERIFY_EXAMPLES, verify_command

BUG = 4
INTERRUPTED = 130


@runtime_checkable
class _Usage(Protocol):
    """Typer's error for wrong usage. Its class is private, and differs between versions."""

    ctx: Any
    exit_code: int

    def format_message(self) -> str: ...


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="What did this vision-language model base its answer on?",
    epilog="Example:  vtrace explain picture.png 'Where is the red star?' --target answer --html report.html",
)
app.command("explain", epilog=EXPLAIN_EXAMPLES)(explain_command)
app.command("verify", epilog=VERIFY_EXAMPLES)(verify_command)
app.command("compare", epilog=COMPARE_EXAMPLES)(compare_command)
app.command("compare-models", epilog=COMPARE_MODELS_EXAMPLES)(compare_models_command)
app.command("methods", epilog=METHODS_EXAMPLE)(methods_command)
app.command("benchmarks", epilog=BENCHMARKS_EXAMPLE)(benchmarks_command)
app.command("trace", epilog=TRACE_EXAMPLES)(trace_command)
app.command("evaluate", epilog=EVALUATE_EXAMPLES)(evaluate_command)
app.command("merge", epilog=MERGE_EXAMPLES)(merge_command)
app.command("table", epilog=TABLE_EXAMPLES)(table_command)
app.command("study", epilog=STUDY_EXAMPLES)(study_command)
app.command("credit", epilog=CREDIT_EXAMPLES)(credit_command)
app.command("serve", epilog=SERVE_EXAMPLES)(serve_command)
app.command("models", epilog=MODELS_EXAMPLE)(models_command)
app.command("doctor", epilog=DOCTOR_EXAMPLE)(doctor_command)

# The list of commands cuts a help text that does not fit on its line; these do.
SHORTER = {
    "explain": "Explain what a response, or every one, relied on.",
    "verify": "Hide the evidence of an explanation and ask again.",
    "compare-models": "Explain one frozen response with two models.",
    "trace": "Ask a model about a benchmark and freeze its responses.",
    "study": "Run a study: an ablation or a figure.",
    "credit": "Weigh response tokens by what the answers rely on.",
    "models": "List the supported model families.",
    "doctor": "Show versions, device, and what a run will need.",
}
for known in app.registered_commands:
    known.short_help = SHORTER.get(str(known.name))


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


def main() -> None:
    """Entry point. Errors that the user can act on become one line and an exit code."""
    if os.environ.get("COLUMNS", "1").strip("0") == "":  # a terminal without a width: tables would have no text
        del os.environ["COLUMNS"]
    try:
        _quieten()
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()  # at exit, Python would only complain
    except VTraceError as error:
        _fail(error, error.exit_code)
    except Exception as error:
        _fail_unexpectedly(error)
    if code == INTERRUPTED:  # typer has turned Ctrl-C into this code
        _fail("interrupted; no file was left half-written", INTERRUPTED)
    sys.exit(code)


def _fail_unexpectedly(error: Exception) -> NoReturn:
    """Wrong usage, too little memory, or, as the last resort, a bug."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error)
        sys.exit(InputError.exit_code)
    if isinstance(error, _Usage):
        command = error.ctx.command_path if error.ctx else "vtrace"
        _fail(f"{error.format_message().rstrip('.')}; see: {command} --help", error.exit_code)
    if is_out_of_memory(error):
        _fail("out of memory; use a smaller picture, a smaller model, or --device cpu", ModelError.exit_code)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that Python does not try again
        _fail(f"cannot write the output: {error.strerror}", InputError.exit_code)
    if process_count() > 1 and is_lost_process(error):
        _fail("another process has ended; its own message says why", ModelError.exit_code)
    _fail(report_bug(error), BUG)


def _fail(message: object, code: int) -> NoReturn:
    print(f"{_program()}: {one_line(message)}", file=sys.stderr)
    sys.exit(code)


def _program() -> str:
    """Who reports an error: the first process, or another one of `torchrun`."""
    return "vtrace" if is_first_process() else f"vtrace (process {process_rank()})"


def _quieten() -> None:
    """Silence progress bars and notices of libraries, unless the user asked for them; print any file name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.filterwarnings("ignore", "Detected pickle protocol")  # what such a file contains is refused anyway
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # kernels that it lacks, also where nobody asks for them
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
