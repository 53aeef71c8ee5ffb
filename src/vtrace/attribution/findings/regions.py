"""Named parts of the prompt, and their shares: boxes and masks on a picture, spans of the question. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from ...errors import InputError
from ...types import Box, Patch, Trace

RegionKind = Literal["box", "mask", "segment", "evidence"]
MOST_REGIONS = 500  # each is compared with every other
_MOST_NOTES = 5  # of a kind


@dataclass(frozen=True)
class Region:
    """A named part of a picture or of the question.

    A region's share is the sum of the shares of its positions, each times the part of it that the region covers.
    """

    name: str
    kind: RegionKind  # "evidence": found by an attribution, for one target
    positions: tuple[int, ...]
    coverage: tuple[float, ...]  # of each position: 1 if the region covers it completely
    image: int | None = None  # number of the picture, from 0
    box: Box | None = None  # around the region, in pixels of the picture
    cut: bool = False  # whether a part of the box lay outside the picture

    def share(self, scores: np.ndarray) -> float:
        """The region's part of scores for all positions (T)."""
        return float(scores[list(self.positions)] @ np.array(self.coverage)) if self.positions else 0.0


def box_region(trace: Trace, name: str, box: Sequence[float], image: int = 0) -> Region:
    """The region inside a box, in pixels; a part outside the picture is cut off, and noted."""
    width, height = picture_size(trace, image, name)
    left, top, right, bottom = box
    if not (left < right and top < bottom):
        raise InputError(f"region {name} is empty; write left,top,right,bottom with left < right and top < bottom")
    inside = Box(max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height)))
    if not (inside.left < inside.right and inside.top < inside.bottom):
        raise InputError(f"region {name} lies outside its picture, which has {width} x {height} pixels")
    parts = {patch.position: _overlap(patch.box, inside) for patch in trace.patches if patch.image == image}
    cut = any(abs(given - kept) >= 1 for given, kept in zip(box, inside, strict=True))
    return _region(name, "box", parts, image, inside, cut)


def mask_region(trace: Trace, name: str, mask: np.ndarray, image: int = 0) -> Region:
    """The region where a mask of the picture's size (height, width) is true."""
    width, height = picture_size(trace, image, name)
    if mask.shape != (height, width):
        found = f"{mask.shape[1]} x {mask.shape[0]}"
        raise InputError(f"the mask of {name} has {found} pixels, but its picture has {width} x {height}; resize it")
    rows, columns = np.nonzero(mask)
    if not len(rows):
        raise InputError(f"region {name} is empty: no pixel of its mask is set")
    box = Box(float(columns.min()), float(rows.min()), float(columns.max() + 1), float(rows.max() + 1))
    parts = {patch.position: _covered(patch, mask) for patch in trace.patches if patch.image == image}
    return _region(name, "mask", parts, image, box)


def segment_region(trace: Trace, text: str) -> Region:
    """Where a text occurs in the question, or in another text of the conversation."""
    if not text.strip():
        raise InputError("a segment is empty; give words of the question")
    asked = trace.positions("question")
    first = trace.offsets[asked[0]].start if asked else 0
    start = trace.text.find(text.strip(), first)
    stop = start + len(text.strip())
    found = [p for p in asked if trace.offsets[p].start < stop and trace.offsets[p].stop > start] if start >= 0 else []
    if not found:
        raise InputError(f"the question does not contain {text.strip()!r}")
    return Region(text.strip(), "segment", tuple(found), (1.0,) * len(found))


def region_notes(regions: Sequence[Region]) -> list[str]:
    """What is special about regions: parts of them lie outside their picture, or they have patches or words in common,
    which their shares count twice."""
    cut = [f"region {one.name} is cut: a part of it lies outside its picture" for one in regions if one.cut]
    return [*cut[:_MOST_NOTES], *_overlaps(regions)]


def _overlaps(regions: Sequence[Region]) -> list[str]:
    named = [region for region in regions if region.kind != "evidence"]
    pairs = [(one.name, other.name) for one, other in combinations(named, 2) if _common(one, other)]
    notes = [f"regions {a} and {b} overlap; what they have in common counts for both" for a, b in pairs[:_MOST_NOTES]]
    more = len(pairs) - len(notes)
    return [*notes, f"{more} more pairs of regions overlap"] if more else notes


def picture_size(trace: Trace, image: int, name: str) -> tuple[int, int]:
    """Width and height of a picture of the trace."""
    if not 0 <= image < len(trace.images):
        count = len(trace.images)
        raise InputError(f"region {name} is on picture {image + 1}, but there {'is' if count == 1 else 'are'} {count}")
    return trace.images[image].size


def region_entry(region: Region, scores: np.ndarray) -> dict[str, Any]:
    """A region and its share, for JSON."""
    return {**asdict(region), "share": region.share(scores)}


def _region(name: str, kind: RegionKind, parts: dict[int, float], image: int, box: Box, cut: bool = False) -> Region:
    held = {position: part for position, part in parts.items() if part > 0}
    return Region(name, kind, tuple(held), tuple(held.values()), image, box, cut)


def _overlap(cell: Box, box: Box) -> float:
    """The part of a cell that lies in a box."""
    width = max(0.0, min(cell.right, box.right) - max(cell.left, box.left))
    height = max(0.0, min(cell.bottom, box.bottom) - max(cell.top, box.top))
    area = (cell.right - cell.left) * (cell.bottom - cell.top)
    return width * height / area if area > 0 else 0.0


def _covered(patch: Patch, mask: np.ndarray) -> float:
    """The part of a patch's pixels that are set."""
    left, top, right, bottom = (round(v) for v in patch.box)
    cell = mask[top:bottom, left:right]
    return float(cell.mean()) if cell.size else 0.0


def _common(one: Region, other: Region) -> bool:
    """Whether two regions have pixels or words in common; for masks, whether they fill a common patch."""
    if one.kind == other.kind == "box" and one.image == other.image and one.box and other.box:
        return _overlap(one.box, other.box) > 0
    parts = dict(zip(one.positions, one.coverage, strict=True))
    pairs = zip(other.positions, other.coverage, strict=True)
    return any(parts.get(position, 0.0) + part > 1 + 1e-9 for position, part in pairs)
