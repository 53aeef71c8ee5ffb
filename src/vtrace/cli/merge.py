"""`vtrace merge`. It needs no model, so it imports neither PyTorch nor transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .outputs import print_written

MERGE_EXAMPLES = """
Examples:\n
  vtrace merge runs/sharded --out runs/whole\n
  vtrace merge node1/run-1-of-2.sqlite node2/run-2-of-2.sqlite --out runs/whole\n
  vtrace evaluate --out runs/whole     (continues where the shards stopped)
"""


def merge_command(
    places: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders or files of one run.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the merged run.")],
) -> None:
    """Merge the files of a run, such as its shards, into one. Needs no model."""
    from ..faithfulness.merge_files import merge_files

    print_written(merge_files(places, out))
