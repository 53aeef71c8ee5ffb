"""The same frozen response with perturbed inputs: some patches blurred in the picture, some words padded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from ..lvlm.encoding import with_response
from ..lvlm.families.family import Arguments
from ..lvlm.gradients import overridden
from ..lvlm.greedy import decode_greedily
from ..lvlm.model import Lvlm
from ..lvlm.prefix import after, read_prefix
from ..system.batches import consecutive, in_parallel_batches
from ..types import Progress, Trace, silent
from .blurred_pixels import blurred_pixels
from .pictures import BLUR
from .prompt import processed_prompt, trace_inputs

GENERATED_TOKENS = 8192  # as many sequences as fit, with room for their responses, are generated together
KEPT_BYTES = 1 << 28  # of vision features: as many states as fit are encoded and then decoded together


class TileState(NamedTuple):
    """A tile, and which of its tokens are blurred."""

    tile: int
    blurred: frozenset[int]


class Perturbation:
    """Perturbs one trace: image positions of a state are blurred, all others padded.

    Where pixels of a patch are known in processed pictures, a state takes them from a blurred copy, so that tokens and
    pixels stay aligned. The picture is encoded again for every state, and its features are reused for other states
    with the same picture, or the same tile if tiles are encoded independently.
    """

    def __init__(self, lvlm: Lvlm, trace: Trace, arguments: Arguments | None = None, radius: float = BLUR):
        """`arguments` are the decoder's for the unperturbed trace, if they are already known."""
        self.lvlm, self.trace = lvlm, trace
        self._clean = trace_inputs(lvlm, trace)
        self._image = trace.positions("image")
        tile = lvlm.family.tile(lvlm.model.config) if lvlm.family.tile else len(self._image)
        self._tiles = [frozenset(tokens) for tokens in consecutive(self._image, max(1, tile))]
        self._arguments = arguments or lvlm.seam.encode(self._clean)
        self._first = min(trace.positions("image", "question"), default=0)
        self._prefix = read_prefix(lvlm.family, lvlm.model, self._arguments, self._first)
        self._features: OrderedDict[TileState, list[Tensor]] = OrderedDict()
        self._pixels = blurred_pixels(lvlm, trace, self._clean, radius) if self._image else None

    def log_probabilities(
        self, states: Sequence[Collection[int]], progress: Progress = silent
    ) -> Float64[Tensor, "states tokens"]:
        """log p of every response token in each state."""
        together = self.lvlm.seam.batch_size(len(self.trace))
        device = self.lvlm.device
        found, size = [], max(together, KEPT_BYTES // self._state_bytes())
        for k in range(0, len(states), size):
            wave = states[k : k + size]
            self._show(wave)
            found += in_parallel_batches(self._decode, wave, together, device)
            # Settings and directions often show the same picture, so recent ones are cached.
            while len(self._features) > size * len(self._tiles):
                self._features.popitem(last=False)
            progress(min(k + size, len(states)), len(states))
        return torch.cat(found)

    def generate(
        self,
        states: Sequence[Collection[int]],
        room: int,
        ends: Collection[int],
        listen: Callable[[list[int]], None] | None = None,
    ) -> list[list[int]]:
        """The tokens that the model answers in each state, greedily: at most `room`, up to and with one of `ends`.

        `listen` receives the tokens of a single state so far, whenever there is another.
        """
        self._show(states)
        blank = self._blank(room)
        together = max(1, GENERATED_TOKENS // blank["inputs_embeds"].shape[1])
        answer = partial(self._answer, blank, ends, listen)
        parts = in_parallel_batches(answer, states, together, self.lvlm.device)
        return [reply for part in parts for reply in part]

    def _answer(
        self,
        blank: Arguments,
        ends: Collection[int],
        listen: Callable[[list[int]], None] | None,
        states: Sequence[Collection[int]],
    ) -> list[list[int]]:
        seam, arguments = self.lvlm.seam, self.arguments(states)
        replies: list[list[int]] = [[] for _ in states]
        for row, token in decode_greedily(seam, arguments, self.trace.prompt_length, blank, ends):
            replies[row].append(token)
            if listen and len(states) == 1:
                listen(replies[0])
        return replies

    def _blank(self, room: int) -> Arguments:
        """Decoder arguments of the prompt with room for a response, as the model itself lays them out."""
        lvlm, start = self.lvlm, self.trace.prompt_length
        ids = [*self.trace.ids[:start], *[lvlm.seam.pad_id] * room]
        return lvlm.seam.encode(with_response(lvlm, processed_prompt(lvlm, self.trace).inputs, ids))

    def _show(self, states: Sequence[Collection[int]]) -> None:
        """Encode the pictures of these states, unless their features are known."""
        new = self._pictures({part for state in states for part in self._parts(state)} - self._features.keys())
        if not new or self._pixels is None:
            return
        together = self.lvlm.seam.batch_size(len(self.trace)) if self._pixels.together else 1
        # Shared state is changed once around all threads, not in each.
        with overridden(self._pixels.replacements), self.lvlm.seam.undisturbed():
            for part in in_parallel_batches(self._encode, new, together, self.lvlm.device):
                self._features.update(part)

    def all_blurred(self) -> Arguments:
        """Decoder arguments with every picture blurred."""
        return self._arguments if self._pixels is None else self.lvlm.seam.encode(self._pixels.all_blurred())

    def _decode(self, states: Sequence[Collection[int]]) -> Float64[Tensor, "states tokens"]:
        ids = torch.tensor(self.trace.ids)
        prefix = self._prefix if all(p >= self._first for state in states for p in state) else None
        arguments = after(prefix, self.arguments(states))
        return self.lvlm.seam.log_probabilities(arguments, ids, self.trace.prompt_length)

    @torch.no_grad()
    def arguments(self, states: Sequence[Collection[int]]) -> Arguments:
        """Decoder arguments of a batch whose pictures are already encoded."""
        seam, image = self.lvlm.seam, frozenset(self._image)
        shown = [[self._features[part] for part in self._parts(state)] for state in states]
        batch = seam.repeat(self._arguments, len(states))
        embeds = batch["inputs_embeds"].clone()
        for row, tiles in enumerate(shown):
            if tiles:
                embeds[row, self._image] = torch.cat([features[0] for features in tiles])
        every = [features[1:] for tiles in shown for features in tiles]
        extras, own = [extra.clone() for extra in seam.family.extras(batch)], seam.extra_rows(batch, self._image)
        for extra, rows in zip(extras, zip(*every, strict=True), strict=True):
            extra[own] = torch.cat(rows)
        batch = seam.family.with_extras({**batch, "inputs_embeds": embeds}, extras)
        words = [set(state) - image for state in states]
        return seam.pad_rows(batch, words) if any(words) else batch

    def _parts(self, state: Collection[int]) -> list[TileState]:
        """What each tile of a state shows."""
        return [TileState(number, tile.intersection(state)) for number, tile in enumerate(self._tiles)]

    def _pictures(self, parts: Collection[TileState]) -> list[frozenset[int]]:
        """As few pictures as possible that show all of these: independently encoded tiles can share one picture."""
        of_tile: dict[int, list[frozenset[int]]] = {}
        for part in sorted(parts, key=lambda part: (part.tile, sorted(part.blurred))):
            of_tile.setdefault(part.tile, []).append(part.blurred)
        return [frozenset().union(*together) for together in zip_longest(*of_tile.values(), fillvalue=frozenset())]

    def _encode(self, pictures: Sequence[frozenset[int]]) -> dict[TileState, list[Tensor]]:
        """Vision features of pictures with these patches blurred, by tile: rows of image positions, and of extras."""
        if self._pixels is None:
            return {}
        count, seam = len(pictures), self.lvlm.seam
        arguments = seam.encode(self._pixels.inputs(pictures))
        own = seam.extra_rows(arguments, self._image)
        embeds, *extras = seam.inputs(arguments)
        rows = [embeds[:, self._image], *(extra[own].view(count, len(self._image), -1) for extra in extras)]
        tiles = [tensor.split([len(tile) for tile in self._tiles], dim=1) for tensor in rows]
        return {
            part: [tensor[part.tile][k] for tensor in tiles]
            for k, picture in enumerate(pictures)
            for part in self._parts(picture)
        }

    def _state_bytes(self) -> int:
        """Bytes of the vision features of a state."""
        embeds, *extras = self.lvlm.seam.inputs(self._arguments)
        parts = [embeds[:, self._image], *extras]
        return max(1, sum(part.numel() * part.element_size() for part in parts))
