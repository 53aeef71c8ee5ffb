"""Example → Trace: the response is generated once, greedily, and frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import ModelError
from ..lvlm.families.family import Size
from ..lvlm.model import Lvlm
from ..types import Example, Kind, Patch, ProcessedPrompt, Span, Trace, Word
from .conversation import texts_of
from .defaults import MAX_NEW_TOKENS, SYSTEM_PROMPT
from .example import Message, as_example, from_chat, is_chat, tidy, turns_of
from .pictures import Picture
from .prompt import locate_texts, process_prompt
from .reply import Reply, asked_part, end_tokens, generate_reply, known_reply, room_for_reply
from .spans import detokenise, find_answer, overlapping, split_sentences, word_runs


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

    Examples:
        >>> trace(lvlm, "officer.jpg", "What is this person's job?")  # doctest: +SKIP
    """
    if is_chat(images):
        chat = from_chat(images)
        example, response = chat.example, chat.response if response is None else response
        system = system if chat.system is None else chat.system
    else:
        example = tidy(images) if isinstance(images, Example) else as_example(images, question)  # type: ignore[arg-type]
    prompt = process_prompt(lvlm, example, system)
    budget = min(max_new_tokens, room_for_reply(lvlm, prompt))
    given = example if response is None else replace(example, response=response, response_ids=())
    reply = known_reply(lvlm, given, prompt)
    if reply is None:
        reply = asked_part(lvlm, example, generate_reply(lvlm, prompt, budget, streamer))
    return _freeze(lvlm, example, prompt, system, reply)


def retrace(lvlm: Lvlm, example: Example, reply: Reply, system: str = SYSTEM_PROMPT) -> Trace:
    """Freeze a response whose tokens are already known, such as one from an earlier run."""
    example = tidy(example)
    return _freeze(lvlm, example, process_prompt(lvlm, example, system), system, reply)


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
    reasoning, answer = find_answer(text, span, example.answer_names)
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
        Patch(position, index, cell.row, cell.column, cell.box, cell.view, cell.confidence)
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
