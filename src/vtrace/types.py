"""Types that the whole package shares: frozen dataclasses, named tuples and literals."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from PIL import Image

Kind = Literal["image", "question", "template", "response"]  # what a position of the sequence holds
Role = Literal["user", "assistant"]
Finish = Literal["stop", "length", "supplied"]  # ended, cut off at the token budget, given by the user
ReadAt = Literal["predictor", "token"]  # where a target is read: one position before its tokens, or at them
Setting = Literal["image", "question", "joint"]  # which inputs are perturbed or hidden
AnswerKind = Literal["words", "phrase", "choice", "maths", "yesno"]  # how an answer is graded


class Box(NamedTuple):
    """A rectangle, in pixels of the original picture."""

    left: float
    top: float
    right: float
    bottom: float


class Span(NamedTuple):
    """Characters from `start` up to, but not including, `stop`."""

    start: int
    stop: int


class Panel(NamedTuple):
    """One view of one picture, as the model was shown it."""

    image: int
    view: int  # 0 for the picture in full detail, 1 for the thumbnail that some models also see


@runtime_checkable
class Progress(Protocol):
    """Receives progress reports of long work. If it raises, the work stops and the model is restored."""

    def __call__(self, done: int, total: int, label: str = "") -> None: ...


def silent(done: int, total: int, label: str = "") -> None:
    """Progress that is ignored."""


@dataclass(frozen=True)
class Gold:
    """Which answers are correct, and how an answer is read."""

    kind: AnswerKind
    answers: tuple[str, ...]  # any of them is correct; letters if there are options
    options: tuple[str, ...] = ()  # the texts of A, B, C, …; empty if they are drawn in the picture
    decimals: int | None = None  # how many are compared; None for all


@dataclass(frozen=True)
class Turn:
    """One message of a conversation: its texts in order, with None in place of each picture."""

    role: Role
    parts: tuple[str | None, ...]


@dataclass(frozen=True)
class Example:
    """The input: pictures and a question, and the evidence if it is known by construction.

    Pictures come before the question. A benchmark whose questions refer to their pictures writes `<image 2>` into the
    question for the second picture.
    """

    images: tuple[Image.Image, ...]
    question: str
    key: str = ""
    answer: str | None = None
    evidence_boxes: tuple[Box, ...] = ()
    evidence_words: tuple[Span, ...] = ()  # characters of the question
    other_boxes: tuple[Box, ...] = ()  # of things that could be mistaken for the evidence
    other_words: tuple[Span, ...] = ()
    answer_names: tuple[str, ...] = ()  # the first of these in a response is the answer if there is no "Final answer:"
    one_sentence: bool = False  # a generated response ends with its first sentence, though the model might go on
    gold: Gold | None = None  # None: `answer`, word for word
    response: str | None = None  # the model's response, if it is already known
    response_ids: tuple[int, ...] = ()  # its tokens, if those are known; they are used instead of the text
    turns: tuple[Turn, ...] = ()  # the whole conversation, if it is more than pictures followed by a question


@dataclass(frozen=True)
class Patch:
    """What one image position shows: a cell of the token grid over its picture."""

    position: int
    image: int
    row: int
    column: int
    box: Box
    view: int = 0  # see `Panel`
    confidence: float | None = None  # of a place that was found by probing, from 0 to 1; None if the family says it

    @property
    def panel(self) -> Panel:
        """Which view of which picture it belongs to."""
        return Panel(self.image, self.view)


@dataclass(frozen=True)
class Word:
    """Consecutive tokens that form one word."""

    text: str
    start: int  # first position
    stop: int  # one past the last
    kind: Kind  # never "image": image positions are patches


@dataclass(frozen=True, eq=False)
class ProcessedPrompt:
    """What the chat template and the processor made of a prompt, kept so that each runs once per trace."""

    processor: Any  # the one that made it
    images: tuple[Image.Image, ...]
    text: str  # rendered by the chat template, with placeholders for pictures
    inputs: dict[str, Any]  # processor output

    @cached_property
    def ids(self) -> list[int]:
        return self.inputs["input_ids"][0].tolist()


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
    kinds: tuple[Kind, ...]
    patches: tuple[Patch, ...]
    words: tuple[Word, ...]
    response_span: Span  # characters of `text`, without the end token
    sentences: tuple[Span, ...]  # characters of `text`, inside the response
    reasoning: Span  # characters of `text`
    answer: Span | None  # characters of `text`; None if there is none, such as no "Final answer:" line
    finish: Finish
    evidence_boxes: tuple[Box, ...] = ()
    evidence_words: tuple[Span, ...] = ()  # characters of the question
    turns: tuple[Turn, ...] = ()  # the whole conversation, if it is more than pictures followed by a question
    processed: ProcessedPrompt | None = field(default=None, compare=False, repr=False)  # never saved

    def __len__(self) -> int:
        return len(self.ids)

    def __getstate__(self) -> dict[str, Any]:
        """Pickled copies leave out what can be computed again."""
        return {**self.__dict__, "processed": None}

    def positions(self, *kinds: Kind) -> list[int]:
        """Positions of the given kinds, in order."""
        return [position for position, kind in enumerate(self.kinds) if kind in kinds]

    @property
    def inputs(self) -> list[int]:
        """The positions that are ranked: image, then question."""
        return self.positions("image") + self.positions("question")

    @property
    def panels(self) -> list[Panel]:
        """The panels of the pictures that the trace still has, in order."""
        return sorted({patch.panel for patch in self.patches if patch.image < len(self.images)})

    def panel_name(self, panel: Panel) -> str:
        """Name of a panel; empty if there is only one picture."""
        names = [f"picture {panel.image + 1}"] if len(self.images) > 1 else []
        return " ".join([*names, *(["thumbnail"] if panel.view else [])])

    @property
    def probed(self) -> list[float]:
        """Confidences of patches whose places were found by probing; none for a model that a family file describes."""
        return [patch.confidence for patch in self.patches if patch.confidence is not None]

    @property
    def model_label(self) -> str:
        """Name of the model, and whether it was probed."""
        return model_label(self.model, bool(self.probed))

    @property
    def placement_note(self) -> str:
        """What a reader has to know about places that were found by probing; empty if none were."""
        if not self.probed:
            return ""
        return (
            "probed: the places of image tokens are not given by a family file, but were found by painting patterns "
            f"into the picture, with a confidence of {median(self.probed):.2f} (median; least {min(self.probed):.2f})"
        )

    @property
    def response(self) -> str:
        return self.text[slice(*self.response_span)]

    @property
    def answer_text(self) -> str | None:
        return None if self.answer is None else self.text[slice(*self.answer)]


def model_label(model: str, probed: bool) -> str:
    """Name of a model, and whether the places of its image tokens were found by probing."""
    return f"{model} (probed)" if probed else model


def predictor(position: int) -> int:
    """The position whose hidden state predicts the token at `position`. The only place that knows the offset."""
    return position - 1


@dataclass(frozen=True)
class Target:
    """What is explained: response positions, under a name."""

    name: str
    positions: tuple[int, ...]

    def receivers(self, read_at: ReadAt = "predictor") -> list[int]:
        """Where the target is read."""
        return [predictor(p) if read_at == "predictor" else p for p in self.positions]


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
