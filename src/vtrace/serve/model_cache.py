"""The models that the server was started with. One of them is in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..lvlm.load import load
from ..lvlm.model import Lvlm


class _Loaded(NamedTuple):
    name: str
    lvlm: Lvlm


class ModelCache:
    """Loads a model when it is requested, and drops the previous one."""

    def __init__(self, names: Sequence[str], load_model: Callable[[str], Lvlm] = load):
        self.names = tuple(dict.fromkeys(names))
        self._load = load_model
        self._loaded: _Loaded | None = None

    def get(self, name: str) -> Lvlm:
        if self._loaded is None or self._loaded.name != name:
            self._loaded = None  # before the next one takes its memory
            self._loaded = _Loaded(name, self._load(name))
        return self._loaded.lvlm
