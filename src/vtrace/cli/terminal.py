"""The terminal: shows texts whatever they contain, and is not steered by them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# A question, a response or a name can come from anyone, and escape sequences in it could rewrite what was printed.
_CONTROLS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class Terminal(Console):
    """A console that replaces the control characters of texts. Its own, which move and colour, are kept."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else text.translate(_CONTROLS), style, control)
