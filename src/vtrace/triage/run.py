"""Explain a benchmark: freeze responses, explain what is missing, and write the triage page. Resumable."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..benchmarks.benchmark import Benchmark
from ..errors import VTraceError
from ..faithfulness.measurement import AnsweredItem
from ..faithfulness.rows import LeftOutRow
from ..faithfulness.run import asked_items, chosen_items
from ..faithfulness.traces import FrozenTraces, read_traces
from ..lvlm.model import Lvlm
from ..types import Progress, silent
from .engine import Explainer, ExplainHere
from .page import write_triage_page
from .plan import ExplanationPlan
from .store import ExplanationStore


def explain_benchmark(
    lvlm: Lvlm,
    benchmark: Benchmark,
    plan: ExplanationPlan,
    out: Path,
    *,
    limit: int | None = None,
    traces: Path | None = None,
    progress: Progress = silent,
) -> Path:
    """Explain what is missing in the folder `out`, in the order of the benchmark, and return its triage page.

    Args:
        lvlm: the model, from `load`.
        benchmark: where the questions come from.
        plan: what is explained, and how.
        out: the folder of the explanations.
        limit: explain only the first `limit` questions.
        traces: explain these frozen responses, and only these; by default, responses are frozen in `out` first.
        progress: receives the number of finished items.
    """
    engine = ExplainHere(lvlm, benchmark, plan, out)
    return explain_on(engine, benchmark, plan, out, limit=limit, traces=traces, progress=progress)


def explain_on(
    engine: Explainer,
    benchmark: Benchmark,
    plan: ExplanationPlan,
    out: Path,
    *,
    limit: int | None = None,
    traces: Path | None = None,
    progress: Progress = silent,
) -> Path:
    """As `explain_benchmark`, wherever the model runs. This process is the only one that writes.

    The page is also written when the run is interrupted, with what was explained until then.
    """
    frozen = None if traces is None else read_traces(traces)
    numbers = chosen_items(benchmark, limit)
    if frozen is not None:
        frozen.check(engine.model, benchmark, plan.responses.system)
        numbers = asked_items(frozen, benchmark, numbers)
    with ExplanationStore(out, plan.settings(engine.model, benchmark)) as store:
        store.save_lost(benchmark.lost)
        verified = plan.passes is not None
        missing = [number for number in numbers if not store.is_done(benchmark.key(number), verified)]
        try:
            if frozen is None and missing:
                engine.freeze(out, missing, progress)
                frozen = read_traces(out)
            if frozen is not None:
                _explain_missing(engine, benchmark, store, frozen, missing, len(numbers), progress)
        except (VTraceError, KeyboardInterrupt):
            with suppress(VTraceError):
                write_triage_page(out, len(numbers))
            raise
        progress(len(numbers), len(numbers))
        return write_triage_page(out, len(numbers))


def _explain_missing(
    engine: Explainer,
    benchmark: Benchmark,
    store: ExplanationStore,
    frozen: FrozenTraces,
    missing: Sequence[int],
    total: int,
    progress: Progress,
) -> None:
    """Explain the items that have a response; the others are left out for the reason why they have none."""
    done = total - len(missing)
    items = []
    for number in missing:
        key = benchmark.key(number)
        if response := frozen.responses.get(key):
            items.append(AnsweredItem(number, key, response))
        else:
            store.save(LeftOutRow(item=key, reason=frozen.left_out[key]))
            done += 1

    def begin(label: str) -> None:
        progress(done, total, label)

    for found in engine.explain(items, begin):
        store.save(found)
        done += 1
