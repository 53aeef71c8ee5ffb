"""A sampled response as credit needs it: its tokens, its prompt, and where question and answer are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..lvlm.batching import encode_responses, join
from ..lvlm.families.family import Arguments, ProcessorOutput
from ..lvlm.model import Lvlm
from ..tracing.prompt import processed_prompt
from ..tracing.reply import end_tokens
from ..tracing.spans import answer_tokens, detokenise, overlapping
from ..tracing.targets import find_target
from ..types import Span, Target, Trace, predictor


@dataclass(frozen=True, eq=False)
class Rollout:
    """One sampled response to one prompt."""

    ids: tuple[int, ...]  # prompt and response, without padding
    prompt_length: int
    inputs: ProcessorOutput  # the prompt as the processor returns it: input_ids of shape 1,P, pixels, grids, …
    question: tuple[int, ...] = ()  # positions of the question's tokens
    answer: tuple[int, ...] = ()  # positions of the answer's tokens; empty without an answer
    finished: bool = True  # False if it was cut off at the token budget

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def prompt(self) -> tuple[int, ...]:
        return self.ids[: self.prompt_length]

    @property
    def response(self) -> tuple[int, ...]:
        return self.ids[self.prompt_length :]

    @property
    def scored(self) -> range:
        """Positions that can be credited: response tokens before the position at which the answer is first read."""
        first = predictor(min(self.answer)) if self.answer else self.prompt_length
        return range(self.prompt_length, max(first, self.prompt_length))

    @property
    def target(self) -> Target:
        return Target("answer", self.answer)


def from_trace(lvlm: Lvlm, trace: Trace) -> Rollout:
    """The response of a frozen trace."""
    return Rollout(
        ids=trace.ids,
        prompt_length=trace.prompt_length,
        inputs=processed_prompt(lvlm, trace).inputs,
        question=tuple(trace.positions("question")),
        answer=find_target(trace, "answer").positions if trace.answer else (),
        finished=trace.finish != "length",
    )


def from_tokens(
    lvlm: Lvlm,
    prompt_ids: Sequence[int],
    response_ids: Sequence[int],
    inputs: ProcessorOutput,
    texts: Sequence[str] = (),
) -> Rollout:
    """A response from a trainer.

    Args:
        lvlm: the policy.
        prompt_ids: tokens of the prompt, without padding.
        response_ids: sampled tokens, without padding.
        inputs: what else the model takes for this prompt, as a batch of one: pixels, grids, token types, …
        texts: the user's texts in the prompt, in order; what cannot be found in it counts as template.
    """
    if not len(prompt_ids):
        raise InputError("a prompt has no tokens")
    prompt, response = tuple(map(int, prompt_ids)), tuple(map(int, response_ids))
    head = torch.tensor([prompt], device=lvlm.device)
    finished = bool(response) and response[-1] in end_tokens(lvlm)
    tokenizer = lvlm.processor.tokenizer
    answer = answer_tokens(partial(_decode, tokenizer), response[:-1] if finished else response)
    return Rollout(
        ids=prompt + response,
        prompt_length=len(prompt),
        inputs={"attention_mask": torch.ones_like(head), **inputs, "input_ids": head},
        question=_question(tokenizer, lvlm.image_token_id, prompt, tuple(texts)),
        answer=tuple(len(prompt) + k for k in answer),
        finished=finished,
    )


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@lru_cache(maxsize=256)  # all rollouts of a prompt ask for it
def _question(
    tokenizer: Any, image: int | None, prompt_ids: tuple[int, ...], texts: tuple[str, ...]
) -> tuple[int, ...]:
    """Positions of the user's texts: searched in order, from the end of the one before."""
    text, offsets = detokenise(partial(_decode, tokenizer), prompt_ids)
    found: list[int] = []
    after = 0
    for wanted in filter(None, (part.strip() for part in texts)):
        start = text.find(wanted, after)
        if start >= 0:
            after = start + len(wanted)
            found += overlapping(offsets, Span(start, after))
    return tuple(p for p in found if prompt_ids[p] != image)


class Part(NamedTuple):
    """Some rollouts of a batch, decoded together."""

    rollouts: list[Rollout]
    indices: list[int]  # of the rollouts in the whole batch
    groups: list[slice]  # rows with the same prompt
    arguments: Arguments

    @property
    def lengths(self) -> list[int]:
        return list(map(len, self.rollouts))

    @property
    def padded_lengths(self) -> list[int]:
        """For each row, the length of the longest with the same prompt."""
        return [max(self.lengths[rows]) for rows in self.groups for _ in self.rollouts[rows]]


def encoded_parts(lvlm: Lvlm, rollouts: Sequence[Rollout], tokens_at_once: int) -> Iterator[Part]:
    """Rollouts in batches of at most so many tokens, or of one.

    Those of one prompt are encoded together and follow each other. Prompts with pictures and prompts without are not
    mixed, because their decoder calls have different arguments.
    """

    def kind(group: Sequence[int]) -> tuple[bool, int]:
        return lvlm.image_token_id in rollouts[group[0]].prompt, max(len(rollouts[k]) for k in group)

    waiting: list[Sequence[int]] = []
    pictured = False
    for group in sorted(_by_prompt(rollouts), key=kind):
        differs, (pictured, longest) = kind(group)[0] != pictured, kind(group)
        size = max(1, tokens_at_once // longest)
        for few in (group[k : k + size] for k in range(0, len(group), size)):
            if waiting and (differs or longest * sum(map(len, [*waiting, few])) > tokens_at_once):
                yield _encoded(lvlm, rollouts, waiting)
                waiting = []
            differs = False
            waiting.append(few)
    if waiting:
        yield _encoded(lvlm, rollouts, waiting)


def _encoded(lvlm: Lvlm, rollouts: Sequence[Rollout], groups: Sequence[Sequence[int]]) -> Part:
    arguments: list[Arguments] = []
    rows: list[slice] = []
    for group in groups:
        start = rows[-1].stop if rows else 0
        rows.append(slice(start, start + len(group)))
        arguments.append(encode_responses(lvlm, rollouts[group[0]].inputs, [rollouts[k].response for k in group]))
    indices = [k for group in groups for k in group]
    return Part([rollouts[k] for k in indices], indices, rows, join(lvlm.seam, arguments))


def _by_prompt(rollouts: Sequence[Rollout]) -> list[list[int]]:
    """Indices of rollouts, grouped by prompt: equal tokens and equal pictures."""
    groups: dict[tuple[int, ...], list[list[int]]] = {}
    for index, rollout in enumerate(rollouts):
        alike = groups.setdefault(rollout.prompt, [])
        for group in alike:
            if _same(rollouts[group[0]].inputs, rollout.inputs):
                group.append(index)
                break
        else:
            alike.append([index])
    return [group for alike in groups.values() for group in alike]


def _same(one: ProcessorOutput, other: ProcessorOutput) -> bool:
    if one is other:
        return True
    return one.keys() == other.keys() and all(
        torch.equal(value, other[name]) if isinstance(value, Tensor) else value == other[name]
        for name, value in one.items()
    )
