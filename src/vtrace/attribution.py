"""The pipeline: one captured pass, three padded ones, and a score for every position (Algorithm 1)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .calibrate import Likelihoods, calibrate
from .errors import InputError, ModelError
from .generate import encode_prompt
from .lvlm import Lvlm
from .lvlm.family import Arguments
from .lvlm.seam import Layer, Seam
from .multihop import log_scores
from .pairwise import PairwiseMatrix
from .targets import TargetSpec, find_target
from .types import Box, Calibration, Example, Options, Target, Trace

Progress = Callable[[int, int], None]  # done, total


@dataclass(frozen=True)
class Evidence:
    """One line of the joint ranking: an image patch or a question word."""

    kind: str  # "image" or "question"
    label: str
    score: float  # share of all image and question scores
    positions: tuple[int, ...]
    image: int | None = None
    box: Box | None = None


@dataclass(frozen=True)
class Attribution:
    """How much a target relies on every earlier position.

    `scores` are shares: over image and question positions they sum to one (in size, for methods whose
    scores can be negative). Earlier response and template positions are on the same scale. The paper's u
    is scores · exp(log_scale).
    """

    trace: Trace
    target: Target
    scores: np.ndarray  # T
    log_scale: float
    calibration: Calibration
    options: Options = Options()
    method: str = "vtrace"
    variant: dict[str, Any] | None = None  # options of another method, as it ran
    details: dict[str, Any] = field(default_factory=dict)  # what else that method found out
    likelihoods: np.ndarray | None = None  # 4,n: log p of response tokens clean, image, text, both padded
    pairwise: Tensor | None = None  # T,T: W, source by receiver

    @property
    def image_share(self) -> float:
        return float(np.abs(self.scores[self.trace.positions("image")]).sum())

    @property
    def text_share(self) -> float:
        return float(np.abs(self.scores[self.trace.positions("question")]).sum())

    def panel_share(self, image: int, view: int | None = None) -> float:
        """Share of one picture, or of one view of it: in full detail (0) or as a thumbnail (1)."""
        shown = [p.position for p in self.trace.patches if p.image == image and view in (None, p.view)]
        return float(np.abs(self.scores[shown]).sum())

    @property
    def picture_shares(self) -> list[float]:
        """Share of every picture; together they are the image share."""
        return [self.panel_share(image) for image in sorted({p.image for p in self.trace.patches})]

    @property
    def uncalibrated(self) -> np.ndarray:
        """The scores before the image scale was applied, as shares again."""
        image, text = self.trace.positions("image"), self.trace.positions("question")
        scores = self.scores.copy()
        scores[image] /= self.calibration.scale
        return scores / (np.abs(scores[image + text]).sum() or 1.0)

    @property
    def warnings(self) -> list[str]:
        """What a reader should know before trusting the picture."""
        notes = []
        if self.trace.finish == "length":
            notes.append("the response was cut off at the token budget")
        if self.trace.answer is None:
            notes.append("the response has no 'Final answer:' line")
        if self.calibration.status.startswith("not applied"):
            notes.append(f"calibration {self.calibration.status}")
        return notes

    def top(self, count: int = 10) -> list[Evidence]:
        """Patches and words of the question in one ranking."""
        return self.ranking()[:count]

    def ranking(self) -> list[Evidence]:
        """All patches and question words, strongest first; ties keep the order of the sequence."""
        items = [
            Evidence(
                "image",
                f"{self.trace.panel_name(p.image, p.view)} patch row {p.row + 1} column {p.column + 1}".strip(),
                float(self.scores[p.position]), (p.position,), p.image, p.box,
            )
            for p in self.trace.patches
        ]  # fmt: skip
        items += [
            Evidence("question", w.text, float(self.scores[w.start : w.stop].sum()), tuple(range(w.start, w.stop)))
            for w in self.trace.words
            if w.kind == "question"
        ]
        return sorted(items, key=lambda item: -item.score)

    def retarget(self, target: TargetSpec) -> Attribution:
        """The same for another target: instant, because W and the padded likelihoods are kept."""
        if self.pairwise is None:
            raise InputError("this attribution holds scores only; save it with its matrix to change the target")
        return score(self.trace, find_target(self.trace, target), self.pairwise, self.likelihoods, self.options)

    def every_token(self) -> np.ndarray:
        """Uncalibrated log u with every response token as a target of its own: T,n; -inf is zero."""
        if self.pairwise is None:
            raise InputError("this attribution holds scores only; save it with its matrix to change the target")
        targets = [(p,) for p in range(self.trace.prompt_length, len(self.trace))]
        return log_scores_of(self.pairwise, targets, self.options).cpu().numpy()

    def save(self, path: str | Path) -> Path:
        """Write .json (loads back), .html (one self-contained page) or .png, by the name's ending."""
        from .report import save

        return save(self, path)

    def __repr__(self) -> str:
        strongest = ", ".join(f"{item.label} {item.score:.0%}" for item in self.top(3))
        return f"<{self.method} attribution of {self.target.name!r}: image {self.image_share:.0%}; {strongest}>"

    def _repr_html_(self) -> str:
        from .report.html import fragment

        return fragment(self)


def attribute(
    lvlm: Lvlm, trace: Trace, target: TargetSpec = "response", *, progress: Progress = lambda done, total: None,
    **options: Any,
) -> Attribution:  # fmt: skip
    """Explain a frozen trace. Options are those of `Options`: gamma, centring, multihop, calibrate, …

    `progress` hears of every captured layer; what it raises ends the work and leaves the model as it was.
    """
    chosen = make_options(**options)
    found = find_target(trace, target)  # before any work: a target that matches nothing costs nothing
    arguments = encode_trace(lvlm, trace)
    pairwise, clean = capture_pairwise(lvlm, trace, arguments, chosen.centring, progress)
    weighed = chosen.calibrate and trace.patches
    likelihoods = measure_likelihoods(lvlm.seam, trace, arguments, clean) if weighed else None
    return score(trace, found, pairwise, likelihoods, chosen)


def make_options(**options: Any) -> Options:
    """Options from keywords, checked."""
    names = [field.name for field in dataclasses.fields(Options)]
    if unknown := set(options) - set(names):
        raise InputError(f"unknown option {sorted(unknown)[0]!r}; there are: {', '.join(names)}")
    chosen = Options(**options)
    if not (math.isfinite(chosen.gamma) and chosen.gamma >= 0):
        raise InputError(f"gamma is {chosen.gamma}; it must be zero or positive")
    if chosen.hops < 0:
        raise InputError(f"hops is {chosen.hops}; it must be zero, for all, or positive")
    if chosen.receivers not in ("predictor", "token"):
        raise InputError(f"receivers is {chosen.receivers!r}; use 'predictor' or 'token'")
    if chosen.calibrate_on not in ("response", "target"):
        raise InputError(f"calibrate_on is {chosen.calibrate_on!r}; use 'response' or 'target'")
    return chosen


def encode_trace(lvlm: Lvlm, trace: Trace) -> Arguments:
    """Decoder arguments for the whole frozen sequence, through the model's own processor and forward."""
    return lvlm.seam.encode(trace_inputs(lvlm, trace))


def trace_inputs(lvlm: Lvlm, trace: Trace) -> dict[str, Any]:
    """Processor output for the whole frozen sequence."""
    if trace.patches and not trace.images:
        raise InputError(
            "this trace was saved without its pictures; save it as a file with --save-trace or --json FILE"
        )
    inputs, prompt = encode_prompt(lvlm, Example(trace.images, trace.question, turns=trace.turns), trace.system)
    if tuple(prompt) != trace.ids[: trace.prompt_length]:
        raise ModelError(f"this trace was made with {trace.model}; {lvlm.name} reads its prompt differently")
    more = len(trace) - trace.prompt_length
    for name, tensor in inputs.items():
        if isinstance(tensor, Tensor) and tensor.shape == (1, len(prompt)):
            inputs[name] = torch.nn.functional.pad(tensor, (0, more), value=int(name in lvlm.family.response_ones))
    inputs["input_ids"] = torch.tensor([trace.ids], device=lvlm.device)
    return inputs


def capture_pairwise(
    lvlm: Lvlm, trace: Trace, arguments: Arguments, centring: bool = True,
    progress: Progress = lambda done, total: None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """W, and log p of the response tokens, from one pass. Template and response positions are not centred."""
    groups = [torch.tensor(trace.positions(kind), dtype=torch.long) for kind in ("image", "question")]
    matrix = PairwiseMatrix(len(trace), groups if centring else [], lvlm.device)
    layers = len(lvlm.seam.decoder.layers)

    def fold(layer: Layer) -> None:
        matrix.add(
            layer.query, layer.key, layer.value, layer.update, layer.projection, layer.scaling, layer.mask, layer.gain
        )
        progress(layer.index + 1, layers)

    with lvlm.seam.capture(fold):
        clean = lvlm.seam.log_probabilities(arguments, torch.tensor(trace.ids), trace.prompt_length)[0]
    return matrix.finish(), clean


def measure_likelihoods(seam: Seam, trace: Trace, arguments: Arguments, clean: Tensor) -> np.ndarray:
    """log p of every response token with nothing, the image, the question, or both padded: 4,n."""
    image, text = trace.positions("image"), trace.positions("question")
    padded = seam.log_probabilities_padded(
        arguments, torch.tensor(trace.ids), trace.prompt_length, [image, text, image + text]
    )
    return torch.cat([clean[None], padded]).cpu().numpy()


def score(
    trace: Trace, target: Target, pairwise: Tensor, likelihoods: np.ndarray | None, options: Options
) -> Attribution:
    """Stages 2 and 3: from W and the padded likelihoods to calibrated scores. Needs no model."""
    logs = log_scores_of(pairwise, [target.positions], options)[:, 0].cpu().numpy()
    image, text = trace.positions("image"), trace.positions("question")
    inputs = image + text
    raw, top = relative_to_inputs(logs, inputs)
    columns = [p - trace.prompt_length for p in target.positions] if options.calibrate_on == "target" else slice(None)
    totals = None if likelihoods is None else Likelihoods(*map(float, likelihoods[:, columns].sum(axis=1)))
    calibration = calibrate(totals, float(raw[image].sum()), float(raw[text].sum()))
    if options.calibrate and not image:
        calibration = Calibration("skipped: there is no picture to weigh the text against")
    raw[image] *= calibration.scale
    total = float(raw[inputs].sum()) or 1.0
    return Attribution(
        trace=trace, target=target, scores=raw / total, log_scale=top + math.log(total), calibration=calibration,
        options=options, likelihoods=likelihoods, pairwise=pairwise,
    )  # fmt: skip


def relative_to_inputs(logs: np.ndarray, inputs: list[int]) -> tuple[np.ndarray, float]:
    """Scores as multiples of the strongest input, from logarithms; and the logarithm of that input."""
    top = logs[inputs].max() if inputs else -math.inf
    top = float(top) if math.isfinite(top) else 0.0
    with np.errstate(over="ignore"):
        raw = np.exp(logs - top)
    # A response token can outweigh every input beyond the range of floats.
    return np.nan_to_num(raw, nan=np.nan, posinf=np.finfo(np.float64).max), top


def log_scores_of(pairwise: Tensor, targets: Sequence[Sequence[int]], options: Options) -> Tensor:
    """log u with one column per target."""
    receivers = receivers_of(pairwise, targets, options)
    return log_scores(pairwise, receivers, options.gamma, options.multihop, options.hops)


def receivers_of(pairwise: Tensor, targets: Sequence[Sequence[int]], options: Options) -> Tensor:
    """T,k: one where a target is read."""
    back = 1 if options.receivers == "predictor" else 0
    receivers = torch.zeros(len(pairwise), len(targets), device=pairwise.device)
    for column, positions in enumerate(targets):
        receivers[[p - back for p in positions], column] = 1
    return receivers
