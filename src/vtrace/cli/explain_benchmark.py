"""`vtrace explain --benchmark`: a whole file at once, with a triage page."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .engines import EngineChoice
from .events import EvaluationEvents
from .options import one_process
from .outputs import STDOUT, check_outputs, json_file, print_note, print_written
from .progress import spinner

if TYPE_CHECKING:
    from ..attribution.options import Options
    from ..benchmarks.benchmark import Benchmark
    from ..triage.engine import Explainer
    from ..triage.plan import ExplanationPlan


@dataclass(frozen=True)
class BenchmarkRequest:
    """The options of `vtrace explain` that are about a whole benchmark."""

    benchmark: str
    data: Path | None
    samples: Path | None
    traces: Path | None
    limit: int | None
    out: Path | None
    system: str | None
    batch: int
    model: str
    adapter: str
    family: str
    dtype: str
    device: str
    max_new_tokens: int | None
    target: str
    memory: str
    passes: int | None
    json: str
    engine: EngineChoice

    @property
    def asked(self) -> bool:
        """Whether a whole benchmark is to be explained, rather than one question."""
        return bool(self.benchmark or self.traces)

    def check(self, of_one: Mapping[str, object]) -> None:
        """Refuse options that belong to the other way of asking. `of_one` are those that are about one question."""
        own = {
            "--data": self.data,
            "--samples": self.samples,
            "--limit": self.limit,
            "--out": self.out,
            "--system": self.system,
            "--engine": self.engine.engine,
            "--workers": self.engine.workers > 1,
        }
        if not self.asked and (given := [name for name, value in own.items() if value not in (None, False)]):
            raise InputError(f"{given[0]} is for a whole benchmark; add --benchmark")
        if self.asked and (given := [name for name, value in of_one.items() if value]):
            raise InputError(f"{'--benchmark' if self.benchmark else '--traces'} and {given[0]} are mutually exclusive")
        self.engine.check()

    def run(self, options: Options, quiet: bool) -> None:
        """Explain every question, and say where the page is."""
        one_process(self.device)
        check_outputs(json_file(self.json))
        events = EvaluationEvents(False, quiet)
        from ..benchmarks.registry import open_benchmark
        from ..faithfulness.traces import read_traces
        from ..lvlm.checkpoint_source import reach_checkpoint
        from ..lvlm.devices import check_device_here
        from ..tracing.targets import check_target

        frozen = read_traces(self.traces).settings if self.traces else None
        name = self.benchmark or (frozen["benchmark"] if frozen else "")
        model = self.model or (frozen["model"] if frozen else "pinhole")
        family = self.family or (frozen["family"] if frozen else "")
        check_target(self.target)
        reach_checkpoint(model)
        if self.engine.in_this_process:
            check_device_here(self.device)
        with spinner(quiet) as report:
            report(0, 0, f"Opening {name}")
            benchmark = open_benchmark(name, self.data, self.samples)
            for file, reason in benchmark.lost:
                print_note(f"skipping {file}: {reason}")
            place = self.out or Path("explained") / f"{benchmark.name}-{Path(model).name}"
            report(0, 0, "Loading PyTorch and transformers")
            from ..faithfulness.run import chosen_items
            from ..triage.document import triage_document
            from ..triage.run import explain_on

            plan = self._plan(options, benchmark, frozen)
            items = len(chosen_items(benchmark, self.limit))
        with (
            self._opened(name, model, family, benchmark, plan, place, items, events) as engine,
            events.progress() as report,
        ):
            page = explain_on(engine, benchmark, plan, place, limit=self.limit, traces=self.traces, progress=report)
        document = triage_document(place)
        for line in describe(document):
            print_note(line)
        text = jsonlib.dumps(document, ensure_ascii=False)
        if (written := json_file(self.json)) is not None:
            from ..system.files import write_atomically

            print_written([write_atomically(written, lambda made: made.write_text(text, "utf-8"))])
        print_written([page])
        print(text if self.json == STDOUT else page)

    def _plan(self, options: Options, benchmark: Benchmark, frozen: Mapping[str, Any] | None) -> ExplanationPlan:
        from ..faithfulness.plan import ResponsePlan
        from ..triage.plan import ExplanationPlan

        system = self.system
        if system is None:
            system = frozen["system"] if frozen else benchmark.system
        tokens = frozen["max_new_tokens"] if frozen else self.max_new_tokens or benchmark.max_new_tokens
        responses = ResponsePlan(tokens, system, self.batch)
        return ExplanationPlan(self.target, options, self.passes, self.memory or None, responses)

    @contextmanager
    def _opened(
        self,
        name: str,
        model: str,
        family: str,
        benchmark: Benchmark,
        plan: ExplanationPlan,
        place: Path,
        items: int,
        events: EvaluationEvents,
    ) -> Iterator[Explainer]:
        """The model in this process, or workers that have one each."""
        from ..faithfulness.worker import worker_recipe
        from ..lvlm.dtypes import find_dtype
        from ..lvlm.family_choice import find_family
        from ..lvlm.load import load
        from ..triage.engine import ExplainHere, ExplainingWorker, ExplainOnWorkers

        if self.engine.in_this_process:
            dtype, asked = find_dtype(self.dtype), find_family(family)
            lvlm = load(model, dtype, self.device or None, adapter=self.adapter or None, family=asked)
            yield ExplainHere(lvlm, benchmark, plan, place)
            return
        source = (name, self.data, self.samples)
        recipe = worker_recipe(
            ExplainingWorker, model, self.dtype, self.device, benchmark, source, plan=plan, adapter=self.adapter,
            family=family,
        )  # fmt: skip
        with self.engine.open(recipe, self.device, benchmark, plan.responses, items, events.worker) as workers:
            yield ExplainOnWorkers(workers)


def describe(document: Mapping[str, Any]) -> Iterator[str]:
    """What a user should know, in lines: what is missing, and how many questions each flag marks."""
    for row in document["left_out"]:
        yield f"left out {row['item']}: {row['reason']}"
    for row in document["unverified"]:
        yield f"not verified {row['item']}: {row['reason']}"
    counts = {name: sum(name in row["flags"] for row in document["items"]) for name in document["flags"]}
    for name, count in counts.items():
        if count:
            yield f"{name}: {count} of {len(document['items'])}"
