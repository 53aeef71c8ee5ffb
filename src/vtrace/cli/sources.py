"""What is explained: pictures and a question, an embedded example, a saved trace, or a conversation.

Everything is read and checked before PyTorch is imported, so that wrong input is refused in an instant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..types import Example, Progress, Trace
from .argument_hints import check_arguments

if TYPE_CHECKING:
    from ..lvlm.model import Lvlm


class TracedResponse(NamedTuple):
    """A model and its frozen trace."""

    lvlm: Lvlm
    trace: Trace


@dataclass(frozen=True)
class TraceSource:
    """The command-line arguments that say what is explained, and with which model."""

    command: str  # whose arguments they are
    inputs: list[str] | None
    example: str
    trace: Path | None
    chat: Path | None
    response: str | None  # None: the model generates one
    model: str
    dtype: str
    device: str
    max_new_tokens: int
    adapter: str = ""
    family: str = ""

    def read(self, target: str) -> ReadSource:
        """Read what is explained, and refuse whatever can be refused without a model."""
        from ..lvlm.checkpoint_source import reach_checkpoint
        from ..lvlm.devices import check_device_here
        from ..tracing.targets import check_target, find_target

        self._check()
        check_device_here(self.device)
        if self.trace is not None:
            from ..report.trace_document import read_trace

            saved = read_trace(self.trace)
            find_target(saved, target)
            found = ReadSource(self, self.model or saved.model, saved, None, {})
        else:
            check_target(target)
            example, options = self._asked()
            check_target(target, options.get("response"))
            found = ReadSource(self, self.model or "pinhole", None, example, options)
        reach_checkpoint(found.model)
        return found

    def _check(self) -> None:
        """Refuse contradictory arguments."""
        sources = {
            "IMAGE… QUESTION": self.inputs,
            "--example": self.example,
            "--trace": self.trace,
            "--chat": self.chat,
        }
        if len(given := [name for name, value in sources.items() if value]) > 1:
            raise InputError(f"{given[0]} and {given[1]} are mutually exclusive")
        if self.trace and self.response is not None:
            raise InputError("--trace and --response are mutually exclusive; the trace already has a response")
        if self.response is not None and not self.response.strip():
            raise InputError("--response is empty; give the text to explain, or leave it out to have one generated")
        if self.inputs:
            check_arguments(self.command, self.inputs, self.model)

    def _asked(self) -> tuple[Example, dict[str, Any]]:
        """The example to ask about, and the other arguments of `trace`."""
        from ..tracing.example import as_example, from_chat, read_chat

        if self.chat is not None:
            chat = from_chat(read_chat(self.chat), self.chat.parent)
            system = {} if chat.system is None else {"system": chat.system}
            return chat.example, {"response": chat.response if self.response is None else self.response, **system}
        if self.inputs:
            return as_example(self.inputs[:-1], self.inputs[-1]), {"response": self.response}
        from ..benchmarks.embedded import SHOWN, example

        return example(self.example or SHOWN), {"response": self.response}

    def load(self, model: str, report: Progress) -> Lvlm:
        """Load a model, and the adapter if one was given."""
        from ..lvlm.dtypes import find_dtype
        from ..lvlm.family_choice import find_family
        from ..lvlm.load import load

        report(0, 0, f"Loading {model}")
        return load(
            model,
            dtype=find_dtype(self.dtype),
            device=self.device or None,
            adapter=self.adapter or None,
            family=find_family(self.family),
        )


@dataclass(frozen=True)
class ReadSource:
    """What is explained, read and checked: a saved trace, or an example to ask about."""

    source: TraceSource
    model: str
    saved: Trace | None
    example: Example | None
    options: dict[str, Any]  # of `trace`

    def check_segments(self, segments: Sequence[str]) -> None:
        """Refuse parts of the question that it does not have."""
        from ..tracing.conversation import texts_of

        asked = self.saved or self.example
        assert asked is not None
        texts = [asked.question, *texts_of(asked.turns)]
        for segment in (text.strip() for text in segments):
            if not any(segment in text for text in texts):
                raise InputError(f"the question does not contain {segment!r}")

    def open(self, report: Progress) -> TracedResponse:
        """Load the model; take the saved trace, or generate the response."""
        from ..lvlm.family_choice import PROBE
        from ..tracing.generate import trace

        probed = self.saved is not None and bool(self.saved.probed)  # then its places have to be found again
        source = replace(self.source, family=PROBE) if probed else self.source
        lvlm = source.load(self.model, report)
        if self.saved is not None:
            return TracedResponse(lvlm, self.saved)
        assert self.example is not None
        report(0, 0, "Generating the response")
        budget = self.source.max_new_tokens
        return TracedResponse(lvlm, trace(lvlm, self.example, max_new_tokens=budget, **self.options))
