"""What if these inputs were hidden? One question at a time: the new answer, and which words became less likely."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, running
from ..lvlm.model import Lvlm
from ..methods.session import TraceSession
from ..tracing.pictures import BLUR
from ..types import Trace
from .ask_again import AskAgain, same_answer
from .plan import check_blur


@dataclass(frozen=True, eq=False)
class WhatIf:
    """What the model says with some inputs hidden, and what it thinks of its first response then."""

    hidden: tuple[int, ...]  # positions
    text: str  # of the new response
    answer: str | None  # after "Final answer:"
    first_answer: str | None  # with nothing hidden
    changed: bool
    likelihoods: np.ndarray  # 2,n: log p of the frozen tokens with nothing hidden, and with these inputs hidden


def what_if(
    lvlm: Lvlm,
    trace: Trace,
    positions: Collection[int],
    *,
    keep: bool = False,
    blur: float = BLUR,
    listen: Callable[[str], None] | None = None,
) -> WhatIf:
    """Hide inputs and ask again.

    Args:
        lvlm: the model, from `load`.
        trace: its frozen response, from `trace`.
        positions: image and question positions to hide: patches are blurred, words padded.
        keep: hide all other inputs instead.
        blur: radius, as a fraction of a picture's longer side.
        listen: receives the new response while it is generated.
    """
    hidden = _checked(trace, positions, keep)
    with running("asking again"):
        session = TraceSession.open(lvlm, trace, keep_layers=False)
        asked = AskAgain(session, check_blur(blur))
        (first,) = asked.ask([frozenset()])
        (reply,) = asked.ask([hidden], listen)
        likelihoods = session.perturbation(blur).log_probabilities([frozenset(), hidden]).cpu().numpy()
    changed = not same_answer(reply, first)
    return WhatIf(tuple(sorted(hidden)), reply.text, reply.answer, first.answer, changed, likelihoods)


def _checked(trace: Trace, positions: Collection[int], keep: bool) -> frozenset[int]:
    """Positions that are hidden; some, but not all inputs."""
    every, chosen = frozenset(trace.inputs), frozenset(positions)
    if stray := chosen - every:
        raise InputError(f"position {min(stray)} is neither a patch nor a word of the question, so it cannot be hidden")
    if not chosen:
        raise InputError("nothing is selected; select patches or words of the question")
    if chosen == every:
        what = "nothing would be hidden" if keep else "everything would be hidden"
        raise InputError(f"all patches and words are selected, so {what}; leave some out")
    return every - chosen if keep else chosen
