"""A whole copy of a policy whose own weights are divided over processes, or hidden in an engine.

Credit reads full matrices of every layer. Engines such as FSDP and Megatron keep parts of them, and every process that
takes part must run the same passes. A copy in each process needs neither: it follows the policy's weights, and credit
runs on it alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ModelError
from ..lvlm.load import find_dtype, load
from ..lvlm.model import Lvlm
from .policy import policy_of


@dataclass(frozen=True)
class PolicyCopy:
    """A copy of the policy, and where it runs."""

    lvlm: Lvlm
    device: str
    offload: bool = False  # keep it in the host's memory between uses

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str, dtype: str | None, offload: bool) -> PolicyCopy:
        """The policy as it was before training, checked to be one whose layers can be read."""
        loaded = load(path, find_dtype(dtype or ""), device)
        lvlm = policy_of(loaded.model.requires_grad_(False), loaded.processor, loaded.name)
        copy = cls(lvlm, device, offload)
        copy._rest()
        return copy

    @torch.no_grad()
    def refresh(self, weights: Iterable[tuple[str, Tensor]], names: Mapping[str, str]) -> None:
        """Follow the policy.

        Args:
            weights: names and full tensors of the policy. All are taken, because other processes may wait for it.
            names: what each of those names is called in the copy.
        """
        own = self.lvlm.model.state_dict()
        missing = set(own)
        for name, tensor in weights:
            target = names.get(name)
            if target in own:
                own[target].copy_(tensor)
                missing.discard(target)
        if missing:
            raise ModelError(
                f"credit cannot follow the policy: {len(missing)} of {len(own)} weights arrive under other names, "
                f"for example {min(missing)}; use an engine that keeps the names of the checkpoint"
            )

    @contextmanager
    def awake(self) -> Iterator[Lvlm]:
        """The copy, on its device."""
        self.lvlm.model.to(self.device)
        try:
            yield self.lvlm
        finally:
            self._rest()

    def _rest(self) -> None:
        if self.offload and self.device != "cpu":
            self.lvlm.model.to("cpu")
            torch.cuda.empty_cache()
