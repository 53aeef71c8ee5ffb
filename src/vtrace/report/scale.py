"""The one colour scale on which patches and words are shown, and the words around it."""

from __future__ import annotations

import numpy as np

from ..attribution import Attribution

# Light to dark in even steps of lightness, from cream over orange to deep violet: ordered in
# greyscale and for every common form of colour blindness.
STOPS = ((255, 247, 227), (254, 217, 142), (251, 160, 82), (222, 87, 98), (157, 41, 122), (76, 18, 92))


def colour(strength: float) -> tuple[int, int, int]:
    """Colour of a strength between 0 and 1."""
    place = min(max(strength, 0.0), 1.0) * (len(STOPS) - 1)
    index = min(int(place), len(STOPS) - 2)
    part = place - index
    low, high = STOPS[index], STOPS[index + 1]
    return tuple(round(a + (b - a) * part) for a, b in zip(low, high, strict=True))  # type: ignore[return-value]


def ink(strength: float) -> str:
    """Text colour that stays readable on `colour(strength)`."""
    return "#ffffff" if strength > 0.55 else "#1f1a24"


def full_scale(attribution: Attribution) -> float:
    """The share shown at full strength: the strongest single piece of image or question evidence."""
    ranking = attribution.ranking()
    return max((item.score for item in ranking), default=0.0) or 1.0


def strengths(attribution: Attribution) -> tuple[np.ndarray, float]:
    """Strength of every position relative to the strongest evidence, and the share that is full strength.

    Response words can outweigh all evidence, because everything later passes through them; they are
    shown at full strength then.
    """
    full = full_scale(attribution)
    return np.clip(attribution.scores / full, 0, 1), full


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{share:.1%}" if share >= 0.001 else "<0.1%"


def calibration_words(attribution: Attribution) -> str:
    """One sentence on how image and text were put on one scale."""
    c = attribution.calibration
    if c.applied:
        return (
            f"Calibrated: padding the image costs {c.image_damage:.1f} nats, the question {c.text_damage:.1f}, "
            f"both {c.joint_damage:.1f}; image scores × {c.scale:.3g}."
        )
    return f"Calibration {c.status}."
