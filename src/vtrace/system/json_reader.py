"""The only reader of JSON: limits on size, depth and digits, and one line for what is not JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..errors import InputError, first_line

MAX_BYTES = 2**30  # of one document
MAX_DEPTH = 64
MAX_DIGITS = 40  # of a whole number; token ids, sizes and seeds are far below


def read_json(path: Path, what: str) -> Any:
    """The contents of a JSON file. Errors say `what` the file should be."""
    return parse_json(read_bytes(path), f"{path} is not {what}")


def read_bytes(path: Path, most: int = MAX_BYTES) -> bytes:
    """The contents of a file that is not larger than `most` bytes."""
    if not os.path.exists(path):
        raise InputError(f"there is no file {path}")
    try:
        with path.open("rb") as file:
            data = file.read(min(most, os.fstat(file.fileno()).st_size) + 1)  # a device has no size
            if len(data) <= most:
                data += file.read(most + 1 - len(data))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > most:
        raise InputError(f"{path} is larger than the limit of {most} bytes")
    return data


def read_text(path: Path) -> str:
    """The contents of a text file in UTF-8, with or without a byte order mark."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {first_line(error)}") from error


def parse_json(text: str | bytes, problem: str) -> Any:
    """A JSON value. An error begins with `problem`, such as "line 3 is not JSON"."""
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        value = json.loads(text, parse_int=_whole_number)
        _check(value)
    except RecursionError:
        raise InputError(f"{problem}: it is nested too deeply") from None
    except ValueError as error:  # also of the decoder
        raise InputError(f"{problem}: {first_line(error)}") from error
    return value


def _whole_number(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits; the limit is {MAX_DIGITS}")
    return int(digits)


def _check(value: Any) -> None:
    """Refuse deep nesting, and texts that cannot be written: half of a character that JSON splits in two."""
    level, depth = [value], 0
    while level:
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
        inside: list[Any] = []
        for item in level:
            if isinstance(item, str):
                check_characters(item)
            elif isinstance(item, dict):
                inside += [*item, *item.values()]
            elif isinstance(item, list):
                inside += item
        level, depth = inside, depth + 1


def check_characters(text: str) -> None:
    """Refuse a text that is not valid Unicode."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise ValueError(f"it has half a character (U+{code:04X}) at position {error.start}") from None
