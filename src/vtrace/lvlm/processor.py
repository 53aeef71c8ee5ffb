"""Processors: the hub's own where it loads, image-only ones where torchvision is missing, and one for text alone.

Many processors insist on a video processor, which insists on torchvision. Pictures need neither, so without
torchvision the same class is built from its image processor and tokenizer alone. Image processors are taken from their
own modules: transformers 5.5 hides those of Idefics3 and SmolVLM without torchvision, although they do not use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import transformers
from transformers import (
    AutoProcessor,
    AutoTokenizer,
    BatchEncoding,
    InternVLProcessor,
    ProcessorMixin,
    Qwen3VLProcessor,
)
from transformers.utils import is_torchvision_available

WANT_TORCHVISION = {  # processor, and module and class of its image processor, by model type
    "qwen2_vl": ("Qwen2VLProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen2_5_vl": ("Qwen2_5_VLProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen3_vl": ("Qwen3VLProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen3_vl_moe": ("Qwen3VLProcessor", "qwen2_vl", "Qwen2VL"),
    "glm4v": ("Glm4vProcessor", "glm4v", "Glm4v"),
    "glm4v_moe": ("Glm4vProcessor", "glm4v", "Glm4v"),
    "internvl": ("InternVLProcessor", "got_ocr2", "GotOcr2"),
    "llava_onevision": ("LlavaOnevisionProcessor", "llava_onevision", "LlavaOnevision"),
    "idefics3": ("Idefics3Processor", "idefics3", "Idefics3"),
    "smolvlm": ("SmolVLMProcessor", "smolvlm", "SmolVLM"),
}


@cache
def image_only(whole: Any) -> Any:
    """The same processor class without a video processor among its parts."""
    parts = [part for part in whole.get_attributes() if part != "video_processor"]
    return type(f"ImageOnly{whole.__name__}", (whole,), {"get_attributes": classmethod(lambda cls: parts)})


ImageOnlyProcessor = image_only(Qwen3VLProcessor)
ImageOnlyInternVLProcessor = image_only(InternVLProcessor)


@dataclass(frozen=True)
class TextProcessor:
    """A tokenizer that is called like a processor."""

    tokenizer: Any

    def __call__(self, text: list[str], images: Any = None, **options: Any) -> BatchEncoding:
        return self.tokenizer(text, add_special_tokens=False, **options)  # the template has written them


def load_processor(name: str, kind: str, **where: Any) -> Any:
    """The processor of a checkpoint of this model type; `where` is a revision, say."""
    if is_torchvision_available() or kind not in WANT_TORCHVISION:
        return AutoProcessor.from_pretrained(name, **where)
    processor, module, images = WANT_TORCHVISION[kind]
    whole = getattr(transformers, processor)
    settings, _ = whole.get_processor_dict(name, **where)
    parts = [by_pillow(module, images).from_pretrained(name, **where), AutoTokenizer.from_pretrained(name, **where)]
    without = {"video_processor": None} if "video_processor" in whole.get_attributes() else {}
    return image_only(whole).from_args_and_dict(parts, settings | without)


def by_pillow(module: str, name: str) -> Any:
    """An image processor that needs no torchvision."""
    return getattr(
        import_module(f"transformers.models.{module}.image_processing_pil_{module}"), f"{name}ImageProcessorPil"
    )


def load_text_processor(name: str, kind: str, **where: Any) -> TextProcessor:
    return TextProcessor(AutoTokenizer.from_pretrained(name, **where))


def placeholder(processor: Any) -> str:
    """What stands for a picture in a rendered conversation; empty for text alone."""
    return getattr(processor, "boi_token", "") or getattr(processor, "image_token", "")


def render_chat(processor: Any, messages: list[dict[str, Any]]) -> str:
    """A conversation as text, by the model's own chat template, up to where the model answers."""
    if isinstance(processor, TextProcessor):
        return processor.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    # The plain method: some classes ask their video processor first.
    return ProcessorMixin.apply_chat_template(processor, messages, add_generation_prompt=True, tokenize=False)
