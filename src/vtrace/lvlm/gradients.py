"""Gradients through the decoder with respect to embeddings, DeepStack rows, and the outputs of attention heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import ModelError, first_line
from ..system.wide_numbers import wide, wide_device
from .families.family import Arguments
from .seam import Seam


@dataclass(frozen=True)
class Gradient:
    """Derivatives of one scalar with respect to the inputs of the decoder and the outputs of its heads."""

    inputs: list[Tensor]  # 1,T,d for the embeddings, then extras
    by_input: list[Tensor]
    by_head: list[Tensor]  # per layer H,T,d_h: with respect to the attention output before its projection

    def times_input(self, image: Sequence[int]) -> Tensor:
        """Sum over features of input times gradient. Extras are added to the image positions they belong to."""
        products = [(x.detach().float() * g.float()).sum(-1) for x, g in zip(self.inputs, self.by_input, strict=True)]
        total = wide(products[0][0])
        for rows in products[1:]:
            total[list(image)] += wide(rows)
        return total


# PyTorch's messages for a layer that does not pass on gradients; any other error is a bug, not a property of the model.
_NO_GRADIENT = ("does not require grad", "is not implemented", "not have been used in the graph")


class Graph:
    """One differentiable pass over a frozen sequence; several gradients of its target logits can be taken from it."""

    def __init__(self, seam: Seam, arguments: Arguments, ids: Tensor, positions: Sequence[int], heads: bool = True):
        self._seam = seam
        self._heads: list[Tensor] = []
        with ExitStack() as stack, torch.enable_grad():
            stack.enter_context(frozen(seam.model))
            arguments, self.inputs = seam.leaves(arguments)
            if heads:
                for layer in seam.decoder.layers:
                    hook = layer.self_attn.o_proj.register_forward_pre_hook(lambda m, args: self._heads.append(args[0]))
                    stack.callback(hook.remove)
            logits = seam.predict(arguments, positions)[0]
            chosen = ids.to(logits.device)[list(positions)]
            device = wide_device(self.inputs[0].device)  # results are there, wherever a large model has its layers
            self.logits = logits.gather(1, chosen[:, None])[:, 0].to(device)  # n: of the target tokens
            self.log_probabilities = self.logits - logits.logsumexp(-1).to(device)

    def gradient(self, output: Tensor, keep: bool = False) -> Gradient:
        """Backward from a scalar made of `logits`."""
        try:
            with frozen(self._seam.model):  # checkpointed layers run again now
                grads = torch.autograd.grad(output, [*self.inputs, *self._heads], retain_graph=keep)
        except RuntimeError as error:
            if not any(words in str(error) for words in _NO_GRADIENT):
                raise
            raise ModelError(
                "this model cannot be differentiated: a layer, perhaps a quantised one, does not pass on gradients "
                f"({first_line(error)})"
            ) from error
        count = len(self.inputs)
        by_head = [_split_heads(self._seam, g[0].to(self.logits.device)) for g in grads[count:]]
        for layer, g in enumerate(by_head):
            if not torch.isfinite(g).all():
                raise ModelError(f"gradients are not finite at layer {layer}; try dtype float32 or bfloat16")
        return Gradient(self.inputs, list(grads[:count]), by_head)


def differentiate(seam: Seam, arguments: Arguments, ids: Tensor, positions: Sequence[int]) -> Gradient:
    """One backward pass from the sum of the logits of the tokens at `positions`."""
    graph = Graph(seam, arguments, ids, positions, heads=not seam.hybrid)
    return graph.gradient(graph.logits.sum())


def _split_heads(seam: Seam, rows: Tensor) -> Tensor:
    heads = seam.decoder.config.num_attention_heads
    return rows.view(len(rows), heads, -1).transpose(0, 1)


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """While open, parameters require no gradients, so nothing is stored for them."""
    wanted = [p for p in model.parameters() if p.requires_grad]
    for p in wanted:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in wanted:
            p.requires_grad_(True)


@contextmanager
def overridden(forwards: dict[nn.Module, Callable[..., Any]]) -> Iterator[None]:
    """While open, these instances have another `forward`. Their own is restored, also after errors."""
    before = {module: module.__dict__.get("forward") for module in forwards}
    try:
        for module, forward in forwards.items():
            module.forward = forward
        yield
    finally:
        for module, had in before.items():
            if had is None:
                module.__dict__.pop("forward", None)
            else:
                module.forward = had


@contextmanager
def checkpointed(layers: Sequence[nn.Module]) -> Iterator[None]:
    """While open, layers keep only their input and recompute the rest in the backward pass."""

    def again(forward: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: checkpoint(forward, *args, use_reentrant=False, **kwargs)

    with overridden({layer: again(layer.forward) for layer in layers}):
        yield
