"""How many sequences a decoder has decoded: what methods cost, whatever the machine."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle


class PassCounter:
    """Counts the sequences that a decoder decodes while this is open; it may be opened again while it is."""

    def __init__(self, decoder: nn.Module):
        self._decoder = decoder
        self._rows: list[int] = []  # appended to by several threads
        self._depth = 0
        self._hook: RemovableHandle | None = None

    @property
    def count(self) -> int:
        return sum(self._rows)

    def __enter__(self) -> PassCounter:
        if not self._depth:
            self._hook = self._decoder.register_forward_hook(self._add, with_kwargs=True)
        self._depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._depth -= 1
        if not self._depth and self._hook:
            self._hook.remove()

    def _add(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        cache, rows = kwargs.get("past_key_values"), output.last_hidden_state
        # Tokens that sequences begin with in common are decoded once before; they count with the sequences.
        if cache is None or cache.get_seq_length() > rows.shape[1]:
            self._rows.append(len(rows))
