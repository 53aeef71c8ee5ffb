"""The first phase of an evaluation: ask about examples in batches, and freeze the responses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..benchmarks.benchmark import Benchmark
from ..errors import VTraceError, running
from ..lvlm.model import Lvlm
from ..system.error_log import record_bug
from ..tracing.example import tidy
from ..tracing.prompt import process_prompt
from ..tracing.reply import Reply, decode_reply, generate_reply, known_reply, room_for_reply
from ..types import Example, Progress, silent
from .plan import ResponsePlan
from .rows import LeftOutRow, ResponseRow, ResponseSource, TraceRows
from .store import WHOLE_RUN, Shard
from .traces import TraceStore, read_traces, trace_file


def freeze_responses(
    lvlm: Lvlm,
    benchmark: Benchmark,
    plan: ResponsePlan,
    out: Path,
    indices: Sequence[int],
    *,
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
        shard: names the file, if several machines share the folder.
        progress: receives the number of examples that have been asked.
    """
    with TraceStore(trace_file(out, shard), plan.settings(lvlm, benchmark)) as store:
        known = read_traces(out).responses  # of all shards
        missing = [index for index in indices if benchmark.key(index) not in known]
        done = len(indices) - len(missing)
        for start in range(0, len(missing), plan.batch):
            batch = missing[start : start + plan.batch]
            progress(done, len(indices), f"asking {benchmark.key(batch[0])}")
            store.save(freeze_batch(lvlm, benchmark, plan, batch, out))
            done += len(batch)
        progress(len(indices), len(indices))
        return store.path


def freeze_batch(
    lvlm: Lvlm, benchmark: Benchmark, plan: ResponsePlan, indices: Sequence[int], folder: Path | None = None
) -> TraceRows:
    """The responses to these examples, generated together. An item that has none gets the reason; the traceback of a
    bug goes to a log in the folder."""
    rows = TraceRows()
    for index in indices:
        key = benchmark.key(index)
        with _left_out(rows, key, folder), running("the response"):
            example = tidy(benchmark.example(index))
            prompt = process_prompt(lvlm, example, plan.system)
            room = room_for_reply(lvlm, prompt)
            if known := known_reply(lvlm, example, prompt):
                rows.response.append(response_row(lvlm, key, index, example, known, "supplied"))
                continue
            reply = generate_reply(lvlm, prompt, min(plan.max_new_tokens, room))
            rows.response.append(response_row(lvlm, key, index, example, reply, "generated"))
    return rows


@contextmanager
def _left_out(rows: TraceRows, key: str, folder: Path | None) -> Iterator[None]:
    """Record an error as the reason why an item has no response."""
    try:
        yield
    except VTraceError as error:
        rows.left_out.append(LeftOutRow(item=key, reason=str(error)))
    except Exception as error:  # a bug of ours on one item must not stop the run
        rows.left_out.append(LeftOutRow(item=key, reason=record_bug(error, folder, f"item {key}")))


def response_row(
    lvlm: Lvlm, key: str, number: int, example: Example, reply: Reply, source: ResponseSource
) -> ResponseRow:
    return ResponseRow(
        key=key,
        number=number,
        asked=fingerprint(example),
        reply=json.dumps(reply.ids),
        finish=reply.finish,
        text=decode_reply(lvlm, reply.ids),
        source=source,
        round_trips=reply.round_trips,
    )


def fingerprint(example: Example) -> str:
    """Fingerprint of everything in a tidied example that its response depends on and is graded by."""
    asked = (example.question, example.answer, example.response, *example.response_ids)
    digest = hashlib.sha256(repr(asked).encode())
    for image in example.images:
        digest.update(repr(image.size).encode() + image.tobytes())
    return digest.hexdigest()[:16]
