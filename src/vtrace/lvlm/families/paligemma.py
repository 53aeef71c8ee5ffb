"""PaliGemma 1: one square a picture, and a prompt in which all positions see each other.

The response is causal: its tokens have type 1, those of the prompt 0. PaliGemma 2 has Gemma 2 inside, which is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .family import Cell, Family, Size, grid, squares

# Its checkpoints have no chat template. Pictures come first, then the text; the processor writes <bos> between them
# and a new line behind, where the answer begins.
_TEMPLATE = """\
{%- if messages | length > 1 %}{{- raise_exception('it knows no system prompt and no earlier turns') }}{%- endif %}
{%- for part in messages[0].content if part.type == 'image' %}{{- '<image>' }}{%- endfor %}
{%- for part in messages[0].content if part.type == 'text' %}{{- part.text }}{%- endfor %}"""


def _side(config: Any) -> int:
    return config.vision_config.image_size // config.vision_config.patch_size


def _cells(inputs: dict[str, Any], processor: Any, config: Any, sizes: Sequence[Size]) -> list[list[Cell | None]]:
    side = _side(config)
    return [[*grid(side, side, size)] for size in sizes]


def _pixel_mask(inputs: dict[str, Any], chosen: Tensor, config: Any) -> Tensor:
    return squares(chosen, _side(config), inputs["pixel_values"])


PALIGEMMA = Family(
    name="PaliGemma",
    model_types=("paligemma",),
    status="proved on small random models; what a token of the prompt reads from later ones is on no path",
    decoder=lambda model: model.model.language_model,
    cells=_cells,
    pixel_mask=_pixel_mask,
    fits=lambda config: config.text_config.model_type == "gemma",
    chat_template=_TEMPLATE,
    response_ones=("attention_mask", "token_type_ids"),
)
