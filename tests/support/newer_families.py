"""Small checkpoints of Gemma 4 and MiniCPM-V."""

from __future__ import annotations

import transformers

from support.family_parts import IMAGE, ids, template, text_config, tokenizer, vision_config
from support.hybrid_families import DELTA
from vtrace.lvlm.processor import image_only, pillow_image_processor


def gemma4():
    """Layers of two kinds, one of them without keys and values of its own, and embeddings for each layer."""
    words = tokenizer(
        "<|video|>", boi_token="<|image>", eoi_token="<image|>", image_token="<|image|>", audio_token="<|audio|>",
        boa_token="<|audio>", eoa_token="<audio|>",
    )  # fmt: skip
    images = pillow_image_processor("gemma4", "Gemma4")(
        patch_size=8, pooling_kernel_size=2, max_soft_tokens=70, **IMAGE
    )
    config = transformers.Gemma4Config(
        text_config=text_config(
            words,
            num_hidden_layers=3,
            layer_types=["sliding_attention", "full_attention", "full_attention"],
            num_kv_shared_layers=1,
            sliding_window=24,
            hidden_size_per_layer_input=8,
            vocab_size_per_layer_input=len(words),
            final_logit_softcapping=8.0,
            use_bidirectional_attention="vision",
        ),
        vision_config=vision_config(
            patch_size=8, pooling_kernel_size=2, head_dim=16, num_key_value_heads=2, position_embedding_size=64
        ),
        audio_config=None,
        **ids(
            words, boi_token_id="<|image>", eoi_token_id="<image|>", image_token_id="<|image|>",
            video_token_id="<|video|>", audio_token_id="<|audio|>", boa_token_id="<|audio>", eoa_token_index="<audio|>",
        ),
        tie_word_embeddings=False,
    )  # fmt: skip
    processor = image_only(transformers.Gemma4Processor)(
        None, images, words, None, chat_template=template("<|image|>"), image_seq_length=70
    )
    return "Gemma4ForConditionalGeneration", config, processor


def minicpm(kind: str):
    words = tokenizer(
        image_token="<|image_pad|>", video_token="<|video_pad|>", image_start_token="<image>",
        image_end_token="</image>", slice_start_token="<slice>", slice_end_token="</slice>",
        image_id_start_token="<image_id>", image_id_end_token="</image_id>",
    )  # fmt: skip
    images = pillow_image_processor("minicpmv4_6", "MiniCPMV4_6")(
        max_slice_nums=4, scale_resolution=64, patch_size=8, slice_mode=True, use_image_id=True, **IMAGE
    )
    config = getattr(transformers, f"{kind}Config")(
        text_config=dict(model_type="qwen3_5_text", **text_config(words, **DELTA)),
        vision_config=vision_config(patch_size=8, image_size=64, insert_layer_id=0, num_hidden_layers=2),
        insert_layer_id=0,
        image_size=64,
        tie_word_embeddings=False,
        **ids(words, image_token_id="<|image_pad|>", video_token_id="<|video_pad|>"),
    )
    processor = image_only(getattr(transformers, f"{kind}Processor"))(
        images, images, words, chat_template=template("<|image_pad|>")
    )
    return f"{kind}ForConditionalGeneration", config, processor


def minicpmv4_6():
    return minicpm("MiniCPMV4_6")


def minicpmv4_7():
    return minicpm("MiniCPMV4_7")
