"""What is explained: pictures and a question, an embedded example, a saved trace, or a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..types import Example, Progress, Trace

if TYPE_CHECKING:
    from ..lvlm.model import Lvlm


class TracedResponse(NamedTuple):
    """A model and its frozen trace."""

    lvlm: Lvlm
    trace: Trace


class _Request(NamedTuple):
    """An example to ask about, and the other arguments of `trace`."""

    example: Example
    options: dict[str, Any]


@dataclass(frozen=True)
class TraceSource:
    """The command-line arguments that say what is explained, and with which model."""

    inputs: list[str] | None
    example: str
    trace: Path | None
    chat: Path | None
    response: str
    model: str
    dtype: str
    device: str
    max_new_tokens: int
    adapter: str = ""

    def check(self) -> None:
        """Refuse contradictory arguments before anything is loaded."""
        sources = {
            "IMAGE… QUESTION": self.inputs,
            "--example": self.example,
            "--trace": self.trace,
            "--chat": self.chat,
        }
        if len(given := [name for name, value in sources.items() if value]) > 1:
            raise InputError(f"{given[0]} and {given[1]} are mutually exclusive")
        if self.trace and self.response:
            raise InputError("--trace and --response are mutually exclusive; the trace already has a response")
        if self.inputs and len(self.inputs) < 2 and self.model in ("", "pinhole", "pinhole-internvl"):
            raise InputError("give at least one picture and a question: IMAGE… QUESTION")

    def open(self, report: Progress) -> TracedResponse:
        """Load the model; read the trace, or generate the response."""
        from ..tracing.generate import trace

        saved = self._saved_trace()
        if saved is not None:
            return TracedResponse(self.load(self.model or saved.model, report), saved)
        request = self._request()
        lvlm = self.load(self.model or "pinhole", report)
        report(0, 0, "Generating the response")
        return TracedResponse(lvlm, trace(lvlm, request.example, max_new_tokens=self.max_new_tokens, **request.options))

    def _saved_trace(self) -> Trace | None:
        from ..report.documents import read_trace

        return None if self.trace is None else read_trace(self.trace)

    def _request(self) -> _Request:
        from ..benchmarks.embedded import SHOWN, example
        from ..tracing.example import as_example, from_chat, read_chat

        response = self.response or None
        if self.chat is not None:
            chat = from_chat(read_chat(self.chat), self.chat.parent)
            system = {} if chat.system is None else {"system": chat.system}
            return _Request(chat.example, {"response": response or chat.response, **system})
        if self.inputs:
            return _Request(as_example(self.inputs[:-1], self.inputs[-1]), {"response": response})
        return _Request(example(self.example or SHOWN), {"response": response})

    def load(self, model: str, report: Progress) -> Lvlm:
        """Load a model, and the adapter if one was given."""
        from ..lvlm.load import find_dtype, load

        report(0, 0, f"Loading {model}")
        return load(model, dtype=find_dtype(self.dtype), device=self.device or None, adapter=self.adapter or None)
