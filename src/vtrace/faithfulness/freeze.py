"""The first phase of an evaluation: ask about examples in batches, and freeze the responses."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

from ..benchmarks.benchmark import Benchmark
from ..errors import VTraceError, running
from ..lvlm.model import Lvlm
from ..tracing.batch import Asked, generate_replies
from ..tracing.endpoint import Endpoint
from ..tracing.example import tidy
from ..tracing.prompt import process_prompt
from ..tracing.reply import known_reply, room_for_reply
from ..types import Progress, silent
from .plan import ResponsePlan
from .response_row import response_row
from .rows import LeftOutRow, TraceRows
from .served import served_rows
from .store import WHOLE_RUN, Shard
from .traces import TraceStore, read_traces, trace_file

_LABEL = "asking"
_BATCHES_AT_ONCE = 4  # between two writes


def freeze_responses(
    lvlm: Lvlm,
    benchmark: Benchmark,
    plan: ResponsePlan,
    out: Path,
    indices: Sequence[int],
    *,
    endpoint: Endpoint | None = None,
    shard: Shard = WHOLE_RUN,
    progress: Progress = silent,
) -> Path:
    """Ask about those of the examples that have no response yet, and return the file of the responses.

    Args:
        lvlm: the model, from `load`.
        benchmark: where the examples come from.
        plan: how they are asked.
        out: the folder of the responses.
        indices: numbers of the examples.
        endpoint: ask this server instead of `lvlm`, which then needs no weights.
        shard: names the file, if several machines share the folder.
        progress: receives the number of examples that have been asked.
    """
    with TraceStore(trace_file(out, shard), plan.settings(lvlm, benchmark, endpoint)) as store:
        known = read_traces(out).responses  # of all shards
        missing = [index for index in indices if benchmark.key(index) not in known]
        done = len(indices) - len(missing)
        if endpoint is None:
            answers = _generated_rows(lvlm, benchmark, plan, missing)
        else:
            answers = served_rows(lvlm, benchmark, plan, endpoint, missing)
        progress(done, len(indices), _LABEL)
        with closing(answers):
            for rows in answers:
                store.save(rows)
                done += len(rows.response) + len(rows.left_out)
                progress(done, len(indices), _LABEL)
        return store.path


def _generated_rows(
    lvlm: Lvlm, benchmark: Benchmark, plan: ResponsePlan, indices: Sequence[int]
) -> Generator[TraceRows]:
    """Several batches at a time, so that an answer that has ended makes room for another one."""
    several = _BATCHES_AT_ONCE * plan.batch
    for start in range(0, len(indices), several):
        yield freeze_batch(lvlm, benchmark, plan, indices[start : start + several])


def freeze_batch(lvlm: Lvlm, benchmark: Benchmark, plan: ResponsePlan, indices: Sequence[int]) -> TraceRows:
    """The responses to these examples, generated together. An item that has none gets the reason."""
    rows, waiting = TraceRows(), []
    for index in indices:
        key = benchmark.key(index)
        try:
            with running("the response"):
                example = tidy(benchmark.example(index))
                prompt = process_prompt(lvlm, example, plan.system)
                asked = Asked(prompt, min(plan.max_new_tokens, room_for_reply(lvlm, prompt)))
                known = known_reply(lvlm, example, prompt)
        except VTraceError as error:
            rows.left_out.append(LeftOutRow(item=key, reason=str(error)))
            continue
        if known:
            rows.response.append(response_row(lvlm, key, index, example, known, "supplied"))
        else:
            waiting.append((key, index, example, asked))
    replies = generate_replies(lvlm, [asked for *_, asked in waiting], plan.batch)
    for (key, index, example, _), reply in zip(waiting, replies, strict=True):
        if isinstance(reply, VTraceError):
            rows.left_out.append(LeftOutRow(item=key, reason=str(reply)))
        else:
            rows.response.append(response_row(lvlm, key, index, example, reply, "generated"))
    return rows
