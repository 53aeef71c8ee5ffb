"""Example → Trace: the response is generated once, greedily, and frozen."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..errors import InputError, ModelError
from ..lvlm.families.family import Size
from ..lvlm.model import Lvlm
from ..types import Example, Finish, Kind, Patch, ProcessedPrompt, Span, Trace, Word
from .conversation import texts_of
from .example import Message, as_example, from_chat, is_chat, tidy, turns_of
from .pictures import Picture
from .prompt import (
    SYSTEM_PROMPT,
    check_length,
    check_response_ids,
    locate_texts,
    process_prompt,
)
from .spans import detokenise, find_answer, overlapping, split_sentences, word_runs
from .user_text import check_user_text

MAX_NEW_TOKENS = 2048


class Reply(NamedTuple):
    """The tokens of a response, and how it ended."""

    ids: list[int]
    finish: Finish


def trace(
    lvlm: Lvlm,
    images: Example | Picture | Sequence[Picture] | Sequence[Message],
    question: str = "",
    *,
    response: str | None = None,
    system: str = SYSTEM_PROMPT,
    max_new_tokens: int = MAX_NEW_TOKENS,
    streamer: Any = None,
) -> Trace:
    """Ask the model once and freeze its response, or freeze a `response` that the user or the example supplies.

    Args:
        lvlm: the model, from `load`.
        images: a picture, several, an `Example`, or a whole conversation as a list of chat messages.
        question: what is asked about the pictures; left out for an example or a conversation.
        response: explain this text instead of generating one.
        system: the system prompt; the paper's by default.
        max_new_tokens: token budget of a generated response.
        streamer: receives the tokens while they are generated, as in `transformers`.

    >>> trace(lvlm, "officer.jpg", "What is this person's job?")  # doctest: +SKIP
    """
    if is_chat(images):
        chat = from_chat(images)
        example, response = chat.example, response or chat.response
        system = system if chat.system is None else chat.system
    else:
        example = tidy(images) if isinstance(images, Example) else as_example(images, question)  # type: ignore[arg-type]
    prompt = process_prompt(lvlm, example, system)
    length = len(prompt.ids)
    room = lvlm.context - length
    if room < 1:
        raise InputError(f"the prompt has {length} tokens, more than the model's context of {lvlm.context}; shorten it")
    if response is not None:
        reply = Reply(_supplied(lvlm, response), "supplied")
    elif example.response_ids:
        reply = _sampled(lvlm, example.response_ids)
    elif example.response is not None:
        reply = Reply(_supplied(lvlm, example.response), "supplied")
    else:
        reply = _generate(lvlm, prompt, min(max_new_tokens, room), streamer)
    check_length(lvlm, length + len(reply.ids))
    return _freeze(lvlm, example, prompt, system, reply)


def retrace(lvlm: Lvlm, example: Example, reply: Reply, system: str = SYSTEM_PROMPT) -> Trace:
    """Freeze a response whose tokens are already known, such as one from an earlier run."""
    example = tidy(example)
    return _freeze(lvlm, example, process_prompt(lvlm, example, system), system, reply)


def _generate(lvlm: Lvlm, prompt: ProcessedPrompt, budget: int, streamer: Any) -> Reply:
    with torch.no_grad():
        ids = lvlm.model.generate(
            **prompt.inputs,
            max_new_tokens=budget,
            do_sample=False,
            num_beams=1,
            temperature=None,
            top_p=None,
            top_k=None,
            repetition_penalty=1.0,
            streamer=streamer,
        )
    reply = ids[0, len(prompt.ids) :].tolist()
    if not set(reply) - end_tokens(lvlm):
        raise InputError("the model gave an empty response; rephrase the question, or supply a response")
    return Reply(reply, "stop" if reply[-1] in end_tokens(lvlm) else "length")


def _supplied(lvlm: Lvlm, response: str) -> list[int]:
    """Tokens of a given text, followed by the end token as in a generated response."""
    response = unicodedata.normalize("NFC", response).strip()
    if not response:
        raise InputError("the supplied response is empty")
    check_user_text(lvlm, response, "response")
    tokenizer = lvlm.processor.tokenizer
    return [*tokenizer(response, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]


def _sampled(lvlm: Lvlm, ids: Sequence[int]) -> Reply:
    """Tokens that were sampled elsewhere, checked to be some that this model can read in a response."""
    check_response_ids(lvlm, ids)
    return Reply(list(ids), "stop" if ids[-1] in end_tokens(lvlm) else "length")


def end_tokens(lvlm: Lvlm) -> set[int]:
    """Tokens that end a response."""
    ends = lvlm.model.generation_config.eos_token_id
    own = lvlm.processor.tokenizer.eos_token_id
    return {own, *(ends if isinstance(ends, list) else [ends])}


def _freeze(lvlm: Lvlm, example: Example, prompt: ProcessedPrompt, system: str, reply: Reply) -> Trace:
    """Give every position its meaning."""
    tokenizer = lvlm.processor.tokenizer

    def decode(ids: list[int]) -> str:
        return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    ids = prompt.ids + reply.ids
    start = len(prompt.ids)
    text, offsets = detokenise(decode, ids)
    patches = _patches(lvlm, example, prompt)
    kinds: list[Kind] = ["template" if p < start else "response" for p in range(len(ids))]
    for asked in locate_texts(lvlm, prompt, texts_of(turns_of(example)), text[: offsets[start - 1].stop]):
        for p in overlapping(offsets, asked, stop=start):
            kinds[p] = "question"
    for patch in patches:
        kinds[patch.position] = "image"
    end = len(ids) - (reply.ids[-1] in end_tokens(lvlm))
    span = Span(offsets[start].start, offsets[end - 1].stop)
    reasoning, answer = find_answer(text, span)
    return Trace(
        model=lvlm.name,
        images=example.images,
        system=system,
        question=example.question,
        ids=tuple(ids),
        prompt_length=start,
        text=text,
        offsets=tuple(offsets),
        kinds=tuple(kinds),
        patches=patches,
        words=tuple(_words(text, offsets, kinds)),
        response_span=span,
        sentences=tuple(split_sentences(text[: span.stop], span.start)),
        reasoning=reasoning,
        answer=answer,
        finish=reply.finish,
        evidence_boxes=example.evidence_boxes,
        evidence_words=example.evidence_words,
        turns=example.turns,
        processed=prompt,
    )


def _patches(lvlm: Lvlm, example: Example, prompt: ProcessedPrompt) -> tuple[Patch, ...]:
    sizes = [Size(*image.size) for image in example.images]
    positions = [p for p, token in enumerate(prompt.ids) if token == lvlm.image_token_id]
    pictures = lvlm.family.cells(prompt.inputs, lvlm.processor, lvlm.model.config, sizes)
    cells = [(index, cell) for index, picture in enumerate(pictures) for cell in picture]
    if len(cells) != len(positions):
        raise ModelError(
            f"the processor made {len(positions)} image tokens where {lvlm.family.name} should have {len(cells)}; "
            "its family file does not fit this version of transformers"
        )
    return tuple(
        Patch(position, index, cell.row, cell.column, cell.box, cell.view)
        for position, (index, cell) in zip(positions, cells, strict=True)
        if cell is not None  # a token that shows nothing, such as the end of a row, is part of the template
    )


def _words(text: str, offsets: list[Span], kinds: list[Kind]) -> list[Word]:
    """Words of every run of positions of one kind; image positions are patches, not words."""
    words, start = [], 0
    for stop in range(1, len(kinds) + 1):
        if stop < len(kinds) and kinds[stop] == kinds[start]:
            continue
        if kinds[start] != "image":
            words += [Word(word, a, b, kinds[start]) for word, a, b in word_runs(text, offsets, start, stop)]
        start = stop
    return words
