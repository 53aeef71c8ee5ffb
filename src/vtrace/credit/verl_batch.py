"""What credit takes from verl: options from its configuration, and rollouts from the rows of its queue."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from ..errors import InputError
from ..lvlm.families.family import ProcessorOutput
from ..lvlm.model import Lvlm
from .credit import Credit
from .rollouts import Rollout, from_tokens
from .trainer_rows import user_texts

_PER_TOKEN = ("mm_token_type_ids", "token_type_ids")  # verl drops them, or makes them for another text


@dataclass(frozen=True)
class VerlOptions:
    """What `+credit.NAME=value` can set.

    Args:
        credit: options of `Credit`, by name.
        refresh: after how many steps the copy of the policy follows its weights.
        dtype: of the copy; by default the checkpoint's on a GPU, float32 on a CPU.
        offload: keep the copy in the host's memory between steps.
    """

    credit: Credit = field(default_factory=Credit)
    refresh: int = 1
    dtype: str | None = None
    offload: bool = True

    def __post_init__(self) -> None:
        if self.refresh < 1:
            raise InputError(f"credit.refresh is {self.refresh}; give a number of steps, at least 1")

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> VerlOptions:
        """From the section `credit` of the configuration."""
        own = {f.name for f in dataclasses.fields(cls)} - {"credit"}
        known = own | {f.name for f in dataclasses.fields(Credit)}
        if unknown := sorted(set(given) - known):
            raise InputError(f"unknown option credit.{unknown[0]}; use one of: {', '.join(sorted(known))}")
        credit = Credit(**{name: value for name, value in given.items() if name not in own})
        return cls(credit, **{name: value for name, value in given.items() if name in own})


class VerlRow(NamedTuple):
    """What credit needs of one response."""

    prompt: Tensor
    response: Tensor
    advantages: Tensor  # one per response token
    pictures: Mapping[str, Any] | None = None  # the field multi_modal_inputs
    messages: Sequence[Mapping[str, Any]] | None = None  # the field raw_prompt

    @property
    def moved(self) -> bool:
        """Whether its weights can change anything."""
        return bool(self.advantages.ne(0).any())

    def rollout(self, lvlm: Lvlm) -> Rollout:
        inputs = _inputs(lvlm, self.prompt, self.pictures or {})
        texts = user_texts(self.messages or ())
        return from_tokens(lvlm, self.prompt.tolist(), self.response.tolist(), inputs, texts)


def _inputs(lvlm: Lvlm, prompt: Tensor, pictures: Mapping[str, Any]) -> ProcessorOutput:
    """What the model takes beside the tokens."""
    found = {
        name: value.to(lvlm.device)
        for name, value in pictures.items()
        if isinstance(value, Tensor) and name not in (*_PER_TOKEN, "images_seqlens")
    }
    if not found or lvlm.image_token_id is None:
        return found
    kinds = prompt.to(lvlm.device).eq(lvlm.image_token_id).long()[None]
    return found | {name: kinds for name in _PER_TOKEN if name in lvlm.processor.model_input_names}
