"""Pinhole-InternVL: a small InternVL. Pictures cut into tiles beside a thumbnail, pixel shuffle, a Qwen3 decoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from transformers import GotOcr2ImageProcessorPil, InternVLConfig, InternVLForConditionalGeneration, Qwen2Tokenizer

from ..benchmarks.shapes.scene import SCHOOL, TOKEN, WORLD, Scene, draw_scene
from ..lvlm.processor import ImageOnlyInternVLProcessor
from .build import CHAT_TEMPLATE, build_tokenizer, decoder_config, shrink_outputs, sincos_grid
from .training_batches import IGNORE
from .recipe import Recipe, Stage

TILE, PATCH = 64, 16  # pixels
SIDE = TILE // TOKEN  # tokens along a tile
WALKING = {"walk1": 5.0, "walk2": 5.0, "walk3": 4.0, "walk_read": 3.0}
SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<quad>", "<IMG_CONTEXT>", "<video>",
)  # fmt: skip


def build_processor(tokenizer: Qwen2Tokenizer) -> ImageOnlyInternVLProcessor:
    """Pictures become up to 16 tiles and a thumbnail, four visual tokens each."""
    images = GotOcr2ImageProcessorPil(
        size={"height": TILE, "width": TILE}, crop_to_patches=True, min_patches=1, max_patches=16,
        image_mean=[0.5] * 3, image_std=[0.5] * 3,
    )  # fmt: skip
    template = CHAT_TEMPLATE.replace("PICTURE", "<IMG_CONTEXT>")
    return ImageOnlyInternVLProcessor(images, tokenizer, image_seq_length=SIDE**2, chat_template=template)


def build_model(tokenizer: Qwen2Tokenizer) -> InternVLForConditionalGeneration:
    """Random weights."""
    config = InternVLConfig(
        text_config=dict(model_type="qwen3", **decoder_config(tokenizer)),
        vision_config=dict(
            hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=320, attention_bias=True,
            image_size=[TILE, TILE], patch_size=[PATCH, PATCH], initializer_range=0.05, layer_scale_init_value=1.0,
        ),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=SIDE**2,
        downsample_ratio=0.5,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model = InternVLForConditionalGeneration._from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    vision = model.model.vision_tower
    with torch.no_grad():
        vision.embeddings.position_embeddings[0, 1:].copy_(0.5 * sincos_grid(TILE // PATCH, 128))
    shrink_outputs(model.model.language_model.layers, ("o_proj.weight", "down_proj.weight"))
    shrink_outputs(vision.encoder.layer, ("projection_layer.weight", "fc2.weight"))
    return model


def tiles(picture: Image.Image) -> Tensor:
    """The tiles of a picture whose sides are whole numbers of tiles, row-major, then the thumbnail: n,3,64,64."""

    def channels(image: Image.Image) -> Tensor:
        return torch.from_numpy(np.array(image)).float().permute(2, 0, 1)

    across, down = (side // TILE for side in picture.size)
    cut = channels(picture).view(3, down, TILE, across, TILE).permute(1, 3, 0, 2, 4).reshape(-1, 3, TILE, TILE)
    small = channels(picture.resize((TILE, TILE), Image.Resampling.BICUBIC))
    return torch.cat([cut, small[None]]).div_(127.5).sub_(1)


def draw(batch: list[Scene]) -> dict[str, Tensor]:
    return {"pixel_values": torch.cat([tiles(draw_scene(scene)) for scene in batch])}


def see(model: Any, pixel_values: Tensor) -> tuple[Tensor, dict[str, Any]]:
    return model.model.get_image_features(pixel_values=pixel_values, return_dict=True).pooler_output.flatten(0, 1), {}


def in_token_order(labels: Tensor) -> Tensor:
    """Tile by tile; a thumbnail shows too much at once to be read token by token."""
    n, rows, columns, k = labels.shape
    by_tile = labels.view(n, rows // SIDE, SIDE, columns // SIDE, SIDE, k).transpose(2, 3).reshape(n, -1, k)
    return torch.cat([by_tile, torch.full((n, SIDE**2, k), IGNORE)], dim=1)


def places(rows: int, columns: int) -> tuple[Tensor, int]:
    count = rows * columns + SIDE**2
    return torch.arange(count)[None], count


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
        # Tiles come in one row: up and down are the hard directions.
        Stage("walk", WORLD, 500, images=16, see_weight=0.1, tower_rate=0.25, often=WALKING),
    ),
    tokenizer=lambda: build_tokenizer(
        SPECIAL, start_image_token="<img>", end_image_token="</img>", context_image_token="<IMG_CONTEXT>",
        video_token="<video>", quad_token="<quad>", turn_token="<|im_start|>",
    ),
    processor=build_processor,
    build=build_model,
    tower=lambda model: nn.ModuleList([model.model.vision_tower, model.model.multi_modal_projector]),
    draw=draw,
    see=see,
    in_token_order=in_token_order,
    places=places,
    decoder_from="pinhole",
)  # fmt: skip
