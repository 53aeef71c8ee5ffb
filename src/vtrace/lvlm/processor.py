"""Processors: the checkpoint's own, an image-only one where that has parts for video or audio, and one for text.

A video processor requires torchvision and a file of its own, which not every checkpoint has. Pictures need neither, so
the same class is built from its image processor and tokenizer only, whether torchvision is installed or not: pixels are
then the same everywhere. Image processors are imported from their own modules: without torchvision, transformers 5.5
hides those of Idefics3 and SmolVLM, although they do not use it.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from typing import Any, NamedTuple

import torch
import transformers
from PIL import Image
from transformers import (
    AutoProcessor,
    AutoTokenizer,
    BaseImageProcessor,
    BatchEncoding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    ProcessorMixin,
)

from ..errors import ModelError


class _Parts(NamedTuple):
    """Names of the classes that a processor is made of."""

    processor: str
    image_module: str
    image_class: str


_WITH_VIDEO = {  # or with audio, by model type
    "qwen2_vl": _Parts("Qwen2VLProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen2_5_vl": _Parts("Qwen2_5_VLProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen3_vl": _Parts("Qwen3VLProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen3_vl_moe": _Parts("Qwen3VLProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen3_5": _Parts("Qwen3VLProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen3_5_moe": _Parts("Qwen3VLProcessor", "qwen2_vl", "Qwen2VL"),
    "glm4v": _Parts("Glm4vProcessor", "glm4v", "Glm4v"),
    "glm4v_moe": _Parts("Glm4vProcessor", "glm4v", "Glm4v"),
    "glm46v": _Parts("Glm46VProcessor", "glm46v", "Glm46V"),
    "glm_ocr": _Parts("Glm46VProcessor", "glm46v", "Glm46V"),
    "glmga": _Parts("Glm46VProcessor", "glmga", "Glmga"),
    "cosmos3_omni": _Parts("Qwen3VLProcessor", "qwen2_vl", "Qwen2VL"),
    "hyperclovax_vision_v2": _Parts("HyperCLOVAXVisionV2Processor", "qwen2_vl", "Qwen2VL"),
    "qianfan_ocr": _Parts("QianfanOCRProcessor", "got_ocr2", "GotOcr2"),
    "llava_next_video": _Parts("LlavaNextVideoProcessor", "llava_next", "LlavaNext"),
    "qwen2_5_omni_thinker": _Parts("Qwen2_5OmniProcessor", "qwen2_vl", "Qwen2VL"),
    "qwen3_omni_moe_thinker": _Parts("Qwen3OmniMoeProcessor", "qwen2_vl", "Qwen2VL"),
    "exaone4_5": _Parts("Exaone4_5_Processor", "qwen2_vl", "Qwen2VL"),
    "video_llama_3": _Parts("VideoLlama3Processor", "video_llama_3", "VideoLlama3"),
    "gemma4": _Parts("Gemma4Processor", "gemma4", "Gemma4"),
    "minicpmv4_6": _Parts("MiniCPMV4_6Processor", "minicpmv4_6", "MiniCPMV4_6"),
    "minicpmv4_7": _Parts("MiniCPMV4_7Processor", "minicpmv4_6", "MiniCPMV4_6"),
    "ernie4_5_vl_moe": _Parts("Ernie4_5_VLMoeProcessor", "ernie4_5_vl_moe", "Ernie4_5_VLMoe"),
    "internvl": _Parts("InternVLProcessor", "got_ocr2", "GotOcr2"),
    "llava_onevision": _Parts("LlavaOnevisionProcessor", "llava_onevision", "LlavaOnevision"),
    "idefics3": _Parts("Idefics3Processor", "idefics3", "Idefics3"),
    "smolvlm": _Parts("SmolVLMProcessor", "smolvlm", "SmolVLM"),
}


_KEPT = ("image_processor", "tokenizer")


@cache
def image_only(whole: type[ProcessorMixin]) -> type[ProcessorMixin]:
    """The same processor class without its parts for video and audio, which can be anything."""
    every = whole.get_attributes()
    building: ContextVar[bool] = ContextVar("building", default=False)

    def build(self: Any, *args: Any, **kwargs: Any) -> None:
        token = building.set(True)  # the class passes its parts on by position, and so counts all of them
        try:
            whole.__init__(self, *args, **kwargs)
        finally:
            building.reset(token)

    def check(self: Any, name: str, part: Any) -> Any:
        return whole.check_argument_for_proper_class(self, name, part) if name in _KEPT else type(part)

    methods = {
        "__init__": wraps(whole.__init__)(build),
        "check_argument_for_proper_class": check,
        "get_attributes": classmethod(lambda cls: every if building.get() else [n for n in every if n in _KEPT]),
    }
    return type(f"ImageOnly{whole.__name__}", (whole,), methods)


@dataclass(frozen=True)
class TextProcessor:
    """A tokenizer with the interface of a processor."""

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, text: list[str], images: None = None, **options: Any) -> BatchEncoding:
        return self.tokenizer(text, add_special_tokens=False, **options)  # the template has added them


def load_processor(name: str, kind: str, **where: Any) -> ProcessorMixin:
    """The processor of a checkpoint of this model type. `where` can be a revision."""
    if kind not in _WITH_VIDEO:
        return AutoProcessor.from_pretrained(name, **where)
    names = _WITH_VIDEO[kind]
    whole = getattr(transformers, names.processor)
    settings, _ = whole.get_processor_dict(name, **where)
    images = pillow_image_processor(names.image_module, names.image_class)
    parts: dict[str, Any] = dict.fromkeys(whole.get_attributes())
    parts["image_processor"] = images.from_pretrained(name, **where)
    if "video_processor" in parts:  # some classes read its patch sizes, also without a video
        parts["video_processor"] = parts["image_processor"]
    parts["tokenizer"] = AutoTokenizer.from_pretrained(name, **where)
    accepted = inspect.signature(whole.__init__).parameters
    return image_only(whole)(**{key: value for key, value in settings.items() if key in accepted} | parts)


def pillow_image_processor(module: str, name: str) -> type[BaseImageProcessor]:
    """The class of an image processor that does not need torchvision."""
    return getattr(
        import_module(f"transformers.models.{module}.image_processing_pil_{module}"), f"{name}ImageProcessorPil"
    )


def load_text_processor(name: str, kind: str, **where: Any) -> TextProcessor:
    return TextProcessor(AutoTokenizer.from_pretrained(name, **where))


def placeholder(processor: ProcessorMixin | TextProcessor) -> str:
    """The placeholder of a picture in a rendered conversation; empty for text models."""
    replaced = "boi_token" if hasattr(processor, "full_image_sequence") else "image_token"  # the former in Gemma 3
    return getattr(processor, "image_placeholder_token", getattr(processor, replaced, ""))  # the former in Qianfan-OCR


def processed(processor: Any, text: str, images: Sequence[Image.Image], model: PreTrainedModel) -> dict[str, Any]:
    """Processor output for a rendered conversation and its pictures, on the device of a model."""
    batch = [list(images)] if images else None  # the pictures of the one text
    try:
        inputs = dict(processor(text=[text], images=batch, return_tensors="pt").to(model.device))
    except ValueError as error:  # Perception LM takes only pictures with equally many tiles
        if "Unable to convert output" not in str(error):
            raise
        raise ModelError(
            "the processor of this model does not take these pictures together; give one, or several of the same size"
        ) from error
    inputs.pop("labels", None)  # for training
    pixels = inputs.get("pixel_values")
    if isinstance(pixels, torch.Tensor) and pixels.dtype == torch.bfloat16:  # Llama 4 rounds pixels, and casts nothing
        inputs["pixel_values"] = pixels.to(model.dtype)
    return inputs


def render_chat(processor: ProcessorMixin | TextProcessor, messages: list[dict[str, Any]]) -> str:
    """A conversation as text, rendered by the model's own chat template, up to where the model answers."""
    if isinstance(processor, TextProcessor):
        return processor.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    # The base method: some classes call their video processor first.
    return ProcessorMixin.apply_chat_template(processor, messages, add_generation_prompt=True, tokenize=False)
