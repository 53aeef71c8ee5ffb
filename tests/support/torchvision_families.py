"""Small checkpoints of families whose processors need torchvision."""

from __future__ import annotations

import transformers

from support.family_parts import IMAGE, ids, template, text_config, tokenizer, vision_config


def llama4():
    """Layers with and without rotary positions, in chunks and whole; a mixture of experts in one of them."""
    words = tokenizer(
        "<|image|>", "<|patch|>", "<|image_start|>", "<|image_end|>", "<|tile_x_separator|>", "<|tile_y_separator|>"
    )
    images = transformers.Llama4ImageProcessor(size={"height": 32, "width": 32}, max_patches=4, **IMAGE)
    config = transformers.Llama4Config(
        text_config=text_config(
            words, num_hidden_layers=3, no_rope_layers=[1, 0, 1], attention_chunk_size=64, moe_layers=[1],
            num_local_experts=2, intermediate_size_mlp=64, floor_scale=16,
        ),
        vision_config=vision_config(
            image_size=32, patch_size=8, vision_output_dim=32, projector_input_dim=32, projector_output_dim=32,
            intermediate_size=128,
        ),
        tie_word_embeddings=False,
        **ids(words, boi_token_index="<|image_start|>", eoi_token_index="<|image_end|>", image_token_index="<|patch|>"),
    )  # fmt: skip
    processor = transformers.Llama4Processor(images, words, patch_size=8, chat_template=template("<|image|>"))
    return "Llama4ForConditionalGeneration", config, processor


def cohere2_vision():
    words = tokenizer(
        image_token="<|IMG_PATCH|>", boi_token="<|START_OF_IMG|>", eoi_token="<|END_OF_IMG|>",
        img_line_break_token="<|IMG_LINE_BREAK|>",
    )  # fmt: skip
    images = transformers.Cohere2VisionImageProcessor(
        size={"height": 32, "width": 32}, patch_size=2, min_patches=1, max_patches=4, **IMAGE
    )
    config = transformers.Cohere2VisionConfig(
        text_config=dict(
            model_type="cohere2", **text_config(words, sliding_window=16, logit_scale=0.25, sliding_window_pattern=2)
        ),
        vision_config=dict(
            model_type="siglip_vision_model", image_size=32, patch_size=8, vision_use_head=False, **vision_config()
        ),
        downsample_factor=2,
        alignment_intermediate_size=64,
        image_token_id=words.convert_tokens_to_ids("<|IMG_PATCH|>"),
        tie_word_embeddings=False,
    )
    processor = transformers.Cohere2VisionProcessor(images, words, chat_template=template("<|IMG_PATCH|>"))
    return "Cohere2VisionForConditionalGeneration", config, processor


NEEDING_TORCHVISION = {builder.__name__: builder for builder in (llama4, cohere2_vision)}
