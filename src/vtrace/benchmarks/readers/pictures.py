"""Pictures as datasets store them: bytes in a struct, base64, or a file beside the table."""

from __future__ import annotations

import base64
import binascii
import io
import warnings
from pathlib import Path
from typing import Any

from PIL import Image, UnidentifiedImageError

from ...errors import InputError, first_line


def picture(cell: Any, folder: Path | None = None) -> Image.Image:
    """A decoded picture, or an error that says why there is none."""
    if isinstance(cell, dict):  # how `datasets` stores an Image
        cell = cell.get("bytes") or cell.get("path")
    if cell is None or cell == "" or cell == b"":
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


def _decode(source: Any) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's notes on odd metadata
            image = Image.open(source)
            image.load()
            return image
    except UnidentifiedImageError as error:
        raise InputError("the picture does not decode: it is not in a format that Pillow reads") from error
    except Exception as error:  # decoders raise whatever a damaged file makes them stumble over
        raise InputError(f"the picture does not decode: {first_line(error)}") from error
