"""Regions as users write them: NAME=BOX, an annotation file in the layout of COCO, or a mask picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError, first_line
from ...system.json_reader import read_json
from ...tracing.pictures import open_mask
from ...types import Trace
from .regions import MOST_REGIONS, Region, box_region, mask_region, picture_size

MOST_LABELS = 64  # of a mask; a picture with more values is probably a photograph
_HOW = "write NAME=LEFT,TOP,RIGHT,BOTTOM, or give a .json file in the layout of COCO or a mask as .png"


def read_regions(trace: Trace, given: Sequence[str]) -> tuple[Region, ...]:
    """All regions that are given; names that occur twice are numbered."""
    found = [region for text in given for region in _read(trace, text)]
    if len(found) > MOST_REGIONS:
        raise InputError(f"there are {len(found)} regions; the limit is {MOST_REGIONS}")
    return tuple(_numbered(found))


def check_regions(given: Sequence[str]) -> None:
    """Refuse regions that cannot be read, before there is a trace to which they belong."""
    for text in given:
        match _kind(text):
            case ".json":
                _annotations_in(Path(text))
            case ".png":
                _mask_in(Path(text))
            case _:
                _box_in(text)


def _kind(text: str) -> str:
    """The ending of a file; empty for a box."""
    suffix = Path(text).suffix.lower()
    return suffix if suffix in (".json", ".png") and "=" not in text else ""


def _read(trace: Trace, text: str) -> Iterator[Region]:
    match _kind(text):
        case ".json":
            yield from _annotations(trace, Path(text))
        case ".png":
            yield from _masks(trace, Path(text))
        case _:
            yield box_region(trace, *_box_in(text))


class _NamedBox(NamedTuple):
    name: str
    box: Sequence[float]
    image: int  # number of the picture, from 0


def _box_in(text: str) -> _NamedBox:
    """NAME=LEFT,TOP,RIGHT,BOTTOM, or NAME@2=… on the second picture."""
    label, equals, numbers = text.partition("=")
    name, _, picture = label.strip().partition("@")
    try:
        box = [float(number) for number in numbers.split(",")]
        image = int(picture or 1) - 1
    except ValueError:
        box, image = [], 0
    if not (equals and name and len(box) == 4 and np.isfinite(box).all()):
        raise InputError(f"cannot read region {text!r}; {_HOW}")
    return _NamedBox(name, box, image)


class _Annotations(NamedTuple):
    boxes: list[_NamedBox]
    sizes: list[tuple[Any, Any]]  # width and height of each picture, as the file says


def _annotations_in(path: Path) -> _Annotations:
    """Boxes of a COCO file, `bbox` = left, top, width, height; the pictures are those of `images`, in order."""
    document = read_json(path, "a file in the layout of COCO")
    document = {"annotations": document} if isinstance(document, list) else document
    try:
        names = {category["id"]: str(category["name"]) for category in document.get("categories", [])}
        pictures = {entry["id"]: number for number, entry in enumerate(document.get("images", []))}
        boxes = []
        for entry in document["annotations"]:
            left, top, width, height = (float(value) for value in entry["bbox"])
            if not np.isfinite([left, top, width, height]).all():
                raise ValueError("a bbox has four numbers")
            name = names.get(entry.get("category_id"), "region")
            box = (left, top, left + width, top + height)
            boxes.append(_NamedBox(name, box, pictures.get(entry.get("image_id"), 0)))
        sizes = [(entry.get("width"), entry.get("height")) for entry in document.get("images", [])]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not in the layout of COCO: {type(error).__name__}: {first_line(error)}") from error
    if not boxes:
        raise InputError(f"{path} has no annotations")
    if len(boxes) > MOST_REGIONS:
        raise InputError(f"{path} has more than {MOST_REGIONS} annotations; keep those of this picture")
    return _Annotations(boxes, sizes)


def _annotations(trace: Trace, path: Path) -> Iterator[Region]:
    found = _annotations_in(path)
    _check_sizes(trace, path, found.sizes)
    for box in found.boxes:
        yield box_region(trace, *box)


def _check_sizes(trace: Trace, path: Path, sizes: Sequence[tuple[Any, Any]]) -> None:
    for size, image in zip(sizes, trace.images, strict=False):
        if None not in size and size != image.size:
            width, height = image.size
            raise InputError(
                f"{path} describes a picture of {size[0]} x {size[1]} pixels, but this one has {width} x {height}"
            )


class _Mask(NamedTuple):
    values: np.ndarray
    labels: list[int]


def _mask_in(path: Path) -> _Mask:
    """The values of a mask, 0 being the background."""
    values = np.asarray(open_mask(path))
    labels = [int(value) for value in np.unique(values) if value]
    if len(labels) > MOST_LABELS:
        raise InputError(f"{path} has {len(labels)} values; a mask has one value per region, at most {MOST_LABELS}")
    if not labels:
        raise InputError(f"{path} is an empty mask: all its pixels are 0")
    return _Mask(values, labels)


def _masks(trace: Trace, path: Path) -> Iterator[Region]:
    """One region for each value of a mask."""
    values, labels = _mask_in(path)
    picture_size(trace, 0, path.stem)
    for label in labels:
        yield mask_region(trace, path.stem if len(labels) == 1 else f"{path.stem} {label}", values == label)


def _numbered(regions: Sequence[Region]) -> Iterator[Region]:
    counts, seen = Counter(region.name for region in regions), Counter[str]()
    for region in regions:
        seen[region.name] += 1
        several = counts[region.name] > 1
        yield replace(region, name=f"{region.name} {seen[region.name]}") if several else region
