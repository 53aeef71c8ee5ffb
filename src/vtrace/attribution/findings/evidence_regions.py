"""The strongest evidence as merged boxes, and any regions in the layout of COCO."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...types import Box, Patch, Trace
from .regions import Region

HALF = 0.5  # part of the image's share that the boxes hold together


def evidence_regions(trace: Trace, scores: np.ndarray, part: float = HALF) -> tuple[Region, ...]:
    """The strongest patches that together hold `part` of the image's share; patches that touch are merged into one box.

    A region's share counts its patches only, although its box may contain others.
    """
    left = part * sum(max(0.0, scores[patch.position]) for patch in trace.patches)
    chosen: list[Patch] = []
    for patch in sorted(trace.patches, key=lambda patch: -scores[patch.position]):
        if left <= 0 or scores[patch.position] <= 0:
            break
        chosen.append(patch)
        left -= scores[patch.position]
    groups = sorted(_merged(chosen), key=lambda group: -sum(scores[p.position] for p in group))
    return tuple(_evidence(f"evidence {number}", group) for number, group in enumerate(groups, start=1))


def _merged(patches: list[Patch]) -> list[list[Patch]]:
    """Groups of patches of one panel that touch at their sides."""
    groups: list[list[Patch]] = []
    for patch in patches:
        touched = [group for group in groups if any(_touch(patch, other) for other in group)]
        groups = [group for group in groups if group not in touched]
        groups.append([patch, *(other for group in touched for other in group)])
    return groups


def _touch(one: Patch, other: Patch) -> bool:
    return one.panel == other.panel and abs(one.row - other.row) + abs(one.column - other.column) == 1


def _evidence(name: str, group: list[Patch]) -> Region:
    boxes = [patch.box for patch in group]
    around = Box(
        min(box.left for box in boxes),
        min(box.top for box in boxes),
        max(box.right for box in boxes),
        max(box.bottom for box in boxes),
    )
    positions = tuple(sorted(patch.position for patch in group))
    return Region(name, "evidence", positions, (1.0,) * len(group), group[0].image, around)


def coco_document(trace: Trace, regions: tuple[Region, ...], scores: np.ndarray) -> dict[str, Any]:
    """Regions on pictures in the layout of COCO. `score`, which detections have there, is the region's share."""
    shown = [(region, region.box) for region in regions if region.box is not None]
    names = list(dict.fromkeys(_category(region) for region, _ in shown))
    return {
        "info": {"description": f"VTrace: {trace.question}"},
        "images": [
            {"id": number, "width": image.width, "height": image.height, "file_name": f"picture {number}"}
            for number, image in enumerate(trace.images, start=1)
        ],
        "categories": [{"id": number, "name": name} for number, name in enumerate(names, start=1)],
        "annotations": [
            {
                "id": number,
                "image_id": (region.image or 0) + 1,
                "category_id": names.index(_category(region)) + 1,
                "bbox": [box.left, box.top, box.right - box.left, box.bottom - box.top],
                "area": (box.right - box.left) * (box.bottom - box.top),
                "iscrowd": 0,
                "score": region.share(scores),
                "positions": list(region.positions),
            }
            for number, (region, box) in enumerate(shown, start=1)
        ],
    }


def _category(region: Region) -> str:
    return "evidence" if region.kind == "evidence" else region.name
