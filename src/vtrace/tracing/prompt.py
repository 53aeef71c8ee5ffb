"""The prompt: rendered by the model's chat template and read by its processor, each once per trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jinja2 import TemplateError
from PIL import Image

from ..errors import InputError, ModelError, first_line
from ..lvlm.encoding import with_response
from ..lvlm.families.family import Arguments, ProcessorOutput
from ..lvlm.model import Lvlm
from ..lvlm.processor import placeholder, processed, render_chat
from ..types import Example, ProcessedPrompt, Span, Trace, Turn
from .conversation import joined_texts, locate, marked, messages_of, unmarked
from .example import turns_of
from .user_text import check_user_text


def process_prompt(lvlm: Lvlm, example: Example, system: str) -> ProcessedPrompt:
    """Render the prompt of an example and run the processor on it."""
    if lvlm.image_token_id is None and example.images:
        raise InputError(f"{lvlm.name} takes no pictures; ask without one, or choose another model")
    if lvlm.image_token_id is not None and not example.images:
        raise InputError("no picture was given; give at least one")
    turns = turns_of(example)
    _check_texts(lvlm, turns, system)
    text = _render(lvlm, marked(turns), system).text
    return ProcessedPrompt(lvlm.processor, example.images, text, process(lvlm, text, example.images))


def process(lvlm: Lvlm, text: str, images: Sequence[Image.Image]) -> ProcessorOutput:
    """Processor output for a rendered prompt and its pictures."""
    return processed(lvlm.processor, unmarked(text), images, lvlm.model)


def trace_inputs(lvlm: Lvlm, trace: Trace) -> ProcessorOutput:
    """Processor output for the whole frozen sequence, prompt and response."""
    return with_response(lvlm, processed_prompt(lvlm, trace).inputs, trace.ids)


def encode_trace(lvlm: Lvlm, trace: Trace) -> Arguments:
    """Decoder arguments for the whole frozen sequence, through the model's own processor and forward."""
    return lvlm.seam.encode(trace_inputs(lvlm, trace))


def processed_prompt(lvlm: Lvlm, trace: Trace) -> ProcessedPrompt:
    """The processed prompt from when the trace was frozen; processed again for a trace from a file."""
    known = trace.processed
    if known is None or known.processor is not lvlm.processor or known.images is not trace.images:
        if trace.patches and not trace.images:
            raise InputError(
                "this trace was saved without its pictures; save it as a file with --save-trace or --json FILE"
            )
        check_response_ids(lvlm, trace.ids[trace.prompt_length :])
        check_length(lvlm, len(trace))
        known = process_prompt(lvlm, Example(trace.images, trace.question, turns=trace.turns), trace.system)
    if tuple(known.ids) != trace.ids[: trace.prompt_length]:
        raise ModelError(f"this trace was made with {trace.model}; {lvlm.name} reads its prompt differently")
    return known


def locate_texts(lvlm: Lvlm, prompt: ProcessedPrompt, texts: Sequence[str], decoded: str) -> list[Span]:
    """Where the texts of the conversation are in the decoded prompt."""
    found = locate(decoded, prompt.text, len(texts), placeholder(lvlm.processor))
    if found is None:
        raise InputError("the model's chat template changes the question, so its words cannot be found in the prompt")
    return found


def check_response_ids(lvlm: Lvlm, ids: Sequence[int]) -> None:
    """Refuse tokens that this model cannot read in a response."""
    size = lvlm.model.get_input_embeddings().num_embeddings
    if wrong := [token for token in ids if not 0 <= token < size]:
        raise InputError(f"the response has a token {wrong[0]}, but {lvlm.name} has only {size}; was it another model?")
    if {lvlm.image_token_id, getattr(lvlm.model.config, "video_token_id", None)} & set(ids):
        raise InputError("the response has the token of a picture or video, which the model would look for; remove it")


def check_length(lvlm: Lvlm, length: int) -> None:
    """Refuse a prompt and response that are longer than the model's context."""
    if length > lvlm.context:
        raise InputError(
            f"prompt and response have {length} tokens, more than the model's context of {lvlm.context}; "
            "shorten the response"
        )


def prompt_messages(lvlm: Lvlm, example: Example, system: str) -> list[dict[str, Any]]:
    """The messages that the model's own chat template renders as the prompt of an example."""
    turns = turns_of(example)
    _check_texts(lvlm, turns, system)
    return _render(lvlm, turns, system).messages


def _check_texts(lvlm: Lvlm, turns: Sequence[Turn], system: str) -> None:
    for cleaned in (str, str.strip):  # a template may strip what it joins
        check_user_text(lvlm, "\n".join([system, *joined_texts(turns, cleaned)]), "prompt")


class _Rendered(NamedTuple):
    """Messages, and the prompt that the model's own chat template makes of them."""

    messages: list[dict[str, Any]]
    text: str


def _render(lvlm: Lvlm, turns: Sequence[Turn], system: str, own_turn: bool = True) -> _Rendered:
    messages = messages_of(turns, system, own_turn, plain=lvlm.image_token_id is None)
    try:
        text = render_chat(lvlm.processor, messages)
        if system in text or not own_turn:
            return _Rendered(messages, text)
    except TemplateError as error:
        if not (system and own_turn):
            raise InputError(f"{lvlm.name} does not take this conversation: {first_line(error)}") from error
    return _render(lvlm, turns, system, own_turn=False)  # not every template supports a system prompt
