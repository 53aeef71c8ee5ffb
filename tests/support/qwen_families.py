"""Small checkpoints of the Qwen-VL and GLM-V families."""

from __future__ import annotations

import transformers

from support.family_parts import IMAGE, MOE, ids, mrope, template, text_config, tokenizer
from vtrace.lvlm.processor import image_only, pillow_image_processor


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


def cosmos3_omni():
    """Its reasoner, which is Qwen3-VL's classes."""
    return qwen("Cosmos3Omni", {**QWEN3_VISION}, mrope(mrope_interleaved=True), "Qwen3VLProcessor")


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


def glm(kind: str, text: dict, image: str = "Glm4v", processor: str = "Glm4vProcessor", config: str = ""):
    words = tokenizer(
        "<|begin_of_video|>", "<|end_of_video|>", "<|begin_of_image|>", "<|end_of_image|>", "<|image|>", "<|video|>"
    )
    images = pillow_image_processor(image.lower(), image)(
        patch_size=14,
        merge_size=2,
        temporal_patch_size=2,
        **IMAGE,
        size={"shortest_edge": 6 * 28 * 28, "longest_edge": 24 * 28 * 28},
    )
    configuration = getattr(transformers, f"{config or kind}Config")(
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
    whole = image_only(getattr(transformers, processor))
    return f"{kind}ForConditionalGeneration", configuration, whole(images, words, chat_template=shown)


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
