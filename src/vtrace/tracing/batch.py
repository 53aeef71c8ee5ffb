"""Several replies at once: the same tokens as one at a time, wherever the model's own logits do not tie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ..errors import VTraceError, running
from ..lvlm.model import Lvlm
from ..lvlm.side_by_side import Unanswered, can_decode_side_by_side, decode_side_by_side
from ..types import ProcessedPrompt
from .defaults import GENERATED_TOGETHER
from .reply import Reply, as_reply, generate_reply, generation_stops

_RULES = (  # settings of a checkpoint that change which token is chosen
    "bad_words_ids", "begin_suppress_tokens", "exponential_decay_length_penalty", "forced_bos_token_id",
    "forced_eos_token_id", "guidance_scale", "min_length", "min_new_tokens", "no_repeat_ngram_size", "sequence_bias",
    "stop_strings", "suppress_tokens",
)  # fmt: skip


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
    if _has_rules(lvlm) or not can_decode_side_by_side(lvlm):
        return [_outcome(partial(generate_reply, lvlm, *one)) for one in asked]
    found: dict[int, Reply | VTraceError] = {}
    while left := [number for number in range(len(asked)) if number not in found]:
        try:
            with running("the response"):
                prompts = [Unanswered(asked[number].prompt.inputs, asked[number].budget) for number in left]
                for index, ids in decode_side_by_side(lvlm, prompts, generation_stops(lvlm), together):
                    found[left[index]] = _outcome(partial(as_reply, lvlm, ids))
        except VTraceError as error:
            if together == 1:
                found[min(set(left) - found.keys())] = error
            together = max(1, together // 2)
    return [found[number] for number in range(len(asked))]


def _has_rules(lvlm: Lvlm) -> bool:
    """Whether the checkpoint asks for more than the most likely token, so that only its own `generate` can decode."""
    return any(getattr(lvlm.model.generation_config, name, None) for name in _RULES)


def _outcome(reply: Callable[[], Reply]) -> Reply | VTraceError:
    try:
        with running("the response"):
            return reply()
    except VTraceError as error:
        return error
