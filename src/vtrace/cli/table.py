"""`vtrace table`. It needs no model, so it imports neither PyTorch nor transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..system.files import write_atomically
from .options import split_names
from .outputs import check_outputs, print_note, print_written

TABLE_EXAMPLES = """
Examples:\n
  vtrace table runs/first\n
  vtrace table runs/first --intervals --against ifr\n
  vtrace table runs/mmstar-Qwen3-VL-8B-Instruct runs/mathverse-Qwen3-VL-8B-Instruct     (the paper's main table)\n
  vtrace table runs/first --subsets correct,incorrect --format latex > table.tex\n
  vtrace table runs/first --parquet rows.parquet
"""


def table_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders or files of runs.")],
    methods: Annotated[
        str,
        typer.Option(metavar="NAMES", help="Comma-separated methods, one column each. Default: all in common."),
    ] = "",
    format: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help="markdown, csv, latex or json.")
    ] = "markdown",
    subsets: Annotated[
        str, typer.Option(metavar="NAMES", help="Comma-separated subsets: all, correct, incorrect.")
    ] = "all",
    against: Annotated[
        str, typer.Option(metavar="METHOD", help="Show differences from this method, and wins/ties/losses.")
    ] = "",
    intervals: Annotated[bool, typer.Option("--intervals", help="Show 95 % bootstrap intervals.")] = False,
    evidence: Annotated[
        bool, typer.Option("--evidence/--no-evidence", help="Include rows on known evidence and measured dependence.")
    ] = True,
    degenerate: Annotated[
        bool, typer.Option("--degenerate/--no-degenerate", help="Include items whose likelihood does not fall.")
    ] = True,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to a file instead of stdout.")] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(
            metavar="NAME.parquet",
            help="Also write the raw rows as Parquet: curves here, evidence in NAME-evidence.parquet.",
        ),
    ] = None,
) -> None:
    """Print tables of runs in the paper's layout. Needs no model."""
    evidence_parquet = parquet and parquet.with_stem(f"{parquet.stem}-evidence")
    check_outputs(out, parquet, evidence_parquet)
    from ..faithfulness.render import RAW_TABLES, TABLE_FORMATS, export_parquet, latex, markdown, raw_rows
    from ..faithfulness.store import read_run
    from ..faithfulness.tables import check_subsets, common_methods, run_name, tabulate, together

    if format not in TABLE_FORMATS:
        raise InputError(f"unknown format {format!r}; use one of: {', '.join(TABLE_FORMATS)}")
    found = [read_run(place) for place in runs]
    chosen = split_names(methods) if methods else common_methods(found) if len(found) > 1 else None
    tables = [
        tabulate(
            run,
            methods=chosen,
            subsets=check_subsets(split_names(subsets)),
            evidence=evidence,
            against=against or "vtrace",
            with_degenerate=degenerate,
        )
        for run in found
    ]
    summary = tables[0] if len(tables) == 1 else together(tables, _distinct([run_name(run) for run in found], runs))
    if against and against not in summary.methods:
        raise InputError(f"--against {against} is not a column; the columns are: {', '.join(summary.methods)}")
    rich = {"markdown": markdown, "latex": latex}.get(format)
    text = rich(summary, intervals, against or None) if rich else TABLE_FORMATS[format](summary)
    for rows, place in zip(RAW_TABLES, (parquet, evidence_parquet), strict=True):
        if place and any(raw_rows(run, rows) for run in found):
            write_atomically(place, lambda file, rows=rows: export_parquet(found, rows, file))  # type: ignore[misc]
            print_written([place])
    if format == "csv":  # the other formats have a place for notes
        for name, subset in summary.empty:
            print_note(f"{name}: no rows for {subset} answers, because no compared item has one")
    if out:
        print_written([write_atomically(out, lambda file: file.write_text(text, "utf-8"))])
    else:
        print(text, end="")


def _distinct(names: list[str], runs: list[Path]) -> list[str]:
    """Names of runs, or their paths if two have the same name."""
    return list(map(str, runs)) if len(set(names)) < len(names) else names
