"""Pictures as datasets store them: bytes in a struct, base64, or a file next to the table."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from ...errors import InputError, first_line
from ...tracing.pictures import open_image

PictureCell = Mapping[str, bytes | str | None] | bytes | str | None  # what a picture column of a dataset can contain


def decode_picture(cell: PictureCell, folder: Path | None = None) -> Image.Image:
    """An upright RGB picture, or an error that says why there is none."""
    if isinstance(cell, Mapping):  # how `datasets` stores an Image
        cell = cell.get("bytes") or cell.get("path")
    if not cell:
        raise InputError("there is no picture")
    if isinstance(cell, bytes):
        return open_image(cell)
    path = Path(str(cell)) if folder is None else folder / str(cell)
    if not os.path.isfile(path):
        raise InputError(f"there is no picture at {str(path)[:200]}")
    return open_image(path)


def from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"the picture is not base64: {first_line(error)}") from error
