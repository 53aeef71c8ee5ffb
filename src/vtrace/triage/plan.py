"""How the questions of a benchmark are explained, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from ..attribution.options import Options
from ..benchmarks.benchmark import Benchmark
from ..faithfulness.plan import IdentifiedModel, ResponsePlan, family_setting


class ExplanationSettings(TypedDict):
    """What all explanations of a folder have in common. A folder made with other settings is refused."""

    model: str
    revision: str
    dtype: str
    family: str  # "auto" if the places of image tokens were found by probing, or empty
    benchmark: str
    target: str
    options: Mapping[str, Any]
    system: str
    max_new_tokens: int


@dataclass(frozen=True)
class ExplanationPlan:
    """What is explained, and how.

    Args:
        target: part of each response that is explained. A response without the answer that it names is explained whole.
        options: of the method.
        passes: maximum number of forward passes to verify each explanation; None verifies none.
        memory: that one explanation may use, such as "4GB".
        responses: how the model is asked.
    """

    target: str = "response"
    options: Options = field(default_factory=Options)
    passes: int | None = None
    memory: str | None = None
    responses: ResponsePlan = field(default_factory=ResponsePlan)

    def settings(self, model: IdentifiedModel, benchmark: Benchmark) -> ExplanationSettings:
        """Explanations may be verified later, so that is not among the settings."""
        return ExplanationSettings(
            model=model.name,
            revision=model.revision,
            dtype=model.dtype,
            family=family_setting(model),
            benchmark=benchmark.name,
            target=self.target,
            options=asdict(self.options),
            system=self.responses.system,
            max_new_tokens=self.responses.max_new_tokens,
        )
