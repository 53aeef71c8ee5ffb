"""Example → Trace: the response is generated once, greedily, and frozen."""

from __future__ import annotations

import os
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError
from PIL import Image, ImageOps, UnidentifiedImageError

from .conversation import locate, marked, messages_of, parse, question_of, single, texts_of
from .errors import InputError, ModelError, first_line
from .lvlm import Lvlm
from .lvlm.processor import placeholder, render
from .prompt import SYSTEM_PROMPT
from .spans import detokenise, find_answer, overlapping, split_sentences, word_runs
from .types import Example, Patch, Span, Trace, Turn, Word

MAX_NEW_TOKENS = 2048
MAX_PIXELS = 64_000_000
Picture = Image.Image | str | os.PathLike[str]
Message = Mapping[str, Any]  # of a chat: role and content


def trace(
    lvlm: Lvlm, images: Example | Picture | Sequence[Picture] | Sequence[Message], question: str = "", *,
    response: str | None = None,
    system: str = SYSTEM_PROMPT, max_new_tokens: int = MAX_NEW_TOKENS, streamer: Any = None,
) -> Trace:  # fmt: skip
    """Ask the model once and freeze what it says; or freeze a `response` that the user or the example supplies.

    Instead of pictures and a question, `images` can be a whole conversation, as a list of chat messages.

    >>> trace(lvlm, "officer.jpg", "What is this person's job?")  # doctest: +SKIP
    """
    if is_chat(images):
        example, told, said = from_chat(images)  # type: ignore[arg-type]
        system, response = told if told is not None else system, response or said
    else:
        example = tidy(images) if isinstance(images, Example) else as_example(images, question)  # type: ignore[arg-type]
    inputs, prompt = encode_prompt(lvlm, example, system)
    room = lvlm.context - len(prompt)
    if room < 1:
        raise InputError(
            f"the prompt has {len(prompt)} tokens, more than the model's context of {lvlm.context}; shorten it"
        )
    response = example.response if response is None else response
    if response is None:
        reply, finish = _generate(lvlm, inputs, min(max_new_tokens, room), streamer)
    else:
        reply, finish = _supplied(lvlm, response), "supplied"
    if len(reply) > room:
        raise InputError(
            f"prompt and response have {len(prompt) + len(reply)} tokens, "
            f"more than the model's context of {lvlm.context}; shorten the response"
        )
    return freeze(lvlm, example, inputs, system, prompt, reply, finish)


def retrace(lvlm: Lvlm, example: Example, reply: Sequence[int], finish: str, system: str = SYSTEM_PROMPT) -> Trace:
    """Freeze a response whose tokens are known already, such as those of an earlier run."""
    example = tidy(example)
    inputs, prompt = encode_prompt(lvlm, example, system)
    return freeze(lvlm, example, inputs, system, prompt, list(reply), finish)


def as_example(images: Picture | Sequence[Picture], question: str) -> Example:
    """Open the pictures and tidy the question."""
    several = images if isinstance(images, Sequence) and not isinstance(images, str) else [images]
    return tidy(Example(tuple(map(open_image, several)), question))


def is_chat(given: Any) -> bool:
    return isinstance(given, Sequence) and len(given) > 0 and isinstance(given[0], Mapping)


def from_chat(messages: Sequence[Message], folder: Path | None = None) -> tuple[Example, str | None, str | None]:
    """Example, system prompt and response of a conversation; names of picture files are relative to `folder`."""
    turns, pictures, system, response = parse(messages)
    if folder is not None:
        pictures = [folder / picture if isinstance(picture, str) else picture for picture in pictures]
    example = Example(tuple(map(open_image, pictures)), question_of(turns), turns=turns)
    return tidy(example), system, response


def tidy(example: Example) -> Example:
    """An example that can be asked: upright RGB pictures, a question in composed characters."""
    question = unicodedata.normalize("NFC", example.question)
    if not question.strip():
        raise InputError("the question is empty; ask something about the picture")
    return replace(example, images=tuple(map(open_image, example.images)), question=question.strip())


def open_image(picture: Picture) -> Image.Image:
    """An RGB picture, upright, or an error that says what is wrong with the file."""
    name = "the picture" if isinstance(picture, Image.Image) else str(picture)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's notes on odd metadata
            if isinstance(picture, Image.Image):
                return _rgb(picture, name)
            path = Path(picture)
            if not path.exists():
                raise InputError(f"there is no picture at {name}")
            if path.is_dir():
                raise InputError(f"{name} is a folder; give a picture file")
            if path.stat().st_size == 0:
                raise InputError(f"{name} is empty")
            with Image.open(path) as opened:
                return _rgb(opened, name)
    except InputError:
        raise
    except Exception as error:  # decoders raise whatever a damaged file makes them stumble over
        unknown = isinstance(error, UnidentifiedImageError)
        reason = "it is not a picture that Pillow can read" if unknown else first_line(error)
        raise InputError(f"cannot read {name[:200]}: {reason}; save it as PNG or JPEG and try again") from error


def _rgb(image: Image.Image, name: str) -> Image.Image:
    _check_size(image, name)
    upright = ImageOps.exif_transpose(image)
    if upright.mode == "F":
        raise InputError(f"{name} has floating-point pixels of unknown range; save it as PNG or JPEG")
    if upright.mode.startswith("I"):  # 16 bits per pixel
        return upright.point(lambda value: value / 256).convert("L").convert("RGB")
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        upright = upright.convert("RGBA")
        upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright)
    return upright.convert("RGB")


def _check_size(image: Image.Image, name: str) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise InputError(
            f"{name} has {width} x {height} pixels; the limit is {MAX_PIXELS // 10**6} megapixels, resize it"
        )
    if min(width, height) < 2 or max(width, height) > 199 * min(width, height):
        raise InputError(f"{name} is {width} x {height} pixels, too thin to be cut into patches; crop or pad it")


def encode_prompt(lvlm: Lvlm, example: Example, system: str) -> tuple[dict[str, Any], list[int]]:
    """Processor output for the prompt, and its token ids."""
    if lvlm.image_token_id is None and example.images:
        raise InputError(f"{lvlm.name} takes no pictures; ask without one, or choose another model")
    if lvlm.image_token_id is not None and not example.images:
        raise InputError("there is no picture; give at least one")
    turns = conversation(example)
    _refuse_placeholders(lvlm, "\n".join([system, *texts_of(turns)]), "prompt")
    text = _render(lvlm, turns, system)
    images = [list(example.images)] if example.images else None  # those of the one text
    inputs = dict(lvlm.processor(text=[text], images=images, return_tensors="pt").to(lvlm.device))
    inputs.pop("labels", None)  # for training
    return inputs, inputs["input_ids"][0].tolist()


def conversation(example: Example) -> tuple[Turn, ...]:
    return example.turns or single(len(example.images), example.question)


def _refuse_placeholders(lvlm: Lvlm, text: str, where: str) -> None:
    """Text that stands for a picture or a video would be counted as one."""
    config = lvlm.model.config
    names = {placeholder(lvlm.processor)}
    for token in (lvlm.image_token_id, getattr(config, "video_token_id", None)):
        names.add("" if token is None else lvlm.processor.tokenizer.decode([token]))
    for name in names - {""}:
        if name in text:
            raise InputError(f"the {where} contains {name!r}, which stands for a picture or video; remove it")


def _render(lvlm: Lvlm, turns: Sequence[Turn], system: str, own_turn: bool = True) -> str:
    """The prompt as text, by the model's own chat template."""
    try:
        text = render(lvlm.processor, messages_of(turns, system, own_turn, plain=lvlm.image_token_id is None))
        if system in text or not own_turn:
            return text
    except TemplateError as error:
        if not (system and own_turn):
            raise InputError(f"{lvlm.name} does not take this conversation: {first_line(error)}") from error
    return _render(lvlm, turns, system, own_turn=False)  # not every template has a place for a system prompt


def _generate(lvlm: Lvlm, inputs: dict[str, Any], budget: int, streamer: Any) -> tuple[list[int], str]:
    with torch.no_grad():
        ids = lvlm.model.generate(
            **inputs, max_new_tokens=budget, do_sample=False, num_beams=1, temperature=None, top_p=None, top_k=None,
            repetition_penalty=1.0, streamer=streamer,
        )  # fmt: skip
    reply = ids[0, inputs["input_ids"].shape[1] :].tolist()
    if not set(reply) - _ends(lvlm):
        raise InputError("the model gave an empty response; ask differently, or supply a response")
    return reply, "stop" if reply[-1] in _ends(lvlm) else "length"


def _supplied(lvlm: Lvlm, response: str) -> list[int]:
    """Tokens of a given text, closed by the end token as a generated response would be."""
    response = unicodedata.normalize("NFC", response).strip()
    if not response:
        raise InputError("the supplied response is empty")
    _refuse_placeholders(lvlm, response, "response")
    tokenizer = lvlm.processor.tokenizer
    return [*tokenizer(response, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]


def _ends(lvlm: Lvlm) -> set[int]:
    ends = lvlm.model.generation_config.eos_token_id
    own = lvlm.processor.tokenizer.eos_token_id
    return {own, *(ends if isinstance(ends, list) else [ends])}


def freeze(
    lvlm: Lvlm, example: Example, inputs: dict[str, Any], system: str, prompt: list[int], reply: list[int], finish: str
) -> Trace:
    """Give every position its meaning."""
    tokenizer = lvlm.processor.tokenizer

    def decode(ids: list[int]) -> str:
        return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    ids = prompt + reply
    start = len(prompt)
    text, offsets = detokenise(decode, ids)
    image_positions = [p for p, token in enumerate(prompt) if token == lvlm.image_token_id]
    patches = _patches(lvlm, example, inputs, image_positions)
    kinds = ["template"] * start + ["response"] * len(reply)
    for asked in _find_texts(lvlm, example, system, text[: offsets[start - 1][1]]):
        for p in overlapping(offsets, asked, stop=start):
            kinds[p] = "question"
    for patch in patches:
        kinds[patch.position] = "image"
    end = start + len(reply) - (reply[-1] in _ends(lvlm))
    response_start, response_end = offsets[start][0], offsets[end - 1][1]
    reasoning, answer = find_answer(text, response_start, response_end)
    return Trace(
        model=lvlm.name, images=example.images, system=system, question=example.question, ids=tuple(ids),
        prompt_length=start, text=text, offsets=tuple(offsets), kinds=tuple(kinds),
        patches=patches, words=tuple(_words(text, offsets, kinds)),
        response_span=(response_start, response_end),
        sentences=tuple(split_sentences(text[:response_end], response_start)), reasoning=reasoning, answer=answer,
        finish=finish, evidence_boxes=example.evidence_boxes, evidence_words=example.evidence_words,
        turns=example.turns,
    )  # fmt: skip


def _find_texts(lvlm: Lvlm, example: Example, system: str, prompt: str) -> list[Span]:
    """Where the texts of the conversation stand in the prompt."""
    turns = conversation(example)
    found = locate(prompt, _render(lvlm, marked(turns), system), texts_of(turns), placeholder(lvlm.processor))
    if found is None:
        raise InputError("the model's chat template changes the question, so its words cannot be found in the prompt")
    return found


def _patches(lvlm: Lvlm, example: Example, inputs: dict[str, Any], positions: list[int]) -> tuple[Patch, ...]:
    sizes = [image.size for image in example.images]
    pictures = lvlm.family.cells(inputs, lvlm.processor, lvlm.model.config, sizes)
    cells = [(index, cell) for index, picture in enumerate(pictures) for cell in picture]
    if len(cells) != len(positions):
        raise ModelError(
            f"the processor made {len(positions)} image tokens where {lvlm.family.name} should have {len(cells)}; "
            "its family file does not fit this version of transformers"
        )
    return tuple(
        Patch(position, index, cell[1], cell[2], cell[3], cell[0])
        for position, (index, cell) in zip(positions, cells, strict=True)
        if cell is not None  # the end of a row, say, shows nothing: it is part of the template
    )


def _words(text: str, offsets: list[Span], kinds: list[str]) -> list[Word]:
    """Words of every run of positions of one kind; image positions are patches, not words."""
    words, start = [], 0
    for stop in range(1, len(kinds) + 1):
        if stop < len(kinds) and kinds[stop] == kinds[start]:
            continue
        if kinds[start] != "image":
            words += [Word(word, a, b, kinds[start]) for word, a, b in word_runs(text, offsets, start, stop)]
        start = stop
    return words
