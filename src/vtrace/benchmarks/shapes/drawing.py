"""How scenes are drawn. Not beside the scenes: lists of benchmarks do without NumPy, which is slow to import."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from .scene import SHAPE_COLOURS, Scene


def draw_scene(scene: Scene) -> Image.Image:
    """Draw a scene, antialiased, on a tinted, noisy background with faint strokes."""
    rng = np.random.default_rng(scene.background)
    width, height = scene.size
    picture = Image.fromarray(_background(rng, width, height)).resize((2 * width, 2 * height), Image.Resampling.NEAREST)
    pen = ImageDraw.Draw(picture)
    for _ in range(rng.integers(4, 13)):
        ends = rng.uniform(0, 1, (2, 2)) * (2 * width, 2 * height)
        at = picture.getpixel((width, height))
        shade = tuple(int(np.clip(channel + rng.uniform(-38, 38), 0, 255)) for channel in at)  # type: ignore[union-attr]
        pen.line([tuple(end) for end in ends], fill=shade, width=int(rng.integers(2, 9)))
    for thing in scene.things:
        jitter = rng.normal(0, 9, 3)
        fill = tuple(int(np.clip(v + j, 0, 255)) for v, j in zip(SHAPE_COLOURS[thing.colour], jitter, strict=True))
        pen.polygon([(2 * x, 2 * y) for x, y in thing.outline], fill=fill)
    return picture.reduce(2)


def _background(rng: np.random.Generator, width: int, height: int) -> np.ndarray:
    tint = rng.uniform(120, 205) + rng.normal(0, 12, 3)
    coarse = rng.normal(0, 10, (max(2, height // 24), max(2, width // 24), 3)).astype(np.float32)
    blotches = np.stack(
        [
            np.asarray(Image.fromarray(coarse[..., c]).resize((width, height), Image.Resampling.BICUBIC))
            for c in range(3)
        ],
        axis=-1,
    )
    grain = rng.uniform(2, 9) * rng.standard_normal((height, width, 1), dtype=np.float32)
    return np.clip(tint.astype(np.float32) + blotches + grain, 0, 255).astype(np.uint8)
