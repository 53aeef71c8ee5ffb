"""The first phase of an evaluation: ask about examples in batches, and freeze the responses."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from ..benchmarks.benchmark import Benchmark
from ..errors import VTraceError, running
from ..lvlm.model import Lvlm
from ..system.error_log import record_bug
from ..tracing.batch import Asked, generate_replies
from ..tracing.endpoint import Endpoint
from ..tracing.example import tidy
from ..tracing.prompt import process_prompt
from ..tracing.reply import Reply, asked_part, known_reply, room_for_reply
from ..types import Example, Progress, silent
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
            answers = _generated_rows(lvlm, benchmark, plan, missing, out)
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
    lvlm: Lvlm, benchmark: Benchmark, plan: ResponsePlan, indices: Sequence[int], folder: Path
) -> Generator[TraceRows]:
    """Several batches at a time, so that an answer that has ended makes room for another one."""
    several = _BATCHES_AT_ONCE * plan.batch
    for start in range(0, len(indices), several):
        yield freeze_batch(lvlm, benchmark, plan, indices[start : start + several], folder)


class _Waiting(NamedTuple):
    """An example that has no response yet."""

    key: str
    number: int
    example: Example
    asked: Asked


def freeze_batch(
    lvlm: Lvlm, benchmark: Benchmark, plan: ResponsePlan, indices: Sequence[int], folder: Path | None = None
) -> TraceRows:
    """The responses to these examples, generated together. An item that has none gets the reason; the traceback of a
    bug goes to a log in the folder."""
    rows, waiting = TraceRows(), list[_Waiting]()
    for index in indices:
        key = benchmark.key(index)
        with _left_out(rows, key, folder), running("the response"):
            example = tidy(benchmark.example(index))
            prompt = process_prompt(lvlm, example, plan.system)
            asked = Asked(prompt, min(plan.max_new_tokens, room_for_reply(lvlm, prompt)))
            if known := known_reply(lvlm, example, prompt):
                rows.response.append(response_row(lvlm, key, index, example, known, "supplied"))
            else:
                waiting.append(_Waiting(key, index, example, asked))
    replies = _replies(lvlm, [one.asked for one in waiting], plan.batch)
    for (key, index, example, _), reply in zip(waiting, replies, strict=True):
        with _left_out(rows, key, folder):
            if isinstance(reply, Exception):
                raise reply
            reply = asked_part(lvlm, example, reply)
            rows.response.append(response_row(lvlm, key, index, example, reply, "generated"))
    return rows


def _replies(lvlm: Lvlm, asked: Sequence[Asked], together: int) -> list[Reply | Exception]:
    """Replies, or the reason for each that is missing. A bug of ours costs only the prompt that met it its reply."""
    try:
        return [*generate_replies(lvlm, asked, together)]
    except Exception as error:
        return [error] if len(asked) == 1 else [reply for one in asked for reply in _replies(lvlm, [one], 1)]


@contextmanager
def _left_out(rows: TraceRows, key: str, folder: Path | None) -> Iterator[None]:
    """Record an error as the reason why an item has no response."""
    try:
        yield
    except VTraceError as error:
        rows.left_out.append(LeftOutRow(item=key, reason=str(error)))
    except Exception as error:  # a bug of ours on one item must not stop the run
        rows.left_out.append(LeftOutRow(item=key, reason=record_bug(error, folder, f"item {key}")))
