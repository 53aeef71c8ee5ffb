"""A loaded model: weights, processor, and family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..types import model_label
from .families.family import Family
from .revision import revision_of
from .seam import Seam


@dataclass(frozen=True)
class Lvlm:
    """A model, its processor, and what is known about its family."""

    name: str
    model: Any  # of transformers, whose modules carry attributes that type checkers cannot see
    processor: Any  # of transformers, or a TextProcessor
    family: Family

    @property
    def seam(self) -> Seam:
        tokenizer = self.processor.tokenizer
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        return Seam(self.model, self.family, pad)

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def dtype(self) -> str:
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def probed(self) -> bool:
        """Whether the places of image tokens are found by probing."""
        return self.family.probed

    @property
    def label(self) -> str:
        """Its name, and whether it was probed."""
        return model_label(self.name, self.probed)

    @property
    def context(self) -> int:
        """The longest sequence that the decoder supports."""
        return self.model.config.get_text_config().max_position_embeddings

    @property
    def image_token_id(self) -> int | None:
        """None for a text-only model."""
        return getattr(self.model.config, "image_token_id", None)

    @property
    def revision(self) -> str:
        """A fingerprint of the weights, which distinguishes models of the same name."""
        return revision_of(self.model)
