"""Processors: the hub's own where it loads, and image-only ones where torchvision is missing.

The processors of Qwen3-VL and InternVL insist on a video processor, which insists on torchvision. Pictures need
neither, so without torchvision the same class is built from its image processor and tokenizer alone.
"""

from __future__ import annotations

from typing import Any

from transformers import (
    AutoConfig,
    AutoProcessor,
    GotOcr2ImageProcessorPil,
    InternVLProcessor,
    Qwen2VLImageProcessorPil,
    Qwen3VLProcessor,
)
from transformers.utils import is_torchvision_available


class ImageOnlyProcessor(Qwen3VLProcessor):
    """A Qwen3-VL processor without a video processor; `get_attributes` reads this very signature."""

    def __init__(self, image_processor=None, tokenizer=None, chat_template=None, **kwargs):
        super().__init__(image_processor, tokenizer, None, chat_template=chat_template, **kwargs)


class ImageOnlyInternVLProcessor(InternVLProcessor):
    """The same for InternVL."""

    def __init__(self, image_processor=None, tokenizer=None, image_seq_length=256, chat_template=None, **kwargs):
        super().__init__(image_processor, tokenizer, None, image_seq_length, chat_template=chat_template, **kwargs)


IMAGE_ONLY: dict[str, tuple[Any, Any]] = {
    "qwen3_vl": (ImageOnlyProcessor, Qwen2VLImageProcessorPil),
    "internvl": (ImageOnlyInternVLProcessor, GotOcr2ImageProcessorPil),
}


def load_processor(name: str) -> Any:
    """The processor of a checkpoint; without torchvision, the image-only one where there is one."""
    kind = AutoConfig.from_pretrained(name).model_type
    if is_torchvision_available() or kind not in IMAGE_ONLY:
        return AutoProcessor.from_pretrained(name)
    processor, images = IMAGE_ONLY[kind]
    return processor.from_pretrained(name, image_processor=images.from_pretrained(name))
