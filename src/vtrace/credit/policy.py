"""The model in training: out of its wrappers, checked before training starts, and left as it was by every pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..errors import ModelError
from ..lvlm.families.supported import family_of
from ..lvlm.mixer import mixer_of
from ..lvlm.model import Lvlm


@contextmanager
def undisturbed(model: Any) -> Iterator[None]:
    """Run in evaluation mode, without gradients and compiled graphs, with SDPA; everything is restored on exit.

    Masks of some models are made for one kernel before their decoder is called, so the kernel is set for all of it.
    """
    modes = [(module, module.training) for module in model.modules()]  # a frozen part may be in evaluation mode
    text = model.config.get_text_config()
    kernel = text._attn_implementation
    model.eval()
    text._attn_implementation = "sdpa"
    try:
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            yield
    finally:
        text._attn_implementation = kernel
        for module, training in modes:
            module.training = training


def policy_of(model: Any, processor: Any, name: str = "policy") -> Lvlm:
    """A trainer's model, out of its wrappers (PEFT, torch.compile), checked to be one whose layers can be read.

    Call it before training starts: it fails with a `ModelError` where credit would fail later.
    """
    bare = unwrapped(model)
    if not hasattr(bare, "config"):
        raise ModelError(f"{type(model).__name__} hides the model: it has no configuration; unwrap it first")
    lvlm = Lvlm(name, bare, processor, family_of(bare.config, name))
    try:
        _ = [mixer_of(layer) for layer in lvlm.seam.layers]
    except AttributeError as error:
        raise ModelError(f"the decoder of {type(bare).__name__} cannot be reached: {error}; unwrap it first") from error
    _read_once(lvlm)
    return lvlm


def unwrapped(model: Any) -> Any:
    """The model of `transformers` inside compiled, distributed and adapted ones. Adapters stay active inside it."""
    while True:
        if hasattr(model, "_orig_mod"):  # torch.compile
            model = model._orig_mod
        elif type(model).__name__ in ("DistributedDataParallel", "DataParallel"):
            model = model.module
        elif hasattr(model, "get_base_model"):  # PEFT
            model = model.get_base_model()
        else:
            return model


def _read_once(lvlm: Lvlm) -> None:
    """Instrument a pass over four tokens."""
    embed = lvlm.model.get_input_embeddings()
    with undisturbed(lvlm.model), lvlm.seam.undisturbed():
        embeds = embed(torch.full((1, 4), lvlm.seam.pad_id, device=lvlm.device))
        with lvlm.seam.capture(lambda layer: None):  # fails unless all layers are read
            lvlm.seam.decoder(inputs_embeds=embeds, use_cache=False)
