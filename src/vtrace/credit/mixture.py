"""The paper's training data for GRPO, as rows for TRL or verl.

  python -m vtrace.credit.mixture --mmr1 MMR1-RL --revisual mmrl --to trl --out train.parquet

The paper combines and filters MMR1-RL and the RL split of ReVisual-R1 and says no more, so its filters are unknown.
Here only rows are left out that no trainer or reward could use, and each is counted with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import get_args

from ..benchmarks.benchmark import LostFile
from ..benchmarks.readers.rows import unique_keys
from ..errors import InputError, VTraceError, first_line
from ..system.files import check_writable, write_atomically
from ..tracing.defaults import SYSTEM_PROMPT
from ..types import Progress, silent
from .left_out import RowsLeftOut
from .mixture_rows import DamagedFile, MixtureSource, UnusableRow, check_file, stored_rows, training_item
from .parquet_rows import write_parquet
from .training_rows import RowFormat, TrainingItem, TrainingRow, row_schema, trl_row, verl_row


@dataclass
class SourceReport(RowsLeftOut):
    """What became of the rows of one dataset."""

    read: int = 0
    kept: int = 0
    lost: list[LostFile] = field(default_factory=list)


MixtureReport = dict[MixtureSource, SourceReport]


def convert_mixture(
    files: Mapping[MixtureSource, Sequence[Path]],
    form: RowFormat,
    out: Path,
    *,
    system: str = SYSTEM_PROMPT,
    keep_formulas: bool = False,
    limit: int | None = None,
    progress: Progress = silent,
) -> MixtureReport:
    """Write the rows of all files, or the first `limit` usable ones of each dataset, as one Parquet file.

    `keep_formulas` keeps answers that are neither numbers nor words, such as equations, which are rewarded only if
    they are written the same way.
    """
    check_writable(out)
    paths = {source: parquet_files(given) for source, given in files.items()}
    if not any(paths.values()):
        raise InputError("no files were given; use --mmr1, --revisual or both")
    if out.suffix != ".parquet":
        raise InputError(f"{out} should end in .parquet")
    if limit is not None and limit < 1:
        raise InputError(f"the limit is {limit}; it must be positive")
    for path in (path for given in paths.values() for path in given):
        if path.resolve() == out.resolve():
            raise InputError(f"{out} is one of the datasets; choose another --out")
        with suppress(DamagedFile):  # reported when it is read; the others are used
            check_file(path)
    report: MixtureReport = {source: SourceReport() for source in paths}

    def rows() -> Iterator[TrainingRow]:
        index = 0
        for source, given in paths.items():
            for item in _usable(source, given, report[source], keep_formulas, limit, progress):
                yield trl_row(item, system) if form == "trl" else verl_row(item, index, system)
                index += 1

    def write(path: Path) -> None:
        write_parquet(path, row_schema(form), rows())
        if not any(source.kept for source in report.values()):
            raise InputError(f"no row could be used ({'; '.join(describe_left_out(report)) or 'the files are empty'})")

    write_atomically(out, write)
    return report


def parquet_files(given: Sequence[Path]) -> list[Path]:
    """The files, and those in the folders."""
    found: list[Path] = []
    for place in given:
        if not os.path.exists(place):
            raise InputError(f"{place} does not exist; give Parquet files, or a folder with some")
        inside = [place] if os.path.isfile(place) else sorted(place.rglob("*.parquet"))
        if not inside:
            raise InputError(f"{place} has no Parquet files")
        found += inside
    return found


def describe_left_out(report: MixtureReport) -> list[str]:
    """One line per reason why rows were left out, and per damaged file."""
    lines = []
    for name, source in report.items():
        lines += [f"{name}: {line}" for line in source.describe()]
        lines += [f"{name}: {lost.name} is truncated or damaged ({lost.reason})" for lost in source.lost]
    return lines


def _usable(
    source: MixtureSource,
    paths: Sequence[Path],
    report: SourceReport,
    keep_formulas: bool,
    limit: int | None,
    progress: Progress,
) -> Iterator[TrainingItem]:
    """The items of one dataset, in order; all other rows are counted."""
    for path, name in zip(paths, unique_keys(path.stem for path in paths), strict=True):
        try:
            for row in stored_rows(path):
                if limit is not None and report.kept >= limit:
                    return
                key = f"{source}/{name}/{row.number}"
                report.read += 1
                try:
                    item = training_item(row, source, key, path.parent, keep_formulas)
                except UnusableRow as unusable:
                    report.leave_out(unusable.reason, key)
                else:
                    report.kept += 1
                    yield item
                progress(row.number + 1, row.total, path.name)
        except DamagedFile as error:
            report.lost.append(LostFile(path.name, first_line(error)[:120]))


def _show_progress(done: int, total: int, label: str = "") -> None:
    """A counter on stderr, if that is a terminal."""
    if sys.stderr.isatty():
        print(f"\r{label}: {done} of {total} rows", end="\n" if done == total else "", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mmr1", type=Path, nargs="+", default=[], metavar="PATH", help="files or folders of MMR1-RL")
    parser.add_argument("--revisual", type=Path, nargs="+", default=[], metavar="PATH", help="those of ReVisual-R1")
    parser.add_argument("--to", required=True, choices=get_args(RowFormat), help="trainer that will read the rows")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="Parquet file to write")
    parser.add_argument("--keep-formulas", action="store_true", help="keep answers that can only be compared as text")
    parser.add_argument("--limit", type=int, metavar="N", help="use only the first N usable rows of each dataset")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    args = parser.parse_args()
    files: dict[MixtureSource, Sequence[Path]] = {"mmr1-rl": args.mmr1, "revisual-r1": args.revisual}
    try:
        report = convert_mixture(
            {source: given for source, given in files.items() if given},
            args.to,
            args.out,
            keep_formulas=args.keep_formulas,
            limit=args.limit,
            progress=_show_progress,
        )
    except VTraceError as error:
        parser.exit(error.exit_code, f"vtrace: {error}\n")
    if args.json:
        print(json.dumps({name: asdict(source) for name, source in report.items()}, indent=1))
        return
    for name, source in report.items():
        print(f"{name}: {source.kept} of {source.read} rows kept")
    print("\n".join(describe_left_out(report)) or "no row was left out")


if __name__ == "__main__":
    main()
