"""A fingerprint of a model's weights, so that a run is never resumed with different ones."""

from __future__ import annotations

import hashlib

from torch import nn
from torch.distributed.tensor import DTensor

SAMPLED = 8  # values of every parameter; training changes all of them


def revision_of(model: nn.Module) -> str:
    """A fingerprint of the weights as loaded: the same on every device and under every name."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)}".encode())
        if not parameter.is_meta:
            weight = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
            digest.update(weight.detach().flatten()[:SAMPLED].float().cpu().numpy().tobytes())
    return f"weights {digest.hexdigest()[:16]}"
