"""Does token credit help GRPO? `python scripts/credit_experiment.py run`, then `... report`. Interrupted runs resume.

A half-trained Pinhole, or a trained one with noise on its weights, learns Shapes questions by GRPO with TRL. Arms
differ only in the weights of tokens: none, or a source of credit under the paper's rule. Every seed shows all arms the
same prompts in the same order. A run writes one file when it is done: accuracy on held-out questions while it learns,
and on test questions at the end. Runs that the report has from an earlier session are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from credit_report import reported_runs, write_report
from transformers import TrainerCallback
from trl import GRPOConfig

from vtrace.benchmarks.shapes.sample import Sample
from vtrace.credit.credit import Credit
from vtrace.credit.reward import final_answer_reward
from vtrace.credit.shapes_training import (
    SHORT_BUDGET,
    SHORT_TASKS,
    cpu_config,
    freeze_vision,
    greedy_accuracy,
    sampled_accuracy,
    shapes_questions,
    shapes_rows,
    train_norms_only,
)
from vtrace.credit.trl import CreditGRPOTrainer
from vtrace.lvlm.load import load
from vtrace.lvlm.model import Lvlm
from vtrace.system.files import write_atomically

ROOT = Path(__file__).parents[1]
MAIN_ARMS = ("none", "vtrace", "random")
OTHER_ARMS = ("vtrace-ordered", "entropy", "visual dependence")
PAPER_TEMPERATURE, PAPER_TOP_P = 0.7, 0.95


@dataclass(frozen=True)
class Setup:
    """What the runs from one start share. Runs of another set-up need another folder."""

    start: str
    model: str
    noise: float  # added to the matrices of the decoder, in their standard deviations
    learning_rate: float
    steps: int
    trained: Literal["decoder", "norms"] = "decoder"  # all its weights, or the gains of its norms
    tasks: tuple[str, ...] = SHORT_TASKS
    budget: int = SHORT_BUDGET  # tokens of a response
    prompts: int = 8  # per step
    rollouts: int = 8  # per prompt
    top_p: float = PAPER_TOP_P  # at temperature 1.0
    measured: Literal["greedy", "sampled"] = "greedy"  # accuracy of greedy responses, or of ones sampled as in training
    dev_questions: int = 120
    dev_every: int = 4  # steps
    test_questions: int = 600


SETUPS = {
    setup.start: setup
    for setup in (
        # Of the short tasks, those that cannot be answered by a guess: "exist" is won half of the time by always
        # saying no, and "count" often by a short list, which is what GRPO then learns. A few rewards can teach the
        # gains of norms, but not all weights.
        Setup(
            "half-trained",
            "pinhole-half",
            0.0,
            learning_rate=1e-2,
            steps=12,
            trained="norms",
            tasks=("where", "at", "row", "walk1"),
            budget=44,
            top_p=1.0,
            measured="sampled",
            dev_questions=80,
        ),
        Setup("noisy", "pinhole", 0.4, learning_rate=1e-4, steps=8),
    )
}


class Run(NamedTuple):
    """One training run."""

    arm: str  # "none" or a source of credit
    temperature: float
    seed: int

    def top_p(self, setup: Setup) -> float:
        return PAPER_TOP_P if self.temperature == PAPER_TEMPERATURE else setup.top_p

    def name(self, setup: Setup) -> str:
        return f"{setup.start}-{self.arm.replace(' ', '-')}-t{self.temperature}-s{self.seed}"


def planned(seeds: int, other_seeds: int, cold_seeds: int) -> Iterator[Run]:
    """All runs. Seeds come first and arms last, so that an interrupted experiment has paired runs."""
    half, few = seeds // 2, min(other_seeds, cold_seeds)
    for arms, temperature, some in (
        (MAIN_ARMS, 1.0, range(half)),
        (MAIN_ARMS, PAPER_TEMPERATURE, range(few)),
        (OTHER_ARMS, 1.0, range(other_seeds)),
        (MAIN_ARMS, PAPER_TEMPERATURE, range(few, cold_seeds)),
        (MAIN_ARMS, 1.0, range(half, seeds)),
        (OTHER_ARMS, PAPER_TEMPERATURE, range(few)),
    ):
        yield from (Run(arm, temperature, seed) for seed in some for arm in arms)


class Measure:
    """Accuracy as the set-up measures it."""

    def __init__(self, setup: Setup, run: Run):
        self.setup, self.sampling = setup, (run.temperature, run.top_p(setup))

    def dev(self, lvlm: Lvlm) -> float:
        return _share(self.right(lvlm, shapes_questions("dev", self.setup.dev_questions, self.setup.tasks)))

    def test(self, lvlm: Lvlm) -> dict[str, float]:
        """On the test questions; if responses are sampled, that of greedy responses too."""
        questions = shapes_questions("test", self.setup.test_questions, self.setup.tasks)
        found = {"test_accuracy": _share(self.right(lvlm, questions))}
        if self.setup.measured == "sampled":
            found["greedy_accuracy"] = _share(greedy_accuracy(lvlm.model, lvlm.processor, questions, self.setup.budget))
        return found

    def right(self, lvlm: Lvlm, questions: list[Sample]) -> list[bool]:
        """Whether the response to each question is right."""
        model, processor, budget = lvlm.model, lvlm.processor, self.setup.budget
        if self.setup.measured == "greedy":
            return greedy_accuracy(model, processor, questions, budget)
        return sampled_accuracy(model, processor, questions, budget, *self.sampling)


def _share(right: list[bool]) -> float:
    return sum(right) / len(right)


class Curve(TrainerCallback):
    """Measures accuracy on held-out questions while the model learns."""

    def __init__(self, measure: Measure, lvlm: Lvlm, before: float):
        self.measure, self.lvlm = measure, lvlm
        self.points = [{"step": 0, "accuracy": before}]

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step % self.measure.setup.dev_every == 0:
            self.points.append({"step": state.global_step, "accuracy": self.measure.dev(self.lvlm)})


def load_start(setup: Setup) -> Lvlm:
    """The model before training."""
    lvlm = load(setup.model)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for matrix in lvlm.seam.decoder.parameters() if setup.noise else ():
            if matrix.ndim == 2:
                matrix += setup.noise * matrix.std() * torch.randn(matrix.shape, generator=draw)
    return lvlm


def freeze(lvlm: Lvlm, setup: Setup) -> None:
    """Leave what the set-up does not train as it is."""
    freeze_vision(lvlm.model)
    if setup.trained == "norms":
        train_norms_only(lvlm.model)


def grpo_config(setup: Setup, run: Run, folder: str, steps: int) -> GRPOConfig:
    return cpu_config(
        folder,
        setup.prompts,
        setup.rollouts,
        max_steps=steps,
        learning_rate=setup.learning_rate,
        temperature=run.temperature,
        top_p=run.top_p(setup),
        max_completion_length=setup.budget,
        seed=run.seed,
    )


def train(run: Run, setup: Setup, start: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train once, and return what was measured."""
    began, spent = time.time(), time.process_time()
    lvlm = load_start(setup)
    torch.manual_seed(run.seed)
    freeze(lvlm, setup)
    needed = setup.steps * setup.prompts
    rows = shapes_rows(shapes_questions("train", needed, setup.tasks, start=12 * needed * run.seed))
    measure = Measure(setup, run)
    curve = Curve(measure, lvlm, start["dev_accuracy"])
    trainer = CreditGRPOTrainer(
        lvlm.model,
        final_answer_reward,
        args=grpo_config(setup, run, str(folder / "trainer"), setup.steps),
        train_dataset=rows,
        processing_class=lvlm.processor,
        callbacks=[curve],
        credit=None if run.arm == "none" else Credit(run.arm, seed=run.seed),
    )
    trainer.train()
    return {
        **run._asdict(),
        "top_p": run.top_p(setup),
        "setup": asdict(setup),
        "dev": curve.points,
        **measure.test(lvlm),
        "steps": [_kept(entry) for entry in trainer.state.log_history if "reward" in entry],
        "minutes": round((time.time() - began) / 60, 2),
        "cpu_minutes": round((time.process_time() - spent) / 60, 2),
    }


def _kept(entry: dict[str, float]) -> dict[str, float]:
    names = ("step", "reward", "frac_reward_zero_std", "completions/mean_length")
    return {name: round(value, 4) for name, value in entry.items() if name in names or name.startswith("credit/")}


def start_accuracy(run: Run, setup: Setup, folder: Path) -> dict[str, Any]:
    """Accuracy before training, sampled as in the run."""
    path = folder / f"{setup.start}-t{run.temperature}.json"
    if not is_done(path, setup):
        lvlm, measure = load_start(setup), Measure(setup, run)
        sampling = {"temperature": run.temperature, "top_p": run.top_p(setup)}
        _write(path, {"setup": asdict(setup), **sampling, "dev_accuracy": measure.dev(lvlm), **measure.test(lvlm)})
    return json.loads(path.read_text())


def is_done(path: Path, setup: Setup) -> bool:
    """Whether a run is finished. Runs of different set-ups must not be mixed in one table."""
    if path.exists() and json.loads(path.read_text())["setup"] != json.loads(json.dumps(asdict(setup))):
        sys.exit(f"{path} was made with another set-up; choose another --out, or remove the runs")
    return path.exists()


def _write(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, lambda temporary: temporary.write_text(json.dumps(content, indent=1) + "\n"))


def parse_part(text: str) -> tuple[int, int]:
    """The I-th of N parts."""
    mine, _, of = text.partition("/")
    if not (mine.isdigit() and of.isdigit() and 1 <= int(mine) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part such as 1/2")
    return int(mine), int(of)


def run_all(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    setup = SETUPS[args.start]
    args.out.mkdir(parents=True, exist_ok=True)
    mine, of = args.part
    reported = reported_runs(ROOT / "docs", asdict(setup))
    plan = (run for run in planned(args.seeds, args.other_seeds, args.cold_seeds) if run not in reported)
    for index, run in enumerate(plan):
        path = args.out / f"{run.name(setup)}.json"
        if index % of != mine - 1 or is_done(path, setup):
            continue
        found = train(run, setup, start_accuracy(run, setup, args.out), args.out)
        _write(path, found)
        print(f"{path.stem}: test {found['test_accuracy']:.3f}, {found['minutes']:.1f} min", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("run", "report"))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "credit", help="one file per run")
    parser.add_argument("--start", choices=SETUPS, default="half-trained")
    parser.add_argument("--seeds", type=int, default=10, help="for the arms none, vtrace and random")
    parser.add_argument("--other-seeds", type=int, default=3, help="for the other arms")
    parser.add_argument("--cold-seeds", type=int, default=5, help="for the paper's temperature, 0.7")
    parser.add_argument(
        "--part", type=parse_part, default=(1, 1), metavar="I/N", help="only the I-th of N parts, for several processes"
    )
    args = parser.parse_args()
    if args.action == "run":
        run_all(args)
    elif not write_report(args.out, ROOT / "docs"):
        sys.exit(f"no finished runs in {args.out}; start with: python scripts/credit_experiment.py run")


if __name__ == "__main__":
    main()
