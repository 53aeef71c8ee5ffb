"""The decoder seam: encode once, decode many times, capture while decoding.

Every model of interest is a vision tower whose features are scattered into the token embeddings,
then one call of a text decoder, then `lm_head`. We stand at that call. `encode` runs the model's own
forward up to it and keeps the arguments; everything else is an edit of those arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from ..errors import ModelError
from ..types import predictor
from .families.family import Arguments, Family, repeat_rows
from .layer import Consumer, Layer

BATCH_TOKENS = 1024  # decode together as many sequences as fit; beyond that one at a time


class _Stop(Exception):
    """Carries the decoder's arguments out of the model's forward."""

    def __init__(self, arguments: Arguments):
        self.arguments = arguments


@dataclass(frozen=True)
class Seam:
    """A loaded model, seen from its decoder."""

    model: Any  # of transformers, whose modules carry attributes that type checkers cannot see
    family: Family
    pad_id: int

    @property
    def decoder(self) -> Any:
        return self.family.decoder(self.model)

    @torch.no_grad()
    def encode(self, inputs: dict[str, Any]) -> Arguments:
        """Run the model up to its decoder; the arguments that the decoder would have been called with."""

        def stop(module: nn.Module, args: tuple, kwargs: dict) -> None:
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
        """What a forward pass leaves behind in the model, for a generation that may be under way, is put back."""
        core = self.model.model
        cached = getattr(core, "rope_deltas", None)
        try:
            yield
        finally:
            if hasattr(core, "rope_deltas"):
                core.rope_deltas = cached

    def pad(self, arguments: Arguments, positions: Sequence[Sequence[int]]) -> Arguments:
        """A batch with one row per position set, each with those positions replaced by the pad token.

        Positions stay where they are. What reaches them by other ways than the embedding (DeepStack)
        is erased too; otherwise a padded picture would still be seen.
        """
        return self.pad_rows(self.repeat(arguments, len(positions)), positions)

    def repeat(self, arguments: Arguments, copies: int) -> Arguments:
        """A batch of copies of one sequence. Rows of extras follow each other, as positions of the batch do."""
        rows = [extra.repeat(copies, 1) for extra in self.family.extras(arguments)]
        return self.family.with_extras(repeat_rows(arguments, copies), rows)

    def pad_rows(self, arguments: Arguments, positions: Sequence[Collection[int]]) -> Arguments:
        """The same for a batch that has one row per position set already."""
        masked = self.mark(arguments, positions)
        pad = self.model.get_input_embeddings()(torch.tensor(self.pad_id, device=masked.device)).detach()
        return self.replace(arguments, masked, pad, [torch.zeros(())] * len(self.family.extras(arguments)))

    def mark(self, arguments: Arguments, positions: Sequence[Collection[int]]) -> Tensor:
        """B,T: true at the positions of each row."""
        embeds = arguments["inputs_embeds"]
        masked = torch.zeros(embeds.shape[:2], dtype=torch.bool, device=embeds.device)
        for row, chosen in enumerate(positions):
            masked[row, list(chosen)] = True
        return masked

    def replace(self, arguments: Arguments, masked: Tensor, embeds: Tensor, extras: Sequence[Tensor]) -> Arguments:
        """Other embeddings, and other extras, at the masked positions (B,T) of a batch."""
        own = arguments["inputs_embeds"]
        mixed = {**arguments, "inputs_embeds": torch.where(masked[..., None], embeds.to(own.dtype), own)}
        if not (rows := self.family.extras(arguments)):
            return mixed
        chosen = self.family.extra_rows(arguments, masked)[:, None]
        return self.family.with_extras(
            mixed, [torch.where(chosen, b.to(a), a) for a, b in zip(rows, extras, strict=True)]
        )

    def leaves(self, arguments: Arguments) -> tuple[Arguments, list[Tensor]]:
        """The same arguments with embeddings and extras as leaves of a new graph: what gradients are taken of."""
        fresh = [t.detach().clone().requires_grad_() for t in self.inputs(arguments)]
        return self.family.with_extras({**arguments, "inputs_embeds": fresh[0]}, fresh[1:]), fresh

    def inputs(self, arguments: Arguments) -> list[Tensor]:
        """Embeddings B,T,d, and extras."""
        return [arguments["inputs_embeds"], *self.family.extras(arguments)]

    def predict(self, arguments: Arguments, positions: Sequence[int]) -> Tensor:
        """Logits that predict the tokens at these positions: B,n,vocabulary; float32; differentiable."""
        hidden = self.decoder(**arguments).last_hidden_state[:, _predictors(positions)]
        return self.model.get_output_embeddings()(hidden).float()

    @torch.no_grad()
    def log_probabilities(self, arguments: Arguments, ids: Tensor, start: int) -> Tensor:
        """log p of ids[start:] under each row of the batch, teacher-forced: B, T - start; float64.

        What the arguments hold may be the end of the sequences alone.
        """
        first = predictor(start) - len(ids)  # from the end
        hidden = self.decoder(**arguments).last_hidden_state[:, first:-1]
        chosen = ids[start:].to(hidden.device)
        return torch.stack([self._score(row, chosen) for row in hidden])

    def _score(self, hidden: Tensor, chosen: Tensor) -> Tensor:
        parts = [
            logits.gather(1, wanted[:, None])[:, 0].double() - logits.logsumexp(-1).double()
            for logits, wanted in self._logits(hidden, chosen)
        ]
        return torch.cat(parts)

    @torch.no_grad()
    def ranks(self, arguments: Arguments, ids: Tensor, positions: Sequence[int]) -> Tensor:
        """How many tokens each row of the batch prefers to the one at each position: B,n."""
        chosen = ids.to(arguments["inputs_embeds"].device)[list(positions)]
        return torch.stack(
            [
                torch.cat([(logits > logits.gather(1, w[:, None])).sum(-1) for logits, w in self._logits(row, chosen)])
                for row in self.decoder(**arguments).last_hidden_state[:, _predictors(positions)]
            ]
        )

    def _logits(self, hidden: Tensor, chosen: Tensor, chunk: int = 256) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits of a large vocabulary are wide: only on predictors, and a few hundred at a time."""
        head = self.model.get_output_embeddings()
        for rows, wanted in zip(hidden.split(chunk), chosen.split(chunk), strict=True):
            logits = head(rows).float()
            yield logits, wanted.to(logits.device)

    def log_probabilities_padded(
        self, arguments: Arguments, ids: Tensor, start: int, positions: Sequence[Sequence[int]]
    ) -> Tensor:
        """The same for each set of padded positions, batched to the size of the sequence."""
        together = max(1, BATCH_TOKENS // len(ids))
        parts = [positions[k : k + together] for k in range(0, len(positions), together)]
        return torch.cat([self.log_probabilities(self.pad(arguments, part), ids, start) for part in parts])

    @contextmanager
    def capture(self, consumer: Consumer) -> Iterator[None]:
        """While open, every attention layer of the decoder is handed to `consumer` as it is computed.

        Attention runs through SDPA, whatever kernel the model is configured with; no attention map is
        kept. The model's own setting is put back, also after an exception.
        """
        decoder = self.decoder
        config = decoder.config
        recorder = _Recorder(decoder, consumer, self.family.branch_norm)
        before = config._attn_implementation
        token = _ACTIVE.set(recorder)
        config._attn_implementation = _NAME
        handles = [p.register_forward_hook(recorder.project) for p in recorder.projections]
        handles += [norm.register_forward_hook(recorder.normalise) for norm in recorder.norms if norm is not None]
        handles += [layer.register_forward_pre_hook(recorder.enter, with_kwargs=True) for layer in decoder.layers]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            config._attn_implementation = before
            _ACTIVE.reset(token)
        if recorder.seen != len(recorder.projections):
            raise ModelError(
                f"captured {recorder.seen} of {len(recorder.projections)} layers: this model's attention does not go "
                "through transformers' AttentionInterface, so it cannot be explained"
            )


def _predictors(positions: Sequence[int]) -> list[int]:
    """The first token of a sequence is predicted by nothing, and stands for itself."""
    return [max(0, predictor(p)) for p in positions]


class _Recorder:
    """Pairs the attention call of a layer with what comes out of its projection, or of a norm behind that."""

    def __init__(self, decoder: Any, consumer: Consumer, branch_norm: str):
        self.projections = [layer.self_attn.o_proj for layer in decoder.layers]
        self.norms = [getattr(layer, branch_norm, None) for layer in decoder.layers]
        self.consumer = consumer
        self.seen = 0
        self._pending: tuple | None = None
        self._residual: Any = None

    def enter(self, layer: Any, args: tuple, kwargs: dict) -> None:
        self._residual = (args[0] if args else kwargs["hidden_states"])[0]

    def start(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, mask: Tensor | None) -> None:
        if len(query) != 1:
            raise ModelError("capture takes one sequence at a time")
        self._pending = (query[0], key[0], value[0], scaling, mask if mask is None else mask[0, 0])

    def project(self, projection: Any, args: tuple, output: Tensor) -> None:
        if self._pending is not None and self.norms[self.seen] is None:
            self._finish(output[0], _weight(projection, self.seen, output))

    def normalise(self, norm: Any, args: tuple, output: Tensor) -> None:
        """The norm is linear in each receiver's sum of writes: a weight per feature and a factor per receiver."""
        if self._pending is not None:
            weight, gain = linearised(norm, args[0][0])
            matrix = _weight(self.projections[self.seen], self.seen, output).float()
            self._finish(output[0], weight[:, None] * matrix, gain)

    def _finish(self, update: Tensor, projection: Tensor, gain: Tensor | None = None) -> None:
        assert self._pending is not None
        query, key, value, scaling, mask = self._pending
        self._pending = None
        if not torch.isfinite(update).all():
            raise ModelError(f"layer {self.seen} gave numbers that are not finite; try dtype float32 or bfloat16")
        layer = Layer(self.seen, query, key, value, update, projection, scaling, mask, self._residual, gain)
        self.consumer(layer)
        self.seen += 1


@torch.no_grad()
def linearised(norm: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Weight d and factor T of an RMS norm at x T,d, whatever form its weight is kept in; refused if it is no such."""
    epsilon = getattr(norm, "variance_epsilon", getattr(norm, "eps", 0.0))
    weight = norm.forward(torch.ones_like(x[:1])).float()[0] * (1 + epsilon) ** 0.5
    factor = torch.rsqrt(x.float().pow(2).mean(-1) + epsilon)
    if not torch.allclose(x.float() * factor[:, None] * weight, norm.forward(x).float(), rtol=2e-2, atol=1e-2):
        raise ModelError(f"{type(norm).__name__} between attention and residual is not an RMS norm; not supported")
    return weight, factor


@torch.no_grad()
def _weight(projection: Any, layer: int, like: Tensor) -> Tensor:
    """Weight of an output projection. Packed or offloaded ones are read by projecting the identity."""
    weight = projection.weight
    plain = isinstance(weight, Tensor) and weight.is_floating_point() and weight.ndim == 2
    if plain and not weight.is_meta:
        return weight.detach()
    try:
        units = torch.eye(projection.in_features, device=like.device, dtype=like.dtype)
        return (projection.forward(units) - projection.forward(torch.zeros_like(units[:1]))).T  # without the bias
    except Exception as error:
        kind = type(projection).__name__
        raise ModelError(
            f"layer {layer} has an output projection ({kind}) whose weights cannot be read; "
            "load the model without quantisation"
        ) from error


_NAME = "vtrace_capture"
_ACTIVE: ContextVar[_Recorder] = ContextVar("vtrace_recorder")


def _attention(module, query, key, value, attention_mask, scaling=None, **kwargs):
    """SDPA, with a look at what went in. Kernels whose weights are not a plain softmax are refused."""
    for feature, words in (("softcap", "logit soft-capping"), ("s_aux", "attention sinks")):
        if kwargs.get(feature) is not None:
            raise ModelError(f"this model uses {words}, which would make the attribution wrong; it is not supported")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    seen = attention_mask
    if seen is None and not kwargs.get("is_causal", getattr(module, "is_causal", True)):
        seen = torch.ones(1, 1, query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    _ACTIVE.get().start(query, key, value, scale, seen)
    return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)


AttentionInterface.register(_NAME, _attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)
