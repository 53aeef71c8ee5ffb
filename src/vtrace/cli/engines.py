"""Where `vtrace evaluate` runs: in this process, on workers of this machine, or on a Ray cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..errors import InputError

if TYPE_CHECKING:
    from ..benchmarks.benchmark import Benchmark
    from ..faithfulness.plan import ResponsePlan
    from ..faithfulness.workers import Workers
    from ..scheduling.scheduler import Notice
    from ..scheduling.tasks import Pool, WorkerRecipe

EngineName = Literal["local", "ray"]

WorkersOption = Annotated[
    int, typer.Option("--workers", metavar="N", min=1, help="Number of workers, each with a model of its own.")
]
EngineOption = Annotated[
    EngineName | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Where workers run: local (processes on this machine) or ray. Default: no workers, or local if N > 1.",
    ),
]
AddressOption = Annotated[
    str, typer.Option("--address", metavar="HOST:PORT", help="Ray cluster. Default: $RAY_ADDRESS, or a local one.")
]
GpusOption = Annotated[
    float | None,
    typer.Option("--gpus-per-worker", metavar="G", min=0.0, help="GPUs that Ray reserves per worker. Default: 0."),
]
CpusOption = Annotated[
    float | None,
    typer.Option("--cpus-per-worker", metavar="C", min=0.0, help="CPUs that Ray reserves per worker. Default: 1."),
]
WorkerLogsOption = Annotated[bool, typer.Option("--worker-logs", help="Show what workers print, on stderr.")]


@dataclass(frozen=True)
class EngineChoice:
    """The options that say where the work is done."""

    workers: int
    engine: EngineName | None
    address: str
    gpus: float | None
    cpus: float | None
    logs: bool

    def check(self) -> None:
        only_ray = {"--address": self.address, "--gpus-per-worker": self.gpus, "--cpus-per-worker": self.cpus}
        given = [option for option, value in only_ray.items() if value not in ("", None)]
        if given and self.engine != "ray":
            raise InputError(f"{given[0]} is an option of Ray; add --engine ray")

    @property
    def in_this_process(self) -> bool:
        return self.engine is None and self.workers == 1

    @contextmanager
    def open(
        self, recipe: WorkerRecipe, device: str, benchmark: Benchmark, plan: ResponsePlan, items: int, notice: Notice
    ) -> Iterator[Workers]:
        """Workers for this many items. Ctrl-C once lets them finish what they are working on, twice stops them."""
        from ..faithfulness.workers import Workers
        from ..scheduling.interrupts import draining_on_interrupt

        count = max(1, min(self.workers, items))
        pool = self._pool(recipe, count, device)
        try:
            workers = Workers(pool, count, benchmark, plan, notice)

            def drain() -> None:
                print("vtrace: finishing what is running; press Ctrl-C again to stop now", file=sys.stderr)
                workers.scheduler.drain()

            with draining_on_interrupt(drain):
                yield workers
        finally:
            pool.close()

    def _pool(self, recipe: WorkerRecipe, count: int, device: str) -> Pool:
        if self.engine == "ray":
            from ..scheduling.ray_pool import RayPool

            cpus, gpus = 1.0 if self.cpus is None else self.cpus, self.gpus or 0.0
            return RayPool(recipe, self.address or None, cpus, gpus, self.logs)
        from ..scheduling.local_pool import LocalPool

        return LocalPool(recipe, count, _one_gpu_each(device), _log if self.logs else lambda line: None)


def _log(line: str) -> None:
    print(line, file=sys.stderr)


def _one_gpu_each(device: str) -> list[dict[str, str]]:
    """Workers of one machine take its GPUs in turn, unless the user chose a device."""
    import torch

    if device not in ("", "cuda") or not torch.cuda.is_available():
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = visible if visible != [""] else [str(number) for number in range(torch.cuda.device_count())]
    return [{"CUDA_VISIBLE_DEVICES": name} for name in names]
