"""From scores to weights: one factor for the advantage of every sampled token. Pure functions.

A score of nan says that a token is unassigned: the source has nothing to say about it. Its weight is 1.0, which leaves
the advantage as it is; "mean-one" then divides it like all others. A score of 0 says that the answer does not rely on
the token. No rule gives a weight of 0.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..errors import InputError

RuleName = Literal["top", "proportional", "mean-one"]
RULES: dict[RuleName, str] = {
    "top": "the paper's: the highest share of the scored tokens get the boost, all others 1.0",
    "proportional": "from 1.0 for a score of 0 or less to the boost for the highest score",
    "mean-one": "the paper's, divided by its mean over the scored tokens, so that the step size stays the same",
}
UNASSIGNED = float("nan")
SHARE, BOOST = 0.4, 1.5  # the paper's


def check_rule(rule: str, share: float, boost: float) -> None:
    """Refuse a rule that cannot be applied, before any work."""
    if rule not in RULES:
        raise InputError(f"unknown rule {rule!r}; use one of: {', '.join(RULES)}")
    if not 0 < share <= 1:
        raise InputError(f"share is {share}; give a number above 0 and up to 1")
    if not 1 <= boost < float("inf"):
        raise InputError(f"boost is {boost}; give a number of at least 1")


def weights(scores: np.ndarray, rule: RuleName = "top", share: float = SHARE, boost: float = BOOST) -> np.ndarray:
    """One weight per token.

    Args:
        scores: one score per sampled token, higher for more important ones; nan where unassigned.
        rule: "top", the paper's: the highest `share` of the scored tokens get `boost`, all others 1.0;
            "proportional": from 1.0 for a score of 0 or less to `boost` for the highest;
            "mean-one": the paper's, divided by its mean over the scored tokens, so that the step size stays the same.
        share: of the scored tokens, for "top" and "mean-one".
        boost: the largest weight before normalisation.
    """
    check_rule(rule, share, boost)
    scores = np.asarray(scores, dtype=np.float64)
    known = ~np.isnan(scores)
    if np.isinf(scores).any():
        raise InputError("a score is infinite; scores must be finite, or nan for tokens that have none")
    found = np.ones_like(scores)
    if not known.any():
        return found
    raised = _proportional(scores[known]) if rule == "proportional" else _top(scores[known], share)
    found[known] += (boost - 1) * raised
    if rule == "mean-one":
        found[known] /= found[known].mean()
    return found


def _top(scores: np.ndarray, share: float) -> np.ndarray:
    """1 for the highest share of the scores, 0 for others. Tied scores at the border divide what is left for them."""
    count = max(1, round(share * len(scores)))
    border = np.sort(scores)[-count]
    above, tied = scores > border, scores == border
    return above + tied * ((count - above.sum()) / tied.sum())


def _proportional(scores: np.ndarray) -> np.ndarray:
    positive = np.clip(scores, 0, None)
    return positive / (positive.max() or 1.0)
