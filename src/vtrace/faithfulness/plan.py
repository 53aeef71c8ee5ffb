"""What an evaluation measures, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, cast, get_args

from ..benchmarks.benchmark import Benchmark
from ..errors import InputError
from ..lvlm.family_choice import PROBE
from ..system.option_check import check_option
from ..tracing.defaults import GENERATED_TOGETHER, MAX_NEW_TOKENS, SYSTEM_PROMPT
from ..tracing.endpoint import Endpoint
from .curves import CURVE_STEPS
from .rows import EvaluatedTarget, RunSettings, TraceSettings


class IdentifiedModel(Protocol):
    """What a run records about its model: an `Lvlm` here, or what a worker says about its own."""

    @property
    def name(self) -> str: ...

    @property
    def revision(self) -> str: ...

    @property
    def dtype(self) -> str: ...

    @property
    def probed(self) -> bool: ...


def family_setting(model: IdentifiedModel) -> str:
    """The family that was asked for, as it is recorded: empty for that of the checkpoint."""
    return PROBE if model.probed else ""


@dataclass(frozen=True)
class ResponsePlan:
    """How a model is asked. Everything except the size of a batch has to stay the same within a folder."""

    max_new_tokens: int = MAX_NEW_TOKENS
    system: str = SYSTEM_PROMPT
    batch: int = GENERATED_TOGETHER  # how many responses are generated together

    def settings(self, model: IdentifiedModel, benchmark: Benchmark, endpoint: Endpoint | None = None) -> TraceSettings:
        """The settings that all responses of a folder must share. Nobody knows the weights that a server has."""
        return TraceSettings(
            model=model.name,
            revision=model.revision if endpoint is None else "",
            dtype=model.dtype if endpoint is None else "",
            family=family_setting(model),
            served_model=endpoint.model if endpoint else "",
            benchmark=benchmark.name,
            system=self.system,
            max_new_tokens=self.max_new_tokens,
        )


MOST_BLUR = 10.0  # of the longer side: nothing is left to be seen
_Count = Annotated[int, 1]


@dataclass(frozen=True)
class EvaluationPlan:
    """What is measured. Within a run, everything except the lists of methods and targets has to stay the same."""

    methods: tuple[str, ...]
    targets: tuple[EvaluatedTarget, ...] = ("response",)
    seed: int = 0
    blur: float | None = None  # None: the benchmark's own
    steps: int = CURVE_STEPS
    calibrated: bool | tuple[str, ...] = False  # calibrate all methods as stage 3 does, or those of these names
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)  # further names, and the method that each stands for
    max_new_tokens: int = MAX_NEW_TOKENS
    system: str = SYSTEM_PROMPT
    batch: int = GENERATED_TOGETHER

    @property
    def responses(self) -> ResponsePlan:
        return ResponsePlan(self.max_new_tokens, self.system, self.batch)

    def check(self) -> None:
        if self.blur is not None:
            check_blur(self.blur)
        check_option("steps", self.steps, _Count)
        check_option("seed", self.seed, int)
        check_targets(self.targets)
        if stray := set(self.options) - set(self.methods):
            raise InputError(f"options were given for {sorted(stray)[0]}, which is not among the methods")
        from ..methods.registry import find_method  # options are keywords of functions that need PyTorch

        for name in self.methods:
            find_method(self.method(name)).check(name, dict(self.options.get(name, {})))

    def method(self, name: str) -> str:
        """The method that a name stands for."""
        return self.variants.get(name, name)

    def calibrates(self, name: str) -> bool:
        return self.calibrated if isinstance(self.calibrated, bool) else name in self.calibrated

    def radius(self, benchmark: Benchmark) -> float:
        """Radius of the blur, as a fraction of the longer side."""
        return self.blur or benchmark.blur

    def settings(self, model: IdentifiedModel, benchmark: Benchmark) -> RunSettings:
        """The settings that all rows of a run must share."""
        return RunSettings(
            model=model.name,
            revision=model.revision,
            dtype=model.dtype,
            family=family_setting(model),
            benchmark=benchmark.name,
            blur=self.radius(benchmark),
            steps=self.steps,
            seed=self.seed,
            calibrated=self.calibrated if isinstance(self.calibrated, bool) else list(self.calibrated),
            options=self.options,
            variants=self.variants,
            max_new_tokens=self.max_new_tokens,
            system=self.system,
        )


def check_targets(names: Sequence[str]) -> tuple[EvaluatedTarget, ...]:
    """The targets of these names, each once."""
    for name in names:
        if name not in get_args(EvaluatedTarget):
            raise InputError(f"target {name!r} cannot be evaluated; use response, answer, or both")
    return cast(tuple[EvaluatedTarget, ...], tuple(dict.fromkeys(names)))


def check_blur(radius: float) -> float:
    if not 0 < radius <= MOST_BLUR:
        raise InputError(
            f"blur radius must be positive and at most {MOST_BLUR}, not {radius:g}; give a fraction of the longer side"
        )
    return radius


def item_seed(seed: int, number: int) -> int:
    """The seed of one item: every item has different noise."""
    return seed * 1_000_003 + number
