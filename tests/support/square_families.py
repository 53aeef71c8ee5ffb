"""Small checkpoints of families that show a picture as one square of tokens, or as square tiles."""

from __future__ import annotations

import transformers

from support.family_parts import IMAGE, ids, template, text_config, tokenizer, vision_config
from vtrace.lvlm.processor import pillow_image_processor


def deepseek_vl():
    words = tokenizer(image_token="<image_placeholder>")
    images = pillow_image_processor("deepseek_vl", "DeepseekVL")(size={"height": 32, "width": 32}, min_size=8, **IMAGE)
    config = transformers.DeepseekVLConfig(
        text_config=dict(model_type="llama", **text_config(words)),
        vision_config=dict(
            model_type="siglip_vision_model", image_size=32, patch_size=8, vision_use_head=False, **vision_config()
        ),
        image_token_id=words.image_token_id,
        tie_word_embeddings=False,
    )
    processor = transformers.DeepseekVLProcessor(
        images, words, num_image_tokens=16, chat_template=template("<image_placeholder>")
    )
    return "DeepseekVLForConditionalGeneration", config, processor


def janus():
    words = tokenizer(image_token="<image_placeholder>", boi_token="<begin_of_image>", eoi_token="<end_of_image>")
    images = pillow_image_processor("janus", "Janus")(size={"height": 32, "width": 32}, min_size=8, **IMAGE)
    config = transformers.JanusConfig(
        text_config=dict(model_type="llama", **text_config(words)),
        vision_config=dict(
            image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2.0,
            projection_dim=48, num_image_tokens=16, initializer_range=0.2,
        ),
        vq_config=dict(
            embed_dim=8, num_embeddings=16, latent_channels=8, base_channels=32, channel_multiplier=[1, 1],
            num_res_blocks=1, projection_dim=48, num_patches=4, image_token_embed_dim=48,
        ),
        image_token_id=words.image_token_id,
        tie_word_embeddings=False,
    )  # fmt: skip
    processor = transformers.JanusProcessor(
        images, words, num_image_tokens=16, chat_template=template("<image_placeholder>")
    )
    return "JanusForConditionalGeneration", config, processor


def aya_vision():
    marks = [f"TILE_{number}" for number in range(1, 9)]
    words = tokenizer(
        "<image>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_PATCH|>", "<|IMG_LINE_BREAK|>", "TILE", "TILE_GLOBAL",
        *marks,
    )  # fmt: skip
    images = transformers.GotOcr2ImageProcessorPil(
        size={"height": 32, "width": 32}, crop_to_patches=True, min_patches=1, max_patches=4, **IMAGE
    )
    config = transformers.AyaVisionConfig(
        text_config=dict(
            model_type="cohere2", **text_config(words, sliding_window=16, logit_scale=0.25, sliding_window_pattern=2)
        ),
        vision_config=dict(
            model_type="siglip_vision_model", image_size=32, patch_size=8, vision_use_head=False, **vision_config()
        ),
        downsample_factor=2,
        alignment_intermediate_size=64,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        image_token_index=words.convert_tokens_to_ids("<|IMG_PATCH|>"),
        tie_word_embeddings=False,
    )
    processor = transformers.AyaVisionProcessor(
        images, words, patch_size=8, img_size=32, downsample_factor=2, chat_template=template("<image>")
    )
    return "AyaVisionForConditionalGeneration", config, processor


def ovis2():
    words = tokenizer("<image>", "<IMG_ATOM>", "<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>")
    images = pillow_image_processor("ovis2", "Ovis2")(
        size={"height": 32, "width": 32}, crop_to_patches=True, min_patches=1, max_patches=4, **IMAGE
    )
    marks = ids(words, a="<IMG_START>", b="<IMG_END>", c="<IMG_GRID>", d="<IMG_COL>", e="<IMG_ROW>")
    config = transformers.Ovis2Config(
        text_config=dict(model_type="qwen2", **text_config(words, num_attention_heads=3, num_key_value_heads=1)),
        vision_config=dict(
            image_size=32, patch_size=8, hidden_stride=2, vocab_size=64 + 5, num_visual_indicator_tokens=5,
            **vision_config(),
        ),
        image_token_id=words.convert_tokens_to_ids("<IMG_ATOM>"),
        visual_indicator_token_ids=[*marks.values()],
        vocab_size=len(words),
        hidden_size=48,
        tie_word_embeddings=False,
    )  # fmt: skip
    processor = transformers.Ovis2Processor(images, words, image_seq_length=4, chat_template=template("<image>"))
    return "Ovis2ForConditionalGeneration", config, processor
