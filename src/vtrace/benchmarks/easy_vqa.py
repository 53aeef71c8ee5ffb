"""easy-VQA, by other authors: pictures of one shape with short questions; ships in the PyPI package easy-vqa."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from ..errors import InputError, first_line
from ..types import AnswerKind, Example, Gold
from .benchmark import Benchmark
from .readers.pictures import decode_picture

EASY_VQA_SIZE = 9673
_BLUR = 1 / 4


def open_easy_vqa(data: Path | None = None) -> Benchmark:
    """The test split, from a folder with questions.json and images, or from the installed package."""
    folder = data or _package_data()
    try:
        items: list[tuple[str, str, int]] = json.loads((folder / "questions.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {folder / 'questions.json'}: {first_line(error)}") from error

    def example(number: int) -> Example:
        question, answer, image = items[number]
        kind: AnswerKind = "yesno" if answer in ("yes", "no") else "words"
        shown = decode_picture(f"{image}.png", folder / "images")
        return Example((shown,), question, str(number), answer, gold=Gold(kind, (answer,)))

    return Benchmark("easy-vqa", len(items), str, example, _BLUR)


def _package_data() -> Path:
    found = find_spec("easy_vqa")
    if found is None or found.origin is None:
        raise InputError("easy-vqa is not installed; install it with: pip install easy-vqa")
    return Path(found.origin).parent / "data" / "test"
