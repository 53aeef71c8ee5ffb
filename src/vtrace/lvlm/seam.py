"""The decoder seam: encode once, decode many times, and read layers while decoding.

Every supported model is a vision tower whose features are scattered into the token embeddings, then one call of a
text decoder, then `lm_head`. The seam is that call: `encode` runs the model's own forward up to it and keeps the
arguments; everything else changes those arguments and calls the decoder again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from ..errors import ModelError
from ..system.batches import in_batches
from ..system.wide_numbers import wide
from ..types import predictor
from .batch_size import free_memory, sequence_bytes, sequences_at_once, workload_of
from .capture import watched
from .families.family import Arguments, Family, ProcessorOutput, output_embedding, repeat_rows
from .layer import BatchConsumer, Consumer, Layer
from .mixer import is_hybrid, mixer_of, mixing_layers
from .tensor_parallel import head_group, least_of


class _Stop(Exception):
    """Carries the decoder's arguments out of the model's forward."""

    def __init__(self, arguments: Arguments):
        self.arguments = arguments


class _AllRead(Exception):
    """Ends a pass whose layers have all been read."""


class _LogitChunk(NamedTuple):
    """Logits of some predictors, and the tokens they predict."""

    logits: Float[Tensor, "tokens vocabulary"]
    wanted: Int[Tensor, " tokens"]


class FreshGraph(NamedTuple):
    """Arguments of the decoder, and the leaves of a new graph that they contain."""

    arguments: Arguments
    leaves: list[Tensor]


@dataclass(frozen=True)
class Seam:
    """A loaded model, accessed at its decoder call."""

    model: Any  # of transformers, whose modules carry attributes that type checkers cannot see
    family: Family
    pad_id: int

    @property
    def decoder(self) -> Any:
        return self.family.decoder(self.model)

    @property
    def head(self) -> Any:
        """What turns the decoder's last hidden states into logits."""
        return output_embedding(self.model)

    @property
    def layers(self) -> list[Any]:
        """The layers of the decoder that mix positions."""
        return mixing_layers(self.decoder)

    @property
    def hybrid(self) -> bool:
        """Whether some layers mix positions without softmax, or gate what they have mixed."""
        return any(is_hybrid(mixer_of(layer)) for layer in self.layers)

    @property
    def group(self) -> ProcessGroup | None:
        """The processes that the heads of this model are split over; None if it is whole."""
        return head_group(mixer_of(self.layers[0]).projection)

    def batch_size(self, length: int, predicted: int = 0, graph: bool = False) -> int:
        """How many sequences of this length are decoded together; see `sequence_bytes` for the other arguments."""
        decoder, group = self.decoder, self.group
        each = sequence_bytes(workload_of(decoder.config, self.model.dtype), length, predicted, graph)
        devices = {parameter.device for parameter in decoder.parameters()}
        count = min(sequences_at_once(length, each, free_memory(device)) for device in devices)
        return count if group is None else least_of(count, group, self.model.device)

    @torch.no_grad()
    def encode(self, inputs: ProcessorOutput) -> Arguments:
        """Run the model up to its decoder and return the arguments of the decoder call."""

        def stop(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            raise _Stop(kwargs)

        handle = self.decoder.register_forward_pre_hook(stop, with_kwargs=True)
        with self.undisturbed():
            try:
                self.model(**inputs, use_cache=False)
            except _Stop as stopped:
                arguments = stopped.arguments
            else:
                raise ModelError("the model never called its text decoder; its family file does not fit this version")
            finally:
                handle.remove()
        if arguments.get("inputs_embeds") is None:  # a text model leaves the embedding to its decoder
            embeds = self.model.get_input_embeddings()(arguments["input_ids"])
            arguments = {**arguments, "input_ids": None, "inputs_embeds": embeds}
        return {**arguments, "past_key_values": None, "use_cache": False}

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Restore on exit what a forward pass changes in the model, so that a running generation can continue."""
        core = getattr(self.model, "model", self.model)
        cached = getattr(core, "rope_deltas", None)
        try:
            yield
        finally:
            if hasattr(core, "rope_deltas"):
                core.rope_deltas = cached

    def token_inputs(self, ids: Int[Tensor, " tokens"]) -> dict[str, Tensor]:
        """What shows these tokens to the decoder, by name: embeddings, and what a family has beside."""
        return {"inputs_embeds": self.model.get_input_embeddings()(ids), **self.family.token_inputs(self.decoder, ids)}

    def pad(self, arguments: Arguments, positions: Sequence[Sequence[int]]) -> Arguments:
        """A batch with one row per position set, each with those positions replaced by the pad token.

        Positions do not move. Features that reach them other than through the embedding (DeepStack) are
        erased too; otherwise the model would still see a padded picture.
        """
        return self.pad_rows(self.repeat(arguments, len(positions)), positions)

    def repeat(self, arguments: Arguments, copies: int) -> Arguments:
        """A batch of copies of one sequence. Rows of extras are concatenated in the same order."""
        rows = [extra.repeat(copies, 1) for extra in self.family.extras(arguments)]
        return self.family.with_extras(repeat_rows(arguments, copies), rows)

    def pad_rows(self, arguments: Arguments, positions: Sequence[Collection[int]]) -> Arguments:
        """The same for a batch that already has one row per position set."""
        masked = self.mark(arguments, positions)
        pad = self.model.get_input_embeddings()(torch.tensor(self.pad_id, device=masked.device)).detach()
        return self.replace(arguments, masked, pad, [torch.zeros(())] * len(self.family.extras(arguments)))

    def mark(self, arguments: Arguments, positions: Sequence[Collection[int]]) -> Bool[Tensor, "batch length"]:
        """True at the positions of each row."""
        embeds = arguments["inputs_embeds"]
        masked = torch.zeros(embeds.shape[:2], dtype=torch.bool, device=embeds.device)
        for row, chosen in enumerate(positions):
            masked[row, list(chosen)] = True
        return masked

    def extra_rows(self, arguments: Arguments, positions: Collection[int]) -> Bool[Tensor, " rows"]:
        """Which rows of extras are those of these positions, in every sequence of a batch. The ends of rows of a
        picture may have extras, too."""
        masked = self.mark(arguments, [positions] * len(arguments["inputs_embeds"]))
        return self.family.extra_rows(arguments, masked) if self.family.extras(arguments) else masked.new_zeros(0)

    def replace(
        self,
        arguments: Arguments,
        masked: Bool[Tensor, "batch length"],
        embeds: Float[Tensor, "*any width"],
        extras: Sequence[Tensor],
        ids: Int[Tensor, "batch length"] | None = None,
    ) -> Arguments:
        """Replace embeddings and extras at the masked positions of a batch. What a family has beside embeddings becomes
        that of `ids`, or of the pad token, which models give to image positions, too."""
        own = arguments["inputs_embeds"]
        mixed = {**arguments, "inputs_embeds": torch.where(masked[..., None], embeds.to(own.dtype), own)}
        tokens = torch.tensor([[self.pad_id]], device=own.device) if ids is None else ids.to(own.device)
        for name, rows in self.family.token_inputs(self.decoder, tokens.flatten()).items():
            others = rows.view(*tokens.shape, *rows.shape[1:])
            mixed[name] = torch.where(masked.view(*masked.shape, *[1] * (rows.ndim - 1)), others, arguments[name])
        if not (before := self.family.extras(arguments)):
            return mixed
        chosen = self.family.extra_rows(arguments, masked)[:, None]
        return self.family.with_extras(
            mixed, [torch.where(chosen, b.to(a), a) for a, b in zip(before, extras, strict=True)]
        )

    def leaves(self, arguments: Arguments) -> FreshGraph:
        """The same arguments with embeddings and extras as leaves of a new graph, for gradients."""
        fresh = [t.detach().clone().requires_grad_() for t in self.inputs(arguments)]
        return FreshGraph(self.family.with_extras({**arguments, "inputs_embeds": fresh[0]}, fresh[1:]), fresh)

    def inputs(self, arguments: Arguments) -> list[Tensor]:
        """Embeddings B,T,d, and extras."""
        return [arguments["inputs_embeds"], *self.family.extras(arguments)]

    def predict(self, arguments: Arguments, positions: Sequence[int]) -> Float[Tensor, "batch tokens vocabulary"]:
        """Logits that predict the tokens at these positions; float32; differentiable."""
        hidden = self.decoder(**arguments).last_hidden_state[:, _predictors(positions)]
        return self.logits(hidden)

    def logits(self, hidden: Float[Tensor, "*any width"]) -> Float[Tensor, "*any vocabulary"]:
        """What the model makes of its last hidden states; float32."""
        return self.family.logits(self.decoder.config, self.head(hidden).float())

    @torch.no_grad()
    def log_probabilities(
        self, arguments: Arguments, ids: Int[Tensor, " length"], start: int
    ) -> Float64[Tensor, "batch length-{start}"]:
        """log p of ids[start:] under each row of the batch, teacher-forced.

        The arguments may contain only the end of the sequences.
        """
        first = predictor(start) - len(ids)  # from the end
        hidden = self.decoder(**arguments).last_hidden_state[:, first:-1]
        chosen = ids[start:].to(hidden.device)
        return self._score(hidden.flatten(0, 1), chosen.repeat(len(hidden))).unflatten(0, hidden.shape[:2])

    def _score(
        self, hidden: Float[Tensor, "tokens width"], chosen: Int[Tensor, " tokens"]
    ) -> Float64[Tensor, " tokens"]:
        parts = [
            wide(logits.gather(1, wanted[:, None])[:, 0]) - wide(logits.logsumexp(-1))
            for logits, wanted in self._logits(hidden, chosen)
        ]
        return torch.cat(parts)

    def batch_log_probabilities(
        self, arguments: Arguments, ids: Sequence[Sequence[int]], positions: Sequence[Sequence[int]]
    ) -> Iterator[Float64[Tensor, " tokens"]]:
        """log p of the tokens at some positions of each sequence of a batch, teacher-forced."""
        for hidden, chosen in self._read_batch(arguments, ids, positions):
            yield self._score(hidden, chosen)

    def batch_entropies(
        self, arguments: Arguments, ids: Sequence[Sequence[int]], positions: Sequence[Sequence[int]]
    ) -> Iterator[Float64[Tensor, " tokens"]]:
        """Entropy of the distributions that the tokens at some positions of each sequence are drawn from; in nats."""
        for hidden, chosen in self._read_batch(arguments, ids, positions):
            logs = [wide(part.logits).log_softmax(-1) for part in self._logits(hidden, chosen)]
            yield torch.cat([-torch.special.xlogy(part.exp(), part.exp()).sum(-1) for part in logs])

    @torch.no_grad()
    def _read_batch(
        self, arguments: Arguments, ids: Sequence[Sequence[int]], positions: Sequence[Sequence[int]]
    ) -> list[tuple[Float[Tensor, "tokens width"], Int[Tensor, " tokens"]]]:
        """Hidden states that predict the tokens at these positions, and the tokens, for each sequence."""
        hidden = self.decoder(**arguments).last_hidden_state
        return [
            (row[_predictors(where)], torch.tensor([own[p] for p in where], device=hidden.device))
            for row, own, where in zip(hidden, ids, positions, strict=True)
        ]

    @torch.no_grad()
    def ranks(
        self, arguments: Arguments, ids: Int[Tensor, " length"], positions: Sequence[int]
    ) -> Int[Tensor, "batch tokens"]:
        """How many tokens each row of the batch prefers to the one at each position."""
        chosen = ids.to(arguments["inputs_embeds"].device)[list(positions)]
        hidden = self.decoder(**arguments).last_hidden_state[:, _predictors(positions)]
        parts = self._logits(hidden.flatten(0, 1), chosen.repeat(len(hidden)))
        found = [(logits > logits.gather(1, wanted[:, None])).sum(-1) for logits, wanted in parts]
        return torch.cat(found).unflatten(0, hidden.shape[:2])

    def _logits(
        self, hidden: Float[Tensor, "tokens width"], chosen: Int[Tensor, " tokens"], chunk: int = 256
    ) -> Iterator[_LogitChunk]:
        """Compute logits at predictors only, a few hundred at a time, because a large vocabulary needs much memory."""
        for rows, wanted in zip(hidden.split(chunk), chosen.split(chunk), strict=True):
            logits = self.logits(rows)
            yield _LogitChunk(logits, wanted.to(logits.device))

    def log_probabilities_padded(
        self, arguments: Arguments, ids: Int[Tensor, " length"], start: int, positions: Sequence[Sequence[int]]
    ) -> Float64[Tensor, "sets length-{start}"]:
        """The same for each set of padded positions, in batches."""

        def measure(part: Sequence[Sequence[int]]) -> Tensor:
            return self.log_probabilities(self.pad(arguments, part), ids, start)

        return torch.cat([*in_batches(measure, positions, self.batch_size(len(ids)))])

    def capture(self, consumer: Consumer) -> AbstractContextManager[None]:
        """While open, every attention layer of the decoder is passed to `consumer` as it is computed."""
        return watched(self.decoder, lambda layers: consumer(layers[0]), self.family.branch_norm)

    @torch.no_grad()
    def read_layers(self, arguments: Arguments, consumer: BatchConsumer, lengths: Sequence[int]) -> None:
        """Pass every attention layer of a right-padded batch of sequences of these lengths to `consumer`.

        What follows the last attention is not computed. Numbers are not checked for being finite.
        """
        last = len(self.layers) - 1

        def consume(layers: list[Layer]) -> None:
            consumer(layers)
            if layers[0].index == last:
                raise _AllRead

        with suppress(_AllRead), watched(self.decoder, consume, self.family.branch_norm, lengths):
            self.decoder(**arguments)


def _predictors(positions: Sequence[int]) -> list[int]:
    """Predictors of positions; the first token has none, so its own position is used."""
    return [max(0, predictor(p)) for p in positions]
