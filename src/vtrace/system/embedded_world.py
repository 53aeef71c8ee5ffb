"""The world that the embedded models know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .provided import Provided

if TYPE_CHECKING:  # pictures are not imported together with the package
    from ..types import Trace


class EmbeddedWorld(Protocol):
    """Knows what an embedded model cannot be asked about."""

    def notes(self, trace: Trace) -> list[str]: ...


EMBEDDED_WORLD: Provided[EmbeddedWorld] = Provided("world of the embedded models")
