"""Tables and curves of the credit experiment: the section in docs/explanation/credit.md, from its runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np

from vtrace.errors import InputError
from vtrace.faithfulness.statistics import Summary
from vtrace.studies.figures import add_title, save_figure
from vtrace.studies.point_plots import MeanPoint, PlotPanel, draw_panels
from vtrace.system.files import write_atomically

# The tables stand between these lines of the page.
BEGIN = "The rest of this section is written by `python scripts/credit_experiment.py report`."
END = "## What credit can and cannot do"
# Quantiles of Student's t for 1 to 19 degrees of freedom: 97.5 % for intervals, 80 % for power.
T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
        2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093)  # fmt: skip
T80 = (1.376, 1.061, 0.978, 0.941, 0.920, 0.906, 0.896, 0.889, 0.883, 0.879,
       0.876, 0.873, 0.870, 0.868, 0.866, 0.865, 0.863, 0.862, 0.861)  # fmt: skip


NUMBERS = Path("results") / "credit-experiment.json"  # below docs
FEWEST = 3  # seeds from which arms are compared in words
FEW = 3  # steps over which rewards are averaged
ARMS = ("none", "vtrace", "vtrace-ordered", "visual dependence", "entropy", "random")


class Outcome(TypedDict):
    """What is kept of a run."""

    test: float  # accuracy, as the set-up measures it
    greedy: NotRequired[float]  # accuracy of greedy responses, if that is of sampled ones
    dev: list[tuple[int, float]]  # step and accuracy
    rewards: NotRequired[list[tuple[int, float]]]  # step and mean reward of the last few, if sampled ones are measured
    weight: float  # mean weight of tokens
    idle: float  # share of groups whose rewards are all equal


Arms = Mapping[str, Mapping[int, Outcome]]  # outcomes by arm and seed


class Block(TypedDict):
    """Runs that are compared with each other, and what they have in common."""

    start: str
    temperature: float
    top_p: float
    setup: dict[str, Any]
    before: float  # test accuracy of the start
    greedy_before: NotRequired[float]
    note: NotRequired[str]
    arms: dict[str, dict[int, Outcome]]


class Estimate(NamedTuple):
    """A mean over seeds, its 95 % interval, and the smallest true mean that would be told from zero 4 times in 5."""

    mean: float
    half: float
    detectable: float
    seeds: int

    @property
    def told_from_zero(self) -> bool:
        return abs(self.mean) > self.half


def write_report(folder: Path, docs: Path) -> bool:
    """Write the section of docs/explanation/credit.md, its plot and its numbers. False if there are no runs.

    Runs that were reported before are read back from the numbers, so their files are not needed again.
    """
    numbers, page = docs / NUMBERS, docs / "explanation" / "credit.md"
    blocks = merged(read_reported(numbers), read_runs(folder))
    if not blocks:
        return False
    before, found, rest = page.read_text("utf-8").partition(BEGIN)
    if not found or END not in rest:
        raise InputError(f"{page} has no place for the experiment: {BEGIN} … {END}")
    text = f"{before}{BEGIN}\n\n{section(blocks)}\n{END}{rest.partition(END)[2]}"
    save_figure(draw(blocks), docs / "results" / "credit-experiment.png")
    write_atomically(numbers, lambda path: path.write_text(json.dumps(blocks, indent=1) + "\n"))
    write_atomically(page, lambda path: path.write_text(text, "utf-8"))
    return True


def reported_runs(docs: Path, setup: Mapping[str, Any]) -> set[tuple[str, float, int]]:
    """Arm, temperature and seed of the runs of a set-up that the report has."""
    same = [block for block in read_reported(docs / NUMBERS) if block["setup"] == json.loads(json.dumps(setup))]
    return {(arm, block["temperature"], seed) for block in same for arm, runs in block["arms"].items() for seed in runs}


def read_reported(path: Path) -> list[Block]:
    blocks = json.loads(path.read_text()) if path.exists() else []
    for block in blocks:  # the keys of a JSON object are text
        block["arms"] = {arm: {int(seed): run for seed, run in runs.items()} for arm, runs in block["arms"].items()}
    return blocks


def read_runs(folder: Path) -> list[Block]:
    """Finished runs in a folder."""
    files = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    found = {_key(block): block for block in (_empty_block(start) for start in files if "arm" not in start)}
    for run in (run for run in files if "arm" in run):
        found[_key(_empty_block(run))]["arms"].setdefault(run["arm"], {})[run["seed"]] = _outcome(run)
    return [block for block in found.values() if block["arms"]]


def _empty_block(start: dict[str, Any]) -> Block:
    block = Block(
        start=start["setup"]["start"],
        temperature=start["temperature"],
        top_p=start["top_p"],
        setup=start["setup"],
        before=round(start["test_accuracy"], 4),
        arms={},
    )
    return {**block, "greedy_before": round(start["greedy_accuracy"], 4)} if "greedy_accuracy" in start else block


def _key(block: Block) -> tuple[str, float, float]:
    return block["start"], block["temperature"], block["top_p"]


def _outcome(run: dict[str, Any]) -> Outcome:
    steps = run["steps"]
    outcome = Outcome(
        test=round(run["test_accuracy"], 4),
        dev=[(point["step"], round(point["accuracy"], 4)) for point in run["dev"]],
        weight=round(float(np.mean([step.get("credit/mean_weight", 1.0) for step in steps])), 4),
        idle=round(float(np.mean([step["frac_reward_zero_std"] for step in steps])), 4),
    )
    if "greedy_accuracy" not in run:
        return outcome
    rewards = [step["reward"] for step in steps]
    means = [(end, round(float(np.mean(rewards[end - FEW : end])), 4)) for end in range(FEW, len(rewards) + 1, FEW)]
    return {**outcome, "greedy": round(run["greedy_accuracy"], 4), "rewards": means}


def merged(old: Sequence[Block], new: Sequence[Block]) -> list[Block]:
    """Both, in the order of the page. Of another set-up, new runs replace old ones: they cannot be compared."""
    blocks = {_key(block): block for block in old}
    for block in new:
        key = _key(block)
        known = blocks[key]["arms"] if key in blocks and blocks[key]["setup"] == block["setup"] else {}
        own = block["arms"]
        arms = {arm: {**known.get(arm, {}), **own.get(arm, {})} for arm in ARMS if arm in known or arm in own}
        blocks[key] = {**block, "arms": {arm: dict(sorted(runs.items())) for arm, runs in arms.items()}}
    return sorted(blocks.values(), key=lambda block: (block["start"], -block["temperature"], -block["top_p"]))


def estimate(values: Sequence[float]) -> Estimate:
    count = len(values)
    if count < 2:
        return Estimate(float(np.mean(values)), math.inf, math.inf, count)
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    freedom = min(count - 1, len(T975)) - 1
    return Estimate(float(np.mean(values)), T975[freedom] * error, (T975[freedom] + T80[freedom]) * error, count)


def paired(arms: Arms, arm: str, other: str, of: Literal["test", "greedy"] = "test") -> Estimate | None:
    """Difference of test accuracy on the seeds that both arms have."""
    seeds = sorted(set(arms.get(arm, {})) & set(arms.get(other, {})))
    gaps = [arms[arm][seed][of] - arms[other][seed][of] for seed in seeds]
    return estimate(gaps) if seeds and arm != other else None


TRAINED = {"decoder": "all weights of the decoder", "norms": "the gains of the decoder's norms"}


def section(blocks: Sequence[Block]) -> str:
    parts = []
    for block in blocks:
        setup, greedy = block["setup"], block.get("greedy_before")
        size = f"{setup['steps']} steps of {setup['prompts']} prompts × {setup['rollouts']} rollouts"
        sampling = f"temperature {block['temperature']}, top-p {block['top_p']}"
        kind = "greedy" if greedy is None else "sampled"
        parts += [
            f"### {block['start'].capitalize()} start, {sampling}\n",
            f"Accuracy of {kind} responses to {setup['test_questions']} test questions before training: "
            f"{block['before']:.3f}{'' if greedy is None else f', of greedy ones: {greedy:.3f}'}. Trained: "
            f"{TRAINED[setup['trained']]}, {size}, learning rate {setup['learning_rate']:g}.\n",
            f"{_table(block['arms'])}\n",
            f"{_verdict(block)}\n",
        ]
    return "\n".join([*parts, "![Learning curves](../results/credit-experiment.png)\n"])


def _table(arms: Arms) -> str:
    """One row per arm. If sampled responses are measured, greedy ones have columns of their own."""
    sampled = any("greedy" in run for runs in arms.values() for run in runs.values())
    names = ["arm", "seeds", "test accuracy", "minus none", "minus random"]
    names += ["greedy responses", "minus none"] if sampled else []
    names += ["mean weight", "groups without variance"]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for arm, seeds in arms.items():
        runs = seeds.values()
        cells = [arm, str(len(runs)), _with_half(estimate([run["test"] for run in runs]))]
        cells += [_difference(paired(arms, arm, other)) for other in ("none", "random")]
        if sampled:
            cells += [_with_half(estimate([run["greedy"] for run in runs]))]
            cells += [_difference(paired(arms, arm, "none", "greedy"))]
        cells += [f"{np.mean([run['weight'] for run in runs]):.2f}", f"{np.mean([run['idle'] for run in runs]):.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _difference(found: Estimate | None) -> str:
    return "" if found is None else _with_half(found, "+.3f")


def _with_half(found: Estimate, form: str = ".3f") -> str:
    """A mean with half of its interval; one seed has none."""
    return f"{found.mean:{form}}" + (f" ± {found.half:.3f}" if found.seeds > 1 else "")


def _verdict(block: Block) -> str:
    """What was seen, and what could have been seen."""
    arms = block["arms"]
    learnt = estimate([run["test"] - block["before"] for run in arms["none"].values()])
    change = _with_half(learnt, "+.3f")
    if learnt.seeds < FEWEST:
        return f"GRPO without credit changed accuracy by {change}. Too few seeds to compare arms."
    if not (learnt.told_from_zero and learnt.mean > 0):
        return (
            f"GRPO without credit changed accuracy by {change}: nothing was learnt that credit could have sped up, so "
            "these runs say nothing about it."
        )
    sentences = [f"GRPO without credit changed accuracy by {change}."]
    few = [f"`{arm}`" for arm, seeds in arms.items() if len(seeds) < FEWEST]
    for arm in arms:
        found = paired(arms, arm, "none")
        if found is not None and found.seeds >= FEWEST:
            sentences.append(
                f"`{arm}` {_compared(found)} no credit ({found.seeds} seeds; {found.detectable:.3f} would be seen)."
            )
    if (found := paired(arms, "vtrace", "random")) is not None and found.seeds >= FEWEST:
        sentences.append(f"`vtrace` {_compared(found)} random tokens ({found.detectable:.3f} would be seen).")
    return " ".join([*sentences, *([f"Too few seeds to judge {', '.join(few)}."] if few else [])])


def _compared(found: Estimate) -> str:
    if not found.told_from_zero:
        return "cannot be told from"
    return f"is {abs(found.mean):.3f} {'above' if found.mean > 0 else 'below'}"


def draw(blocks: Sequence[Block]) -> Any:
    """Accuracy on held-out questions; where sampled responses are measured, their rewards: each prompt is seen once."""
    panels, means = {}, {}
    for block in blocks:
        title = f"{block['start']}, T = {block['temperature']:g}, top-p = {block['top_p']:g}"
        runs = {arm: [run.get("rewards", run["dev"]) for run in seeds.values()] for arm, seeds in block["arms"].items()}
        places = [step for step, _ in next(iter(runs.values()))[0]]
        shown = "held-out accuracy" if "greedy_before" not in block else f"reward, mean of {FEW} steps"
        seeds = sorted(len(curves) for curves in runs.values())
        counted = f"{seeds[0]}" if seeds[0] == seeds[-1] else f"{seeds[0]} to {seeds[-1]}"
        panels[title] = PlotPanel(f"step; seeds of an arm: {counted}", shown, ticks={x: f"{x:.0f}" for x in places})
        for arm, curves in runs.items():
            found = [estimate(column) for column in np.array([[y for _, y in curve] for curve in curves]).T]
            means[title, arm] = [
                MeanPoint(x, Summary(e.mean, e.mean - _shown(e), e.mean + _shown(e)))
                for x, e in zip(places, found, strict=True)
            ]
    figure = draw_panels(panels, means)
    note = "T: temperature of the rollouts. Means over seeds, with 95 % intervals if there are several"
    add_title(figure, "Training with GRPO from two starts, by source of credit", note)
    return figure


def _shown(found: Estimate) -> float:
    """Half of the interval; a single seed is drawn without one."""
    return found.half if found.seeds > 1 else 0.0
