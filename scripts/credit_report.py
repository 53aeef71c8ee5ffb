"""Tables and plot of the credit experiment: the section in docs/explanation/credit.md, from its runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vtrace.errors import InputError
from vtrace.studies.figures import TICK, add_title, new_figure, save_figure, set_labels
from vtrace.studies.method_colours import colours_of
from vtrace.system.files import write_atomically
from vtrace.system.text_colours import FAINT, INK

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
    """What is kept of a run. Nothing here draws its curves, but they cost hours to measure."""

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
    return "\n".join([*parts, "![What each source of credit adds to none](../results/credit-experiment.png)\n"])


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
    learnt = _learnt(block)
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


def _learnt(block: Block) -> Estimate:
    """Gain in test accuracy without credit."""
    return estimate([run["test"] - block["before"] for run in block["arms"]["none"].values()])


def _compared(found: Estimate) -> str:
    if not found.told_from_zero:
        return "cannot be told from"
    return f"is {abs(found.mean):.3f} {'above' if found.mean > 0 else 'below'}"


_APART = 1.4  # rows, from the last of a block to its successor's heading
_NAMES = 112  # points, for the names of the rows
_BESIDE: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}


def draw(blocks: Sequence[Block]) -> Figure:
    """What each source of credit adds to training without credit: a row per source, one scale for all blocks."""
    colours = colours_of(ARMS)
    rows = sum(_APART + len(_gains(block)) for block in blocks)
    figure, ((ax,),) = new_figure(1, 1, 0.22 * rows + 0.5)
    set_labels(ax, "", x="test accuracy, minus that of the same seeds without credit")
    end = 0.0
    for block in blocks:
        gains = _gains(block)
        ax.annotate(_heading(block), (0, end), (-_NAMES, 0), fontsize=TICK, color=INK, va="center", **_BESIDE)
        for row, (arm, found) in enumerate(gains.items(), 1):
            _draw_gain(ax, end + row, arm, found, colours[arm])
        ax.vlines(0, end + 0.5, end + len(gains) + 0.5, color=FAINT, lw=0.8, zorder=0)
        end += len(gains) + _APART
    ax.set_ylim(end - _APART + 0.7, -0.4)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:+.2f}".replace("-", "−") if round(x, 3) else "0")
    note = "Means over seeds, with 95 % intervals; an empty dot is a single seed. T: temperature"
    add_title(figure, "Training with GRPO: what each source of credit adds to none", note)
    return figure


def _draw_gain(ax: Axes, row: float, arm: str, found: Estimate, colour: str) -> None:
    """A dot with its interval, between name and seeds. A single seed has no interval, and an empty dot."""
    half = found.half if found.seeds > 1 else 0.0
    ax.errorbar(found.mean, row, xerr=half, fmt="o", ms=5, lw=1.6, color=colour, mfc=colour if half else "white")
    ax.annotate(arm, (0, row), (-8, 0), fontsize=TICK, color=colour, va="center", ha="right", **_BESIDE)
    seeds = "1 seed" if found.seeds == 1 else f"{found.seeds} seeds"
    ax.annotate(seeds, (1, row), (8, 0), fontsize=TICK, color=FAINT, va="center", **_BESIDE)


def _gains(block: Block) -> dict[str, Estimate]:
    """The difference of each arm from the one without credit."""
    found = {arm: paired(block["arms"], arm, "none") for arm in block["arms"]}
    return {arm: gain for arm, gain in found.items() if gain}


def _heading(block: Block) -> str:
    start = f"{block['start'].capitalize()} start, T = {block['temperature']:g}, top-p = {block['top_p']:g}"
    return f"{start}; learnt without credit: {_with_half(_learnt(block), '+.3f')}"
