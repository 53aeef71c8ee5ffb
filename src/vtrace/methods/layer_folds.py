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
        return self._clock.share(INSTRUMENTED, ("fold", key), lambda: self._folded(key, begin))

    def along(self, key: Hashable, begin: Callable[[], LayerFold]) -> None:
        """Let the next pass do this fold too."""
        self._waiting[key] = begin

    def clean(self) -> Tensor | None:
        """log p of every response token, from the last pass; None if there was none."""
        if self._last is None:
            return None
        self._charge(self._last.key)
        return self._last.clean

    def _folded(self, key: Hashable, begin: Callable[[], _Fold]) -> _Fold:
        if companion := self._companions.pop(key, None):
            self._charge(companion.leader)
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

    def _charge(self, key: Hashable) -> None:
        """Count a pass that has run among the costs of whoever asks."""

        def never() -> None:
            raise AssertionError("this fold has been done")

        self._clock.share(INSTRUMENTED, ("fold", key), never)
