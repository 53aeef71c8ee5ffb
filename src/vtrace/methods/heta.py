"""HETA (Pramanik et al., 2026): a gate by attention flow, times curvature and information of each input.

Published for text. Here inputs are image and question positions, the objective is the target's mean
log-probability, and the gate is normalised over what is scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..attribution.attention import attention_rows
from ..lvlm.gradients import frozen
from ..system.batches import in_batches
from ..system.wide_numbers import wide
from ..types import Target
from .ifr import writes_of
from .option_types import Count
from .outcome import Outcome, one_hot
from .session import TraceSession

Mask = Literal["zero", "mean", "pad"]


def heta(
    session: TraceSession,
    target: Target,
    *,
    probes: Count = 10,
    curvature: Literal["exact", "finite"] = "exact",
    mask: Mask = "zero",
    beta: float = 0.5,
    gamma: float = 0.5,
    step: float = 1e-2,
    seed: int = 0,
) -> Outcome:
    """`curvature` "exact" takes block Hessian products by double backward; "finite" takes differences of gradients
    at `step` times the embeddings' size, which needs less memory and works with any kernel. `mask` is "zero",
    "mean" or "pad".
    """
    gate = semantic_gate(session, session.receivers(target), session.inputs)
    bends = block_curvature(session, target, session.inputs, probes, curvature == "exact", step, seed)
    informs = information(session, target, session.inputs, mask)
    scores = gate * (beta * bends + gamma * informs)
    parts = {"gate": gate, "curvature": bends, "information": informs}
    return Outcome(scores, {name: part[session.inputs].tolist() for name, part in parts.items()})


def semantic_gate(session: TraceSession, receivers: Tensor, scored: list[int]) -> Tensor:
    """Per head, attention rolled out to every layer, weighted by the size of what is written there; sums to one.

    One vector per layer and head is multiplied from the top layer down; each starts at its own layer.
    """
    heads, length = len(session.layers()[0].query), len(session.trace)
    start = one_hot(length, receivers, session.device).float().expand(heads, 1, -1)
    rows, sizes = torch.zeros(heads, 0, length, device=session.device), []
    for layer in reversed(session.layers()):
        rows = torch.cat([rows, start], dim=1)
        moved = torch.zeros_like(rows)
        for block, weights in attention_rows(layer):
            moved[..., : weights.shape[-1]] += rows[..., block] @ weights
        rows = (rows + moved) / 2
        every = slice(0, length)
        sizes.append(torch.stack([writes_of(layer, head, every).abs().sum(-1) for head in range(heads)]))
    total = (rows.double() * torch.stack(sizes, dim=1)).sum((0, 1))
    gate = torch.zeros_like(total)
    gate[scored] = total[scored] / total[scored].sum().clamp_min(1e-300)
    return gate


def block_curvature(
    session: TraceSession, target: Target, scored: list[int], probes: int, exact: bool, step: float, seed: int
) -> Tensor:
    """Mean over random signs r of |H_ii r|₁, where H_ii is the input's own block of the Hessian: T."""
    embeds = session.arguments["inputs_embeds"]
    rng = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (len(scored), probes, embeds.shape[-1]), generator=rng).to(embeds) * 2 - 1
    jobs = [(i, r) for i in range(len(scored)) for r in range(probes)]
    out, done = torch.zeros(len(session.trace), dtype=torch.float64, device=session.device), 0

    def measure(part: Sequence[tuple[int, int]]) -> int:
        where = torch.tensor([scored[i] for i, _ in part], device=embeds.device)
        direction = torch.stack([signs[i, r] for i, r in part])
        product = (
            _exact(session, target, where, direction) if exact else _finite(session, target, where, direction, step)
        )
        out.index_add_(0, where.to(out.device), wide(product.abs().sum(-1)) / probes)
        return len(part)

    together = session.seam.batch_size(len(session.trace), len(target.positions), graph=True)
    for count in in_batches(measure, jobs, together):
        done += count
        session.progress(done, len(jobs))
    return out


def _exact(session: TraceSession, target: Target, where: Tensor, direction: Tensor) -> Tensor:
    """H_ii r for one input per row: b,d. Uses plain attention: fused kernels have no second derivative."""
    rows = torch.arange(len(where), device=where.device)
    with sdpa_kernel(SDPBackend.MATH), frozen(session.seam.model), torch.enable_grad():
        leaf = session.arguments["inputs_embeds"].detach().repeat(len(where), 1, 1).requires_grad_()
        (first,) = torch.autograd.grad(_objective(session, target, leaf), leaf, create_graph=True)
        (second,) = torch.autograd.grad((first[rows, where] * direction).sum(), leaf)
    return second[rows, where].float()


def _finite(session: TraceSession, target: Target, where: Tensor, direction: Tensor, step: float) -> Tensor:
    """The same by central differences of the gradient."""
    embeds = session.arguments["inputs_embeds"].detach()
    rows = torch.arange(len(where), device=where.device)
    size = step * embeds[0, where].float().pow(2).mean(-1, keepdim=True).sqrt().clamp_min(1e-6)
    sides = []
    for side in (1, -1):
        with frozen(session.seam.model), torch.enable_grad():
            leaf = embeds.repeat(len(where), 1, 1)
            leaf[rows, where] += (side * size * direction).to(leaf.dtype)
            leaf.requires_grad_()
            (slope,) = torch.autograd.grad(_objective(session, target, leaf), leaf)
        sides.append(slope[rows, where].float())
    return (sides[0] - sides[1]) / (2 * size)


def _objective(session: TraceSession, target: Target, embeds: Tensor) -> Tensor:
    """Mean log p of the target, summed over the rows of a batch."""
    arguments = {**session.seam.repeat(session.arguments, len(embeds)), "inputs_embeds": embeds}
    logs = session.seam.predict(arguments, target.positions).log_softmax(-1)
    wanted = session.ids.to(logs.device)[list(target.positions)][None, :, None].expand(len(embeds), -1, 1)
    return logs.gather(2, wanted).mean((1, 2)).sum()


@torch.no_grad()
def information(session: TraceSession, target: Target, scored: list[int], mask: Mask = "zero") -> Tensor:
    """Mean over the target's tokens of KL(clean ‖ input masked): T. DeepStack rows of a masked patch are erased."""
    seam = session.seam
    embeds = session.arguments["inputs_embeds"]
    fills = {"zero": lambda: torch.zeros_like(embeds[0, 0]), "mean": lambda: embeds[0].mean(0), "pad": lambda: None}
    fill = fills[mask]()
    clean = wide(seam.predict(session.arguments, target.positions)[0]).softmax(-1).clamp_min(1e-10)
    out = torch.zeros(len(session.trace), dtype=torch.float64, device=session.device)

    def measure(part: Sequence[int]) -> None:
        arguments = seam.pad(session.arguments, [[p] for p in part])
        if fill is not None:
            arguments = {**arguments, "inputs_embeds": arguments["inputs_embeds"].clone()}
            for row, position in enumerate(part):
                arguments["inputs_embeds"][row, position] = fill
        for position, logits in zip(part, seam.predict(arguments, target.positions), strict=True):
            other = wide(logits).softmax(-1).clamp_min(1e-10)  # divergences are small: float32 would be noise
            out[position] = (clean * (clean / other).log()).sum(-1).mean().clamp_min(0)

    for _ in in_batches(measure, scored, seam.batch_size(len(session.trace), len(target.positions))):
        pass
    return out
