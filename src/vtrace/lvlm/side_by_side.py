"""Greedy decoding of several sequences side by side: a row that has ended leaves, and the next prompt takes its place.

Prompts are read as each of them would be alone. What the decoder remembers of them is then aligned at the end, so that
rows of different lengths are padded on the left, where a mask hides the padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.cache_utils import Cache

from .batching import join
from .families.family import ProcessorOutput
from .grouped_attention import attending_by_groups
from .growing_cache import growing_cache
from .model import Lvlm
from .selection import has_index

PROMPT_TOKENS = 8192  # of prompts that are read together, or one prompt


class Unanswered(NamedTuple):
    """A prompt, as the processor returns it, and the most tokens that its answer may have."""

    inputs: ProcessorOutput
    budget: int

    @property
    def length(self) -> int:
        return self.inputs["input_ids"].shape[1]


class Answer(NamedTuple):
    """The tokens of an answer, and which prompt it answers."""

    number: int
    ids: list[int]


class _Rows(NamedTuple):
    """Sequences that are being decoded; the last token of each has not been read yet."""

    answers: list[Answer]
    lengths: list[int]  # of what has been read
    cache: Cache  # what the decoder remembers, padded on the left; grows with every step
    positions: Int[Tensor, "*axes rows 1"]  # of the last token

    def only(self, kept: Sequence[int]) -> _Rows:
        index = torch.tensor(kept, device=self.positions.device)
        self.cache.batch_select_indices(index)
        answers, lengths = [self.answers[k] for k in kept], [self.lengths[k] for k in kept]
        return _Rows(answers, lengths, self.cache, self.positions.index_select(-2, index))


def decode_side_by_side(lvlm: Lvlm, prompts: Sequence[Unanswered], stops: set[int], together: int) -> Iterator[Answer]:
    """The most likely answer to each prompt, with the token that ends it, as soon as it has ended.

    Args:
        lvlm: the model, from `load`.
        prompts: with the budgets of their answers.
        stops: tokens that end an answer.
        together: how many answers are decoded at once.
    """
    waiting = list(enumerate(prompts))
    rows: _Rows | None = None

    def is_open(answer: Answer) -> bool:
        return len(answer.ids) < prompts[answer.number].budget and answer.ids[-1] not in stops

    while waiting or rows:
        room = together - (len(rows.answers) if rows else 0)
        if waiting and room >= max(1, together // 4):  # a few at a time, because rows are copied when others join
            chosen = _choose(waiting, room)
            waiting = waiting[len(chosen) :]
            fresh = _read(lvlm, chosen)
            rows = _joined(rows, fresh) if rows else fresh
        elif rows:
            rows = _step(lvlm, rows)
        assert rows is not None
        ended = [answer for answer in rows.answers if not is_open(answer)]
        yield from ended
        if ended:
            kept = [k for k, answer in enumerate(rows.answers) if is_open(answer)]
            rows = rows.only(kept) if kept else None


def _choose(waiting: Sequence[tuple[int, Unanswered]], room: int) -> Sequence[tuple[int, Unanswered]]:
    """The first prompts that can be read together."""
    count, longest = 0, 0
    for _, prompt in waiting[:room]:
        longest = max(longest, prompt.length)
        if count and longest * (count + 1) > PROMPT_TOKENS:
            break
        count += 1
    return waiting[:count]


def can_decode_side_by_side(lvlm: Lvlm) -> bool:
    """Whether every layer remembers keys and values, and nothing else. A state that layers carry along cannot be padded
    on the left, and an index counts the padding."""
    mixers = [getattr(layer, "self_attn", None) for layer in lvlm.seam.decoder.layers]
    return all(mixer is not None and not has_index(mixer) for mixer in mixers)


@torch.no_grad()
def _read(lvlm: Lvlm, chosen: Sequence[tuple[int, Unanswered]]) -> _Rows:
    """Read prompts, right-padded, and predict the first token after each."""
    seam, cache = lvlm.seam, growing_cache()
    arguments = join(seam, [seam.encode(prompt.inputs) for _, prompt in chosen])
    lengths = [prompt.length for _, prompt in chosen]
    hidden = seam.decoder(**{**arguments, "past_key_values": cache, "use_cache": True}).last_hidden_state
    ends = torch.tensor(lengths, device=hidden.device) - 1
    first = _best(lvlm, hidden[torch.arange(len(lengths), device=hidden.device), ends])
    answers = [Answer(number, [token]) for (number, _), token in zip(chosen, first, strict=True)]
    positions = arguments.get("position_ids")
    if positions is None:
        positions = torch.arange(hidden.shape[1], device=hidden.device).expand(len(lengths), -1)
    last = positions.gather(-1, ends[:, None].expand(*positions.shape[:-1], 1))
    return _Rows(answers, lengths, _aligned([_Part(cache, lengths, from_end=False)]), last + 1)


@torch.no_grad()
def _step(lvlm: Lvlm, rows: _Rows) -> _Rows:
    """Read the last token of every row, and predict the next."""
    tokens = torch.tensor([[answer.ids[-1]] for answer in rows.answers], device=lvlm.device)
    lengths = [length + 1 for length in rows.lengths]
    decoder = lvlm.seam.decoder
    with attending_by_groups(decoder):
        hidden = decoder(
            inputs_embeds=lvlm.model.get_input_embeddings()(tokens),
            **lvlm.family.token_inputs(decoder, tokens),
            position_ids=rows.positions,
            attention_mask=_mask(lengths, rows.cache.get_seq_length() + 1, lvlm.device),
            past_key_values=rows.cache,
            use_cache=True,
        ).last_hidden_state
    for answer, token in zip(rows.answers, _best(lvlm, hidden[:, -1]), strict=True):
        answer.ids.append(token)
    return rows._replace(lengths=lengths, positions=rows.positions + 1)


def _best(lvlm: Lvlm, hidden: Float[Tensor, "rows width"]) -> list[int]:
    return lvlm.seam.head(hidden).float().argmax(-1).tolist()


def _mask(lengths: Sequence[int], width: int, device: torch.device) -> Int[Tensor, "rows {width}"]:
    """1 where a row of left-padded sequences has a token. The longest row may have left, so all can be padded."""
    starts = torch.tensor([width - length for length in lengths], device=device)
    return (torch.arange(width, device=device) >= starts[:, None]).long()


class _Part(NamedTuple):
    """What the decoder remembers of some rows, of which only so many positions at one end count."""

    cache: Cache
    lengths: Sequence[int]
    from_end: bool


def _aligned(parts: Sequence[_Part]) -> Cache:
    """All rows, padded on the left to the longest."""
    whole = growing_cache()
    for index in range(len(parts[0].cache.layers)):
        layers = [part.cache.layers[index] for part in parts]
        keys = _left_padded([layer.keys for layer in layers], parts)
        whole.update(keys, _left_padded([layer.values for layer in layers], parts), index)
    return whole


def _left_padded(tensors: Sequence[Tensor], parts: Sequence[_Part]) -> Float[Tensor, "rows groups longest size"]:
    lengths = [length for part in parts for length in part.lengths]
    longest, (_, groups, _, size) = max(lengths), tensors[0].shape
    padded = tensors[0].new_zeros(len(lengths), groups, longest, size)
    own = [(row, part.from_end) for tensor, part in zip(tensors, parts, strict=True) for row in tensor]
    for target, (row, from_end), length in zip(padded, own, lengths, strict=True):
        target[:, longest - length :] = row[:, row.shape[1] - length :] if from_end else row[:, :length]
    return padded


@torch.no_grad()
def _joined(old: _Rows, new: _Rows) -> _Rows:
    cache = _aligned([_Part(old.cache, old.lengths, from_end=True), _Part(new.cache, new.lengths, from_end=True)])
    positions = torch.cat([old.positions, new.positions], dim=-2)
    return _Rows(old.answers + new.answers, old.lengths + new.lengths, cache, positions)
