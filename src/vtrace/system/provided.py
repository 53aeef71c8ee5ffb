"""Functions of upper rooms that results call.

What presents or verifies results imports them, so results cannot import it. The root of the package, which may import
all rooms, names the modules here; they are imported when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

_Module = TypeVar("_Module")


class Provided(Generic[_Module]):
    """A module that the root of the package provides."""

    def __init__(self, what: str):
        self.what = what
        self._provider: Callable[[], _Module] | None = None

    def by(self, provider: Callable[[], _Module]) -> None:
        """Register where it comes from."""
        self._provider = provider

    def get(self) -> _Module:
        if self._provider is None:
            raise RuntimeError(f"no {self.what} is registered; import vtrace first")
        return self._provider()
