"""What became of the answer when evidence was hidden: the result of `verify`, and its verdict in words."""

from __future__ import annotations

from dataclasses import dataclass

from ...types import Setting


@dataclass(frozen=True)
class InputCount:
    """How many patches and question words a set has."""

    patches: int
    words: int


@dataclass(frozen=True)
class VerifiedStep:
    """The strongest inputs of the ranking: hidden (necessary side), or kept with all others hidden (sufficient side).

    Likelihoods are exp(mean log p) of the frozen tokens; None where they were not measured.
    """

    inputs: int  # how many
    share: float  # their shares, added up
    response: float | None  # likelihood of the whole response
    target: float | None  # likelihood of the explained part
    random: float | None  # likelihood of the whole response with as many random inputs instead
    answer: str | None  # what the model answers when it is asked again; None if it gives no answer
    changed: bool  # whether that is another answer than with nothing hidden


@dataclass(frozen=True)
class VerifiedSide:
    """The smallest set that was found to change the answer, or to restore it, and everything that was tried."""

    inputs: int | None  # None: no set that was tried did
    count: InputCount | None
    answer: str | None  # what the model answers then
    curve: tuple[VerifiedStep, ...]  # by increasing number of inputs


@dataclass(frozen=True)
class ComparedSets:
    """Other sets with as many patches and words as the necessary and the sufficient one."""

    draws: int  # hidden instead of the necessary set; 0 if none was found
    changed: int  # how many of them changed the answer
    kept: int  # kept instead of the sufficient set; 0 if none was found
    restored: int  # how many of them restored the answer


@dataclass(frozen=True)
class FaithfulnessCurve:
    """RISE and MAS of one explanation, and the curve that they are areas of: one value per step."""

    rise: float | None  # None if nothing can be perturbed
    mas: float | None
    response: tuple[float, ...]
    mass: tuple[float, ...]
    degenerate: bool  # perturbing everything does not lower the likelihood


@dataclass(frozen=True)
class Verification:
    """An explanation put to the test: what it names is hidden, and the model is asked again."""

    answer: str | None  # with nothing hidden
    setting: Setting  # which inputs are hidden: patches, question words, or both
    blur: float  # radius, as a fraction of a picture's longer side
    seed: int  # of the random sets
    count: InputCount  # all inputs that can be hidden
    order: tuple[tuple[int, ...], ...]  # positions of each of them, the strongest input first
    necessary: VerifiedSide
    sufficient: VerifiedSide
    random: ComparedSets
    lowest: ComparedSets  # the lowest ranked inputs: one set each
    insertion: FaithfulnessCurve
    deletion: FaithfulnessCurve
    passes: int  # sequences that went through the decoder with the frozen response
    generations: int  # calls that asked the model again, each with a batch of prompts
    sequences: int  # responses that were generated in them
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """What was found, in one or two sentences."""
        found = self.necessary
        if found.count is None:
            return f"Hiding all {in_words(self.count)} does not change the answer {_said(self.answer)}."
        text = f"Hiding {in_words(found.count, self.count)} changes the answer from {_said(self.answer)}"
        text += f" to {_said(found.answer)}"
        if self.random.draws:
            times = _times(self.random.changed, self.random.draws)
            text += f"; hiding {in_words(found.count, adjective='random')} {times}"
        return f"{text}.{self._restored()}"

    def _restored(self) -> str:
        if self.sufficient.count is None:
            return ""
        if not self.sufficient.inputs:
            return " With everything hidden, the model gives the first answer again."
        if self.sufficient.count == self.count:
            return " Nothing smaller than all inputs together restores it."
        text = f" Keeping only {in_words(self.sufficient.count)} restores it"
        if self.random.kept:
            text += f"; keeping as many random ones {_times(self.random.restored, self.random.kept)}"
        return f"{text}."


def in_words(count: InputCount, total: InputCount | None = None, adjective: str = "") -> str:
    """A count such as "2 of 81 patches and 1 of 6 words"."""
    parts = []
    for kind, one, many in (("patches", "patch", "patches"), ("words", "word", "words")):
        own, every = getattr(count, kind), getattr(total or count, kind)
        if own:
            number = f"{own} of {every}" if total else str(own)
            parts.append(" ".join(filter(None, (number, adjective, one if every == 1 else many))))
    return " and ".join(parts) or "no inputs"


def _said(answer: str | None) -> str:
    return "(none)" if answer is None else f"'{answer}'"


def _times(count: int, draws: int) -> str:
    return f"did in {count} of {draws} draws" if count else f"never did in {draws} draws"
