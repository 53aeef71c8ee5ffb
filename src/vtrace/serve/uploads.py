"""Pictures that clients upload. Names and types that they send are ignored: the type is read from the bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageOps

from ..errors import InputError
from ..tracing.pictures import image_size, open_image
from .security import Limits

PICTURE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
THUMBNAIL_SIDE = 320


class CheckedPictures(NamedTuple):
    """Pictures as files, all of which can be decoded, and a small version of the first."""

    files: tuple[bytes, ...]
    thumbnail: bytes


def check_uploads(uploads: Sequence[bytes], limits: Limits) -> CheckedPictures:
    """Decode pictures one after another, or say which one is wrong. Sizes are checked before anything is decoded."""
    if not uploads:
        raise InputError("there is no picture; send at least one, or the name of an example")
    if len(uploads) > limits.pictures:
        raise InputError(f"there are {len(uploads)} pictures; the limit is {limits.pictures}")
    names = [f"picture {number}" for number in range(1, len(uploads) + 1)]
    sizes = [image_size(data, name, PICTURE_FORMATS) for data, name in zip(uploads, names, strict=True)]
    pixels = sum(width * height for width, height in sizes)
    if pixels > limits.pixels:
        raise InputError(f"the pictures have {pixels} pixels; the limit is {limits.pixels}; resize them")
    small = [thumbnail(open_image(data, name, PICTURE_FORMATS)) for data, name in zip(uploads, names, strict=True)]
    return CheckedPictures(tuple(uploads), small[0])


def as_files(images: Sequence[Image.Image]) -> CheckedPictures:
    """Pictures that are already decoded, as files without loss."""
    return CheckedPictures(tuple(map(_png, images)), first_thumbnail(images))


def first_thumbnail(images: Sequence[Image.Image]) -> bytes:
    """A small version of the first picture."""
    if not images:
        raise InputError("this example has no picture; the server shows examples with pictures only")
    return thumbnail(images[0])


def thumbnail(image: Image.Image) -> bytes:
    """A small JPEG, encoded again from pixels: uploaded bytes are never sent back."""
    side = THUMBNAIL_SIDE
    small = ImageOps.contain(image, (side, side)) if max(image.size) > side else image
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=88)
    return buffer.getvalue()


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
