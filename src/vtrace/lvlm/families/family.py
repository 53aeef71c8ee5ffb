"""What has to be known about a model family: a few facts, and two or three functions.

Files of families import PyTorch and transformers inside their functions, so that `vtrace models` is instant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ...types import Box

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PretrainedConfig, PreTrainedModel, ProcessorMixin

Arguments = dict[str, Any]  # keyword arguments of a text decoder, as its model passes them
ProcessorOutput = dict[str, Any]  # tensors by name, as the processor returns them
ModelConfig: TypeAlias = "PretrainedConfig"  # of a checkpoint, as transformers reads it
TESTED = "tested on randomly initialised checkpoints"  # a status that most families share
PER_TOKEN = ("inputs_embeds", "per_layer_inputs", "vision_mask")  # arguments whose second axis is that of tokens
IMAGE_ROWS = ("deepstack_visual_embeds", "deepstack_features")  # one row per image token; families find them as extras
CONVOLVED = "in its recurrent layers, what is credited to a token may stem from up to three tokens before it"


class Size(NamedTuple):
    """Size of a picture, in pixels."""

    width: int
    height: int


class Cell(NamedTuple):
    """What one image token shows: a cell in the token grid of one view, and its box in the original picture."""

    view: int
    row: int
    column: int
    box: Box
    confidence: float | None = None  # of a place that was found by probing; None if the family says it


PictureCells = list[Cell | None]  # per image token of a picture; None if it shows nothing, such as the end of a row
WHOLE = Box(0.0, 0.0, 1.0, 1.0)


def grid(rows: int, columns: int, size: Size, view: int = 0, shown: Box = WHOLE) -> list[Cell]:
    """Cells of a token grid, row-major. `shown` is where the picture lies on the grid, as fractions of its sides.

    A picture that was resized to the grid fills it; one with borders fills less, and a cropped one more.
    """
    left, top, right, bottom = shown
    xs = [_clip((c / columns - left) / (right - left)) * size[0] for c in range(columns + 1)]
    ys = [_clip((r / rows - top) / (bottom - top)) * size[1] for r in range(rows + 1)]
    return [Cell(view, r, c, Box(xs[c], ys[r], xs[c + 1], ys[r + 1])) for r in range(rows) for c in range(columns)]


def _clip(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def by_tile(cells: list[Cell], side: int) -> list[Cell]:
    """Cells in the order of square tiles, row-major between and within tiles. The sort has to be stable."""
    return sorted(cells, key=lambda cell: (cell.row // side, cell.column // side))


def squares(chosen: Tensor, side: int, pixels: Tensor) -> Tensor:
    """Tokens of square tiles, side² consecutive ones each, as a mask of the tiles' pixels: n,1,height,width."""
    mask = chosen.view(-1, 1, side, side)
    return mask.repeat_interleave(pixels.shape[-2] // side, 2).repeat_interleave(pixels.shape[-1] // side, 3)


def repeat_rows(arguments: Arguments, copies: int) -> Arguments:
    """A batch of copies. The batch is the first axis, except in multi-axis positions, where it is the second."""

    import torch

    def repeated(name: str, value: Any) -> Any:
        if name in IMAGE_ROWS:
            return value
        if isinstance(value, dict):  # a mask for each kind of layer
            return {key: repeated(key, part) for key, part in value.items()}
        if not isinstance(value, torch.Tensor) or value.ndim < 2:
            return value
        if name == "position_ids" and value.ndim == 3:
            return value.expand(value.shape[0], copies, -1)
        return value.expand(copies, *value.shape[1:])

    return {name: repeated(name, value) for name, value in arguments.items()}


def soft_capped(text: ModelConfig, logits: Tensor) -> Tensor:
    """Logits between the limits that the configuration of the text decoder sets, if it does."""
    import torch

    cap = text.final_logit_softcapping
    return logits if cap is None else torch.tanh(logits / cap) * cap


def deepstack(arguments: Arguments) -> list[Tensor]:
    """DeepStack adds vision features to early layers, in addition to the embeddings."""
    return list(arguments.get("deepstack_visual_embeds") or [])


def with_deepstack(arguments: Arguments, rows: list[Tensor]) -> Arguments:
    return {**arguments, "deepstack_visual_embeds": rows} if rows else arguments


def deepstack_rows(arguments: Arguments, masked: Tensor) -> Tensor:
    return masked[arguments["visual_pos_masks"]]


def no_extra_rows(arguments: Arguments, masked: Tensor) -> Tensor:
    return masked.new_zeros(0)


class FindCells(Protocol):
    """What each image token of each picture shows."""

    def __call__(
        self, inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
    ) -> list[PictureCells]: ...


class FindPixels(Protocol):
    """The processed pixels of the chosen image tokens, as a mask.

    `chosen` has an entry for every image token that shows something.
    """

    def __call__(self, inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor: ...


def square_mask(side: Callable[[ModelConfig], int]) -> FindPixels:
    """For families whose tiles, or whole pictures, are squares of side² tokens and separate pictures to the encoder."""

    def pixel_mask(inputs: ProcessorOutput, chosen: Tensor, config: ModelConfig) -> Tensor:
        return squares(chosen, side(config), inputs["pixel_values"])

    return pixel_mask


def _language_model(model: PreTrainedModel) -> Any:
    return model.model.language_model


def output_embedding(model: Any) -> Any:
    """What turns hidden states into logits: of the model, or of a whole language model inside it."""
    return model.get_output_embeddings() or getattr(model, "language_model", model).get_output_embeddings()


@dataclass(frozen=True)
class Family:
    """A family of checkpoints that share one architecture in `transformers`."""

    name: str
    model_types: tuple[str, ...]  # `config.model_type`
    status: str  # how support was verified, and known limits
    cells: FindCells
    pixel_mask: FindPixels | None  # None if unknown: patches are blurred in the picture instead
    decoder: Callable[[PreTrainedModel], Any] = _language_model  # the text decoder inside the model
    fits: Callable[[ModelConfig], bool] = lambda config: True  # distinguishes families of one model type
    branch_norm: str = ""  # name of the norm between attention and residual, where a layer has one
    extras: Callable[[Arguments], list[Tensor]] = lambda arguments: []  # further features at image positions
    with_extras: Callable[[Arguments, list[Tensor]], Arguments] = lambda arguments, rows: arguments
    extra_rows: Callable[[Arguments, Tensor], Tensor] = no_extra_rows  # their rows at masked positions (B,T)
    token_inputs: Callable[[Any, Tensor], dict[str, Tensor]] = lambda decoder, ids: {}  # per token, beside embeddings
    pixel_axis: int = 0  # of the processed pixels: along which several pictures are concatenated
    patch_numbers: str = ""  # input that numbers the patches of all pictures, -1 for none; their first two axes
    logits: Callable[[ModelConfig, Tensor], Tensor] = lambda text, logits: logits  # what the model does to them
    kernel: str = "sdpa"  # how attention is computed; "eager" where SDPA would be wrong
    chat_template: str = ""  # for checkpoints without one
    response_ones: tuple[str, ...] = ("attention_mask",)  # inputs that are 1, not 0, for response tokens
    tile: Callable[[ModelConfig], int] | None = None  # consecutive tokens that are encoded independently
    patch_embed: Callable[[PreTrainedModel], nn.Module] | None = None  # module that embeds pixels patch by patch
    pictures_mix: bool = False  # whether pictures that are encoded together see each other
    probed: bool = False  # whether the places of its image tokens are found by probing
