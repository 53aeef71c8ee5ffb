"""Ctrl-C once drains, twice stops."""

from __future__ import annotations

import signal
import threading

import pytest

from support.light_work import light
from vtrace.scheduling.interrupts import draining_on_interrupt
from vtrace.scheduling.local_pool import LocalPool
from vtrace.scheduling.scheduler import Scheduler
from vtrace.scheduling.tasks import Task


def test_the_first_interrupt_lets_workers_finish_what_they_work_on():
    pool = LocalPool(light(), 1)
    scheduler, found = Scheduler(pool, 1), []
    try:
        with draining_on_interrupt(scheduler.drain):
            for outcome in scheduler.run([Task(str(k), ("square", k)) for k in range(50)]):
                found.append(outcome.value)
                if len(found) == 1:
                    signal.raise_signal(signal.SIGINT)
    finally:
        pool.close()
    assert len(found) == 2  # the second one was running


def test_the_second_interrupt_stops_and_the_handler_is_restored():
    before, drained = signal.getsignal(signal.SIGINT), []
    with draining_on_interrupt(lambda: drained.append(1)):
        signal.raise_signal(signal.SIGINT)
        assert drained == [1]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_signals_are_left_alone():
    before, drained = signal.getsignal(signal.SIGINT), []

    def elsewhere() -> None:
        with draining_on_interrupt(lambda: None):
            drained.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert drained == [before]
