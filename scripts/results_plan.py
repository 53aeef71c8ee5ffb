"""What `scripts/results.py` measures: which models, methods and studies, and on how many examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from vtrace.benchmarks.registry import SHAPES_SIZE
from vtrace.benchmarks.shapes.sample import sample
from vtrace.faithfulness.rows import EvaluatedTarget
from vtrace.lvlm.dtypes import Dtype
from vtrace.methods.catalogue import names_of
from vtrace.methods.registry import METHODS
from vtrace.studies.registry import STUDIES, find_study

DOCS = Path(__file__).parents[1] / "docs"
SLOWEST = "heta"  # minutes for an explanation
MANY = 5  # evidence objects: more than a step of a curve shows of the 48 to 64 patches of Pinhole
MANY_IN_WORDS = "five"
MORE_EXAMPLES = {"budget": 36}  # of a quick study: few answers need the inputs once their reasoning is frozen
TIMED_STUDIES = ("efficiency",)  # these measure time, so they run alone
TEXT_STUDIES = ("components", "ordered", "refine", "sanity")  # these need no picture
# The first table has the paper's methods, ours, a reference, and noise.
FIRST = (
    "vtrace", "vtrace-ordered", "vtrace-refined", "vtrace-ordered-refined", "ifr", "ifr-multihop", "flashtrace",
    "flowtracer", "rollout", "attnlrp", "loo", "random",
)  # fmt: skip

# With 135M parameters, these take 10 to 70 times as long as the others, of which the two curves are what costs.
SLOW_ON_TEXT = ("ig", "reagent", SLOWEST)
ON_TEXT = tuple(name for name in dict.fromkeys((*FIRST, *METHODS)) if name not in SLOW_ON_TEXT)

RunKind = Literal["main", "others", "slowest", "scattered"]
RUN_KINDS: tuple[RunKind, ...] = get_args(RunKind)


class Ground(NamedTuple):
    """A model and the benchmark it is measured on."""

    title: str
    benchmark: str  # its test split; the dev split is used for studies
    targets: Sequence[EvaluatedTarget] = get_args(EvaluatedTarget)
    main: Sequence[str] = ()  # methods that run on every example, if not those of the plan
    begin: int = 0  # number of the first test example
    dtype: Dtype = "float32"
    note: str = ""

    @property
    def name(self) -> str:
        return self.title.partition(" (")[0]

    @property
    def sees(self) -> bool:
        return self.benchmark == "shapes"

    def measures(self, part: str) -> bool:
        """Whether a kind of run, or a study, makes sense without pictures, if there are none."""
        return self.sees or part in ("others", "main", *TEXT_STUDIES)


GROUNDS = {
    "pinhole": Ground("Pinhole (Qwen3-VL)", "shapes"),
    "pinhole-internvl": Ground("Pinhole-InternVL (InternVL)", "shapes"),
    "smollm2": Ground(
        "SmolLM2-135M (pretrained, text only)",
        "facts",
        ("response",),
        ON_TEXT,
        begin=200,
        dtype="bfloat16",
        note="A response to Facts is one sentence, which is the answer, so there is one target. Examples are counted "
        "from number 200 on, because a default of refining was chosen after a look at the first 200. Weights are in "
        "bfloat16, which halves the time; leave-one-out and refined methods then order their weakest inputs, whose "
        "likelihoods hardly differ, a little differently than in float32. A prompt has about 33 question tokens, so 32 "
        "refined inputs are nearly all of them: here, refined ordered paths are leave-one-out in other words.",
    ),
}


class Part(NamedTuple):
    """Methods, and the numbers of the test examples they are measured on."""

    methods: Sequence[str]
    numbers: Sequence[int]
    folder: str


@dataclass(frozen=True)
class ResultsPlan:
    """On every example: all methods that are not slow, and two that are. The other slow ones run on a subset, and the
    slowest on a smaller one."""

    models: Sequence[str] = tuple(GROUNDS)
    first: Sequence[str] = FIRST  # methods of the first table
    quick: Sequence[str] = tuple(names_of("instant", "quick"))
    every: Sequence[str] = tuple(METHODS)
    studies: Sequence[str] = tuple(STUDIES)
    items: int = 200  # test examples for the main methods
    others: int = 8  # for all methods but the slowest
    slowest: int = 2
    scattered: int = 60  # with many evidence objects
    study_items: int = 16  # dev examples per study
    workers: int = 1
    work: Path = Path("build/results")  # runs and studies
    pages: Path = field(default=DOCS / "results")

    def main(self, model: str) -> list[str]:
        """Methods that run on every example."""
        return [*GROUNDS[model].main] or [*self.first, *(name for name in self.quick if name not in self.first)]

    def part(self, kind: RunKind, model: str) -> Part:
        if kind == "scattered":
            more = [number for number in self.scattered_numbers() if number >= self.items]  # the others are measured
            return Part(self.main(model), more, "scattered")
        others = [name for name in dict.fromkeys((*self.main(model), *self.every)) if name != SLOWEST]
        parts = {
            "main": (self.main(model), self.items, "test"),
            "others": (others, self.others, "others"),
            "slowest": ([SLOWEST], self.slowest, "others"),
        }
        methods, count, folder = parts[kind]
        begin = GROUNDS[model].begin
        return Part(methods, range(begin, begin + count), folder)

    def scattered_numbers(self) -> list[int]:
        """Numbers of the first test examples of Shapes with many evidence objects."""
        return list(islice(_scattered(), self.scattered))

    def study_limit(self, name: str) -> int:
        return MORE_EXAMPLES.get(name) or min(self.study_items, find_study(name).limit)


def _scattered() -> Iterator[int]:
    return (number for number in range(SHAPES_SIZE) if len(sample("test", number).evidence_boxes) >= MANY)
