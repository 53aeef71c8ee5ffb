"""What if these inputs were hidden? One question at a time: the new answer, and which words became less likely."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import InputError, running
from ..lvlm.model import Lvlm
from ..methods.session import TraceSession
from ..tracing.pictures import BLUR
from ..types import Progress, Trace, silent
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
    progress: Progress = silent,
) -> WhatIf:
    """Hide inputs and ask again.

    Args:
        lvlm: the model, from `load`.
        trace: its frozen response, from `trace`.
        positions: image and question positions to hide: patches are blurred, words padded.
        keep: hide all other inputs instead.
        blur: radius, as a fraction of a picture's longer side.
        listen: receives the new response while it is generated.
        progress: called before each of three steps, and at every token of the second.
    """
    hidden = hidden_positions(trace, positions, keep)
    with running("asking again"):
        progress(0, 3, "asking again")
        session = TraceSession.open(lvlm, trace, keep_layers=False)
        asked = AskAgain(session, check_blur(blur))
        (reply,) = asked.ask([hidden], listen)
        (first,) = asked.ask([frozenset()], lambda _: progress(1, 3, "asking with nothing hidden"))
        progress(2, 3, "measuring likelihoods")
        likelihoods = session.perturbation(blur).log_probabilities([frozenset(), hidden]).cpu().numpy()
    changed = not same_answer(reply, first)
    return WhatIf(tuple(sorted(hidden)), reply.text, reply.answer, first.answer, changed, likelihoods)


def what_if_document(found: WhatIf) -> dict[str, Any]:
    """Every field under its own name, for JSON."""
    return {**asdict(found), "hidden": list(found.hidden), "likelihoods": found.likelihoods.tolist()}


def hidden_positions(trace: Trace, positions: Collection[int], keep: bool = False) -> frozenset[int]:
    """Positions that are hidden: these, or all others; some, but not all inputs."""
    every, chosen = frozenset(trace.inputs), frozenset(positions)
    if stray := chosen - every:
        raise InputError(f"position {min(stray)} is neither a patch nor a word of the question, so it cannot be hidden")
    if not chosen:
        raise InputError("nothing is selected; select patches or words of the question")
    if chosen == every:
        what = "nothing would be hidden" if keep else "everything would be hidden"
        raise InputError(f"all patches and words are selected, so {what}; leave some out")
    return every - chosen if keep else chosen
