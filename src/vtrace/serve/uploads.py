"""Pictures that clients upload. Names and types that they send are ignored: the type is read from the bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image, UnidentifiedImageError

from ..errors import InputError, first_line
from ..tracing.pictures import open_image
from .security import Limits

PICTURE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
THUMBNAIL_SIDE = 320


def open_uploads(uploads: Sequence[bytes], limits: Limits) -> tuple[Image.Image, ...]:
    """Pictures as upright RGB, or an error that says which one is wrong. Sizes are checked before decoding."""
    if not uploads:
        raise InputError("there is no picture; send at least one, or the name of an example")
    if len(uploads) > limits.pictures:
        raise InputError(f"there are {len(uploads)} pictures; the limit is {limits.pictures}")
    opened = [_open(data, f"picture {number}") for number, data in enumerate(uploads, start=1)]
    pixels = sum(image.width * image.height for image in opened)
    if pixels > limits.pixels:
        raise InputError(f"the pictures have {pixels} pixels; the limit is {limits.pixels}; resize them")
    return tuple(map(open_image, opened))


def _open(data: bytes, name: str) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data), formats=PICTURE_FORMATS)
    except UnidentifiedImageError as error:
        known = f"{', '.join(PICTURE_FORMATS[:-1])} or {PICTURE_FORMATS[-1]}"
        raise InputError(f"{name} is not a picture; send {known}") from error
    except Exception as error:  # decoders raise many kinds of errors on a damaged file
        raise InputError(f"{name} cannot be read: {first_line(error)}") from error


def thumbnail(image: Image.Image) -> bytes:
    """A small JPEG, encoded again from pixels: uploaded bytes are never sent back."""
    small = image.copy()
    small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=88)
    return buffer.getvalue()
