"""How strong patches and words are shown, and the words around them."""

from __future__ import annotations

from ..attribution.result import Attribution
from ..types import Panel

OUTLINED = 0.12  # share of patches that get an outline


class Scale:
    """Strength of patches and words relative to the strongest single piece of evidence.

    Response words can outweigh all evidence, because everything later passes through them; they are
    shown at full strength then.
    """

    def __init__(self, attribution: Attribution):
        self.scores = attribution.scores
        self.full = max((item.score for item in attribution.ranking()), default=0.0) or 1.0
        patches = sorted(attribution.trace.patches, key=lambda patch: -self.scores[patch.position])
        strongest = patches[: max(1, round(OUTLINED * len(patches)))]
        self.outlined = {patch.position for patch in strongest if self.scores[patch.position] > 0}

    def share(self, start: int, stop: int | None = None) -> float:
        """Score of a position, or of a run of positions."""
        return float(self.scores[start : start + 1 if stop is None else stop].sum())

    def strength(self, start: int, stop: int | None = None) -> float:
        """Between 0 and 1."""
        return min(self.share(start, stop) / self.full, 1.0)


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{share:.1%}" if share >= 0.001 else "<0.1%"


def panel_title(attribution: Attribution, panel: Panel) -> str:
    """Name and share of one of several pictures or views; empty for the only one."""
    name = attribution.trace.panel_name(panel)
    if not name and len(attribution.trace.panels) > 1:
        name = "picture"
    return f"{name}: {percent(attribution.panel_share(panel))}" if name else ""


def calibration_words(attribution: Attribution) -> str:
    """One sentence on how image and text were put on one scale."""
    c = attribution.calibration
    if c.applied:
        return (
            f"Calibrated: padding the image costs {c.image_damage:.1f} nats, the question {c.text_damage:.1f}, "
            f"both {c.joint_damage:.1f}; image scores × {c.scale:.3g}."
        )
    return f"Calibration {c.status}."
