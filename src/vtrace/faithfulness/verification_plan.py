"""What `verify` hides and what that costs, known before anything runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..attribution.result import Attribution
from ..errors import InputError
from ..system.option_check import check_option
from ..tracing.pictures import BLUR
from ..types import Setting
from .curves import CURVE_STEPS, MODES, groups_of, ranked, states_of
from .hidden_sets import HideableInputs, ladder_sizes, random_orders
from .likelihoods import hideable_positions
from .plan import check_blur

PASSES, GENERATIONS, RANDOM_SETS = 30, 8, 8  # defaults
TRIED = 5  # sizes of each side that one generation of the search tries


class VerificationCost(NamedTuple):
    """What verifying costs at most."""

    passes: int  # sequences that go through the decoder with the frozen response
    generations: int  # calls that ask the model again, each with a batch of prompts
    sequences: int  # responses that are generated in them


@dataclass(frozen=True)
class VerificationPlan:
    """What is hidden, and how much may be tried. Sets are numbers of inputs, counted from the strongest."""

    inputs: HideableInputs
    setting: Setting
    order: tuple[int, ...]  # positions that the curves perturb, the strongest first
    sizes: tuple[int, ...]  # of the ladder
    steps: int  # of the curves
    generations: int
    draws: int
    seed: int
    blur: float

    @classmethod
    def of(
        cls,
        attribution: Attribution,
        *,
        setting: Setting = "joint",
        blur: float = BLUR,
        passes: int = PASSES,
        generations: int = GENERATIONS,
        draws: int = RANDOM_SETS,
        seed: int = 0,
    ) -> VerificationPlan:
        """The curves get as many steps as the passes allow, at most those of the evaluation."""
        check_option("setting", setting, Setting)
        inputs = HideableInputs.of(attribution, setting)
        sizes = tuple(ladder_sizes(len(inputs)))
        least = 2 + 3 * len(sizes) + 2  # nothing and all hidden; strongest, others, random; the two sets that are found
        for name, value, minimum in (("passes", passes, least), ("generations", generations, 2), ("draws", draws, 1)):
            if value < minimum:
                raise InputError(f"{name} is {value}; verifying this explanation needs at least {minimum}")
        order = ranked(attribution.scores, hideable_positions(attribution.trace, setting))
        steps = min(CURVE_STEPS, len(order), (passes - least) // 2 + 1)
        return cls(inputs, setting, tuple(order), sizes, steps, generations, draws, seed, check_blur(blur))

    @property
    def cost(self) -> VerificationCost:
        first, last = 2 + 2 * len(self.sizes), 2 * (self.draws + 1)
        between = (self.generations - 2) * 2 * TRIED
        return VerificationCost(len(self.states()) + 2, self.generations, first + between + last)

    def states(self) -> list[frozenset[int]]:
        """What is hidden to measure likelihoods, each state once. The two sets that are found come later."""
        groups = groups_of(self.order, self.steps)
        return list(
            dict.fromkeys(
                [
                    *(self.inputs.hide(range(size)) for size in (0, *self.sizes, len(self.inputs))),
                    *(self.inputs.keep(range(size)) for size in self.sizes),
                    *(self.inputs.hide(self.random(size)) for size in self.sizes),
                    *(state for mode in MODES for state in states_of(groups, mode)),
                ]
            )
        )

    def random(self, size: int, draw: int = 0) -> list[int]:
        """Random inputs, with as many patches and words as the strongest have."""
        return self.inputs.matching(self._orders[draw], self.inputs.count(range(size)))

    def lowest(self, size: int) -> list[int]:
        """The lowest ranked inputs, with as many patches and words as the strongest have."""
        return self.inputs.matching(range(len(self.inputs) - 1, -1, -1), self.inputs.count(range(size)))

    @cached_property
    def _orders(self) -> list[list[int]]:
        return random_orders(len(self.inputs), self.draws, self.seed)
