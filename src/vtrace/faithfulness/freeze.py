"""The first phase of an evaluation: ask about examples in batches, and freeze the responses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from ..benchmarks.benchmark import Benchmark
from ..errors import VTraceError, running
from ..lvlm.model import Lvlm
from ..tracing.batch import Asked, generate_replies
from ..tracing.example import tidy
from ..tracing.prompt import process_prompt
from ..tracing.reply import Reply, decode_reply, known_reply, room_for_reply
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
            store.save(freeze_batch(lvlm, benchmark, plan, batch))
            done += len(batch)
        progress(len(indices), len(indices))
        return store.path


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
    replies = generate_replies(lvlm, [asked for *_, asked in waiting])
    for (key, index, example, _), reply in zip(waiting, replies, strict=True):
        if isinstance(reply, VTraceError):
            rows.left_out.append(LeftOutRow(item=key, reason=str(reply)))
        else:
            rows.response.append(response_row(lvlm, key, index, example, reply, "generated"))
    return rows


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
