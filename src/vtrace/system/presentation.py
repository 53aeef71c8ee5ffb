"""Saving and showing results.

Reports import results, so results cannot import reports. The root of the package, which may import both, registers the
presenter here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol


class Presenter(Protocol):
    """How results are saved and shown."""

    def save(self, thing: Any, path: str | Path) -> Path: ...

    def notebook(self, thing: Any) -> str: ...


_presenter: Callable[[], Presenter] | None = None  # called when something is first saved or shown


def present_with(presenter: Callable[[], Presenter]) -> None:
    """Register how results are saved and shown."""
    global _presenter
    _presenter = presenter


def _present() -> Presenter:
    if _presenter is None:
        raise RuntimeError("no presenter is registered; import vtrace first")
    return _presenter()


class Presentable:
    """A result that can be saved to a file and shown in a notebook."""

    def save(self, path: str | Path) -> Path:
        """Write .json (which can be loaded again), .html (one self-contained page) or .png, depending on the suffix."""
        return _present().save(self, path)

    def _repr_html_(self) -> str:
        return _present().notebook(self)
