"""Folds over the layers of instrumented passes that keep none: each layer is added to what is wanted, then dropped."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol, TypeVar

from torch import Tensor

from ..lvlm.layer import Consumer, Layer
from .timing import StageClock

INSTRUMENTED = "instrumented pass"


class LayerFold(Protocol):
    """Something that takes one layer after the other."""

    def add(self, layer: Layer) -> None: ...


_Fold = TypeVar("_Fold", bound=LayerFold)


class _StreamedPass(NamedTuple):
    """The fold that a pass was for, and log p of every response token (n)."""

    key: Hashable
    clean: Tensor


class _Companion(NamedTuple):
    """What a pass folded beside the fold that it was for."""

    leader: Hashable
    result: Any


class LayerFolds:
    """Folds of one trace, by key. Each takes one pass, or none if it went along with another."""

    def __init__(self, clock: StageClock, run_pass: Callable[[Consumer], Tensor]):
        self._clock, self._run_pass = clock, run_pass
        self._waiting: dict[Hashable, Callable[[], LayerFold]] = {}
        self._companions: dict[Hashable, _Companion] = {}
        self._last: _StreamedPass | None = None

    def fold(self, key: Hashable, begin: Callable[[], _Fold]) -> _Fold:
        """What `begin` starts, after it was given all layers."""
        return self._clock.share(INSTRUMENTED, _key(key), lambda: self._folded(key, begin))

    def release(self, key: Hashable) -> None:
        """Free a fold that is no longer needed."""
        self._clock.release(_key(key))

    def along(self, key: Hashable, begin: Callable[[], LayerFold]) -> None:
        """Let the next pass do this fold too."""
        self._waiting[key] = begin

    def clean(self) -> Tensor | None:
        """log p of every response token, from the last pass; None if there was none."""
        if self._last is None:
            return None
        self._clock.charge(_key(self._last.key))
        return self._last.clean

    def _folded(self, key: Hashable, begin: Callable[[], _Fold]) -> _Fold:
        if companion := self._companions.pop(key, None):
            self._clock.charge(_key(companion.leader))
            return companion.result
        own = begin()
        others = {other: start() for other, start in self._waiting.items() if other != key}
        self._waiting = {}

        folds: list[LayerFold] = [own, *others.values()]

        def add(layer: Layer) -> None:
            for fold in folds:
                fold.add(layer)

        self._last = _StreamedPass(key, self._run_pass(add))
        self._companions |= {other: _Companion(key, result) for other, result in others.items()}
        return own


def _key(fold: Hashable) -> Hashable:
    """The key of a fold among all that the clock keeps."""
    return "fold", fold
