"""Conversations: chat messages, and where their texts are in a rendered prompt. Pure functions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ..errors import InputError
from ..types import Span, Turn

MARKS = ("\ufdd0", "\ufdd1")  # put around every text while the template is rendered; no text may contain them
_OPEN, _CLOSE = MARKS


class ParsedChat(NamedTuple):
    """A list of chat messages, parsed."""

    turns: tuple[Turn, ...]
    pictures: list[Any]  # in order, as they were given
    system: str | None
    response: str | None


def single(pictures: int, question: str) -> tuple[Turn, ...]:
    """The usual case: pictures first, then the question."""
    return (Turn("user", (*[None] * pictures, question)),)


def parse(messages: Sequence[Any]) -> ParsedChat:
    """Read chat messages.

    A message is {"role": …, "content": …}; content is a text or a list of parts, {"type": "text", "text": …} or
    {"type": "image", "image": …}. If the last message is the assistant's, it is the response that is explained.
    """
    turns: list[Turn] = []
    pictures: list[Any] = []
    system = None
    for number, message in enumerate(messages, start=1):
        role, parts = _message(message, number, pictures)
        if role == "system" and number == 1:
            system = "".join(part or "" for part in parts)
        elif role in ("user", "assistant"):
            turns.append(Turn("user" if role == "user" else "assistant", parts))
        else:
            raise InputError(
                f"message {number} has role {role!r}; use user and assistant, and system for the first one"
            )
    response = None
    if turns and turns[-1].role == "assistant":
        response = "".join(part or "" for part in turns.pop().parts)
    if not turns or turns[-1].role != "user" or not any(part and part.strip() for part in turns[-1].parts):
        raise InputError(
            "the conversation has no question; its last message, or the one before the response, must be the user's"
        )
    return ParsedChat(tuple(turns), pictures, system, response)


def _message(message: Any, number: int, pictures: list[Any]) -> tuple[str, tuple[str | None, ...]]:
    """Role and parts; pictures are added to the list."""
    if not isinstance(message, Mapping) or "role" not in message or "content" not in message:
        raise InputError(f'message {number} is not of the form {{"role": …, "content": …}}')
    content = message["content"]
    if not isinstance(content, str | Sequence):
        raise InputError(f"message {number} has content that is neither a text nor a list of parts")
    parts: list[str | None] = []
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "text" and isinstance(part.get("text"), str):
            parts.append(unicodedata.normalize("NFC", part["text"]))
        elif kind == "image" and (source := _source(part)) is not None:
            parts.append(None)
            pictures.append(source)
        else:
            raise InputError(
                f'message {number} has a part that is neither {{"type": "text", "text": …}} nor '
                '{"type": "image", "image": …}'
            )
    return str(message["role"]), tuple(parts)


def _source(part: Mapping) -> Any:
    return next((part[key] for key in ("image", "path", "url") if part.get(key) is not None), None)


def question_of(turns: Sequence[Turn]) -> str:
    """The text of the last turn."""
    return " ".join(part.strip() for part in turns[-1].parts if part and part.strip())


def texts_of(turns: Sequence[Turn]) -> list[str]:
    """All texts of all turns, in order."""
    return [part for turn in turns for part in turn.parts if part and part.strip()]


def joined_texts(turns: Sequence[Turn], cleaned: Callable[[str], str]) -> list[str]:
    """All texts as a template may put them together: cleaned, and those joined that no picture separates."""
    return [
        "".join(cleaned(part or "") for part in run)
        for turn in turns
        for is_picture, run in groupby(turn.parts, lambda part: part is None)
        if not is_picture
    ]


def messages_of(turns: Sequence[Turn], system: str, own_turn: bool = True, plain: bool = False) -> list[dict[str, Any]]:
    """Messages for a chat template. If the template has no system turn, the system prompt begins the first user turn.

    `plain` contents are strings, for templates without pictures.
    """
    messages: list[dict[str, Any]] = []
    if system and own_turn:
        messages.append({"role": "system", "content": [{"type": "text", "text": system}]})
    for number, turn in enumerate(turns):
        parts = [{"type": "image"} if part is None else {"type": "text", "text": part} for part in turn.parts]
        if system and not own_turn and number == 0:
            parts.insert(0, {"type": "text", "text": f"{system}\n\n"})
        messages.append({"role": turn.role, "content": parts})
    if plain:
        return [{**m, "content": "".join(part["text"] for part in m["content"])} for m in messages]
    return messages


def marked(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The same turns with marks around each text, inside its outer whitespace, which a template may strip."""
    return tuple(Turn(t.role, tuple(_mark(part) if part else part for part in t.parts)) for t in turns)


def _mark(text: str) -> str:
    visible = text.strip()
    return text.replace(visible, f"{_OPEN}{visible}{_CLOSE}", 1) if visible else text


def unmarked(rendered: str) -> str:
    """The prompt itself, without the marks."""
    return rendered.replace(_OPEN, "").replace(_CLOSE, "")


def locate(prompt: str, rendered: str, count: int, placeholder: str) -> list[Span] | None:
    """Characters of each of `count` texts in the decoded prompt; None if they cannot be located.

    `rendered` is the prompt with marks around the texts and placeholders for pictures. Searching for the words is not
    enough: a question can be a word of the template.
    """
    mark = f"{_OPEN}(.*?){_CLOSE}"
    pattern, found, done = [".*?"], 0, 0  # some tokenizers add a start token
    for match in re.finditer(f"{mark}|{re.escape(placeholder)}" if placeholder else mark, rendered, re.DOTALL):
        pattern.append(_loosely(rendered[done : match.start()]))
        done = match.end()
        if match[1] is None:
            pattern.append(".*?")  # all tokens of a picture
        else:
            found += 1
            pattern.append(f"\\s*({_loosely(match[1])})\\s*")
    pattern.append(_loosely(rendered[done:]))
    matched = re.fullmatch("".join(pattern), prompt, re.DOTALL)
    if matched is None or found != count:
        return None
    return [Span(*matched.span(k + 1)) for k in range(count)]


def _loosely(text: str) -> str:
    """A pattern for the text that allows different whitespace."""
    return "\\s*".join(re.escape(piece) for piece in re.split(r"\s+", text))
