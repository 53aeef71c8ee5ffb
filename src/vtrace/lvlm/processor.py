"""Processors: the checkpoint's own if it loads, an image-only one if torchvision is missing, and one for text.

Many processors require a video processor, which requires torchvision. Pictures need neither, so without torchvision the
same class is built from its image processor and tokenizer only. Image processors are imported from their own modules:
without torchvision, transformers 5.5 hides those of Idefics3 and SmolVLM, although they do not use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import transformers
from transformers import (
    AutoProcessor,
    AutoTokenizer,
    BaseImageProcessor,
    BatchEncoding,
    PreTrainedTokenizerBase,
    ProcessorMixin,
)
from transformers.utils import is_torchvision_available


class _Parts(NamedTuple):
    """Names of the classes that a processor is made of."""

    processor: str
    image_module: str
    image_class: str


_NEEDING_TORCHVISION = {  # by model type
    "qwen2_vl": _Parts("Qwen2VLProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen2_5_vl": _Parts("Qwen2_5_VLProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen3_vl": _Parts("Qwen3VLProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen3_vl_moe": _Parts("Qwen3VLProcessor", "qwen2_vl", "Qwen2VL"),
    "glm4v": _Parts("Glm4vProcessor", "glm4v", "Glm4v"),
    "glm4v_moe": _Parts("Glm4vProcessor", "glm4v", "Glm4v"),
    "internvl": _Parts("InternVLProcessor", "got_ocr2", "GotOcr2"),
    "llava_onevision": _Parts("LlavaOnevisionProcessor", "llava_onevision", "LlavaOnevision"),
    "idefics3": _Parts("Idefics3Processor", "idefics3", "Idefics3"),
    "smolvlm": _Parts("SmolVLMProcessor", "smolvlm", "SmolVLM"),
}


@cache
def image_only(whole: type[ProcessorMixin]) -> type[ProcessorMixin]:
    """The same processor class without its video processor."""
    parts = [part for part in whole.get_attributes() if part != "video_processor"]
    return type(f"ImageOnly{whole.__name__}", (whole,), {"get_attributes": classmethod(lambda cls: parts)})


@dataclass(frozen=True)
class TextProcessor:
    """A tokenizer with the interface of a processor."""

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, text: list[str], images: None = None, **options: Any) -> BatchEncoding:
        return self.tokenizer(text, add_special_tokens=False, **options)  # the template has added them


def load_processor(name: str, kind: str, **where: Any) -> ProcessorMixin:
    """The processor of a checkpoint of this model type. `where` can be a revision."""
    if is_torchvision_available() or kind not in _NEEDING_TORCHVISION:
        return AutoProcessor.from_pretrained(name, **where)
    names = _NEEDING_TORCHVISION[kind]
    whole = getattr(transformers, names.processor)
    settings, _ = whole.get_processor_dict(name, **where)
    images = pillow_image_processor(names.image_module, names.image_class)
    parts = [images.from_pretrained(name, **where), AutoTokenizer.from_pretrained(name, **where)]
    without = {"video_processor": None} if "video_processor" in whole.get_attributes() else {}
    return image_only(whole).from_args_and_dict(parts, settings | without)


def pillow_image_processor(module: str, name: str) -> type[BaseImageProcessor]:
    """The class of an image processor that does not need torchvision."""
    return getattr(
        import_module(f"transformers.models.{module}.image_processing_pil_{module}"), f"{name}ImageProcessorPil"
    )


def load_text_processor(name: str, kind: str, **where: Any) -> TextProcessor:
    return TextProcessor(AutoTokenizer.from_pretrained(name, **where))


def placeholder(processor: ProcessorMixin | TextProcessor) -> str:
    """The placeholder of a picture in a rendered conversation; empty for text models."""
    return getattr(processor, "boi_token", "") or getattr(processor, "image_token", "")


def render_chat(processor: ProcessorMixin | TextProcessor, messages: list[dict[str, Any]]) -> str:
    """A conversation as text, rendered by the model's own chat template, up to where the model answers."""
    if isinstance(processor, TextProcessor):
        return processor.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    # The base method: some classes call their video processor first.
    return ProcessorMixin.apply_chat_template(processor, messages, add_generation_prompt=True, tokenize=False)
