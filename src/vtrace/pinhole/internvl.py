"""Pinhole-InternVL: a small InternVL. Pictures cut into tiles plus a thumbnail, pixel shuffle, a Qwen3 decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from transformers import (
    GotOcr2ImageProcessorPil,
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLProcessor,
    PreTrainedModel,
    ProcessorMixin,
    Qwen2Tokenizer,
)

from ..benchmarks.shapes.drawing import draw_scene
from ..benchmarks.shapes.scene import SCHOOL, TOKEN_PIXELS, WORLD, Scene
from ..lvlm.processor import image_only
from .build import CHAT_TEMPLATE, build_tokenizer, decoder_config, shrink_outputs, sincos_grid
from .recipe import ImagePositions, Recipe, Stage, Vision
from .training_batches import IGNORE

_TILE = 64  # pixels along a side
_PATCH = 16
_SIDE = _TILE // TOKEN_PIXELS  # tokens along a side of a tile
_WALKING = {"walk1": 5.0, "walk2": 5.0, "walk3": 4.0, "walk_read": 3.0}
_SPECIAL_TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<quad>", "<IMG_CONTEXT>", "<video>",
)  # fmt: skip


def _build_processor(tokenizer: Qwen2Tokenizer) -> ProcessorMixin:
    """Pictures become up to 16 tiles and a thumbnail, four visual tokens each."""
    images = GotOcr2ImageProcessorPil(
        size={"height": _TILE, "width": _TILE},
        crop_to_patches=True,
        min_patches=1,
        max_patches=16,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    template = CHAT_TEMPLATE.replace("PICTURE", "<IMG_CONTEXT>")
    return image_only(InternVLProcessor)(images, tokenizer, image_seq_length=_SIDE**2, chat_template=template)


def _build_model(tokenizer: Qwen2Tokenizer) -> InternVLForConditionalGeneration:
    """Random weights."""
    config = InternVLConfig(
        text_config=dict(model_type="qwen3", **decoder_config(tokenizer)),
        vision_config=dict(
            hidden_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=320,
            attention_bias=True,
            image_size=[_TILE, _TILE],
            patch_size=[_PATCH, _PATCH],
            initializer_range=0.05,
            layer_scale_init_value=1.0,
        ),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=_SIDE**2,
        downsample_ratio=0.5,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = InternVLForConditionalGeneration._from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    vision = model.model.vision_tower
    with torch.no_grad():
        vision.embeddings.position_embeddings[0, 1:].copy_(0.5 * sincos_grid(_TILE // _PATCH, 128))
    shrink_outputs(model.model.language_model.layers, ("o_proj.weight", "down_proj.weight"))
    shrink_outputs(vision.encoder.layer, ("projection_layer.weight", "fc2.weight"))
    return model


def _tiles(picture: Image.Image) -> Tensor:
    """The tiles of a picture whose sides are whole numbers of tiles, row-major, then the thumbnail: n,3,64,64."""

    def channels(image: Image.Image) -> Tensor:
        return torch.from_numpy(np.array(image)).float().permute(2, 0, 1)

    across, down = (side // _TILE for side in picture.size)
    cut = channels(picture).view(3, down, _TILE, across, _TILE).permute(1, 3, 0, 2, 4).reshape(-1, 3, _TILE, _TILE)
    small = channels(picture.resize((_TILE, _TILE), Image.Resampling.BICUBIC))
    return torch.cat([cut, small[None]]).div_(127.5).sub_(1)


def _draw(batch: Sequence[Scene]) -> dict[str, Tensor]:
    return {"pixel_values": torch.cat([_tiles(draw_scene(scene)) for scene in batch])}


def _see(model: PreTrainedModel, pixels: Mapping[str, Tensor]) -> Vision:
    seen = model.model.get_image_features(**pixels, return_dict=True)
    return Vision(seen.pooler_output.flatten(0, 1), {})


def _in_token_order(labels: Tensor) -> Tensor:
    """Tile by tile; tokens of the thumbnail show too much at once and have no labels."""
    n, rows, columns, k = labels.shape
    by_tile = labels.view(n, rows // _SIDE, _SIDE, columns // _SIDE, _SIDE, k).transpose(2, 3).reshape(n, -1, k)
    return torch.cat([by_tile, torch.full((n, _SIDE**2, k), IGNORE)], dim=1)


def _image_positions(rows: int, columns: int) -> ImagePositions:
    count = rows * columns + _SIDE**2
    return ImagePositions(torch.arange(count)[None], count)


PINHOLE_INTERNVL = Recipe(
    name="pinhole-internvl",
    folder="checkpoint_internvl",
    opening="<img>",
    closing="</img>",
    image_token="<IMG_CONTEXT>",
    readouts=2,
    stages=(
        Stage("see", SCHOOL, 600, images=32, whole=False),
        Stage("reason", SCHOOL, 700, images=16, see_weight=0.3),
        Stage("practise", SCHOOL, 800, images=16, see_weight=0.1, tower_rate=0.25),
        # Tiles are in one row, so up and down are the hard directions.
        Stage("walk", WORLD, 500, images=16, see_weight=0.1, tower_rate=0.25, often=_WALKING),
    ),
    tokenizer=lambda: build_tokenizer(
        _SPECIAL_TOKENS,
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
        quad_token="<quad>",
        turn_token="<|im_start|>",
    ),
    processor=_build_processor,
    build=_build_model,
    tower=lambda model: nn.ModuleList([model.model.vision_tower, model.model.multi_modal_projector]),
    draw=_draw,
    see=_see,
    in_token_order=_in_token_order,
    image_positions=_image_positions,
    decoder_from="pinhole",
)
