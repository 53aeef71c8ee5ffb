"""From user input, pictures and a question or a whole chat, to an `Example`."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from PIL import Image

from ..errors import InputError
from ..system.json_reader import read_json
from ..types import Example, Turn
from .conversation import parse, question_of, single
from .pictures import Picture, open_images

Message = Mapping[str, Any]  # of a chat: role and content


class Chat(NamedTuple):
    """A conversation: what is asked, and the system prompt and the response if it has them."""

    example: Example
    system: str | None
    response: str | None


def as_example(images: Picture | Sequence[Picture], question: str) -> Example:
    """Open the pictures and normalise the question."""
    several = images if isinstance(images, Sequence) and not isinstance(images, str) else [images]
    if _is_picture(question) and not any(map(_is_picture, several)):
        raise InputError("the question comes after the pictures; write: trace(lvlm, pictures, question)")
    if not isinstance(question, str):
        raise InputError(f"a question cannot be of type {type(question).__name__}; give its text")
    return tidy(Example(open_images(several), question))


def _is_picture(given: object) -> bool:
    """Whether this is a picture, or the name of a file."""
    return isinstance(given, Image.Image) or (isinstance(given, str | os.PathLike) and os.path.isfile(given))


def is_chat(given: object) -> TypeGuard[Sequence[Message]]:
    return isinstance(given, Sequence) and len(given) > 0 and isinstance(given[0], Mapping)


def read_chat(path: Path) -> list[Message]:
    """Chat messages from a JSON file: a list, or an object with a list under "messages"."""
    found = read_json(path, "a conversation in JSON")
    found = found.get("messages") if isinstance(found, dict) else found
    if not isinstance(found, list) or not found:
        raise InputError(f"{path} has no list of messages; see: vtrace explain --help")
    return found


def from_chat(messages: Sequence[Message], folder: Path | None = None) -> Chat:
    """Read chat messages; names of picture files are relative to `folder`."""
    parsed = parse(messages)
    pictures = [folder / p if folder is not None and isinstance(p, str) else p for p in parsed.pictures]
    example = Example(open_images(pictures), question_of(parsed.turns), turns=parsed.turns)
    return Chat(tidy(example), parsed.system, parsed.response)


def tidy(example: Example) -> Example:
    """A normalised example: upright RGB pictures, and a question in composed Unicode characters."""
    question = unicodedata.normalize("NFC", example.question)
    if not question.strip():
        raise InputError("the question is empty; ask something about the picture")
    return replace(example, images=open_images(example.images), question=question.strip())


def turns_of(example: Example) -> tuple[Turn, ...]:
    """The conversation: the example's own, or its pictures followed by its question."""
    return example.turns or single(len(example.images), example.question)
