"""Choose equally many correct and incorrect answers of a model that may rarely be wrong."""

from __future__ import annotations

from ..benchmarks.grading import CORRECT, grade
from ..errors import InputError, VTraceError, running
from ..types import Progress
from .store import StudyStore
from .study import StudySetup

PATIENCE = 50  # maximum number of examples to ask for each one needed


def choose_balanced(setup: StudySetup, store: StudyStore, limit: int, progress: Progress) -> list[int]:
    """Numbers of the first correct and the first incorrect answers, half of `limit` each or as many as were found.

    Verdicts are kept in the store, so that nothing is asked twice.
    """
    benchmark, known = setup.benchmark, store.verdicts()
    wanted, most = {True: limit // 2, False: -(-limit // 2)}, min(PATIENCE * limit, benchmark.size)
    found: dict[bool, list[int]] = {True: [], False: []}
    for number in range(most):
        if all(len(found[side]) == wanted[side] for side in wanted):
            break
        key = benchmark.key(number)
        progress(number, most, key)
        correct = known.get(key)
        if correct is None and (correct := _is_correct(setup, number)) is not None:
            store.save_verdict(key, correct)
        if correct is not None and len(found[correct]) < wanted[correct]:
            found[correct].append(number)
    chosen = sorted(found[True] + found[False])
    if not chosen:
        raise InputError(f"none of {most} answers to {benchmark.name} could be graded as correct or incorrect")
    return chosen


def _is_correct(setup: StudySetup, number: int) -> bool | None:
    """Whether the answer is correct; None if it cannot be graded or the item has to be left out."""
    try:
        with running("the response"):
            verdict = grade(setup.benchmark.example(number), setup.freeze(number).answer_text)
    except VTraceError:
        return None
    return CORRECT[verdict] if verdict else None
