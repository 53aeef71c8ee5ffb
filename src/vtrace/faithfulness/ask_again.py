"""Ask the model again with some inputs hidden: it answers anew, greedily, from the perturbed prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..benchmarks.grading import same_words, tidy_answer
from ..lvlm.model import Lvlm
from ..methods.session import TraceSession
from ..tracing.generate import end_tokens
from ..tracing.pictures import BLUR
from ..tracing.spans import find_answer
from ..types import Span

LONGER = 1.5  # a new response may be so many times as long as the first,
SPARE = 8  # and a few tokens longer;
SUPPLIED = 256  # at least, if the first was not the model's own


class NewReply(NamedTuple):
    """What the model says with some inputs hidden."""

    text: str
    answer: str | None  # after "Final answer:"


class AskAgain:
    """New replies to one prompt with hidden inputs. Equal states are asked once."""

    def __init__(self, session: TraceSession, radius: float = BLUR):
        self._lvlm, trace = session.lvlm, session.trace
        self._perturbation = session.perturbation(radius)
        self._ends = end_tokens(self._lvlm)
        wanted = math.ceil(LONGER * (len(trace) - trace.prompt_length)) + SPARE
        wanted = max(wanted, SUPPLIED) if trace.finish == "supplied" else wanted
        self._room = min(wanted, self._lvlm.context - trace.prompt_length)
        self._known: dict[frozenset[int], NewReply] = {}
        self.calls = 0

    @property
    def sequences(self) -> int:
        """How many replies were generated so far."""
        return len(self._known)

    def ask(self, states: Iterable[frozenset[int]], listen: Callable[[str], None] | None = None) -> list[NewReply]:
        """The reply in each state: image positions of a state are blurred, all others padded.

        `listen` receives the text of a single new reply so far, while it is generated.
        """
        states = list(states)
        if new := [state for state in dict.fromkeys(states) if state not in self._known]:
            self.calls += 1
            heard = None if listen is None else lambda ids: listen(_read(self._lvlm, ids).text)
            replies = self._perturbation.generate(new, self._room, self._ends, heard)
            self._known |= {state: _read(self._lvlm, ids) for state, ids in zip(new, replies, strict=True)}
        return [self._known[state] for state in states]


def _read(lvlm: Lvlm, ids: list[int]) -> NewReply:
    text = lvlm.processor.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False).strip()
    answer = find_answer(text, Span(0, len(text))).answer
    return NewReply(text, None if answer is None else text[slice(*answer)])


def same_answer(one: NewReply, other: NewReply) -> bool:
    """Whether two replies give the same answer, compared as benchmarks grade words; replies without a "Final answer:"
    line are compared as a whole."""
    if one.answer is None and other.answer is None:
        return same_words(one.text, other.text)
    if one.answer is None or other.answer is None:
        return False
    return same_words(tidy_answer(one.answer), tidy_answer(other.answer))
