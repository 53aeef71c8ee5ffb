"""A whole copy of a policy whose own weights are divided over processes, or hidden in an engine.

Credit reads full matrices of every layer. Engines such as FSDP and Megatron keep parts of them, and every process that
takes part must run the same passes. A copy in each process needs neither: it follows the policy's weights, and credit
runs on it alone. Trainers also change the classes of models to suit themselves, for instance so that positions must be
given. The copy is loaded before that, and runs with the methods its classes had then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import isfunction
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ModelError
from ..lvlm.dtypes import find_dtype
from ..lvlm.load import load
from ..lvlm.model import Lvlm
from .policy import policy_of

_Methods = dict[type, dict[str, Any]]


@dataclass(frozen=True)
class PolicyCopy:
    """A copy of the policy, where it runs, and the methods of its classes."""

    lvlm: Lvlm
    device: str
    offload: bool  # keep it in the host's memory between uses
    methods: _Methods

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str, dtype: str | None, offload: bool) -> PolicyCopy:
        """The policy before training, checked to be one whose layers can be read. Call it before the trainer loads its
        own, because that may change the classes."""
        loaded = load(path, find_dtype(dtype or ""), device)
        methods = _methods(loaded.model)
        _refuse_changed(methods)
        lvlm = policy_of(loaded.model.requires_grad_(False), loaded.processor, loaded.name)
        copy = cls(lvlm, device, offload, methods)
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
            if target in own and own[target].shape == tensor.shape:
                own[target].copy_(tensor)
                missing.discard(target)
        if missing:
            raise ModelError(
                f"credit cannot follow the policy: {len(missing)} of {len(own)} weights arrive under other names or "
                f"shapes, for example {min(missing)}; use an engine that keeps the names of the checkpoint"
            )

    @contextmanager
    def awake(self) -> Iterator[Lvlm]:
        """The copy, on its device and with its own methods."""
        self.lvlm.model.to(self.device)
        try:
            with _restored(self.methods):
                yield self.lvlm
        finally:
            self._rest()

    def _rest(self) -> None:
        if self.offload and self.device != "cpu":
            self.lvlm.model.to("cpu")
            torch.cuda.empty_cache()


def _methods(model: nn.Module) -> _Methods:
    """The methods of all classes of transformers that a model is made of."""
    classes = {kind for module in model.modules() for kind in type(module).__mro__}
    return {kind: _own(kind) for kind in classes if kind.__module__.startswith("transformers.")}


def _own(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if isfunction(value)}


def _refuse_changed(methods: _Methods) -> None:
    for kind, own in methods.items():
        if getattr(own.get("forward"), "__module__", "transformers").split(".")[0] != "transformers":
            raise ModelError(
                f"{kind.__name__}.forward was replaced before credit started, by {own['forward'].__module__}; "
                "load the copy first, or train without a critic in the same process"
            )


@contextmanager
def _restored(methods: _Methods) -> Iterator[None]:
    """Undo, for a while, what was done to classes since."""
    changed = {kind: _own(kind) for kind, own in methods.items() if _own(kind) != own}
    for kind, now in changed.items():
        _replace(kind, now, methods[kind])
    try:
        yield
    finally:
        for kind, now in changed.items():
            _replace(kind, methods[kind], now)


def _replace(kind: type, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in old.keys() - new.keys():
        delattr(kind, name)
    for name, method in new.items():
        if old.get(name) is not method:
            setattr(kind, name, method)
