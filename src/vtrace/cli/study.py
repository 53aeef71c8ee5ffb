"""`vtrace study`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import (
    BenchmarkOption,
    BlurOption,
    DataOption,
    DeviceOption,
    DtypeOption,
    FamilyOption,
    ModelOption,
    QuietOption,
    SeedOption,
)
from .outputs import print_written
from .progress import progress_bar, spinner

STUDY_EXAMPLES = """
Examples:\n
  vtrace study components --limit 50\n
  vtrace study gamma --out studies\n
  vtrace study list
"""


def study_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the study, or 'list' to list all.")],
    model: ModelOption = "pinhole",
    family: FamilyOption = "",
    benchmark: BenchmarkOption = "shapes-dev",
    data: DataOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Evaluate only the first N examples. Default: 50, fewer for slow studies."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the results, with a subfolder for each study.")
    ] = Path("studies"),
    blur: BlurOption = None,
    seed: SeedOption = 0,
    dtype: DtypeOption = "",
    device: DeviceOption = "",
    quiet: QuietOption = False,
) -> None:
    """Run a study: an ablation or a figure, as a table and a plot. Interrupted runs resume."""
    if name == "list":
        _print_studies()
        return
    from ..benchmarks.registry import find_benchmark
    from ..lvlm.checkpoint_source import reach_checkpoint
    from ..lvlm.devices import check_device_here
    from ..studies.catalogue import check_study

    check_study(name)  # before PyTorch or any model is loaded
    chosen = find_benchmark(benchmark, data)
    reach_checkpoint(model)
    check_device_here(device)
    with spinner(quiet) as report:
        report(0, 0, "Loading PyTorch and transformers")
        from ..lvlm.dtypes import find_dtype
        from ..lvlm.family_choice import find_family
        from ..lvlm.load import load
        from ..studies.run import run_study

        report(0, 0, f"Loading {model}")
        lvlm = load(model, find_dtype(dtype), device or None, family=find_family(family))
    with progress_bar(quiet) as report:
        written = run_study(name, lvlm, chosen, out, limit=limit, seed=seed, blur=blur, progress=report)
    print(written[0].read_text("utf-8"), end="")
    print_written(written)


def _print_studies() -> None:
    from ..studies.catalogue import STUDY_SUBJECTS

    for name, subject in STUDY_SUBJECTS.items():
        print(f"{name:<12} {subject}")
