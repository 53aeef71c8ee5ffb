"""GPUs for tests: which there are, and a model spread over two of them."""

from __future__ import annotations

import pytest
import torch

from vtrace.lvlm.model import Lvlm

NO_GPU = "needs a CUDA GPU, and PyTorch sees none here"
ONE_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)]
CARDS = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        torch.cuda.device_count() < 2, reason=f"needs two CUDA GPUs, and PyTorch sees {torch.cuda.device_count()} here"
    ),
]


def halves(first: str, second: str, depth: int = 8) -> dict[str, str]:
    """A device map of a Qwen3-VL, by default Pinhole: the first layers on one device, the others on a second one.

    Input and output embeddings can share their weights, so both are on the first device.
    """
    decoder = "model.language_model"
    places = dict.fromkeys(("model.visual", f"{decoder}.embed_tokens", f"{decoder}.rotary_emb", "lm_head"), first)
    places |= {f"{decoder}.layers.{k}": first if k < depth // 2 else second for k in range(depth)}
    return {**places, f"{decoder}.norm": second}


def places_of(lvlm: Lvlm) -> set[str]:
    """The kinds of devices that the parameters and buffers of a model are on."""
    tensors = [*lvlm.model.parameters(), *lvlm.model.buffers()]
    return {tensor.device.type for tensor in tensors}
