"""Pictures as datasets store them: bytes in a struct, base64, or a file next to the table."""

from __future__ import annotations

import base64
import binascii
import io
import warnings
from collections.abc import Mapping
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from ...errors import InputError, first_line

PictureCell = Mapping[str, bytes | str | None] | bytes | str | None  # what a picture column of a dataset can contain


def decode_picture(cell: PictureCell, folder: Path | None = None) -> Image.Image:
    """A decoded picture, or an error that says why there is none."""
    if isinstance(cell, Mapping):  # how `datasets` stores an Image
        cell = cell.get("bytes") or cell.get("path")
    if not cell:
        raise InputError("there is no picture")
    if isinstance(cell, bytes):
        return _decode(io.BytesIO(cell))
    path = Path(str(cell)) if folder is None else folder / str(cell)
    if not path.is_file():
        raise InputError(f"there is no picture at {path}")
    return _decode(path)


def from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"the picture is not base64: {first_line(error)}") from error


def _decode(source: io.BytesIO | Path) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's notes on odd metadata
            image = Image.open(source)
            image.load()
            return image
    except UnidentifiedImageError as error:
        raise InputError("the picture cannot be decoded: Pillow does not read its format") from error
    except Exception as error:  # decoders raise many kinds of errors on a damaged file
        raise InputError(f"the picture cannot be decoded: {first_line(error)}") from error
