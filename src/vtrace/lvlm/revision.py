"""Which weights a model has, so that a run is never continued with others."""

from __future__ import annotations

import hashlib
from typing import Any

SAMPLED = 8  # numbers of every parameter; training changes all of them


def revision_of(model: Any) -> str:
    """A fingerprint of the weights as they are loaded: the same on every device, whatever the model is called."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)}".encode())
        if not parameter.is_meta:
            digest.update(parameter.detach().flatten()[:SAMPLED].float().cpu().numpy().tobytes())
    return f"weights {digest.hexdigest()[:16]}"
