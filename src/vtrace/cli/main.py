"""The command line. Results go to stdout, progress and errors to stderr.

Exit codes: 0 success, 2 invalid input, 3 unusable model, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ..errors import ModelError, VTraceError, is_lost_process, is_out_of_memory
from ..system.processes import is_first_process, process_count, process_rank
from ..system.version import __version__
from .benchmarks import BENCHMARKS_EXAMPLE, benchmarks_command
from .compare import COMPARE_EXAMPLES, compare_command
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

INTERRUPTED = 130

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
    try:
        _quieten()
        app(standalone_mode=True)
    except VTraceError as error:
        print(f"{_program()}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except (MemoryError, RuntimeError) as error:
        if is_out_of_memory(error):
            reason = "out of memory; use a smaller picture, a smaller model, or --device cpu"
        elif process_count() > 1 and is_lost_process(error):
            reason = "another process has ended; its own message says why"
        else:
            raise
        print(f"{_program()}: {reason}", file=sys.stderr)
        sys.exit(ModelError.exit_code)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:  # typer has already turned Ctrl-C into an exit
            print("vtrace: interrupted; no file was left half-written", file=sys.stderr)
        raise


def _program() -> str:
    """Who reports an error: the first process, or another one of `torchrun`."""
    return "vtrace" if is_first_process() else f"vtrace (process {process_rank()})"


def _quieten() -> None:
    """Silence progress bars and notices of libraries, unless the user asked for them."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
