"""A reply from a server: an example becomes a chat request, and the completion becomes tokens of our own model."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

from PIL import Image

from ..errors import InputError
from ..lvlm.model import Lvlm
from ..types import Example, Finish
from .prompt import prompt_messages
from .reply import Reply, decode_reply, end_tokens, sampled_reply
from .user_text import check_user_text

_FINISHES: dict[str, Finish] = {"stop": "stop", "length": "length"}


def chat_request(lvlm: Lvlm, example: Example, system: str) -> list[dict[str, Any]]:
    """The messages of a tidied example, with its pictures as lossless data URLs."""
    pictures = iter(example.images)

    def part(one: dict[str, Any]) -> dict[str, Any]:
        if one["type"] != "image":
            return one
        return {"type": "image_url", "image_url": {"url": _data_url(next(pictures))}}

    messages = prompt_messages(lvlm, example, system)
    return [m if isinstance(m["content"], str) else {**m, "content": list(map(part, m["content"]))} for m in messages]


def _data_url(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def served_reply(lvlm: Lvlm, completion: Mapping[str, Any]) -> Reply:
    """The tokens of a chat completion: the server's own if it returns them, else those of its text."""
    try:
        choice = completion["choices"][0]
        message, ended = choice["message"], choice.get("finish_reason")
        text = message.get("content") or ""
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise InputError("the server sent something else than a chat completion") from error
    if not isinstance(ended, str) or ended not in _FINISHES:
        raise InputError(f"the server ended the response with {str(ended)[:40]!r} instead of 'stop' or 'length'")
    finish = _FINISHES[ended]
    ids = choice.get("token_ids")
    if isinstance(ids, list) and ids and all(type(token) is int for token in ids):
        return _ended(lvlm, sampled_reply(lvlm, ids).ids, finish, None)
    if message.get("reasoning_content") or message.get("reasoning"):
        raise InputError("the server split the reasoning off the response; start it without a reasoning parser")
    if not isinstance(text, str) or not text.strip():
        raise InputError("the server sent an empty response")
    check_user_text(lvlm, text, "response")
    ids = lvlm.processor.tokenizer(text, add_special_tokens=False)["input_ids"]
    return _ended(lvlm, ids, finish, decode_reply(lvlm, ids) == text and _counts_agree(completion, ids, finish))


def _ended(lvlm: Lvlm, ids: list[int], finish: Finish, round_trips: bool | None) -> Reply:
    """A response that has ended, ends with an end token: servers may leave it out."""
    missing = finish == "stop" and ids[-1] not in end_tokens(lvlm)
    return Reply([*ids, *([lvlm.processor.tokenizer.eos_token_id] if missing else [])], finish, round_trips)


def _counts_agree(completion: Mapping[str, Any], ids: list[int], finish: Finish) -> bool:
    """Whether the server generated as many tokens, if it says how many. It may or may not count the end token."""
    usage = completion.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return not isinstance(count, int) or count - len(ids) in ((0, 1) if finish == "stop" else (0,))
