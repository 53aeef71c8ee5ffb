"""What methods on one trace share: the recorded pass, W, padded likelihoods, gradients. Each is computed once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..attribution import encode_trace, measure_likelihoods
from ..errors import InputError, ModelError
from ..lvlm import Lvlm
from ..lvlm.family import Arguments
from ..lvlm.gradients import Gradient, differentiate
from ..lvlm.seam import Layer, Seam
from ..pairwise import PairwiseMatrix
from ..perturb import Perturbation, blurred
from ..types import Target, Trace

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """What a method returns: a score for every position, and whatever else it found out."""

    scores: Tensor  # T
    details: dict[str, Any] = field(default_factory=dict)


class Work:
    """One frozen trace in front of one model. Methods read from it, and never from each other."""

    def __init__(self, seam: Seam, trace: Trace, arguments: Arguments, lvlm: Lvlm | None = None):
        self.seam, self.trace, self.arguments = seam, trace, arguments
        self._lvlm = lvlm
        self._made: dict[Any, Any] = {}
        self._seconds: dict[str, float] = {}
        self._spent = 0.0  # in shared stages, so far
        self._touched: set[str] = set()  # stages that the running method has used
        self._uses: dict[Any, set[str]] = {}  # stages behind each thing that was made
        self.progress: Callable[[int, int], None] = lambda done, total: None

    @classmethod
    def of(cls, lvlm: Lvlm, trace: Trace) -> Work:
        return cls(lvlm.seam, trace, encode_trace(lvlm, trace), lvlm)

    @property
    def lvlm(self) -> Lvlm:
        if self._lvlm is None:
            raise InputError("this method changes the picture and needs a whole model, not only its decoder")
        return self._lvlm

    @property
    def ids(self) -> Tensor:
        return torch.tensor(self.trace.ids)

    @property
    def device(self) -> torch.device:
        return self.arguments["inputs_embeds"].device

    @property
    def inputs(self) -> list[int]:
        """Positions that are ranked: image, then question."""
        return self.trace.positions("image") + self.trace.positions("question")

    @property
    def layers(self) -> list[Layer]:
        """One plain pass whose queries, keys, values and residuals are kept: linear in T, no attention maps."""
        return self._share("recorded pass", "recorded pass", self._record)[0]

    @property
    def clean(self) -> Tensor:
        """log p of every response token."""
        return self._share("recorded pass", "recorded pass", self._record)[1]

    def pairwise(self, centring: bool = True) -> Tensor:
        """W of stage 1, source by receiver."""

        def fold() -> Tensor:
            groups = [torch.tensor(self.trace.positions(kind)) for kind in ("image", "question")] if centring else []
            matrix = PairwiseMatrix(len(self.trace), groups, self.device)
            for x in self.layers:
                matrix.add(x.query, x.key, x.value, x.update, x.projection, x.scaling, x.mask, x.gain)
            return matrix.finish()

        return self._share("pairwise matrix", ("pairwise", centring), fold)

    @property
    def likelihoods(self) -> np.ndarray:
        """log p of every response token with nothing, image, question or both padded: 4,n."""
        return self._share(
            "padded passes", "padded",
            lambda: measure_likelihoods(self.seam, self.trace, self.arguments, self.clean),
        )  # fmt: skip

    def gradient(self, target: Target) -> Gradient:
        """One plain backward pass from the sum of the target's logits."""
        compute = lambda: differentiate(self.seam, self.arguments, self.ids, target.positions)  # noqa: E731
        return self._share("backward pass", ("gradient", target.positions), compute)

    def blurred(self, radius: float) -> Arguments:
        """Decoder arguments with every picture blurred."""
        return self._share(
            "blurred pictures", ("blurred", radius), lambda: encode_trace(self.lvlm, blurred(self.trace, radius))
        )

    def left_out(self, groups: tuple[tuple[int, ...], ...], radius: float) -> Tensor:
        """log p of every response token without each group of inputs, whatever the target: groups,n; float64."""

        def measure() -> Tensor:
            return Perturbation(self.lvlm, self.trace, radius).log_probabilities(groups, self.progress)

        return self._share("inputs left out", ("left out", groups, radius), measure)

    def receivers(self, target: Target, receivers: str = "predictor") -> Tensor:
        """Where the target is read: at the positions that predict its tokens, or at the tokens themselves."""
        back = int(receivers == "predictor")
        return torch.tensor([p - back for p in target.positions], device=self.device)

    def share_of(self, run: Callable[[], T]) -> tuple[T, float, dict[str, float]]:
        """Run a method: its result, its own seconds, and the seconds of the shared stages that it used."""
        self._touched = set()
        began, before = time.perf_counter(), self._spent
        result = run()
        own = time.perf_counter() - began - (self._spent - before)
        return result, own, {name: self._seconds[name] for name in sorted(self._touched)}

    def _share(self, stage: str, key: Any, compute: Callable[[], T]) -> T:
        if key not in self._made:
            outer, self._touched = self._touched, {stage}
            began, before = time.perf_counter(), self._spent
            self._made[key] = compute()
            own = time.perf_counter() - began - (self._spent - before)
            self._seconds[stage] = self._seconds.get(stage, 0.0) + own
            self._spent += own
            self._uses[key], self._touched = self._touched, outer
        self._touched |= self._uses[key]
        return self._made[key]

    def _record(self) -> tuple[list[Layer], Tensor]:
        layers: list[Layer] = []
        with self.seam.capture(layers.append):
            clean = self.seam.log_probabilities(self.arguments, self.ids, self.trace.prompt_length)[0]
        return layers, clean


def check_finite(values: Tensor, layer: int) -> Tensor:
    """Refuse to go on with numbers that would turn into a silent zero."""
    if not torch.isfinite(values).all():
        raise ModelError(f"scores are not finite at layer {layer}; try dtype float32 or bfloat16")
    return values


def one_hot(length: int, positions: Sequence[int] | Tensor, device: torch.device) -> Tensor:
    """T: each position's share of one; float64."""
    row = torch.zeros(length, dtype=torch.float64, device=device)
    row[positions] = 1 / len(positions)
    return row
