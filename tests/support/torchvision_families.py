"""Small checkpoints of families whose processors need torchvision."""

from __future__ import annotations

import transformers

from support.family_parts import IMAGE, ids, template, text_config, tokenizer, vision_config
from support.hybrid_families import CONVOLUTIONS, NEMOTRON


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


def kimi_k25():
    """Keys and values are compressed, and values are narrower than keys; one layer has experts."""
    words = tokenizer(
        "<|media_begin|>", "<|media_end|>", image_token="<|media_pad|>", video_token="<|kimi_k25_video_placeholder|>"
    )
    images = transformers.Kimi_K25ImageProcessor(
        patch_size=8, merge_size=2, max_patches=64, size={"max_height": 12, "max_width": 12}, **IMAGE
    )
    text = text_config(
        words, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8,
        v_head_dim=12, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, n_group=1, topk_group=1,
        moe_intermediate_size=32, first_k_dense_replace=1,
    )  # fmt: skip
    del text["head_dim"]
    config = transformers.Kimi_K25Config(
        text_config=dict(model_type="deepseek_v3", **text),
        vision_config=vision_config(patch_size=8, pos_emb_height=8, pos_emb_width=8),
        projection_hidden_size=32,
        tie_word_embeddings=False,
        **ids(words, image_token_id="<|media_pad|>", video_token_id="<|kimi_k25_video_placeholder|>"),
    )
    processor = transformers.Kimi_K25Processor(
        images, words, transformers.Kimi_K25VideoProcessor(), chat_template=template("<|media_pad|>")
    )
    return "Kimi_K25ForConditionalGeneration", config, processor


def lfm2_vl():
    """Two layers with a short convolution, and one with attention."""
    rows = [f"<|img_row_{r}_col_{c}|>" for r in range(1, 5) for c in range(1, 5)]
    words = tokenizer("<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>", *rows)
    images = transformers.Lfm2VlImageProcessor(
        encoder_patch_size=8, tile_size=32, min_tiles=2, max_tiles=4, min_image_tokens=4, max_image_tokens=16,
        max_pixels_tolerance=0.5, **IMAGE,
    )  # fmt: skip
    config = transformers.Lfm2VlConfig(
        text_config=dict(model_type="lfm2", **text_config(words, **CONVOLUTIONS)),
        vision_config=dict(
            model_type="siglip2_vision_model", patch_size=8, num_patches=64, vision_use_head=False, **vision_config()
        ),
        image_token_id=words.convert_tokens_to_ids("<image>"),
        projector_hidden_size=48,
        tie_word_embeddings=False,
    )
    processor = transformers.Lfm2VlProcessor(images, words, chat_template=template("<image>"))
    return "Lfm2VlForConditionalGeneration", config, processor


def nemotron_h_omni():
    """Every layer has one of Mamba-2, attention, an MLP and experts; a picture keeps its shape."""
    words = tokenizer("<img>", "</img>", "<so_start>", "<so_end>", "<so_embedding>", "<image>", "<video>")
    images = transformers.NemotronH_Omni_Reasoning_V3ImageProcessor(
        patch_size=8, min_num_patches=16, max_num_patches=64, **IMAGE
    )
    vision = vision_config(patch_size=8, max_img_size=128, num_registers=2, video_temporal_patch_size=2, mlp_ratio=2.0)
    del vision["intermediate_size"]
    config = transformers.NemotronH_Omni_Reasoning_V3_Config(
        text_config=dict(model_type="nemotron_h", **text_config(words, **NEMOTRON)),
        vision_config=dict(model_type="radio", **vision),
        vision_hidden_size=32,
        projector_hidden_size=48,
        tie_word_embeddings=False,
        **ids(words, image_token_id="<image>", video_token_id="<video>", audio_token_id="<so_embedding>"),
    )
    processor = transformers.NemotronH_Omni_Reasoning_V3Processor(
        images,
        transformers.NemotronH_Omni_Reasoning_V3VideoProcessor(),
        words,
        transformers.WhisperFeatureExtractor(),
        chat_template=template("<image>"),
    )
    return "NemotronH_Omni_Reasoning_V3", config, processor


def minimax_m3_vl():
    """In the second layer, each group of heads selects two blocks of eight tokens, beside the block of the receiver."""
    marks = {name: f"]<]{name}[>[" for name in ("image", "video", "start of image", "end of image")}
    words = tokenizer(*marks.values())
    images = transformers.MiniMaxM3VLImageProcessor(
        patch_size=8, merge_size=2, size={"shortest_edge": 6 * 16 * 16, "longest_edge": 12 * 16 * 16}, **IMAGE
    )
    text = text_config(
        words, num_local_experts=4, num_experts_per_tok=2, intermediate_size=32, shared_intermediate_size=32,
        dense_intermediate_size=64, rotary_dim=8, mlp_layer_types=["dense", "sparse"],
        layer_types=["full_attention", "minimax_m3_sparse"], index_n_heads=2, index_head_dim=16, index_block_size=8,
        index_topk_blocks=3,
    )  # fmt: skip
    config = transformers.MiniMaxM3VLConfig(
        text_config=dict(model_type="minimax_m3_vl_text", **text),
        vision_config=vision_config(patch_size=8),
        projector_hidden_size=32,
        tie_word_embeddings=False,
        **ids(words, image_token_index=marks["image"], video_token_index=marks["video"]),
    )
    processor = transformers.MiniMaxM3VLProcessor(
        images, words, transformers.MiniMaxM3VLVideoProcessor(), chat_template=template(marks["image"])
    )
    return "MiniMaxM3SparseForConditionalGeneration", config, processor


MOLMO_MARKS = ("<im_patch>", "<im_col>", "<im_start>", "<low_res_im_start>", "<im_end>", "<frame_start>", "<frame_end>")


def molmo2(**text):
    """Crops of five by five patches that overlap by two: squares of patches end beyond the picture."""
    words = tokenizer("<|image|>", "<|video|>", "<im_low>", *MOLMO_MARKS)
    images = transformers.Molmo2ImageProcessor(
        size={"height": 40, "width": 40}, patch_size=8, overlap_margins=[1, 1], max_crops=4, **IMAGE
    )
    config = transformers.Molmo2Config(
        text_config=text_config(words, additional_vocab_size=0, **text),
        vision_config=vision_config(image_size=[40, 40], patch_size=8, num_key_value_heads=2, head_dim=16),
        adapter_config=dict(
            vision_feature_layer=[-1, -2], hidden_size=32, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
            intermediate_size=48, text_hidden_size=48, initializer_range=0.2,
        ),
        tie_word_embeddings=False,
        **ids(
            words, image_patch_id="<im_patch>", image_start_token_id="<im_start>", image_end_token_id="<im_end>",
            low_res_image_start_token_id="<low_res_im_start>", frame_start_token_id="<frame_start>",
            frame_end_token_id="<frame_end>",
        ),
    )  # fmt: skip
    processor = transformers.Molmo2Processor(
        images, transformers.Molmo2VideoProcessor(), words, chat_template=template("<|image|>")
    )
    return "Molmo2ForConditionalGeneration", config, processor


def molmo2_o():
    return molmo2(norm_after=True, qk_norm_type="olmo")


NEEDING_TORCHVISION = {
    builder.__name__: builder
    for builder in (llama4, cohere2_vision, kimi_k25, molmo2, molmo2_o, lfm2_vl, nemotron_h_omni, minimax_m3_vl)
}
