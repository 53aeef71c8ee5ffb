"""`vtrace credit`."""

from __future__ import annotations

import json as jsonlib
import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..errors import InputError
from .options import DeviceOption, DtypeOption, FamilyOption, FigureFileOption, JsonOption, QuietOption, SeedOption
from .outputs import check_outputs, print_note, print_written
from .progress import progress_bar, spinner

if TYPE_CHECKING:
    from ..credit.stored_responses import StoredResponse
    from ..credit.weight_rows import CreditReport, WeightRow
    from ..credit.weights import RuleName

CREDIT_EXAMPLES = """
Examples:\n
  vtrace explain --save-trace trace.json && vtrace credit --traces trace.json\n
  vtrace credit --traces rollouts.jsonl --model Qwen/Qwen3-VL-4B-Instruct --out weights.jsonl\n
  vtrace trace --limit 20 --out traces && vtrace credit --traces traces --source vtrace-ordered\n
  vtrace credit --traces rollouts.jsonl --response 17 --figure credit.png\n
  vtrace credit --list
"""
_REASONS = 10  # printed; the others are counted


def credit_command(
    traces: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Responses: a saved trace (.json), a JSONL or CSV table with image, question and response (or "
            "response_ids), a folder of these, or one of vtrace trace. Repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one row per response: .jsonl or .parquet.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="The policy: hub id (or id@revision), folder, or embedded model. Default: that of the traces, or "
            "pinhole.",
        ),
    ] = "",
    family: FamilyOption = "",
    source: Annotated[str, typer.Option(metavar="SOURCE", help="Where scores come from (see --list).")] = "vtrace",
    rule: Annotated[str, typer.Option(metavar="RULE", help="How scores become weights (see --list).")] = "top",
    share: Annotated[
        float, typer.Option(metavar="FRACTION", help="Share of the scored tokens that the rule raises.")
    ] = 0.4,
    boost: Annotated[float, typer.Option(metavar="WEIGHT", help="What it raises them to.")] = 1.5,
    seed: SeedOption = 0,
    system: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="System prompt of the responses in a table; '' for none. Default: the paper's.",
            show_default=False,
        ),
    ] = None,
    response: Annotated[
        str, typer.Option(metavar="KEY", help="Response to show. Default: the first one that has credit.")
    ] = "",
    figure: FigureFileOption = None,
    list_: Annotated[bool, typer.Option("--list", help="List sources and rules.")] = False,
    json: JsonOption = False,
    tokens_at_once: Annotated[
        int, typer.Option(metavar="N", min=1, help="Tokens to decode together; fewer need less memory.")
    ] = 8192,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Weigh the tokens of responses by what their answers rely on, for training.

    Responses without an answer keep the weight 1.0. Those that cannot be read are left out with the reason.
    """
    if list_:
        _list(json)
        return
    if not traces:
        raise InputError("give the responses with --traces; sources and rules are listed by --list")
    from ..lvlm.checkpoint_source import reach_checkpoint
    from ..lvlm.devices import check_device_here

    check_outputs(out, figure)
    _spare_inputs(out, traces)
    for place in traces:
        if not os.path.exists(place):
            raise InputError(f"there is no file or folder {place}")
    if model:
        reach_checkpoint(model)
    check_device_here(device)
    with spinner(quiet) as report:
        report(0, 0, "Loading PyTorch and transformers")
        from ..credit.credit import Credit
        from ..credit.picture import draw_credit, show_credit
        from ..credit.stored_responses import find_responses, model_of
        from ..credit.weight_file import check_weight_file, write_weights
        from ..credit.weight_rows import CreditReport, credited_rows
        from ..lvlm.dtypes import find_dtype
        from ..lvlm.family_choice import find_family
        from ..lvlm.load import load
        from ..tracing.defaults import SYSTEM_PROMPT

        credit = Credit(source, cast("RuleName", rule), share, boost, seed, tokens_at_once)
        if out:
            check_weight_file(out)
        responses = find_responses(traces, SYSTEM_PROMPT if system is None else system)
        _check_key(response, responses)
        name = model or model_of(responses)
        report(0, 0, f"Loading {name}")
        lvlm = load(name, find_dtype(dtype), device or None, family=find_family(family))
    found, shown = CreditReport(), _Shown(response)
    with progress_bar(quiet) as report:
        rows = shown.watch(credited_rows(lvlm, responses, credit, found, report, any_model=bool(model)))
        written = [write_weights(out, rows)] if out else []
        deque(rows, maxlen=0)  # without a file, only to be shown
    _print_left_out(found)
    if figure and shown.row:
        written.append(draw_credit(shown.row, figure))
    if json:
        print(jsonlib.dumps(found.summary(), indent=1, ensure_ascii=False))
    else:
        from .terminal import Terminal

        if shown.row:
            show_credit(shown.row, Terminal())
        print(_summary(found))
    print_written(written)
    if response and not shown.row:
        raise InputError(f"there is no picture of {response}: it was left out")


class _Shown:
    """The row to be shown: the one with the key, or the first one that has credit, or the first one."""

    def __init__(self, key: str):
        self.key = key
        self.row: WeightRow | None = None

    def watch(self, rows: Iterable[WeightRow]) -> Iterator[WeightRow]:
        for row in rows:
            better = self.row is None or (self.row["status"] != "assigned" and row["status"] == "assigned")
            if row["key"] == self.key if self.key else better:
                self.row = row
            yield row


def _spare_inputs(out: Path | None, traces: list[Path]) -> None:
    """Refuse to replace a file of responses."""
    places = {os.path.realpath(place) for place in traces}
    if out is None or not os.path.exists(out):
        return
    if {os.path.realpath(out), os.path.dirname(os.path.realpath(out))} & places:
        raise InputError(f"{out} is one of the inputs; choose another --out")


def _check_key(key: str, responses: list[StoredResponse]) -> None:
    keys = [one.key for one in responses]
    if key and key not in keys:
        more = f" … and {len(keys) - 3} more" if len(keys) > 3 else ""
        raise InputError(f"there is no response {key!r}; there are: {', '.join(keys[:3])}{more}")


def _summary(found: CreditReport) -> str:
    statuses = ", ".join(f"{count} {status}" for status, count in found.statuses.most_common())
    left = f"; {sum(found.left_out.values())} left out" if found.left_out else ""
    return (
        f"{found.rows} response{'s' if found.rows > 1 else ''}: {statuses}{left}. Mean weight {found.mean_weight:.3g}."
    )


def _print_left_out(found: CreditReport) -> None:
    lines = found.describe()
    for line in lines[:_REASONS]:
        print_note(line)
    if len(lines) > _REASONS:
        print_note(f"{len(lines) - _REASONS} more reasons; --json prints all")


def _list(json: bool) -> None:
    from ..credit.sources import SOURCES
    from ..credit.weights import RULES

    if json:
        sources = {
            name: {"about": s.about, "cost": s.cost, "needs_picture": s.needs_picture} for name, s in SOURCES.items()
        }
        print(jsonlib.dumps({"sources": sources, "rules": RULES}, indent=1))
        return
    from rich.table import Table

    from .terminal import Terminal

    scored = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("source", "what it scores", "forward passes"):
        scored.add_column(title, no_wrap=title == "source")
    for name, s in SOURCES.items():
        scored.add_row(name, s.about, s.cost)
    weighed = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("rule", "weights"):
        weighed.add_column(title, no_wrap=title == "rule")
    for rule, about in RULES.items():
        weighed.add_row(rule, about)
    Terminal().print(scored, "", weighed)
