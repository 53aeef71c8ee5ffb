"""What a client may send. Nothing it says about itself is believed: a picture's type is read from its bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, UnidentifiedImageError

from ..errors import InputError, first_line
from ..tracing.pictures import open_image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
THUMBNAIL_SIDE = 320


@dataclass(frozen=True)
class Limits:
    """Bounds on one request and on the queue."""

    upload_bytes: int = 32 * 2**20  # of one request
    pictures: int = 8
    pixels: int = 24_000_000  # of all pictures of one request, decoded
    question: int = 4_000  # characters
    methods: int = 6
    new_tokens: int = 1024
    waiting: int = 16  # requests in the queue
    patience: float = 30.0  # seconds without anyone asking before a request counts as left
    grace: float = 30.0  # seconds that the running request has to finish when the server stops


def open_uploads(uploads: Sequence[bytes], limits: Limits) -> tuple[Image.Image, ...]:
    """Pictures as upright RGB, or an error that says which one is wrong. Sizes are checked before pixels are made."""
    if not uploads:
        raise InputError("there is no picture; give at least one, or the name of an example")
    if len(uploads) > limits.pictures:
        raise InputError(f"there are {len(uploads)} pictures; the limit is {limits.pictures}")
    opened = [_open(data, f"picture {number}") for number, data in enumerate(uploads, start=1)]
    pixels = sum(image.width * image.height for image in opened)
    if pixels > limits.pixels:
        raise InputError(f"the pictures have {pixels} pixels; the limit is {limits.pixels}, resize them")
    return tuple(map(open_image, opened))


def _open(data: bytes, name: str) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError as error:
        raise InputError(f"{name} is not a picture; send {', '.join(FORMATS[:-1])} or {FORMATS[-1]}") from error
    except Exception as error:  # decoders raise whatever a damaged file makes them stumble over
        raise InputError(f"{name} cannot be read: {first_line(error)}") from error


def thumbnail(image: Image.Image) -> bytes:
    """A small JPEG, made anew from pixels: bytes of a client are never sent to anyone."""
    small = image.copy()
    small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=88)
    return buffer.getvalue()
