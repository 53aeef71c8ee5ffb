"""Results that save and show themselves.

Reports are drawn from results, so results cannot import reports. The package's root, which stands above both, names
the presenter here.
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
    """Say how results are saved and shown."""
    global _presenter
    _presenter = presenter


def _present() -> Presenter:
    if _presenter is None:
        raise RuntimeError("nobody has said how results are shown; import vtrace first")
    return _presenter()


class Presentable:
    """A result with the methods that users expect of it."""

    def save(self, path: str | Path) -> Path:
        """Write .json (loads back), .html (one self-contained page) or .png, by the name's ending."""
        return _present().save(self, path)

    def _repr_html_(self) -> str:
        return _present().notebook(self)
