"""The result: how much a target relies on every earlier position, and the joint ranking of patches and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ..errors import InputError
from ..lvlm.model import Lvlm
from ..system.embedded_world import EMBEDDED_WORLD
from ..system.presentation import Presentable
from ..system.verification import VERIFIER
from ..tracing.targets import TargetSpec, find_target
from ..types import Box, Calibration, Panel, Progress, Target, Trace, Word, silent
from .findings.contrast import Contrast
from .findings.evidence_regions import evidence_regions
from .findings.regions import Region, box_region, region_notes, segment_region
from .findings.verification import Verification
from .options import Options
from .pipeline import log_scores_of, score_all
from .shares import to_shares
from .triangle import LARGEST_SAVED, Triangle


@dataclass(frozen=True)
class RankedInput:
    """One line of the joint ranking: an image patch or a question word."""

    kind: Literal["image", "question"]
    label: str
    score: float  # share of all image and question scores
    positions: tuple[int, ...]
    image: int | None = None
    box: Box | None = None


class WordDependence(NamedTuple):
    """A response word, and by how many nats the image raises its log-likelihood."""

    word: Word
    nats: float


@dataclass(frozen=True, repr=False)
class Attribution(Presentable):
    """How much a target relies on every earlier position.

    `scores` are shares: over image and question positions their absolute values sum to one (scores of some
    methods can be negative). Earlier response and template positions are on the same scale. The paper's u
    is scores · exp(log_scale).
    """

    trace: Trace
    target: Target
    method: str
    options: Mapping[str, Any]  # of the method, as used
    scores: np.ndarray  # T
    log_scale: float
    calibration: Calibration
    details: Mapping[str, Any] = field(default_factory=dict)  # further results of the method
    likelihoods: np.ndarray | None = None  # 4,n: log p of response tokens clean, image, text, both padded
    pairwise: Triangle | None = None  # W; `pairwise.dense()` is T,T, source by receiver
    verification: Verification | None = None  # what `verify` found
    contrast: Contrast | None = None  # evidence for the target against an alternative
    regions: tuple[Region, ...] = ()  # named parts of pictures and question

    @property
    def image_share(self) -> float:
        return self._share(self.trace.positions("image"))

    @property
    def text_share(self) -> float:
        return self._share(self.trace.positions("question"))

    def picture_share(self, image: int) -> float:
        """Share of one picture, in all its views."""
        return self._share(p.position for p in self.trace.patches if p.image == image)

    def panel_share(self, panel: Panel) -> float:
        """Share of one view of a picture."""
        return self._share(p.position for p in self.trace.patches if p.panel == panel)

    def _share(self, positions: Iterable[int]) -> float:
        return float(np.abs(self.scores[list(positions)]).sum())

    def box_share(self, box: Sequence[float], image: int = 0) -> float:
        """Share of a box on a picture (left, top, right, bottom): patches count by how much of them it covers."""
        return box_region(self.trace, "box", box, image).share(self.scores)

    def segment_share(self, text: str) -> float:
        """Share of a part of the question."""
        return segment_region(self.trace, text).share(self.scores)

    def with_evidence_boxes(self) -> Attribution:
        """The same attribution with its strongest evidence as regions: merged boxes with half of the image's share."""
        return replace(self, regions=(*self.regions, *evidence_regions(self.trace, self.scores)))

    @property
    def picture_shares(self) -> list[float]:
        """Share of every picture; together they are the image share."""
        return [self.picture_share(image) for image in sorted({p.image for p in self.trace.patches})]

    @property
    def uncalibrated(self) -> np.ndarray:
        """The scores before calibration, again as shares."""
        scores = self.scores.copy()
        scores[self.trace.positions("image")] /= self.calibration.scale
        return to_shares(self.trace, scores, None, calibrated=False).scores

    @property
    def warnings(self) -> list[str]:
        """What a reader should know before relying on the result."""
        notes = EMBEDDED_WORLD.get().notes(self.trace)
        if self.trace.probed:
            notes.append(self.trace.placement_note)
        if self.trace.finish == "length":
            notes.append("the response was cut off at the token budget")
        if self.trace.answer is None:
            notes.append("the response has no 'Final answer:' line")
        if self.calibration.status.startswith("not applied"):
            notes.append(f"calibration {self.calibration.status}")
        return [*notes, *region_notes(self.regions), *self.details.get("warnings", [])]

    def top(self, count: int = 10) -> list[RankedInput]:
        """The strongest patches and question words in one ranking."""
        return self.ranking()[:count]

    def ranking(self) -> list[RankedInput]:
        """All patches and question words, strongest first; ties keep the order of the sequence."""
        return sorted(self.inputs_by(self.scores), key=lambda item: -item.score)

    def inputs_by(self, scores: np.ndarray) -> list[RankedInput]:
        """All patches and question words in the order of the sequence, scored by values for all positions (T)."""
        items = [
            RankedInput(
                "image",
                f"{self.trace.panel_name(p.panel)} patch row {p.row + 1} column {p.column + 1}".strip(),
                float(scores[p.position]),
                (p.position,),
                p.image,
                p.box,
            )
            for p in self.trace.patches
        ]
        items += [
            RankedInput("question", w.text, float(scores[w.start : w.stop].sum()), tuple(range(w.start, w.stop)))
            for w in self.trace.words
            if w.kind == "question"
        ]
        return items

    def retarget(self, target: TargetSpec) -> Attribution:
        """The same attribution for another target: instant, because W and the padded likelihoods are kept."""
        return self.retarget_all([target])[0]

    def retarget_all(self, targets: Sequence[TargetSpec]) -> list[Attribution]:
        """The same for several targets, for which W is read only once."""
        found = [find_target(self.trace, target) for target in targets]
        shares = score_all(self.trace, found, self._matrix(), self.likelihoods, Options.of(self.options))
        kept = tuple(region for region in self.regions if region.kind != "evidence")  # that was of the old target
        plain = replace(self, verification=None, contrast=None, regions=kept)
        return [replace(plain, target=a, **b._asdict()) for a, b in zip(found, shares, strict=True)]

    def verify(self, lvlm: Lvlm, *, progress: Progress = silent, **options: Any) -> Attribution:
        """The same attribution with its `verification`: evidence is hidden and the model asked again.

        Options are those of `vtrace.verify`: setting, blur, passes, generations, draws, seed.
        """
        return VERIFIER.get().verify(lvlm, self, progress=progress, **options)

    def visual_dependence(self) -> np.ndarray:
        """log p of every response token with the image minus without it, in nats: n."""
        if self.likelihoods is None:
            raise InputError("visual dependence was not measured; explain a picture with calibration on")
        return self.likelihoods[0] - self.likelihoods[1]

    def word_dependence(self) -> list[WordDependence]:
        """Visual dependence of every response word: that of its tokens, added up."""
        tokens, start = self.visual_dependence(), self.trace.prompt_length
        return [
            WordDependence(word, float(tokens[word.start - start : word.stop - start].sum()))
            for word in self.trace.words
            if word.kind == "response"
        ]

    def every_token(self) -> np.ndarray:
        """Uncalibrated log u with every response token as its own target: T,n; -inf stands for zero."""
        targets = [Target("token", (p,)) for p in range(self.trace.prompt_length, len(self.trace))]
        return log_scores_of(self._matrix(), targets, Options.of(self.options)).cpu().numpy()

    def _matrix(self) -> Triangle:
        if self.pairwise is None and len(self.trace) > LARGEST_SAVED:
            raise InputError(
                f"this attribution has scores only, because files hold no matrix of over {LARGEST_SAVED:,} tokens; "
                "explain the trace again to change the target"
            )
        if self.pairwise is None:
            raise InputError("this attribution has scores only; save it with its matrix to change the target")
        return self.pairwise

    def __repr__(self) -> str:
        strongest = ", ".join(f"{item.label} {item.score:.0%}" for item in self.top(3))
        return f"<{self.method} attribution of {self.target.name!r}: image {self.image_share:.0%}; {strongest}>"
