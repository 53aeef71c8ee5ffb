"""Pinhole: a small Qwen3-VL. Vision tower with 2 x 2 merging and DeepStack, decoder with M-RoPE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
    PreTrainedModel,
    ProcessorMixin,
    Qwen2Tokenizer,
    Qwen2VLImageProcessorPil,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
)

from ..benchmarks.shapes.drawing import draw_scene
from ..benchmarks.shapes.scene import CELL_PIXELS, NURSERY, SCHOOL, TOKEN_PIXELS, Scene
from ..lvlm.processor import image_only
from .build import CHAT_TEMPLATE, build_tokenizer, decoder_config, shrink_outputs, sincos_grid
from .recipe import ImagePositions, Recipe, Stage, Vision

_PATCH = 16  # pixels along a side
_MERGE = 2  # patches along a side of a visual token
_SPECIAL_TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
    "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip


def _build_processor(tokenizer: Qwen2Tokenizer) -> ProcessorMixin:
    """Pictures of 36 to 64 visual tokens keep their size; others are resized to that range."""
    images = Qwen2VLImageProcessorPil(
        patch_size=_PATCH,
        merge_size=_MERGE,
        temporal_patch_size=2,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        size={"shortest_edge": 36 * TOKEN_PIXELS * TOKEN_PIXELS, "longest_edge": 64 * TOKEN_PIXELS * TOKEN_PIXELS},
    )
    template = CHAT_TEMPLATE.replace("PICTURE", "<|vision_start|><|image_pad|><|vision_end|>")
    return image_only(Qwen3VLProcessor)(images, tokenizer, chat_template=template)


def _build_model(tokenizer: Qwen2Tokenizer) -> Qwen3VLForConditionalGeneration:
    """Random weights."""
    token = tokenizer.convert_tokens_to_ids
    text = decoder_config(tokenizer, mrope_section=[6, 5, 5], mrope_interleaved=True)
    config = Qwen3VLConfig(
        text_config=text,
        vision_config=dict(
            depth=4,
            hidden_size=128,
            num_heads=4,
            intermediate_size=320,
            patch_size=_PATCH,
            spatial_merge_size=_MERGE,
            temporal_patch_size=2,
            out_hidden_size=text["hidden_size"],
            num_position_embeddings=256,
            deepstack_visual_indexes=[0, 2],
            initializer_range=0.05,
        ),
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = Qwen3VLForConditionalGeneration._from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    with torch.no_grad():
        model.model.visual.pos_embed.weight.copy_(0.5 * sincos_grid(16, 128))
    shrink_outputs(model.model.language_model.layers, ("o_proj.weight", "down_proj.weight"))
    shrink_outputs(model.model.visual.blocks, ("attn.proj.weight", "linear_fc2.weight"))
    return model


def _patchify(pictures: list[np.ndarray]) -> Tensor:
    """Pixels in the order of Qwen's image processor: merge blocks row-major, patches row-major inside them."""
    x = torch.from_numpy(np.stack(pictures)).float().div_(127.5).sub_(1)  # n, height, width, 3
    n, height, width, _ = x.shape
    x = x.view(n, height // TOKEN_PIXELS, _MERGE, _PATCH, width // TOKEN_PIXELS, _MERGE, _PATCH, 3).permute(
        0, 1, 4, 2, 5, 7, 3, 6
    )
    x = x.unsqueeze(6).expand(*x.shape[:6], 2, _PATCH, _PATCH)  # the still picture fills both frames
    return x.reshape(-1, 3 * 2 * _PATCH * _PATCH)


def _draw(batch: Sequence[Scene]) -> dict[str, Tensor]:
    pixels = _patchify([np.asarray(draw_scene(scene)) for scene in batch])
    grid = torch.tensor(
        [[1, batch[0].rows * CELL_PIXELS // _PATCH, batch[0].columns * CELL_PIXELS // _PATCH]] * len(batch)
    )
    return {"pixel_values": pixels, "image_grid_thw": grid}


def _see(model: PreTrainedModel, pixels: Mapping[str, Tensor]) -> Vision:
    seen = model.model.visual(pixels["pixel_values"], grid_thw=pixels["image_grid_thw"])
    return Vision(seen.pooler_output, {"deepstack_visual_embeds": seen.deepstack_features})


def _image_positions(rows: int, columns: int) -> ImagePositions:
    """M-RoPE: time, row and column; text resumes after the longer side of the picture."""
    r, c = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return ImagePositions(torch.stack([torch.zeros_like(r), r, c]).flatten(1), max(rows, columns))


def _tower(model: PreTrainedModel) -> nn.Module:
    """The vision tower, with its patch convolution as a matrix product, which is faster on a CPU."""
    embed = model.model.visual.patch_embed
    embed.forward = lambda x: F.linear(x, embed.proj.weight.flatten(1), embed.proj.bias)
    return model.model.visual


PINHOLE = Recipe(
    name="pinhole",
    folder="checkpoint",
    opening="<|vision_start|>",
    closing="<|vision_end|>",
    image_token="<|image_pad|>",
    readouts=4,
    stages=(
        Stage("see", NURSERY, 450, images=32, whole=False),
        Stage("reason", NURSERY, 1900, images=16, see_weight=0.1, tower_rate=0.25),
        Stage("sharpen", SCHOOL, 600, images=16, see_weight=0.3),
    ),
    tokenizer=lambda: build_tokenizer(_SPECIAL_TOKENS),
    processor=_build_processor,
    build=_build_model,
    tower=_tower,
    draw=_draw,
    see=_see,
    in_token_order=lambda labels: labels.flatten(1, 2),
    image_positions=_image_positions,
    mark_image="visual_pos_masks",
)
