"""Responses of a server, asked for by several requests at a time and handed over as they arrive."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from ..benchmarks.benchmark import Benchmark
from ..errors import VTraceError
from ..lvlm.model import Lvlm
from ..tracing.endpoint import ChatClient, Endpoint, EndpointError
from ..tracing.example import tidy
from ..tracing.reply import asked_part
from ..tracing.served_reply import chat_request, served_reply
from ..types import Example
from .plan import ResponsePlan
from .response_row import response_row
from .rows import LeftOutRow, TraceRows

_FAILURES_IN_A_ROW = 3  # for each request at a time, after which the server is given up


class _Request(NamedTuple):
    """An example under way."""

    key: str
    number: int
    example: Example


def served_rows(
    lvlm: Lvlm, benchmark: Benchmark, plan: ResponsePlan, endpoint: Endpoint, indices: Sequence[int]
) -> Generator[TraceRows]:
    """Rows as they arrive. A server that cannot be used ends the work, after everything that has arrived."""
    client = ChatClient(endpoint)
    threads = ThreadPoolExecutor(endpoint.concurrency, "vtrace-endpoint")
    left, failures = iter(indices), 0
    waiting: dict[Future[Any], _Request] = {}
    try:
        while True:
            rows = TraceRows()
            while len(waiting) < 2 * endpoint.concurrency and (index := next(left, None)) is not None:
                _submit(lvlm, benchmark, plan, client, threads, waiting, rows, index)
            if not waiting and not rows.left_out:
                return
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            stopped = None
            for future in done:
                request = waiting.pop(future)
                try:
                    reply = asked_part(lvlm, request.example, served_reply(lvlm, future.result()))
                except EndpointError as error:
                    stopped = error
                except VTraceError as error:
                    failures += 1
                    rows.left_out.append(LeftOutRow(item=request.key, reason=str(error)))
                else:
                    failures = 0
                    rows.response.append(
                        response_row(lvlm, request.key, request.number, request.example, reply, "endpoint")
                    )
            if rows.response or rows.left_out:
                yield rows
            if stopped is not None:
                raise stopped
            if failures >= _FAILURES_IN_A_ROW * endpoint.concurrency:
                raise EndpointError(
                    f"{failures} examples failed one after the other; the last: {rows.left_out[-1]['reason']}"
                )
    finally:
        client.close()
        threads.shutdown(wait=False, cancel_futures=True)


def _submit(
    lvlm: Lvlm,
    benchmark: Benchmark,
    plan: ResponsePlan,
    client: ChatClient,
    threads: ThreadPoolExecutor,
    waiting: dict[Future[Any], _Request],
    rows: TraceRows,
    index: int,
) -> None:
    """Send the request of an example, or record why there is none."""
    key = benchmark.key(index)
    try:
        example = tidy(benchmark.example(index))
        messages = chat_request(lvlm, example, plan.system)
    except VTraceError as error:
        rows.left_out.append(LeftOutRow(item=key, reason=str(error)))
    else:
        future = threads.submit(client.complete, messages, plan.max_new_tokens)
        waiting[future] = _Request(key, index, example)
