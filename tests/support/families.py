"""Small random checkpoints of every supported family: the real classes with the real processors, saved to disk."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from unittest import mock

import torch
import transformers
from transformers import Qwen2Tokenizer
from transformers.utils import is_torchvision_available

from vtrace.lvlm.checkpoint import EMBEDDED
from vtrace.lvlm.processor import image_only, pillow_image_processor
from vtrace.pinhole.build import CHAT_TEMPLATE

IMAGE = dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)


def tokenizer(*special: str, **roles: str) -> Qwen2Tokenizer:
    """The embedded model's words, with the special tokens of another family."""
    model = json.loads((EMBEDDED["pinhole"] / "tokenizer.json").read_text())["model"]
    vocab = {token: index for token, index in model["vocab"].items() if not token.startswith("<|")}
    vocab = {token: index for index, token in enumerate(vocab)}
    named = dict.fromkeys(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *special, *roles.values()])
    vocab |= {token: len(vocab) + k for k, token in enumerate(named)}
    extra = roles or [*named][1:]
    return Qwen2Tokenizer(
        vocab=vocab,
        merges=[tuple(m) for m in model["merges"]],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=extra,
        model_max_length=4096,
    )


def text_config(words: Qwen2Tokenizer, **more) -> dict:
    """Heads that do not fill the width, and share keys."""
    return (
        dict(
            vocab_size=len(words),
            hidden_size=48,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            max_position_embeddings=2048,
            initializer_range=0.2,
            tie_word_embeddings=False,
            pad_token_id=words.pad_token_id,
            bos_token_id=None,
            eos_token_id=words.eos_token_id,
        )
        | more
    )


def vision_config(**more) -> dict:
    """A CLIP-like tower of two layers."""
    return (
        dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, initializer_range=0.2)
        | more
    )


def mrope(**more) -> dict:
    return dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[4, 2, 2], **more))


MOE = dict(moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2, decoder_sparse_step=1)


def template(placeholder: str) -> str:
    return CHAT_TEMPLATE.replace("PICTURE", placeholder)


def ids(words: Qwen2Tokenizer, **names: str) -> dict:
    return {name: words.convert_tokens_to_ids(token) for name, token in names.items()}


def qwen(kind: str, vision: dict, text: dict, processor: str):
    marks = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
    words = tokenizer(*marks)
    patch = vision.pop("pixels")
    images = transformers.Qwen2VLImageProcessorPil(
        patch_size=patch,
        merge_size=2,
        temporal_patch_size=2,
        **IMAGE,
        size={"shortest_edge": 6 * (2 * patch) ** 2, "longest_edge": 12 * (2 * patch) ** 2},
    )
    config = getattr(transformers, f"{kind}Config")(
        text_config=text_config(words, **text),
        vision_config=vision,
        tie_word_embeddings=False,
        **ids(
            words,
            image_token_id=marks[3],
            video_token_id=marks[4],
            vision_start_token_id=marks[0],
            vision_end_token_id=marks[1],
        ),
    )
    whole = image_only(getattr(transformers, processor))
    shown = template("<|vision_start|><|image_pad|><|vision_end|>")
    return f"{kind}ForConditionalGeneration", config, whole(images, words, chat_template=shown)


QWEN3_VISION = dict(
    pixels=16,
    depth=2,
    hidden_size=32,
    num_heads=2,
    intermediate_size=48,
    patch_size=16,
    spatial_merge_size=2,
    temporal_patch_size=2,
    out_hidden_size=48,
    num_position_embeddings=64,
    deepstack_visual_indexes=[0],
    initializer_range=0.2,
)


def qwen3_vl():
    return qwen(
        "Qwen3VL", {**QWEN3_VISION}, mrope(mrope_interleaved=True) | dict(attention_bias=True), "Qwen3VLProcessor"
    )


def qwen3_vl_moe():
    return qwen("Qwen3VLMoe", {**QWEN3_VISION}, mrope(mrope_interleaved=True) | MOE, "Qwen3VLProcessor")


def qwen2_vl():
    vision = dict(
        pixels=14,
        depth=2,
        embed_dim=32,
        num_heads=2,
        mlp_ratio=2,
        patch_size=14,
        spatial_merge_size=2,
        temporal_patch_size=2,
        hidden_size=48,
        initializer_range=0.2,
    )
    return qwen(
        "Qwen2VL",
        vision,
        mrope() | dict(hidden_size=48, num_attention_heads=3, num_key_value_heads=1),
        "Qwen2VLProcessor",
    )


def qwen2_5_vl():
    vision = dict(
        pixels=14,
        depth=2,
        hidden_size=32,
        num_heads=2,
        intermediate_size=48,
        patch_size=14,
        spatial_merge_size=2,
        temporal_patch_size=2,
        out_hidden_size=48,
        window_size=56,
        fullatt_block_indexes=[1],
        initializer_range=0.2,
    )
    text = mrope() | dict(num_attention_heads=3, num_key_value_heads=1)
    return qwen("Qwen2_5_VL", vision, text, "Qwen2_5_VLProcessor")


def glm(kind: str, text: dict):
    words = tokenizer(
        "<|begin_of_video|>", "<|end_of_video|>", "<|begin_of_image|>", "<|end_of_image|>", "<|image|>", "<|video|>"
    )
    images = transformers.Glm4vImageProcessorPil(
        patch_size=14,
        merge_size=2,
        temporal_patch_size=2,
        **IMAGE,
        size={"shortest_edge": 6 * 28 * 28, "longest_edge": 24 * 28 * 28},
    )
    config = getattr(transformers, f"{kind}Config")(
        text_config=text_config(
            words,
            **text,
            rope_parameters=dict(
                rope_type="default", rope_theta=1e4, mrope_section=[2, 1, 1], partial_rotary_factor=0.5
            ),
        ),
        vision_config=dict(
            depth=2,
            hidden_size=32,
            num_heads=2,
            intermediate_size=48,
            patch_size=14,
            spatial_merge_size=2,
            temporal_patch_size=2,
            out_hidden_size=48,
            image_size=56,
            initializer_range=0.2,
        ),
        tie_word_embeddings=False,
        **ids(
            words,
            image_token_id="<|image|>",
            video_token_id="<|video|>",
            image_start_token_id="<|begin_of_image|>",
            image_end_token_id="<|end_of_image|>",
            video_start_token_id="<|begin_of_video|>",
            video_end_token_id="<|end_of_video|>",
        ),
    )
    shown = template("<|begin_of_image|><|image|><|end_of_image|>")
    whole = image_only(transformers.Glm4vProcessor)
    return f"{kind}ForConditionalGeneration", config, whole(images, words, chat_template=shown)


def glm4v():
    return glm("Glm4v", {})


def glm4v_moe():
    return glm(
        "Glm4vMoe",
        dict(
            moe_intermediate_size=32,
            n_routed_experts=4,
            num_experts_per_tok=2,
            n_shared_experts=1,
            n_group=1,
            topk_group=1,
            first_k_dense_replace=1,
        ),
    )


def internvl():
    roles = dict(
        start_image_token="<img>", end_image_token="</img>", context_image_token="<IMG_CONTEXT>", video_token="<video>"
    )
    words = tokenizer(**roles)
    images = transformers.GotOcr2ImageProcessorPil(
        size={"height": 32, "width": 32}, crop_to_patches=True, min_patches=1, max_patches=4, **IMAGE
    )
    config = transformers.InternVLConfig(
        text_config=dict(model_type="qwen3", **text_config(words)),
        vision_config=vision_config(image_size=[32, 32], patch_size=[8, 8], attention_bias=True),
        image_token_id=words.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    whole = image_only(transformers.InternVLProcessor)
    processor = whole(images, words, image_seq_length=4, chat_template=template("<IMG_CONTEXT>"))
    return "InternVLForConditionalGeneration", config, processor


def llava():
    words = tokenizer("<image>")
    images = transformers.LlavaImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, **IMAGE
    )
    config = transformers.LlavaConfig(
        text_config=dict(model_type="llama", **text_config(words)),
        vision_config=dict(model_type="clip_vision_model", image_size=32, patch_size=8, **vision_config()),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-2,
    )
    processor = transformers.LlavaProcessor(
        images,
        words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template("<image>\\n"),
    )
    return "LlavaForConditionalGeneration", config, processor


PINPOINTS = [[32, 64], [64, 32], [64, 64], [96, 32], [32, 96]]


def llava_next():
    words = tokenizer("<image>")
    images = transformers.LlavaNextImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, image_grid_pinpoints=PINPOINTS, **IMAGE
    )
    config = transformers.LlavaNextConfig(
        text_config=dict(model_type="mistral", **text_config(words, sliding_window=24)),
        vision_config=dict(model_type="clip_vision_model", image_size=32, patch_size=8, **vision_config()),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=PINPOINTS,
        vision_feature_layer=-2,
        tie_word_embeddings=False,
    )
    processor = transformers.LlavaNextProcessor(
        images,
        words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template("<image>\\n"),
    )
    return "LlavaNextForConditionalGeneration", config, processor


def llava_onevision():
    words = tokenizer("<image>", "<video>")
    images = transformers.LlavaOnevisionImageProcessorPil(
        size={"height": 32, "width": 32}, image_grid_pinpoints=PINPOINTS, **IMAGE
    )
    config = transformers.LlavaOnevisionConfig(
        text_config=dict(model_type="qwen2", **text_config(words, num_attention_heads=3, num_key_value_heads=1)),
        vision_config=dict(model_type="siglip_vision_model", image_size=32, patch_size=8, **vision_config()),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        video_token_index=words.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=PINPOINTS,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        tie_word_embeddings=False,
    )
    whole = image_only(transformers.LlavaOnevisionProcessor)
    processor = whole(
        images,
        words,
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        chat_template=template("<image>\\n"),
    )
    return "LlavaOnevisionForConditionalGeneration", config, processor


def idefics(kind: str):
    rows = [f"<row_{r}_col_{c}>" for r in range(1, 7) for c in range(1, 7)]
    words = tokenizer("<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", "<video>", *rows)
    images = pillow_image_processor(kind.lower(), kind)(
        size={"longest_edge": 64}, max_image_size={"longest_edge": 32}, **IMAGE
    )
    config = getattr(transformers, f"{kind}Config")(
        text_config=dict(model_type="llama", **text_config(words)),
        vision_config=vision_config(image_size=32, patch_size=8),
        image_token_id=words.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        tie_word_embeddings=False,
        pad_token_id=words.pad_token_id,
    )
    whole = getattr(transformers, f"{kind}Processor")
    processor = image_only(whole)(
        images,
        words,
        **({"video_processor": None} if kind == "SmolVLM" else {}),
        image_seq_len=4,
        chat_template=template("<image>"),
    )
    return f"{kind}ForConditionalGeneration", config, processor


def idefics3():
    return idefics("Idefics3")


def smolvlm():
    return idefics("SmolVLM")


def gemma3():
    words = tokenizer(boi_token="<start_of_image>", eoi_token="<end_of_image>", image_token="<image_soft_token>")
    images = transformers.Gemma3ImageProcessorPil(size={"height": 32, "width": 32}, **IMAGE)
    config = transformers.Gemma3Config(
        text_config=text_config(
            words,
            num_hidden_layers=3,
            sliding_window=16,
            query_pre_attn_scalar=16,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        ),
        vision_config=dict(image_size=32, patch_size=4, **vision_config()),
        mm_tokens_per_image=16,
        **ids(
            words,
            boi_token_index="<start_of_image>",
            eoi_token_index="<end_of_image>",
            image_token_index="<image_soft_token>",
        ),
        tie_word_embeddings=False,
    )
    processor = transformers.Gemma3Processor(images, words, template("<start_of_image>"), image_seq_length=16)
    return "Gemma3ForConditionalGeneration", config, processor


def paligemma():
    words = tokenizer("<bos>", image_token="<image>")
    words.add_special_tokens({"bos_token": "<bos>"})
    images = transformers.SiglipImageProcessorPil(size={"height": 32, "width": 32}, **IMAGE)
    images.image_seq_length = 16
    processor = transformers.PaliGemmaProcessor(images, words)  # adds tokens for places and outlines
    config = transformers.PaliGemmaConfig(
        text_config=dict(model_type="gemma", **text_config(words, num_hidden_layers=3)),
        vision_config=dict(
            model_type="siglip_vision_model", image_size=32, patch_size=8, vision_use_head=False, **vision_config()
        ),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        projection_dim=48,
        hidden_size=48,
        vocab_size=len(words),
        tie_word_embeddings=False,
    )
    return "PaliGemmaForConditionalGeneration", config, processor


def pixtral_processor() -> type:
    """The real class. Its module imports torchvision without using it for pictures that Pillow prepares, so where
    torchvision is missing an empty one stands in for it during the import."""
    if not is_torchvision_available():
        empty = {f"torchvision{tail}": ModuleType("empty") for tail in ("", ".transforms", ".transforms.v2")}
        empty["torchvision.transforms.v2"].functional = ModuleType("functional")  # type: ignore[attr-defined]
        with mock.patch.dict(sys.modules, empty):
            found = import_module("transformers.models.pixtral.processing_pixtral").PixtralProcessor
        transformers.models.pixtral.PixtralProcessor = found  # where AutoProcessor looks for it
    return transformers.models.pixtral.PixtralProcessor


def pixtral_parts(patch: int, merge: int):
    words = tokenizer("[IMG]", "[IMG_BREAK]", "[IMG_END]")
    images = transformers.PixtralImageProcessorPil(
        size={"longest_edge": 5 * patch * merge}, patch_size={"height": patch, "width": patch}, **IMAGE
    )
    processor = pixtral_processor()(
        images, words, patch_size=patch, spatial_merge_size=merge, chat_template=template("[IMG]")
    )
    vision = dict(
        model_type="pixtral",
        image_size=5 * patch * merge,
        patch_size=patch,
        head_dim=16,
        **vision_config(),
    )
    return words, processor, vision


def mistral3():
    words, processor, vision = pixtral_parts(patch=8, merge=2)
    config = transformers.Mistral3Config(
        text_config=dict(model_type="mistral", **text_config(words, sliding_window=None)),
        vision_config=vision,
        image_token_index=words.convert_tokens_to_ids("[IMG]"),
        spatial_merge_size=2,
        vision_feature_layer=-1,
        tie_word_embeddings=False,
    )
    return "Mistral3ForConditionalGeneration", config, processor


def pixtral():
    words, processor, vision = pixtral_parts(patch=8, merge=1)
    config = transformers.LlavaConfig(
        text_config=dict(model_type="mistral", **text_config(words, sliding_window=None)),
        vision_config=vision,
        image_token_index=words.convert_tokens_to_ids("[IMG]"),
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        tie_word_embeddings=False,
    )
    return "LlavaForConditionalGeneration", config, processor


BUILDERS = {
    builder.__name__: builder
    for builder in (
        qwen3_vl,
        qwen3_vl_moe,
        internvl,
        qwen2_5_vl,
        qwen2_vl,
        llava,
        llava_next,
        llava_onevision,
        idefics3,
        smolvlm,
        gemma3,
        paligemma,
        mistral3,
        pixtral,
        glm4v,
        glm4v_moe,
    )
}


def write(name: str, folder: Path) -> Path:
    """A checkpoint of the family, random and saved as hub checkpoints are; norms and biases are random too."""
    torch.manual_seed(3)
    kind, config, processor = BUILDERS[name]()
    model = getattr(transformers, kind)._from_config(config, dtype=torch.float32)
    randomise(model)
    model.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    named = folder / "processor_config.json"
    named.write_text(named.read_text().replace("ImageOnly", ""))  # as the hub has it
    return folder


@torch.no_grad()
def randomise(model: torch.nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            parameter.add_(0.3 * torch.randn_like(parameter))
        elif parameter.abs().max() == 0 or "image_newline" in name:
            parameter.normal_(0, 0.2)
