"""What trainers share: rows are credited without ever failing, and counted for the log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import ModelError
from ..lvlm.model import Lvlm
from .credit import Credit, Status, TokenCredit, neutral_credit
from .rollouts import Rollout

_LOG = logging.getLogger(__name__)
_WITHOUT_ANSWER: tuple[Status, ...] = ("no answer", "cut off", "empty")


class CreditedRows:
    """Credits the rows of a batch. A row that fails keeps the weight 1.0, and the first failure of a run is logged."""

    def __init__(self, credit: Credit):
        self.credit = credit
        self._failed_before = False

    def __call__(
        self,
        lvlm: Lvlm,
        lengths: Sequence[int],
        moved: Sequence[bool],
        rollouts: Callable[[Sequence[int]], list[Rollout]],
    ) -> list[TokenCredit]:
        """Credit of every row, in order.

        Args:
            lvlm: the policy.
            lengths: numbers of response tokens.
            moved: whether a row has an advantage other than zero; all others are skipped.
            rollouts: makes the rollouts of some rows.
        """
        found = [neutral_credit(length, "skipped") for length in lengths]
        rows = [row for row, length in enumerate(lengths) if length and moved[row]]
        for row, credit in zip(rows, self._together(lvlm, lengths, rows, rollouts), strict=True):
            found[row] = credit
        return found

    def _together(
        self,
        lvlm: Lvlm,
        lengths: Sequence[int],
        rows: Sequence[int],
        rollouts: Callable[[Sequence[int]], list[Rollout]],
    ) -> list[TokenCredit]:
        if not rows:
            return []
        try:
            found = self.credit.assign(lvlm, rollouts(rows))
            _check([lengths[row] for row in rows], found)
        except Exception:  # a run of days must not end because of a weight
            self.log_failure()
            if len(rows) == 1:
                return [neutral_credit(lengths[rows[0]], "failed")]
            return [self._together(lvlm, lengths, [row], rollouts)[0] for row in rows]  # the others need not fail
        return found

    def log_failure(self) -> None:
        """Log the error that is being handled, if it is the first."""
        if not self._failed_before:
            _LOG.exception("credit failed: the advantages of some rows are not weighted; credit/failed counts them")
        self._failed_before = True


def _check(lengths: Sequence[int], found: Sequence[TokenCredit]) -> None:
    for length, credit in zip(lengths, found, strict=True):
        good = np.isfinite(credit.weights) & (credit.weights > 0)
        if len(credit.weights) != length or not good.all():
            raise ModelError(f"credit gave weights that do not fit a response of {length} tokens")


class CreditTotals(NamedTuple):
    """Sums over rows, from which metrics are made; those of several processes can be added."""

    weight: float
    tokens: float
    without_answer: float
    moved: float
    image_share: float
    image_shares: float
    assigned: float
    skipped: float
    failed: float
    not_finite: float
    rows: float

    @classmethod
    def of(cls, found: Sequence[TokenCredit]) -> CreditTotals:
        counted = Counter(credit.status for credit in found)
        moved = [credit for credit in found if credit.status != "skipped"]
        shares = [credit.image_share for credit in moved if credit.image_share is not None]
        return cls(
            weight=sum(float(credit.weights.sum()) for credit in moved),
            tokens=sum(len(credit.weights) for credit in moved),
            without_answer=sum(counted[status] for status in _WITHOUT_ANSWER),
            moved=len(moved),
            image_share=sum(shares),
            image_shares=len(shares),
            assigned=counted["assigned"],
            skipped=counted["skipped"],
            failed=counted["failed"],
            not_finite=counted["not finite"],
            rows=len(found),
        )

    def metrics(self) -> dict[str, float]:
        """By the names under which trainers log them."""
        rows = self.rows or 1
        found = {
            "credit/mean_weight": self.weight / self.tokens if self.tokens else 1.0,
            "credit/without_answer": self.without_answer / self.moved if self.moved else 0.0,
            "credit/assigned": self.assigned / rows,
            "credit/skipped": self.skipped / rows,
            "credit/failed": self.failed / rows,
            "credit/not_finite": self.not_finite / rows,
        }
        return found | ({"credit/image_share": self.image_share / self.image_shares} if self.image_shares else {})


def user_texts(prompt: str | Sequence[Mapping[str, Any]]) -> list[str]:
    """All texts of a prompt that are not the system's, in order; as in a trace, those of earlier turns count too."""
    if isinstance(prompt, str):
        return [prompt]
    texts: list[str] = []
    for message in prompt:
        content = message.get("content") or ""
        parts = [content] if isinstance(content, str) else [part.get("text") or "" for part in content]
        texts += [text for text in parts if text.strip() and message.get("role") != "system"]
    return texts
