"""One frozen trace and one model: everything that methods need from the model, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..attribution.attention import kind_of
from ..attribution.memory_plan import MemoryPlan, plan_memory
from ..attribution.pairwise import PairwiseMatrix
from ..attribution.triangle import Triangle, edge_count
from ..errors import InputError
from ..lvlm.batch_size import workload_of
from ..lvlm.families.family import Arguments
from ..lvlm.gradients import Gradient, differentiate
from ..lvlm.layer import Layer, LayersOn
from ..lvlm.model import Lvlm
from ..lvlm.pass_count import PassCounter
from ..lvlm.seam import Seam
from ..system.batches import consecutive
from ..system.byte_count import parse_bytes
from ..system.peak_memory import memory_in_use
from ..system.scratch_file import ScratchFile
from ..system.wide_numbers import wide_device
from ..tracing.perturbation import Perturbation
from ..tracing.prompt import encode_trace
from ..types import Progress, ReadAt, Target, Trace, silent
from .layer_folds import INSTRUMENTED, LayerFolds
from .timing import StageClock, Timed

_Result = TypeVar("_Result")


class Recording(NamedTuple):
    """What an instrumented pass kept."""

    layers: list[Layer]
    clean: Tensor  # n: log p of every response token


class TraceSession:
    """A model and a trace. Properties are cheap; everything that runs the model is a method.

    Args:
        seam: the model, accessed at its decoder call.
        trace: the frozen response.
        arguments: what the decoder is called with for the whole sequence.
        lvlm: the whole model, for methods that change the picture.
        keep_layers: keep queries, keys, values and residuals of the instrumented pass for all methods; otherwise
            every layer is added to W as it is computed and then dropped, which needs less memory.
        memory: what the process (on a GPU: the model's GPU) may use, such as "4GB"; if W would exceed it, W is kept in
            a file.
    """

    def __init__(
        self,
        seam: Seam,
        trace: Trace,
        arguments: Arguments,
        lvlm: Lvlm | None = None,
        *,
        keep_layers: bool = True,
        memory: str | int | None = None,
    ):
        self.seam, self.trace, self.arguments = seam, trace, arguments
        self.progress: Progress = silent
        self._lvlm, self.keeps_layers = lvlm, keep_layers
        self._clock = StageClock(PassCounter(seam.decoder))
        self.folds = LayerFolds(self._clock, self._instrumented_pass)  # for sessions that keep no layers
        self._radius: float | None = None  # of the perturbation that is kept
        self._limited = memory is not None
        self._spills = memory is not None and self._plan(parse_bytes(memory)).spills

    @classmethod
    def open(
        cls, lvlm: Lvlm, trace: Trace, *, keep_layers: bool = True, memory: str | int | None = None
    ) -> TraceSession:
        """Encode the trace and open a session."""
        return cls(lvlm.seam, trace, encode_trace(lvlm, trace), lvlm, keep_layers=keep_layers, memory=memory)

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
        """Where scores are computed: on the model's device, or on the CPU if that has no float64."""
        return wide_device(self.arguments["inputs_embeds"].device)

    @property
    def inputs(self) -> list[int]:
        """Positions that are ranked: image, then question."""
        return self.trace.inputs

    def receivers(self, target: Target, read_at: ReadAt = "predictor") -> Tensor:
        """Positions at which the target is read."""
        return torch.tensor(target.receivers(read_at), device=self.device)

    def layers(self) -> Sequence[Layer]:
        """All layers of one instrumented pass, on the session's device: linear in T, no attention maps."""
        return LayersOn(self._record().layers, self.device)

    def clean(self) -> Tensor:
        """log p of every response token: n."""
        return self._record().clean if self.keeps_layers else self._streamed_clean()

    def pairwise(self, centring: bool = True) -> Triangle:
        """W of stage 1."""
        if not self.keeps_layers:
            return self._stream(centring)

        def fold() -> Triangle:
            matrix = self._empty_matrix(centring)
            for layer in self._record().layers:
                matrix.add(layer)
            return matrix.finish()

        return self._clock.share("pairwise matrix", ("pairwise", centring), fold)

    def pairwise_along(self, centring: bool = True) -> None:
        """Let the next pass that keeps no layers fold W too, whatever it is for."""
        self.folds.along(("pairwise", centring), lambda: self._empty_matrix(centring))

    def padded_likelihoods(self) -> np.ndarray:
        """log p of every response token with nothing, the image, the question, or both padded: 4,n."""

        def measure() -> np.ndarray:
            image, text = self.trace.positions("image"), self.trace.positions("question")
            sets = [image, text, image + text]
            # Batches are sized by the free memory of a GPU, which may be more than the budget.
            parts = consecutive(sets, 1 if self._limited and self.device.type == "cuda" else len(sets))
            padded = [
                self.seam.log_probabilities_padded(self.arguments, self.ids, self.trace.prompt_length, part)
                for part in parts
            ]
            return torch.cat([self.clean()[None], *padded]).cpu().numpy()

        return self._clock.share("padded passes", "padded", measure)

    def gradient(self, target: Target) -> Gradient:
        """One plain backward pass from the sum of the target's logits."""
        return self._clock.share(
            "backward pass",
            ("gradient", target.positions),
            lambda: differentiate(self.seam, self.arguments, self.ids, target.positions),
        )

    def perturbation(self, radius: float) -> Perturbation:
        """The same response with perturbed inputs; pictures are blurred by this radius."""
        if radius != self._radius:  # vision features are large, so only one perturbation is kept
            self._clock.release(("perturbation", self._radius))
            self._radius = radius
        return self._clock.share(
            "blurred pictures",
            ("perturbation", radius),
            lambda: Perturbation(self.lvlm, self.trace, self.arguments, radius),
        )

    def without(self, groups: tuple[tuple[int, ...], ...], radius: float) -> Tensor:
        """log p of every response token without each group of inputs, whatever the target: groups,n; float64."""
        return self._clock.share(
            "inputs left out",
            ("without", groups, radius),
            lambda: self.perturbation(radius).log_probabilities(groups, self.progress),
        )

    def once(self, stage: str, key: Hashable, compute: Callable[[], _Result]) -> _Result:
        """What a method needs for every target of the trace, computed once; `stage` is its name among the costs."""
        return self._clock.share(stage, key, compute)

    def timed(self, run: Callable[[], _Result]) -> Timed[_Result]:
        """Run a method, and measure its own time separately from that of shared stages."""
        return self._clock.measure(run)

    def _record(self) -> Recording:
        def record() -> Recording:
            layers: list[Layer] = []
            return Recording(layers, self._instrumented_pass(layers.append))

        return self._clock.share(INSTRUMENTED, "recording", record)

    def _stream(self, centring: bool) -> Triangle:
        def finish() -> Triangle:
            return self.folds.fold(("pairwise", centring), lambda: self._empty_matrix(centring)).finish()

        return self._clock.share(INSTRUMENTED, ("pairwise", centring), finish)

    def _streamed_clean(self) -> Tensor:
        """From a pass that has already run, whatever it was for."""
        if (clean := self.folds.clean()) is None:
            self._stream(centring=True)
            clean = self._streamed_clean()
        return clean

    def _instrumented_pass(self, consume: Callable[[Layer], None]) -> Tensor:
        count = len(self.seam.layers)

        def hand_over(layer: Layer) -> None:
            consume(layer)
            self.progress(layer.index + 1, count)

        with self.seam.capture(hand_over):
            return self.seam.log_probabilities(self.arguments, self.ids, self.trace.prompt_length)[0]

    def _empty_matrix(self, centring: bool) -> PairwiseMatrix:
        """Template and response positions are not centred."""
        kinds = [self.trace.positions("image"), self.trace.positions("question")] if centring else []
        groups = [torch.tensor(positions, dtype=torch.long) for positions in kinds]
        return PairwiseMatrix(len(self.trace), groups, self.device, self._file_rows() if self._spills else None)

    def _file_rows(self) -> Triangle:
        """Zeros in a file that is freed with them."""
        file = ScratchFile(edge_count(len(self.trace)))
        return Triangle.on(file.numbers, len(self.trace), file.release)

    def _plan(self, budget: int) -> MemoryPlan:
        """What one explanation will need; a budget that is too small is an error."""
        embeds = self.arguments["inputs_embeds"]
        work = workload_of(self.seam.decoder.config, embeds.dtype)
        device, in_use = kind_of(embeds.device), memory_in_use(embeds.device)
        return plan_memory(work, len(self.trace), device, in_use, budget)
