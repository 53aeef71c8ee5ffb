"""Alternatives that a user gives, read before any model is loaded."""

from __future__ import annotations

import unicodedata

from ..errors import InputError


def spoken_text(text: str) -> str:
    """An alternative without blanks around it; one without any visible character is refused."""
    text = unicodedata.normalize("NFC", text).strip()
    if not any(character.isprintable() and not character.isspace() for character in text):
        raise InputError("the alternative is empty; give an answer such as 'red star'")
    return text
