"""The cost of credit in log-probability passes of the same batch: `python bench/credit.py [--json]`.

Two batches of rollouts, several for each prompt: responses that Pinhole samples (about 220 tokens with their prompt),
and 1,024 tokens under a randomly initialised Qwen3-VL whose decoder has over 100 million parameters. `ratio` compares
with a log-probability pass over the same right-padded batch, pictures encoded once per prompt, as credit does;
`trainer_ratio` with the pass of a trainer, which left-pads prompts and encodes the pictures of every rollout.
Ratios are medians over interleaved rounds in one process, so that a busy machine disturbs both sides equally.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from PIL import Image
from transformers import AutoConfig, Qwen3VLForConditionalGeneration

from vtrace.benchmarks.shapes.sample import sample
from vtrace.credit.credit import Credit
from vtrace.credit.rollouts import Rollout, encoded_parts, from_trace
from vtrace.lvlm.load import load
from vtrace.lvlm.model import Lvlm
from vtrace.tracing.defaults import SYSTEM_PROMPT
from vtrace.tracing.generate import retrace
from vtrace.tracing.prompt import process_prompt
from vtrace.tracing.reply import Reply
from vtrace.types import Example

CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
ANSWER = "\nFinal answer: red star"


def sampled(lvlm: Lvlm, prompts: int, each: int) -> list[Rollout]:
    """Responses sampled at temperature 1, to the questions with the longest answers among the first 240."""
    found = []
    torch.manual_seed(0)
    longest = sorted((sample("dev", index) for index in range(240)), key=lambda item: -len(item.response))
    for item in longest[:prompts]:
        example = Example((item.image,), item.question)
        inputs = process_prompt(lvlm, example, SYSTEM_PROMPT).inputs
        ids = lvlm.model.generate(**inputs, do_sample=True, num_return_sequences=each, max_new_tokens=220)
        end = lvlm.processor.tokenizer.eos_token_id
        for row in ids[:, inputs["input_ids"].shape[1] :].tolist():
            reply = row[: row.index(end) + 1] if end in row else row
            found.append(from_trace(lvlm, retrace(lvlm, example, Reply(reply, "stop"))))
    return found


def hundred_million() -> Lvlm:
    """Pinhole's classes, tokenizer and vision tower with a larger, random decoder, and larger pictures."""
    small = load("pinhole")
    config = AutoConfig.from_pretrained(small.model.config._name_or_path)
    text = config.text_config
    text.hidden_size, text.intermediate_size, text.num_hidden_layers = 768, 2560, 14
    text.num_attention_heads, text.num_key_value_heads, text.head_dim = 12, 4, 64
    text.rope_parameters = {**text.rope_parameters, "mrope_section": [12, 10, 10]}
    config.vision_config.out_hidden_size, text.vocab_size = 768, 8192
    torch.manual_seed(0)
    model = Qwen3VLForConditionalGeneration._from_config(config, attn_implementation="sdpa").eval()
    small.processor.image_processor.size = {"shortest_edge": 400 * 1024, "longest_edge": 400 * 1024}
    return replace(small, name="random 100M", model=model)


def invented(lvlm: Lvlm, prompts: int, each: int, tokens: int) -> list[Rollout]:
    """Random tokens that end in an answer."""
    tokenizer, draw = lvlm.processor.tokenizer, torch.Generator().manual_seed(0)
    answer = [*tokenizer(ANSWER, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    found = []
    for prompt in range(prompts):
        example = Example((Image.new("RGB", (640, 640), (40 * prompt, 90, 160)),), "What is shown?")
        length = len(process_prompt(lvlm, example, SYSTEM_PROMPT).ids)
        for _ in range(each):
            body = torch.randint(0, 256, (tokens - length - len(answer),), generator=draw).tolist()
            found.append(from_trace(lvlm, retrace(lvlm, example, Reply([*body, *answer], "stop"))))
    return found


class Batch:
    """Rollouts, and the passes over them."""

    def __init__(self, lvlm: Lvlm, rollouts: Sequence[Rollout], tokens_at_once: int):
        self.lvlm, self.rollouts = lvlm, rollouts
        self.credit = Credit(tokens_at_once=tokens_at_once)
        self.left_padded = self._as_trainers_do()

    def _as_trainers_do(self) -> dict[str, Any]:
        """One left-padded batch with the pictures of every rollout."""
        head = max(r.prompt_length for r in self.rollouts)
        tail = max(len(r.response) for r in self.rollouts)
        ids = torch.full((len(self.rollouts), head + tail), self.lvlm.seam.pad_id)
        mask = torch.zeros_like(ids)
        for row, rollout in enumerate(self.rollouts):
            own = slice(head - rollout.prompt_length, head + len(rollout.response))
            ids[row, own], mask[row, own] = torch.tensor(rollout.ids), 1
        seen = {name: torch.cat([r.inputs[name] for r in self.rollouts]) for name in ("pixel_values", "image_grid_thw")}
        kinds = (ids == self.lvlm.image_token_id).int()
        return dict(input_ids=ids, attention_mask=mask, mm_token_type_ids=kinds, logits_to_keep=tail + 1, **seen)

    def weighted(self) -> None:
        self.credit.assign(self.lvlm, self.rollouts)

    def log_probabilities(self) -> None:
        for part in encoded_parts(self.lvlm, self.rollouts, self.credit.tokens_at_once):
            ids = [rollout.ids for rollout in part.rollouts]
            where = [range(rollout.prompt_length, len(rollout)) for rollout in part.rollouts]
            list(self.lvlm.seam.batch_log_probabilities(part.arguments, ids, where))

    @torch.no_grad()
    def trainer(self) -> None:
        tail = self.left_padded["logits_to_keep"]
        logits = self.lvlm.model(**self.left_padded, use_cache=False).logits[:, :-1]
        logits.log_softmax(-1).gather(-1, self.left_padded["input_ids"][:, 1 - tail :, None])


def measure(batch: Batch, repeats: int, clock: Callable[[], float]) -> dict[str, Any]:
    runs = {"log_p": batch.log_probabilities, "credit": batch.weighted, "trainer": batch.trainer}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            began = clock()
            run()
            if turn:  # the first round warms up
                times[name].append(clock() - began)

    def ratio(to: str) -> float:
        return round(statistics.median(a / b for a, b in zip(times["credit"], times[to], strict=True)), 3)

    lengths = [len(rollout) for rollout in batch.rollouts]
    return {
        "model": batch.lvlm.name,
        "tokens": round(statistics.mean(lengths)),
        "batch": len(batch.rollouts),
        "ratio": ratio("log_p"),
        "trainer_ratio": ratio("trainer"),
        "seconds": round(statistics.median(times["credit"]), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    args = parser.parse_args()
    pinhole = load("pinhole")
    large = hundred_million()
    batches = [
        Batch(pinhole, sampled(pinhole, prompts=4, each=8), tokens_at_once=8192),
        Batch(large, invented(large, prompts=2, each=2, tokens=1024), tokens_at_once=4096),
    ]
    rows = [measure(batch, args.repeats, CLOCKS[args.clock]) for batch in batches]
    if args.json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    print(f"{'model':<12} {'tokens':>7} {'batch':>6} {'ratio':>7} {'to a trainer':>13} {'seconds':>8}")
    for row in rows:
        print(
            f"{row['model']:<12} {row['tokens']:7d} {row['batch']:6d} {row['ratio']:6.2f}x "
            f"{row['trainer_ratio']:12.2f}x {row['seconds']:8.2f}"
        )


if __name__ == "__main__":
    main()
