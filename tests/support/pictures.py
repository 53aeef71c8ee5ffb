"""Pictures that no two runs of the tests differ in."""

from __future__ import annotations

import numpy as np
from PIL import Image


def noise(size: tuple[int, int], seed: int = 0) -> Image.Image:
    """A grey picture of seeded noise around the middle, in RGB."""
    values = np.random.default_rng(seed).normal(128, 60, (size[1], size[0]))
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8), "L").convert("RGB")
