"""Several replies at once: the same tokens as one at a time, wherever the model's own logits do not tie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import VTraceError, running
from ..lvlm.model import Lvlm
from ..lvlm.side_by_side import Unanswered, decode_side_by_side
from ..types import ProcessedPrompt
from .reply import Reply, as_reply, stop_tokens

GENERATED_TOGETHER = 16


class Asked(NamedTuple):
    """A prompt and the token budget of its reply."""

    prompt: ProcessedPrompt
    budget: int


def generate_replies(
    lvlm: Lvlm, asked: Sequence[Asked], together: int = GENERATED_TOGETHER
) -> list[Reply | VTraceError]:
    """The replies, in order, or for each prompt without one the reason.

    At most `together` are generated at once. If memory does not suffice, those that are left are generated with half
    as many; a prompt that does not even fit alone is given up.
    """
    found: dict[int, Reply | VTraceError] = {}
    while left := [number for number in range(len(asked)) if number not in found]:
        try:
            with running("the response"):
                prompts = [Unanswered(asked[number].prompt.inputs, asked[number].budget) for number in left]
                for index, ids in decode_side_by_side(lvlm, prompts, stop_tokens(lvlm), together):
                    found[left[index]] = _outcome(lvlm, ids)
        except VTraceError as error:
            if together == 1:
                found[min(set(left) - found.keys())] = error
            together = max(1, together // 2)
    return [found[number] for number in range(len(asked))]


def _outcome(lvlm: Lvlm, ids: list[int]) -> Reply | VTraceError:
    try:
        return as_reply(lvlm, ids)
    except VTraceError as error:
        return error
