"""Stage 3: image and text on one scale, by a two-player Shapley value (Eqs. 8 to 11)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..types import Calibration


@dataclass(frozen=True)
class Likelihoods:
    """log p of the same frozen tokens with nothing, the image, the text, or both padded; in nats."""

    clean: float
    image: float
    text: float
    both: float


def calibrate(likelihoods: Likelihoods | None, image_sum: float, text_sum: float) -> Calibration:
    """The factor for image scores, and whether the paper's boundary conditions allow it."""
    if likelihoods is None:
        return Calibration("off")
    image_damage = likelihoods.clean - likelihoods.image
    text_damage = likelihoods.clean - likelihoods.text
    joint_damage = likelihoods.clean - likelihoods.both
    image = (image_damage + joint_damage - text_damage) / 2
    text = (text_damage + joint_damage - image_damage) / 2
    share = image / (image + text) if image + text else None
    facts = (image_damage, text_damage, joint_damage, image, text, share)
    if not all(map(math.isfinite, (image, text))):
        return Calibration("not applied: a padded pass gave no finite likelihood", *facts)
    if image <= 0:
        return Calibration("not applied: the image does not raise the likelihood of the response", *facts)
    if text <= 0:
        return Calibration("not applied: the question does not raise the likelihood of the response", *facts)
    if image_sum <= 0:
        return Calibration("not applied: no image position has a positive score", *facts)
    if text_sum <= 0:
        return Calibration("not applied: no question position has a positive score", *facts)
    return Calibration("applied", *facts, scale=image / text * text_sum / image_sum)
