"""Small checkpoints of families that read pictures as rows of merged patches, as Qwen-VL does."""

from __future__ import annotations

import transformers

from support.family_parts import IMAGE, MOE, ids, mrope, template, text_config, tokenizer, vision_config
from support.qwen_families import QWEN3_VISION, glm, qwen
from vtrace.lvlm.processor import image_only, pillow_image_processor

OMNI = dict(
    image_token="<|IMAGE|>", audio_token="<|AUDIO|>", video_token="<|VIDEO|>", vision_bos_token="<|vision_bos|>",
    vision_eos_token="<|vision_eos|>", audio_bos_token="<|audio_bos|>", audio_eos_token="<|audio_eos|>",
)  # fmt: skip
AUDIO = dict(encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=32, d_model=32, output_dim=48)


def glm46v():
    return glm("Glm46V", {}, image="Glm46V", processor="Glm46VProcessor")


def glm_ocr():
    return glm("GlmOcr", {}, image="Glm46V", processor="Glm46VProcessor")


def glmga():
    """The classes of GLM-4.6V with an image processor and a configuration of its own."""
    return glm("Glm46V", {}, image="Glmga", processor="Glm46VProcessor", config="Glmga")


def exaone4_5():
    vision = dict(
        pixels=14, depth=2, hidden_size=32, num_heads=2, num_key_value_heads=1, intermediate_size=48, patch_size=14,
        spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=48, window_size=56, fullatt_block_indexes=[1],
        initializer_range=0.2,
    )  # fmt: skip
    text = dict(model_type="exaone4", sliding_window=16, layer_types=["sliding_attention", "full_attention"])
    return qwen("Exaone4_5_", vision, text, "Exaone4_5_Processor")


def hyperclovax_vision_v2(**text):
    """Norms behind attention and MLP, unless they are left out, and scaled logits."""
    vision = dict(
        pixels=14, depth=2, hidden_size=32, num_heads=2, intermediate_size=48, patch_size=14, spatial_merge_size=2,
        temporal_patch_size=2, out_hidden_size=32, window_size=56, fullatt_block_indexes=[1], initializer_range=0.2,
    )  # fmt: skip
    text |= dict(model_type="hyperclovax", residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=0.5)
    return qwen("HyperCLOVAXVisionV2", vision, text, "HyperCLOVAXVisionV2Processor")


def video_llama_3():
    words = tokenizer("<|image_pad|>", "<|video_pad|>")
    images = pillow_image_processor("video_llama_3", "VideoLlama3")(
        patch_size=14, merge_size=2, **IMAGE, size={"shortest_edge": 6 * 28 * 28, "longest_edge": 12 * 28 * 28}
    )
    config = transformers.VideoLlama3Config(
        text_config=dict(model_type="qwen2", **text_config(words, num_attention_heads=3, num_key_value_heads=1)),
        vision_config=vision_config(patch_size=14),
        tie_word_embeddings=False,
        **ids(words, image_token_id="<|image_pad|>", video_token_id="<|video_pad|>"),
    )
    whole = image_only(transformers.VideoLlama3Processor)
    return "VideoLlama3ForConditionalGeneration", config, whole(images, words, chat_template=template("<|image_pad|>"))


def omni(kind: str, text: dict, vision: dict, audio: dict):
    words, patch = tokenizer(**OMNI), vision["patch_size"]
    images = transformers.Qwen2VLImageProcessorPil(
        patch_size=patch, merge_size=2, temporal_patch_size=2, **IMAGE,
        size={"shortest_edge": 6 * (2 * patch) ** 2, "longest_edge": 12 * (2 * patch) ** 2},
    )  # fmt: skip
    marks = ids(
        words, image_token_id="<|IMAGE|>", video_token_id="<|VIDEO|>", audio_token_id="<|AUDIO|>",
        vision_start_token_id="<|vision_bos|>", vision_end_token_id="<|vision_eos|>",
        audio_start_token_id="<|audio_bos|>", audio_end_token_id="<|audio_eos|>",
    )  # fmt: skip
    config = transformers.AutoConfig.for_model(
        kind, text_config=text_config(words, **text), vision_config=vision, audio_config=audio, **marks
    )
    name = type(config).__name__.removesuffix("ThinkerConfig")
    shown = template("<|vision_bos|><|IMAGE|><|vision_eos|>")
    processor = image_only(getattr(transformers, f"{name}Processor"))(images, tokenizer=words, chat_template=shown)
    return f"{name}ThinkerForConditionalGeneration", config, processor


def qwen2_5_omni_thinker():
    vision = dict(
        depth=2, hidden_size=32, num_heads=2, intermediate_size=48, patch_size=14, spatial_merge_size=2,
        temporal_patch_size=2, out_hidden_size=48, window_size=56, fullatt_block_indexes=[1], initializer_range=0.2,
    )  # fmt: skip
    text = mrope() | dict(num_attention_heads=3, num_key_value_heads=1)
    return omni("qwen2_5_omni_thinker", text, vision, AUDIO)


def qwen3_omni_moe_thinker():
    vision = {name: value for name, value in QWEN3_VISION.items() if name != "pixels"}
    return omni("qwen3_omni_moe_thinker", mrope(mrope_interleaved=True) | MOE, vision, AUDIO)


def lighton_ocr():
    words = tokenizer(image_token="<|image_pad|>", image_break_token="<|vision_pad|>", image_end_token="<|vision_end|>")
    images = transformers.PixtralImageProcessorPil(
        size={"longest_edge": 80}, patch_size={"height": 16, "width": 16}, **IMAGE
    )
    config = transformers.LightOnOcrConfig(
        text_config=dict(model_type="qwen3", **text_config(words)),
        vision_config=dict(model_type="pixtral", image_size=80, patch_size=8, head_dim=16, **vision_config()),
        image_token_id=words.image_token_id,
        spatial_merge_size=2,
        tie_word_embeddings=False,
    )
    processor = transformers.LightOnOcrProcessor(
        images, words, patch_size=8, spatial_merge_size=2, chat_template=template("<|image_pad|>")
    )
    return "LightOnOcrForConditionalGeneration", config, processor


def ernie4_5_vl_moe():
    roles = dict(
        image_token="<|IMAGE_PLACEHOLDER|>", image_start_token="<|IMAGE_START|>", image_end_token="<|IMAGE_END|>",
        video_token="<|VIDEO_PLACEHOLDER|>", video_start_token="<|VIDEO_START|>", video_end_token="<|VIDEO_END|>",
    )  # fmt: skip
    words = tokenizer(**roles)
    images = pillow_image_processor("ernie4_5_vl_moe", "Ernie4_5_VLMoe")(
        patch_size=14, merge_size=2, **IMAGE, size={"shortest_edge": 6 * 28 * 28, "longest_edge": 12 * 28 * 28}
    )
    config = transformers.Ernie4_5_VLMoeConfig(
        text_config=text_config(
            words, moe_intermediate_size=[32, 32], moe_num_experts=4, moe_k=2, moe_num_shared_experts=1,
            mlp_layer_types=["dense", "sparse"],
            rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[2, 2, 4]),
        ),
        vision_config=dict(
            depth=2, hidden_size=32, num_heads=2, intermediate_size=48, patch_size=14, spatial_merge_size=2,
            initializer_range=0.2,
        ),
        tie_word_embeddings=False,
        **ids(words, **{f"{name}_id": token for name, token in roles.items()}),
    )  # fmt: skip
    images.font = ""  # the processor looks for the font of its video processor
    processor = image_only(transformers.Ernie4_5_VLMoeProcessor)(
        images, words, images, chat_template=template("<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>")
    )
    return "Ernie4_5_VLMoeForConditionalGeneration", config, processor


def paddleocr_vl():
    words = tokenizer("<|IMAGE_START|>", "<|IMAGE_END|>", image_token="<|IMAGE_PLACEHOLDER|>")
    images = pillow_image_processor("paddleocr_vl", "PaddleOCRVL")(
        patch_size=14, merge_size=2, temporal_patch_size=1, **IMAGE,
        size={"shortest_edge": 6 * 28 * 28, "longest_edge": 12 * 28 * 28},
    )  # fmt: skip
    config = transformers.PaddleOCRVLConfig(
        text_config=text_config(words, **mrope()),
        vision_config=dict(image_size=56, patch_size=14, spatial_merge_size=2, **vision_config()),
        tie_word_embeddings=False,
        image_token_id=words.image_token_id,
    )
    shown = template("<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>")
    processor = transformers.PaddleOCRVLProcessor(images, words, chat_template=shown)
    return "PaddleOCRVLForConditionalGeneration", config, processor
