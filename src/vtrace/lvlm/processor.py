"""Processors: the hub's own where it loads, and an image-only fallback where torchvision is missing.

A Qwen3-VL processor insists on a video processor, which insists on torchvision. Pictures need
neither, so without torchvision the same class is built from its image processor and tokenizer alone.
"""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig, AutoProcessor, Qwen2VLImageProcessorPil, Qwen3VLProcessor
from transformers.utils import is_torchvision_available


class ImageOnlyProcessor(Qwen3VLProcessor):
    """A Qwen3-VL processor without a video processor; `get_attributes` reads this very signature."""

    def __init__(self, image_processor=None, tokenizer=None, chat_template=None, **kwargs):
        super().__init__(image_processor, tokenizer, None, chat_template=chat_template, **kwargs)


def load_processor(name: str) -> Any:
    """The processor of a checkpoint; without torchvision, the image-only one for Qwen3-VL."""
    if is_torchvision_available() or not AutoConfig.from_pretrained(name).model_type.startswith("qwen3_vl"):
        return AutoProcessor.from_pretrained(name)
    images = Qwen2VLImageProcessorPil.from_pretrained(name)
    return ImageOnlyProcessor.from_pretrained(name, image_processor=images)
