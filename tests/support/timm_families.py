"""Small checkpoints of families whose vision towers are timm's."""

from __future__ import annotations

import transformers

from support.family_parts import IMAGE, template, text_config, tokenizer


def fast_vlm():
    """Convolutions, and attention in the last two of five stages: 64 pixels along one side of a token."""
    words = tokenizer("<image>")
    images = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 256}, crop_size={"height": 256, "width": 256}, **IMAGE
    )
    config = transformers.FastVlmConfig(
        text_config=dict(model_type="qwen2", **text_config(words, num_attention_heads=3, num_key_value_heads=1)),
        vision_config=dict(
            model_type="timm_wrapper", architecture="fastvit_mci3", do_pooling=True, global_pool="avg", hidden_size=64,
            initializer_range=0.32,  # so that many convolutions do not average the picture away
            model_args=dict(
                inference_mode=True, embed_dims=[8, 16, 16, 32, 32], layers=[1] * 5, mlp_ratios=[2] * 5,
                layer_scale_init_value=0.5,
            ),
        ),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        tie_word_embeddings=False,
    )  # fmt: skip
    processor = transformers.LlavaProcessor(
        images, words, patch_size=64, vision_feature_select_strategy="full", chat_template=template("<image>\\n")
    )
    return "FastVlmForConditionalGeneration", config, processor


def perception_lm():
    words = tokenizer(image_token="<|image|>", video_token="<|video|>")
    images = transformers.PerceptionLMImageProcessor(tile_size=32, max_num_tiles=4, **IMAGE)
    config = transformers.PerceptionLMConfig(
        text_config=dict(model_type="llama", **text_config(words)),
        vision_config=dict(
            model_type="timm_wrapper", architecture="vit_pe_lang_large_patch14_448", do_pooling=False,
            initializer_range=0.2,
            model_args=dict(
                embed_dim=32, depth=2, num_heads=2, img_size=[32, 32], patch_size=4, ref_feat_shape=[8, 8],
                global_pool="", init_values=0.5, use_post_transformer_norm=False,
            ),
        ),
        vision_use_cls_token=True,
        projector_pooling_ratio=2,
        image_token_id=words.image_token_id,
        video_token_id=words.video_token_id,
        tie_word_embeddings=False,
    )  # fmt: skip
    processor = transformers.PerceptionLMProcessor(
        transformers.PerceptionLMVideoProcessor(), images, words, patch_size=4, pooling_ratio=2,
        chat_template=template("<|image|>"),
    )  # fmt: skip
    return "PerceptionLMForConditionalGeneration", config, processor


NEEDING_TIMM = {builder.__name__: builder for builder in (fast_vlm, perception_lm)}
