"""Small random checkpoints of every supported family: the real classes with the real processors, saved to disk."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from unittest import mock

import torch
import transformers
from transformers.utils import is_timm_available, is_torchvision_available

from support.family_parts import IMAGE, ids, template, text_config, tokenizer, vision_config
from support.hybrid_families import qwen3_5, qwen3_5_moe
from support.newer_families import gemma4, minicpmv4_6, minicpmv4_7
from support.patch_families import (
    ernie4_5_vl_moe,
    exaone4_5,
    glm46v,
    glm_ocr,
    glmga,
    hyperclovax_vision_v2,
    lighton_ocr,
    paddleocr_vl,
    qwen2_5_omni_thinker,
    qwen3_omni_moe_thinker,
    video_llama_3,
)
from support.qwen_families import cosmos3_omni, glm4v, glm4v_moe, qwen2_5_vl, qwen2_vl, qwen3_vl, qwen3_vl_moe
from support.square_families import aya_vision, deepseek_vl, janus, ovis2
from support.timm_families import NEEDING_TIMM
from support.torchvision_families import NEEDING_TORCHVISION
from vtrace.lvlm.processor import image_only, pillow_image_processor


def internvl(kind: str = "InternVL", placeholder: str = "<IMG_CONTEXT>"):
    roles = dict(
        start_image_token="<img>", end_image_token="</img>", context_image_token="<IMG_CONTEXT>", video_token="<video>"
    )
    words = tokenizer(**roles)
    images = transformers.GotOcr2ImageProcessorPil(
        size={"height": 32, "width": 32}, crop_to_patches=True, min_patches=1, max_patches=4, **IMAGE
    )
    config = getattr(transformers, f"{kind}Config")(
        text_config=dict(model_type="qwen3", **text_config(words)),
        vision_config=vision_config(image_size=[32, 32], patch_size=[8, 8], attention_bias=True),
        image_token_id=words.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    whole = image_only(getattr(transformers, f"{kind}Processor"))
    processor = whole(images, words, image_seq_length=4, chat_template=template(placeholder))
    return f"{kind}ForConditionalGeneration", config, processor


def qianfan_ocr():
    return internvl("QianfanOCR", "<image>")


def llava(kind: str = "Llava", **layers):
    words = tokenizer("<image>")
    images = transformers.LlavaImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, **IMAGE
    )
    config = getattr(transformers, f"{kind}Config")(
        text_config=dict(model_type="llama", **text_config(words)),
        vision_config=dict(model_type="clip_vision_model", image_size=32, patch_size=8, **vision_config()),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        **(layers or dict(vision_feature_layer=-2)),
    )
    processor = transformers.LlavaProcessor(
        images,
        words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template("<image>\\n"),
    )
    return f"{kind}ForConditionalGeneration", config, processor


def vipllava():
    return llava("VipLlava", vision_feature_layers=[-2, -1])


PINPOINTS = [[32, 64], [64, 32], [64, 64], [96, 32], [32, 96]]


def llava_next(kind: str = "LlavaNext"):
    words = tokenizer("<image>")
    images = transformers.LlavaNextImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, image_grid_pinpoints=PINPOINTS, **IMAGE
    )
    config = getattr(transformers, f"{kind}Config")(
        text_config=dict(model_type="mistral", **text_config(words, sliding_window=24)),
        vision_config=dict(model_type="clip_vision_model", image_size=32, patch_size=8, **vision_config()),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=PINPOINTS,
        vision_feature_layer=-2,
        tie_word_embeddings=False,
    )
    processor = image_only(getattr(transformers, f"{kind}Processor"))(
        image_processor=images,
        tokenizer=words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template("<image>\\n"),
    )
    return f"{kind}ForConditionalGeneration", config, processor


def llava_next_video():
    return llava_next("LlavaNextVideo")


def granite4_vision():
    """Features are added before four layers, and everything that layers write is scaled."""
    words = tokenizer("<image>")
    images = transformers.LlavaNextImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, image_grid_pinpoints=PINPOINTS, **IMAGE
    )
    config = transformers.Granite4VisionConfig(
        text_config=text_config(
            words, num_hidden_layers=4, residual_multiplier=0.4, attention_multiplier=0.2, embedding_multiplier=3.0,
            logits_scaling=2.0,
        ),
        vision_config=dict(
            model_type="siglip_vision_model", image_size=32, patch_size=4, vision_use_head=False,
            **vision_config(hidden_size=64),
        ),
        qformer_config=dict(
            model_type="blip_2_qformer", num_hidden_layers=1, intermediate_size=48, cross_attention_frequency=1,
            use_qformer_text_input=False, initializer_range=0.2,
        ),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=PINPOINTS,
        vision_feature_select_strategy="full",
        downsample_rate="2/4",
        deepstack_layer_map=[[-2, 0]],
        spatial_target_layers=[0, 1, 2, 3],
        tie_word_embeddings=False,
    )  # fmt: skip
    processor = transformers.Granite4VisionProcessor(
        images,
        words,
        patch_size=4,
        vision_feature_select_strategy="full",
        downsample_rate="2/4",
        chat_template=template("<image>\\n"),
    )
    return "Granite4VisionForConditionalGeneration", config, processor


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


def paligemma(text: str = "gemma", **more):
    words = tokenizer("<bos>", image_token="<image>")
    words.add_special_tokens({"bos_token": "<bos>"})
    images = transformers.SiglipImageProcessorPil(size={"height": 32, "width": 32}, **IMAGE)
    images.image_seq_length = 16
    processor = transformers.PaliGemmaProcessor(images, words)  # adds tokens for places and outlines
    config = transformers.PaliGemmaConfig(
        text_config=dict(model_type=text, **text_config(words, num_hidden_layers=3, **more)),
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


def paligemma2():
    return paligemma(
        "gemma2", sliding_window=16, query_pre_attn_scalar=16, attn_logit_softcapping=2.0, final_logit_softcapping=5.0
    )


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


def mistral_large4():
    """Each token attends to the twelve others that an index selects; the last layer has the index of the one before,
    its keys and values too, and no rotary positions."""
    words, processor, vision = pixtral_parts(patch=8, merge=2)
    text = text_config(
        words, num_hidden_layers=3, num_key_value_heads=4, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8,
        v_head_dim=12, head_dim=8, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        index_topk=12, index_n_heads=8, index_head_dim=16, indexer_types=["full", "full", "shared"],
        no_rope_layers=[1, 0, 0], kv_source_layers=[0, 1, 1],
    )  # fmt: skip
    config = transformers.MistralLarge4Config(
        text_config=dict(model_type="mistral_large4_text", **text),
        vision_config=vision,
        image_token_index=words.convert_tokens_to_ids("[IMG]"),
        spatial_merge_size=2,
        vision_feature_layer=-1,
        tie_word_embeddings=False,
    )
    return "MistralLarge4ForConditionalGeneration", config, processor


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
        paligemma2,
        vipllava,
        lighton_ocr,
        ernie4_5_vl_moe,
        paddleocr_vl,
        mistral3,
        mistral_large4,
        pixtral,
        glm4v,
        glm4v_moe,
        qwen3_5,
        qwen3_5_moe,
        qwen2_5_omni_thinker,
        qwen3_omni_moe_thinker,
        glm46v,
        glm_ocr,
        exaone4_5,
        video_llama_3,
        deepseek_vl,
        janus,
        aya_vision,
        ovis2,
        gemma4,
        minicpmv4_6,
        minicpmv4_7,
        granite4_vision,
        qianfan_ocr,
        llava_next_video,
        cosmos3_omni,
        glmga,
        hyperclovax_vision_v2,
    )
}
if is_torchvision_available():
    BUILDERS |= NEEDING_TORCHVISION
if is_timm_available():
    BUILDERS |= NEEDING_TIMM


def write(name: str, folder: Path, seed: int = 3) -> Path:
    """A checkpoint of the family, random and saved as hub checkpoints are; norms and biases are random too."""
    torch.manual_seed(seed)
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
