"""Credit: rollouts in, one weight per sampled token out, whatever the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ..errors import InputError
from ..lvlm.model import Lvlm
from ..system.option_check import check_option
from .policy import undisturbed
from .rollouts import Rollout, encoded_parts
from .sources import SOURCES
from .weights import BOOST, SHARE, UNASSIGNED, RuleName, check_rule, weights

TOKENS_AT_ONCE = 8192  # decoded together; bounds the memory of a batch
Status = Literal[
    "assigned",
    "no answer",  # the response has no "Final answer:" line
    "cut off",  # it was stopped at the token budget, so its answer may be incomplete
    "empty",  # nothing was sampled
    "nothing before the answer",  # so there is nothing to credit
    "no picture",  # the source compares with and without one
    "not finite",  # the model's numbers overflowed
    "skipped",  # the trainer did not ask: an advantage of zero stays zero
    "failed",  # an error, which the trainer logs
]


class TokenCredit(NamedTuple):
    """Credit of one response."""

    weights: np.ndarray  # one per response token; never 0
    scores: np.ndarray  # one per response token; nan where unassigned
    status: Status
    image_share: float | None = None  # of the answer's image and question scores, where the source knows it


def neutral_credit(length: int, status: Status) -> TokenCredit:
    """Weights that change nothing, for a response of so many tokens."""
    return TokenCredit(np.ones(length), np.full(length, UNASSIGNED), status)


@dataclass(frozen=True)
class Credit:
    """How responses are credited.

    Args:
        source: where scores come from, a name in `SOURCES`.
        rule: how scores become weights, see `weights`.
        share: of the scored tokens that the rule raises; the paper's 0.4.
        boost: what it raises them to; the paper's 1.5.
        seed: of the source "random".
        tokens_at_once: how many tokens are decoded together; fewer need less memory.
    """

    source: str = "vtrace"
    rule: RuleName = "top"
    share: float = SHARE
    boost: float = BOOST
    seed: int = 0
    tokens_at_once: int = TOKENS_AT_ONCE

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise InputError(f"unknown source {self.source!r}; use one of: {', '.join(SOURCES)}")
        check_rule(self.rule, self.share, self.boost)
        if self.tokens_at_once < 1:
            raise InputError(f"tokens_at_once is {self.tokens_at_once}; give at least 1")
        check_option("seed", self.seed, int)

    def assign(self, lvlm: Lvlm, rollouts: Sequence[Rollout]) -> list[TokenCredit]:
        """Credit of every rollout, in order. Responses that cannot be credited keep the weight 1.0 and say why."""
        found = [neutral_credit(len(rollout.response), self._reason(lvlm, rollout)) for rollout in rollouts]
        able = [k for k, credit in enumerate(found) if credit.status == "assigned"]
        with undisturbed(lvlm.model):
            for part in encoded_parts(lvlm, [rollouts[k] for k in able], self.tokens_at_once):
                scored = SOURCES[self.source].score(lvlm, part, self.seed)
                for index, rollout, scores in zip(part.indices, part.rollouts, scored, strict=True):
                    found[able[index]] = self._weigh(rollout, scores.values, scores.image_share)
        return found

    def _reason(self, lvlm: Lvlm, rollout: Rollout) -> Status:
        """Why a response cannot be credited; "assigned" if it can."""
        if not rollout.response:
            return "empty"
        if not rollout.finished:
            return "cut off"
        if not rollout.answer:
            return "no answer"
        if not len(rollout.scored):
            return "nothing before the answer"
        if SOURCES[self.source].needs_picture and lvlm.image_token_id not in rollout.prompt:
            return "no picture"
        return "assigned"

    def _weigh(self, rollout: Rollout, values: np.ndarray, image_share: float | None) -> TokenCredit:
        if not np.isfinite(values).all():
            return neutral_credit(len(rollout.response), "not finite")
        blank = neutral_credit(len(rollout.response), "assigned")
        blank.scores[: len(values)] = values
        raised = weights(blank.scores, self.rule, self.share, self.boost)
        return blank._replace(weights=raised, image_share=image_share)
