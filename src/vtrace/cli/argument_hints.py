"""Hints for arguments in the wrong order or without quotes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from itertools import takewhile

from ..errors import InputError
from ..lvlm.checkpoint_source import EMBEDDED, UNFINISHED
from ..lvlm.joined import JOINED


def check_arguments(command: str, given: Sequence[str], model: str) -> None:
    """Refuse what cannot be IMAGE… QUESTION, and say which call of the command was probably meant."""
    *pictures, question = given
    if not pictures:
        _check_single(command, question, model)
    elif os.path.isfile(question) and not any(os.path.isfile(picture) for picture in pictures):
        swapped = shlex.join([question, *pictures])
        raise InputError(f"the question comes after the pictures; write: vtrace {command} {swapped}")
    else:
        found = list(takewhile(os.path.exists, pictures))
        lost = pictures[len(found) :]
        if found and lost and not any(os.path.splitext(word)[1] or os.path.exists(word) for word in lost):
            quoted = shlex.join([*found, " ".join([*lost, question])])
            raise InputError(f"there is no picture at {lost[0]}; put the question in quotes: vtrace {command} {quoted}")


def _check_single(command: str, given: str, model: str) -> None:
    """One argument is a question to a text-only model; with a picture, the question is missing."""
    if os.path.isfile(given):
        raise InputError(f'ask something about {given}: vtrace {command} {shlex.quote(given)} "What is this?"')
    if model in ("", *EMBEDDED, *UNFINISHED, *JOINED):
        raise InputError("give at least one picture and a question: IMAGE… QUESTION")
