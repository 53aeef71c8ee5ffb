"""Text that users write: checked in one place before a model reads it.

A tokenizer reads the name of a special token as the token itself, wherever it stands. In a question it could end the
user's turn or begin one of the system, so such a text is refused. All other text is read, and shown, as it is.
"""

from __future__ import annotations

from ..errors import InputError
from ..lvlm.model import Lvlm
from ..lvlm.processor import placeholder
from ..system.json_reader import check_characters
from .conversation import MARKS

MAX_CHARACTERS = 1_000_000


def check_user_text(lvlm: Lvlm, text: str, where: str) -> None:
    """Refuse a text that the model would not read as text. `where` names it in messages."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"the {where} has {len(text)} characters; the limit is {MAX_CHARACTERS}")
    try:
        check_characters(text)
    except ValueError as error:
        raise InputError(f"the {where} is not valid text: {error}") from error
    if any(mark in text for mark in MARKS):
        raise InputError(f"the {where} contains U+FDD0 or U+FDD1, which are not characters; remove them")
    pictures = _picture_tokens(lvlm)
    for name in [*sorted(pictures), *sorted(_special_tokens(lvlm) - pictures)]:
        if name in text:
            what = "the placeholder of a picture or video" if name in pictures else f"a control token of {lvlm.name}"
            raise InputError(f"the {where} contains {name!r}, {what}; remove it, or put a space inside it")


def _picture_tokens(lvlm: Lvlm) -> set[str]:
    ids = (lvlm.image_token_id, getattr(lvlm.model.config, "video_token_id", None))
    names = [lvlm.processor.tokenizer.decode([token]) for token in ids if token is not None]
    return {name for name in [placeholder(lvlm.processor), *names] if name.strip()}


def _special_tokens(lvlm: Lvlm) -> set[str]:
    tokenizer = lvlm.processor.tokenizer
    added = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return {name for name in (*added, *tokenizer.all_special_tokens) if name.strip()}
