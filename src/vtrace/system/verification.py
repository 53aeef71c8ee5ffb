"""Verifying results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .provided import Provided

if TYPE_CHECKING:  # pictures are not imported together with the package
    from ..types import Progress


class Verifier(Protocol):
    """How a result is verified: the model is asked again with evidence hidden."""

    def verify(self, lvlm: Any, attribution: Any, *, progress: Progress, **options: Any) -> Any: ...


VERIFIER: Provided[Verifier] = Provided("verifier")
