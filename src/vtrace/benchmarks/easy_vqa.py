"""easy-VQA, by other authors: pictures of one shape with short questions; ships in the PyPI package easy-vqa."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ..errors import InputError
from ..system.json_reader import read_json
from ..types import AnswerKind, Example, Gold
from .benchmark import Benchmark
from .readers.pictures import decode_picture

EASY_VQA_SIZE = 9673
_BLUR = 1 / 4


def open_easy_vqa(data: Path | None = None) -> Benchmark:
    """The test split, from a folder with questions.json and images, or from the installed package."""
    folder = data or _package_data()
    items = read_json(folder / "questions.json", "a list of questions")
    if not isinstance(items, list) or not all(isinstance(item, list) and len(item) == 3 for item in items):
        raise InputError(f"{folder / 'questions.json'} is not a list of questions, answers and pictures")

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
