"""How strongly patches and words are shaded."""

from __future__ import annotations

from ..attribution.result import Attribution

OUTLINED = 0.12  # share of patches that get an outline,
FAINTEST_OUTLINE = 0.1  # if they are at least this strong, relative to the strongest input


class Scale:
    """Strength of patches and words relative to the strongest patch or question word.

    Response words can outweigh all inputs, because everything later passes through them; they are then shown at full
    strength.
    """

    def __init__(self, attribution: Attribution):
        self.scores = attribution.scores
        self.full = max((item.score for item in attribution.ranking()), default=0.0) or 1.0
        patches = sorted(attribution.trace.patches, key=lambda patch: -self.scores[patch.position])
        strongest = patches[: max(1, round(OUTLINED * len(patches)))]
        self.outlined = {patch.position for patch in strongest if self.strength(patch.position) > FAINTEST_OUTLINE}

    def share(self, start: int, stop: int | None = None) -> float:
        """Score of a position, or of a run of positions."""
        return float(self.scores[start : start + 1 if stop is None else stop].sum())

    def strength(self, start: int, stop: int | None = None) -> float:
        """At most 1; negative for negative scores."""
        return min(self.share(start, stop) / self.full, 1.0)
