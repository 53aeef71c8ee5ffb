"""Saving and showing results."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from .provided import Provided


class Presenter(Protocol):
    """How results are saved and shown."""

    def save(self, thing: Any, path: str | Path) -> Path: ...

    def notebook(self, thing: Any) -> dict[str, str]: ...


PRESENTER: Provided[Presenter] = Provided("presenter")


class Presentable:
    """A result that can be saved to a file and shown in a notebook."""

    def save(self, path: str | Path) -> Path:
        """Write .json (which can be loaded again), .html (one self-contained page), or a figure as .png, .pdf or
        .svg, depending on the suffix."""
        return PRESENTER.get().save(self, path)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What a notebook shows, by media type."""
        return PRESENTER.get().notebook(self)

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]
