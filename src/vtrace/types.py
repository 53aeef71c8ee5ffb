"""The nouns of the package: frozen dataclasses, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels of the original picture
Span = tuple[int, int]  # start, stop


@dataclass(frozen=True)
class Gold:
    """What counts as a right answer, and how an answer is read."""

    kind: str  # words, phrase, choice, maths or yesno: see benchmarks/grade.py
    answers: tuple[str, ...]  # any of them is right; letters where there are options
    options: tuple[str, ...] = ()  # the texts behind A, B, C, …; empty texts where they are drawn in the picture
    decimals: int | None = None  # so many count; None for all


@dataclass(frozen=True)
class Turn:
    """One message of a conversation: its texts, and None where its next picture stands."""

    role: str  # user or assistant
    parts: tuple[str | None, ...]


@dataclass(frozen=True)
class Example:
    """What goes in: pictures and a question, and the evidence where it is known by construction.

    Pictures stand in front of the question. A benchmark whose questions have places for their pictures
    writes `<image 2>` into the question where the second picture belongs.
    """

    images: tuple[Image.Image, ...]
    question: str
    key: str = ""
    answer: str | None = None
    evidence_boxes: tuple[Box, ...] = ()
    evidence_words: tuple[Span, ...] = ()
    gold: Gold | None = None  # None: `answer`, word for word
    response: str | None = None  # what the model said to it elsewhere, if that is known
    turns: tuple[Turn, ...] = ()  # the whole conversation, where it is more than pictures and then the question


@dataclass(frozen=True)
class Patch:
    """What one image position shows: a cell of the token grid over its picture."""

    position: int
    image: int
    row: int
    column: int
    box: Box
    view: int = 0  # 0 for the picture in full detail, 1 for the thumbnail that some models see beside it


@dataclass(frozen=True)
class Word:
    """A run of tokens that people read as one piece."""

    text: str
    start: int  # first position
    stop: int  # one past the last
    kind: str  # question, response or template


@dataclass(frozen=True)
class Trace:
    """One response, generated once and frozen, with the meaning of every position.

    The sequence is prompt + response; `kinds` says for each position whether it is image, question,
    template or response, four disjoint sets that cover it. Texts of earlier turns count as question: they are
    what the answer can rely on. `offsets` are characters of `text`.
    """

    model: str
    images: tuple[Image.Image, ...]
    system: str
    question: str
    ids: tuple[int, ...]
    prompt_length: int
    text: str
    offsets: tuple[Span, ...]
    kinds: tuple[str, ...]
    patches: tuple[Patch, ...]
    words: tuple[Word, ...]
    response_span: Span  # characters of `text`, without the end token
    sentences: tuple[Span, ...]  # characters of `text`, inside the response
    reasoning: Span  # characters of `text`
    answer: Span | None  # characters of `text`; None without a "Final answer:" line
    finish: str  # "stop", "length" (cut off at the token budget) or "supplied"
    evidence_boxes: tuple[Box, ...] = ()
    evidence_words: tuple[Span, ...] = ()  # characters of the question
    turns: tuple[Turn, ...] = ()  # the whole conversation, where it is more than pictures and then the question

    def __len__(self) -> int:
        return len(self.ids)

    def positions(self, *kinds: str) -> list[int]:
        """Positions of the given kinds, in order."""
        return [position for position, kind in enumerate(self.kinds) if kind in kinds]

    @property
    def panels(self) -> list[tuple[int, int]]:
        """What the model was shown and we still have, in order: picture and view."""
        return sorted({(patch.image, patch.view) for patch in self.patches if patch.image < len(self.images)})

    def panel_name(self, image: int, view: int) -> str:
        """Empty for the only picture."""
        names = [f"picture {image + 1}"] if len(self.images) > 1 else []
        return " ".join([*names, *(["thumbnail"] if view else [])])

    @property
    def response(self) -> str:
        return self.text[slice(*self.response_span)]

    @property
    def answer_text(self) -> str | None:
        return None if self.answer is None else self.text[slice(*self.answer)]


@dataclass(frozen=True)
class Target:
    """What is explained: response positions, under a name."""

    name: str
    positions: tuple[int, ...]


@dataclass(frozen=True)
class Options:
    """Everything that changes a VTrace score; the defaults are the paper's."""

    gamma: float = 1.0
    centring: bool = True
    multihop: bool = True
    hops: int = 0  # longest path that counts; 0 for all
    calibrate: bool = True
    calibrate_on: str = "response"  # or "target": whose likelihood the calibration measures
    receivers: str = "predictor"  # or "token"


@dataclass(frozen=True)
class Calibration:
    """How image and text were put on one scale, or why they were not."""

    status: str
    image_damage: float = 0.0  # D_I, nats
    text_damage: float = 0.0  # D_T
    joint_damage: float = 0.0  # D_IT
    image_contribution: float = 0.0  # phi_I
    text_contribution: float = 0.0  # phi_T
    image_share: float | None = None  # s
    scale: float = 1.0  # lambda

    @property
    def applied(self) -> bool:
        return self.status == "applied"
