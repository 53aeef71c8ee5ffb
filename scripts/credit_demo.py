"""Train an embedded model with GRPO and token credit for a few minutes: `make credit-demo`.

Prints accuracy on held-out questions before and after: answers to the same questions, about layouts that training never
shows. One short run says that training works, not that credit helps: see docs/explanation/credit.md for that. The
half-trained model learns to waste fewer of its sampled responses on stray tokens. `--start noisy` begins with the
trained model and noise on its weights, from which GRPO recovers within a few steps; there, greedy responses are
measured.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import numpy as np
import torch
from credit_experiment import SETUPS, Measure, Run, freeze, grpo_config, load_start
from transformers import PrinterCallback, TrainerCallback

from vtrace.credit.credit import Credit
from vtrace.credit.reward import final_answer_reward
from vtrace.credit.shapes_training import shapes_questions, shapes_rows
from vtrace.credit.sources import SOURCES
from vtrace.credit.trl import CreditGRPOTrainer
from vtrace.errors import VTraceError
from vtrace.faithfulness.statistics import summarise


class Lines(TrainerCallback):
    """One line per step."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **others: Any) -> None:
        if not logs or "reward" not in logs:
            return
        left = (time.monotonic() - self.began) / state.global_step * (state.max_steps - state.global_step)
        parts = [f"step {state.global_step:>3} of {state.max_steps}", f"reward {logs['reward']:.2f}"]
        if "credit/mean_weight" in logs:
            parts.append(f"mean weight {logs['credit/mean_weight']:.2f}")
        if "credit/image_share" in logs:
            parts.append(f"image share {logs['credit/image_share']:.2f}")
        print("   ".join([*parts, f"about {left / 60:.1f} min left"]), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--start", default="half-trained", choices=list(SETUPS), help="as in the experiment")
    parser.add_argument("--credit", default="vtrace", choices=[*SOURCES, "none"], help="source of credit")
    parser.add_argument("--steps", type=int, help="default: as in the experiment")
    parser.add_argument("--questions", type=int, default=200, help="held-out questions")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # its advice is about quantised models
    torch.set_num_threads(1)  # small batches are faster on one thread than on several
    setup, run = SETUPS[options.start], Run(options.credit, 1.0, options.seed)
    measure = Measure(setup, run)
    lvlm, steps = load_start(setup), options.steps or setup.steps
    held_out = shapes_questions("dev", options.questions, setup.tasks)
    print(f"{options.start} {lvlm.name}: answering {len(held_out)} held-out questions ({setup.measured})", flush=True)
    before = measure.right(lvlm, held_out)
    print(f"accuracy before: {np.mean(before):.3f}", flush=True)

    freeze(lvlm, setup)
    questions = shapes_questions("train", steps * setup.prompts, setup.tasks)
    with tempfile.TemporaryDirectory() as folder:
        trainer = CreditGRPOTrainer(
            lvlm.model,
            reward_funcs=final_answer_reward,
            args=grpo_config(setup, run, folder, steps),
            train_dataset=shapes_rows(questions),
            processing_class=lvlm.processor,
            callbacks=[Lines()],
            credit=None if options.credit == "none" else Credit(options.credit),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()

    after = measure.right(lvlm, held_out)
    print_result(np.array(before, float), np.array(after, float))


def print_result(before: np.ndarray, after: np.ndarray) -> None:
    table = summarise({"before": before, "after": after}, "before", higher_is_better=True)
    for name, row in table.items():
        print(f"accuracy {name + ':':<8}{row.mean:.3f}  (95 % interval {row.low:.3f} to {row.high:.3f})")
    gain = table["after"]
    print(
        f"gain: {gain.difference:+.3f}  ({gain.difference_low:+.3f} to {gain.difference_high:+.3f}; "
        f"{gain.wins} questions gained, {gain.losses} lost, {len(before)} asked)"
    )


if __name__ == "__main__":
    try:
        main()
    except VTraceError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
