"""Muon in float32, with equally shaped matrices orthogonalised together.

torch.optim.Muon iterates in bfloat16, which CPUs without native bfloat16 emulate about fifty times slower; batching
the small matrices makes the float32 iteration cheap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised by five Newton-Schulz steps, scaled to the root mean square of an Adam update."""

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is None:
                    continue
                average = self.state[p].setdefault("momentum", torch.zeros_like(p))
                average.lerp_(p.grad, 1 - group["momentum"])
                alike[p.shape].append((p, p.grad.lerp(average, group["momentum"])))
            for shape, pairs in alike.items():
                updates = orthogonalise(torch.stack([update for _, update in pairs]))
                scale = 0.2 * max(shape) ** 0.5
                for (p, _), update in zip(pairs, updates, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=group["lr"] * scale)


def orthogonalise(x: Tensor) -> Tensor:
    """Approximately the nearest (semi-)orthogonal matrix for each matrix of a stack: stack, rows, columns."""
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.mT if tall else x
