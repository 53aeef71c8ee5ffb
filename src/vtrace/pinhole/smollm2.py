"""Pinhole-SmolLM2: an Idefics3 with a pretrained decoder.

A picture is cut into tiles, one for each cell of the board, and the prompt says before each tile in words where it is.
The vision tower writes what it sees in the decoder's own words: a token that shows a red circle is the sum of the
embeddings of " red" and " circle".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    Idefics3Config,
    Idefics3ImageProcessorPil,
    Idefics3Processor,
    PreTrainedModel,
)
from transformers.models.idefics3.modeling_idefics3 import Idefics3Connector, Idefics3VisionTransformer

from ..benchmarks.shapes.drawing import draw_scene
from ..benchmarks.shapes.scene import SHAPE_COLOURS, SHAPES, TOKEN_PIXELS, Scene
from ..lvlm.joined import DECODER, DOWN, JOINED, TRAINED, UP, write_tokenizer
from ..lvlm.pretrained import packaged_checkpoint
from ..tracing.defaults import SYSTEM_PROMPT
from .build import CHAT_TEMPLATE, shrink_outputs, sincos_grid
from .low_rank import changes

NAME = "pinhole-smollm2"
TILE = 64  # pixels along a side, as a cell of the board
TILE_TOKENS = 4  # of a tile
_SIDE = TILE // TOKEN_PIXELS
_PATCH = 8
_VISION = dict(
    hidden_size=160,
    intermediate_size=384,
    num_hidden_layers=4,
    num_attention_heads=5,
    image_size=TILE,
    patch_size=_PATCH,
    initializer_range=0.05,
)


class Parts:
    """The pretrained decoder, its tokenizer, and its words for what tokens show."""

    def __init__(self) -> None:
        base = packaged_checkpoint(JOINED[NAME].base)
        with TemporaryDirectory() as folder:
            write_tokenizer(JOINED[NAME], base, Path(folder))
            self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.language_model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        self.decoder = self.language_model.model
        self.embeddings: Float[Tensor, "vocabulary width"] = self.decoder.embed_tokens.weight.detach().clone()
        self.image = self.tokenizer.convert_tokens_to_ids("<image>")

    def encode(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def words(self, names: Sequence[str]) -> Float[Tensor, "names width"]:
        """Embeddings of words that are one token each, after a space."""
        return torch.cat([self.embeddings[self.encode(f" {name}")] for name in names])

    @cached_property
    def colours(self) -> Float[Tensor, "colours width"]:
        """Of each colour, and last of nothing."""
        return self.words([*SHAPE_COLOURS, "nothing"])

    @cached_property
    def shapes(self) -> Float[Tensor, "shapes width"]:
        """Of each shape, and last of nothing, which the first part has said already."""
        return torch.cat([self.words(SHAPES), torch.zeros(1, self.embeddings.shape[1])])

    def config(self) -> Idefics3Config:
        text = self.language_model.config.to_dict() | {"dtype": "float32"}
        text.pop("_name_or_path", None)
        return Idefics3Config(
            vision_config=_VISION,
            text_config=text,
            scale_factor=TILE // _PATCH // _SIDE,
            image_token_id=self.image,
            tie_word_embeddings=True,
        )

    def processor(self) -> Idefics3Processor:
        images = Idefics3ImageProcessorPil(
            size={"longest_edge": 4 * TILE},
            max_image_size={"longest_edge": TILE},
            image_mean=[0.5] * 3,
            image_std=[0.5] * 3,
        )
        template = CHAT_TEMPLATE.replace("PICTURE", "<image>")
        return Idefics3Processor(images, self.tokenizer, image_seq_len=TILE_TOKENS, chat_template=template)


class Tower(nn.Module):
    """The vision tower and the connector, named as in the whole model."""

    def __init__(self, config: Idefics3Config):
        super().__init__()
        config.vision_config._attn_implementation = "sdpa"
        self.vision_model = Idefics3VisionTransformer(config.vision_config)
        self.connector = Idefics3Connector(config)
        with torch.no_grad():
            positions = self.vision_model.embeddings.position_embedding.weight
            positions.copy_(0.5 * sincos_grid(TILE // _PATCH, positions.shape[1]))
        shrink_outputs(self.vision_model.encoder.layers, ("out_proj.weight", "fc2.weight"))

    def forward(self, batch: Sequence[Scene]) -> Float[Tensor, "tokens width"]:
        pixels = torch.cat([draw_tiles(scene) for scene in batch])
        return self.connector(self.vision_model(pixels).last_hidden_state).flatten(0, 1)


def draw_tiles(scene: Scene) -> Float[Tensor, "tiles 3 side side"]:
    """The tiles of a picture, row-major, and the whole picture as one more, as the processor makes them."""
    picture = draw_scene(scene)
    whole = _channels(picture).view(3, scene.rows, TILE, scene.columns, TILE)
    small = _channels(picture.resize((TILE, TILE), Image.Resampling.LANCZOS))
    return torch.cat([whole.permute(1, 3, 0, 2, 4).flatten(0, 1), small[None]]).div_(127.5).sub_(1)


def _channels(picture: Image.Image) -> Float[Tensor, "3 height width"]:
    return torch.from_numpy(np.array(picture)).float().permute(2, 0, 1)


def what_tokens_show(scene: Scene) -> Int[Tensor, "tokens 2"]:
    """Numbers of the colour and the shape that each image token shows. Tokens of the whole picture show too much at
    once, and count as nothing."""
    shown = torch.tensor([[len(SHAPE_COLOURS), len(SHAPES)]]).repeat((scene.rows * scene.columns + 1) * TILE_TOKENS, 1)
    for thing in scene.things:
        tile = (thing.row - 1) * scene.columns + thing.column - 1
        place = int(thing.y) // TOKEN_PIXELS % _SIDE * _SIDE + int(thing.x) // TOKEN_PIXELS % _SIDE
        shown[tile * TILE_TOKENS + place] = torch.tensor(
            [list(SHAPE_COLOURS).index(thing.colour), SHAPES.index(thing.shape)]
        )
    return shown


def prompt_beginning(rows: int, columns: int) -> str:
    """The text up to the end of the picture, as template and processor write it."""
    mark, tokens = "<fake_token_around_image>", "<image>" * TILE_TOKENS
    cells = [[f"{mark}<row_{r}_col_{c}>{tokens}" for c in range(1, columns + 1)] for r in range(1, rows + 1)]
    tiles = "".join("".join(row) + "\n" for row in cells)
    whole = f"\n{mark}<global-img>{tokens}{mark}"
    return f"<|im_start|>system\n{SYSTEM_PROMPT}<|im_end|>\n<|im_start|>user\n{tiles}{whole}"


def save_trained(parts: Parts, tower: Tower, folder: Path) -> None:
    """What ships: the tower, the changes of the decoder, the configuration and the processor; not the tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    trained = {f"model.{name}": value for name, value in tower.state_dict().items()}
    for change in changes(parts.decoder):
        trained |= {f"{DECODER}{change.name}{UP}": change.up, f"{DECODER}{change.name}{DOWN}": change.down}
    halves = {name: value.detach().to(torch.bfloat16).contiguous() for name, value in trained.items()}
    save_file(halves, folder / TRAINED, {"format": "pt"})
    config = parts.config()
    config.architectures = ["Idefics3ForConditionalGeneration"]
    config.save_pretrained(folder)
    stop = parts.tokenizer.eos_token_id
    GenerationConfig(do_sample=False, eos_token_id=stop, pad_token_id=stop).save_pretrained(folder)
    with TemporaryDirectory() as scratch:
        parts.processor().save_pretrained(scratch)
        for name in ("processor_config.json", "preprocessor_config.json", "chat_template.jinja"):
            if (found := Path(scratch) / name).exists():
                (folder / name).write_bytes(found.read_bytes())
