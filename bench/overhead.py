"""The cost of an explanation in bare forward passes: `python bench/overhead.py [--family qwen3_5] [--json]`.

A randomly initialised decoder of over 100 million parameters, the real seam, the real stages: Qwen3-VL's, or Qwen3.5's,
in which three of four layers use the gated delta rule.
Ratios are medians over interleaved rounds in one process, so that a busy machine disturbs both sides equally.
`--clock processor` compares processor time instead of time on the clock. Forward passes are counted. Peak memory is the
high-water mark of resident memory, each in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from transformers import AutoModel, Qwen3_5TextConfig, Qwen3VLTextConfig

from vtrace.attribution.options import Options
from vtrace.attribution.pipeline import log_scores_of, run_stages
from vtrace.lvlm.families.qwen_vl import QWEN3_5, QWEN3_VL
from vtrace.lvlm.seam import Seam
from vtrace.methods.session import TraceSession
from vtrace.tracing.targets import find_target
from vtrace.types import Box, Kind, Patch, Span, Target, Trace

RESPONSE = 256  # generated tokens
VOCABULARY = 8192
IMAGE, QUESTION = slice(32, -RESPONSE - 64), slice(-RESPONSE - 60, -RESPONSE - 4)


SHAPE = dict(vocab_size=VOCABULARY, hidden_size=768, intermediate_size=2560, tie_word_embeddings=True)
FAMILIES = {
    "qwen3_vl": (
        QWEN3_VL,
        lambda: Qwen3VLTextConfig(
            num_hidden_layers=14, num_attention_heads=12, num_key_value_heads=4, head_dim=64, **SHAPE,
            rope_parameters=dict(
                rope_type="default", rope_theta=1e6, mrope_section=[12, 10, 10], mrope_interleaved=True
            ),
        ),
    ),
    "qwen3_5": (
        QWEN3_5,
        lambda: Qwen3_5TextConfig(
            num_hidden_layers=12, num_attention_heads=6, num_key_value_heads=2, head_dim=128, **SHAPE,
            linear_num_key_heads=6, linear_num_value_heads=12, linear_key_head_dim=128, linear_value_head_dim=128,
        ),
    ),
}  # fmt: skip


class Decoder(torch.nn.Module):
    """The part of a model that the seam stands at: a text decoder and its output embedding."""

    def __init__(self, config):
        super().__init__()
        torch.manual_seed(0)
        config._attn_implementation = "sdpa"
        self.model = torch.nn.Module()
        self.model.language_model = AutoModel.from_config(config).eval()
        self.dtype, self.device = self.model.language_model.dtype, self.model.language_model.device

    def get_input_embeddings(self):
        return self.model.language_model.embed_tokens

    def get_output_embeddings(self):
        return lambda hidden: hidden @ self.get_input_embeddings().weight.T


def random_trace(ids: torch.Tensor, start: int, image: range, question: range) -> Trace:
    """A random sequence as a trace: which positions are image, question and, from `start` on, response. It has no
    text."""
    size = len(ids)
    kinds: list[Kind] = [
        "image" if p in image else "question" if p in question else "template" if p < start else "response"
        for p in range(size)
    ]
    response = Span(2 * start, 2 * size)
    return Trace(
        model="random",
        images=(),
        system="",
        question="",
        ids=tuple(ids.tolist()),
        prompt_length=start,
        text=" ".join("w" * size),
        offsets=tuple(Span(2 * p, 2 * p + 1) for p in range(size)),
        kinds=tuple(kinds),
        patches=tuple(Patch(p, 0, 0, column, Box(0, 0, 0, 0)) for column, p in enumerate(image)),
        words=(),
        response_span=response,
        sentences=(),
        reasoning=response,
        answer=None,
        finish="stop",
    )


class Subject:
    """One sequence of random tokens, and the passes over it."""

    def __init__(self, tokens: int, model: torch.nn.Module | None = None, family: str = "qwen3_vl"):
        described, config = FAMILIES[family]
        self.model = model or Decoder(config())
        self.seam = Seam(self.model, described, pad_id=0)
        self.ids = torch.randint(1, VOCABULARY, (tokens,), generator=torch.Generator().manual_seed(0))
        self.start = tokens - RESPONSE
        with torch.no_grad():
            embeds = self.model.get_input_embeddings()(self.ids[None])
        positions = torch.arange(tokens).expand(3, 1, -1)
        self.arguments = dict(inputs_embeds=embeds, position_ids=positions, attention_mask=None, use_cache=False)
        self.trace = random_trace(self.ids, self.start, range(tokens)[IMAGE], range(tokens)[QUESTION])

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def bare(self) -> None:
        self.seam.log_probabilities(self.arguments, self.ids, self.start)

    def session(self) -> TraceSession:
        return TraceSession(self.seam, self.trace, self.arguments, keep_layers=False)

    def instrumented(self) -> None:
        self.session().pairwise()

    def explanation(self) -> None:
        """One target: the whole response."""
        run_stages(self.session(), find_target(self.trace, "response"), Options())

    def every_token(self) -> None:
        """Every response token as a target of its own."""
        session = self.session()
        targets = [Target("token", (position,)) for position in range(self.start, len(self.ids))]
        log_scores_of(session.pairwise(), targets, Options())
        session.padded_likelihoods()

    def count_passes(self, run: Callable[[], object]) -> int:
        """Sequences that the decoder computes during a run."""
        counted: list[int] = []
        decoder = self.model.model.language_model
        hook = decoder.register_forward_pre_hook(
            lambda module, args, kwargs: counted.append(len(kwargs["inputs_embeds"])), with_kwargs=True
        )
        try:
            run()
        finally:
            hook.remove()
        return sum(counted)


CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def measure(tokens: int, repeats: int, clock: Callable[[], float], family: str) -> dict[str, Any]:
    subject = Subject(tokens, family=family)
    runs = {
        "bare": subject.bare,
        "instrumented": subject.instrumented,
        "explanation": subject.explanation,
        "all_tokens": subject.every_token,
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    passes: dict[str, int] = {}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            if not turn:  # the first round warms up
                passes[name] = subject.count_passes(run)
                continue
            began = clock()
            run()
            times[name].append(clock() - began)

    def ratio(name: str, to: str) -> float:
        """Median over rounds of the ratio inside a round: what slows a whole round down cancels."""
        return round(statistics.median(a / b for a, b in zip(times[name], times[to], strict=True)), 3)

    return {
        "tokens": tokens,
        "parameters": subject.parameters,
        "seconds": round(statistics.median(times["bare"]), 3),
        "forward_passes": passes,
        "instrumented": ratio("instrumented", "bare"),
        "explanation": ratio("explanation", "bare"),
        "all_tokens": ratio("all_tokens", "explanation"),
        "memory": round(peak(tokens, "explanation", family) / peak(tokens, "bare", family), 3),
    }


def peak(tokens: int, run: str, family: str) -> int:
    """High-water mark of resident memory of a process that does nothing else, in bytes."""
    command = [sys.executable, __file__, "--peak", run, "--tokens", str(tokens), "--family", family]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def high_water_mark() -> int:
    """Of this process alone: unlike VmHWM, ru_maxrss starts at the peak of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(re.search(r"VmHWM:\s*(\d+)", status.read_text())[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--family", choices=FAMILIES, default="qwen3_vl", help="which decoder is measured")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--peak", choices=("bare", "explanation"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        getattr(Subject(args.tokens[0], family=args.family), args.peak)()
        print(high_water_mark())
        return
    rows = [measure(tokens, args.repeats, CLOCKS[args.clock], args.family) for tokens in args.tokens]
    if args.json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    print(
        f"{rows[0]['parameters'] / 1e6:.0f} M parameters, {RESPONSE} response tokens, {torch.get_num_threads()} threads"
    )
    print(f"{'tokens':>7} {'bare [s]':>9} {'instrumented':>13} {'explanation':>12} {'all tokens':>11} {'memory':>7}")
    for row in rows:
        print(
            f"{row['tokens']:7d} {row['seconds']:9.2f} {row['instrumented']:12.2f}x {row['explanation']:11.2f}x "
            f"{row['all_tokens']:10.2f}x {row['memory']:6.2f}x"
        )


if __name__ == "__main__":
    main()
