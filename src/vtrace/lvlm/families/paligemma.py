"""PaliGemma: one square per picture, and a prompt in which all positions see each other.

The response is causal: its tokens have type 1, those of the prompt 0. PaliGemma 2 contains Gemma 2, whose attention
logits are soft-capped and which has norms on the residual branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .family import TESTED, Family, ModelConfig, PictureCells, ProcessorOutput, Size, grid, square_mask

if TYPE_CHECKING:
    from transformers import ProcessorMixin

# Its checkpoints have no chat template. Pictures come first, then the text; the processor writes <bos> between them
# and a new line at the end, where the answer begins.
_TEMPLATE = """\
{%- if messages | length > 1 %}{{- raise_exception('it has no system prompt and no earlier turns') }}{%- endif %}
{%- for part in messages[0].content if part.type == 'image' %}{{- '<image>' }}{%- endfor %}
{%- for part in messages[0].content if part.type == 'text' %}{{- part.text }}{%- endfor %}"""


def _side(config: ModelConfig) -> int:
    return config.vision_config.image_size // config.vision_config.patch_size


def _cells(
    inputs: ProcessorOutput, processor: ProcessorMixin, config: ModelConfig, sizes: Sequence[Size]
) -> list[PictureCells]:
    side = _side(config)
    return [[*grid(side, side, size)] for size in sizes]


PALIGEMMA = Family(
    name="PaliGemma",
    model_types=("paligemma",),
    status=f"{TESTED}; attention from a prompt token to later ones is not followed",
    cells=_cells,
    pixel_mask=square_mask(_side),
    fits=lambda config: config.text_config.model_type == "gemma",
    chat_template=_TEMPLATE,
    response_ones=("attention_mask", "token_type_ids"),
)
PALIGEMMA2 = replace(
    PALIGEMMA,
    name="PaliGemma 2",
    status=f"{PALIGEMMA.status}; passes that are not instrumented use eager attention",
    fits=lambda config: config.text_config.model_type == "gemma2",
    branch_norm="post_attention_layernorm",
    kernel="eager",
)
