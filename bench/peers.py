"""VTrace beside packages that a user could pick instead: `make peers`, or `.venv-peers/bin/python bench/peers.py`.

All of them explain the same 256 tokens of the same sequence by the same randomly initialised Llama decoder of over 100
million parameters, on the same number of threads. Costs are in bare forward passes, medians over rounds, with a bare
pass beside every run. Packages that explain one token at a time are measured on the last few tokens of a sequence of
the same length, and multiplied. Peak memory is that of a fresh process, relative to one that does a bare pass.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any, NamedTuple

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from overhead import CLOCKS, RESPONSE, SHAPE, high_water_mark, random_trace
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from vtrace.lvlm.families.text import TEXT
from vtrace.lvlm.seam import Seam
from vtrace.methods.registry import keeps_layers, run_method
from vtrace.methods.session import TraceSession
from vtrace.types import Target

SPECIAL = {"pad_token": "<pad>", "bos_token": "<begin>", "eos_token": "<end>"}  # tokens 0, 1 and 2


def _word(token: int) -> str:
    return f"w{token}"


@dataclass(frozen=True)
class Subject:
    """A decoder, a tokenizer that has a word for every token, and one sequence of random tokens."""

    tokens: int

    @cached_property
    def model(self) -> LlamaForCausalLM:
        torch.manual_seed(0)
        config = LlamaConfig(
            **SHAPE, num_hidden_layers=14, num_attention_heads=12, num_key_value_heads=4, head_dim=64,
            max_position_embeddings=8192, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        )  # fmt: skip
        return LlamaForCausalLM._from_config(config, attn_implementation="sdpa").eval()

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        names = [*SPECIAL.values(), *(_word(k) for k in range(len(SPECIAL), SHAPE["vocab_size"]))]
        words = Tokenizer(models.WordLevel({name: k for k, name in enumerate(names)}, unk_token=SPECIAL["pad_token"]))
        words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return PreTrainedTokenizerFast(tokenizer_object=words, **SPECIAL)

    @cached_property
    def ids(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        return torch.randint(len(SPECIAL), SHAPE["vocab_size"], (self.tokens,), generator=generator)

    def text(self, start: int, stop: int | None = None) -> str:
        return " ".join(_word(k) for k in self.ids[start:stop].tolist())

    @torch.no_grad()
    def bare(self) -> None:
        self.seam.log_probabilities(self.arguments, self.ids, self.tokens - RESPONSE)

    @cached_property
    def seam(self) -> Seam:
        return Seam(self.model, TEXT, pad_id=0)

    @cached_property
    def arguments(self) -> dict[str, Any]:
        return self.seam.encode({"input_ids": self.ids[None]})


class Contender(NamedTuple):
    """One way to explain the response."""

    package: str
    what: str
    explain: Callable[[Subject, int], None]  # with the number of response tokens that are explained
    tokens: int = RESPONSE  # that it is measured on; the cost of the rest is in proportion
    eager: bool = False  # whether it needs eager attention


def ours(method: str) -> Callable[[Subject, int], None]:
    def explain(subject: Subject, tokens: int) -> None:
        start = subject.tokens - tokens
        trace = random_trace(subject.ids, start, range(0), range(start))
        session = TraceSession(subject.seam, trace, subject.arguments, keep_layers=keeps_layers([method]))
        run_method(method, session, Target("response", tuple(range(start, subject.tokens))))

    return explain


def flashtrace(hops: int) -> Callable[[Subject, int], None]:
    def explain(subject: Subject, tokens: int) -> None:
        from flashtrace import FlashTrace

        prompt, target = subject.text(0, -tokens), subject.text(-tokens)
        tracer = FlashTrace(subject.model, subject.tokenizer)
        tracer.trace(prompt=prompt, target=target, output_span=(0, tokens - 1), hops=hops)

    return explain


def captum(subject: Subject, tokens: int) -> None:
    from captum.attr import LayerGradientXActivation, LLMGradientAttribution, TextTokenInput

    gradient = LayerGradientXActivation(subject.model, subject.model.model.embed_tokens)
    prompt = TextTokenInput(subject.text(0, -tokens), subject.tokenizer)
    LLMGradientAttribution(gradient, subject.tokenizer).attribute(prompt, target=subject.ids[-tokens:])


def inseq(method: str) -> Callable[[Subject, int], None]:
    def explain(subject: Subject, tokens: int) -> None:
        import inseq

        model = inseq.load_model(subject.model, method, tokenizer=subject.tokenizer, device="cpu")
        model.attribute(subject.text(0, -tokens), subject.text(0), show_progress=False)

    return explain


FEW = 4  # tokens
CONTENDERS = {
    "vtrace": Contender("vtrace", "vtrace, all paths", ours("vtrace")),
    "vtrace-ordered": Contender("vtrace", "vtrace-ordered", ours("vtrace-ordered")),
    "our flashtrace": Contender("vtrace", "flashtrace, 1 hop", ours("flashtrace")),
    "our attnlrp": Contender("vtrace", "attnlrp", ours("attnlrp")),
    "our gradient": Contender("vtrace", "gradient times input", ours("gradient")),
    "flashtrace, 1 hop": Contender("flashtrace", "FlashTrace, 1 hop", flashtrace(1), eager=True),
    "flashtrace, 3 hops": Contender("flashtrace", "FlashTrace, 3 hops", flashtrace(3), eager=True),
    "captum": Contender("captum", "LLMGradientAttribution, gradient times activation", captum, FEW),
    "inseq gradient": Contender("inseq", "input_x_gradient", inseq("input_x_gradient"), FEW),
    "inseq attention": Contender("inseq", "attention", inseq("attention"), FEW, eager=True),
}


def run(name: str, subject: Subject, warm_up: bool = False) -> None:
    one = CONTENDERS[name]
    subject.model.set_attn_implementation("eager" if one.eager else "sdpa")
    try:
        one.explain(subject, 1 if warm_up and one.tokens < RESPONSE else one.tokens)
    finally:
        subject.model.set_attn_implementation("sdpa")


def measure(names: list[str], tokens: int, repeats: int, clock: Callable[[], float]) -> list[dict[str, Any]]:
    """Medians over rounds. A contender that fails is listed with the reason."""
    subject = Subject(tokens)
    ratios: dict[str, list[float]] = {name: [] for name in names}
    reasons: dict[str, str] = {}
    for turn in range(repeats + 1):  # the first round warms up
        for name in names:
            if name in reasons:
                continue
            began = clock()
            subject.bare()
            middle = clock()
            try:
                run(name, subject, warm_up=not turn)
            except Exception as error:  # whatever a package does not support
                reasons[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
                continue
            if turn:
                ratios[name].append((clock() - middle) / (middle - began) * RESPONSE / CONTENDERS[name].tokens)
        print(f"round {turn} of {repeats}", file=sys.stderr)
    return [
        {
            "name": name, "package": f"{one.package} {_version(one.package)}", "what": one.what, "tokens": tokens,
            "explained": one.tokens, "passes": round(statistics.median(ratios[name]), 2) if ratios[name] else None,
            "reason": reasons.get(name),
        }
        for name, one in CONTENDERS.items() if name in names
    ]  # fmt: skip


def _version(package: str) -> str:
    try:
        return version("vtrace-attribution" if package == "vtrace" else package)
    except ImportError:
        return "not installed"


def peak(tokens: int, name: str) -> int | None:
    """High-water mark of a process that does nothing else; None if it fails."""
    command = [sys.executable, __file__, "--peak", name, "--tokens", str(tokens)]
    done = subprocess.run(command, capture_output=True, text=True)
    return int(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--memory-tokens", type=int, default=2048, help="0 leaves memory out")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--names", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        subject = Subject(args.tokens)
        subject.bare() if args.peak == "bare" else run(args.peak, subject)
        print(high_water_mark())
        return
    rows = measure(args.names, args.tokens, args.repeats, CLOCKS[args.clock])
    if args.memory_tokens:
        bare = peak(args.memory_tokens, "bare")
        for row in rows:
            found = None if row["reason"] else peak(args.memory_tokens, row["name"])
            row["memory"] = found and bare and round(found / bare, 2)
            print(f"{row['name']}: peak memory {row['memory']}", file=sys.stderr)
    if args.json:
        print(json.dumps({"rows": rows, "threads": torch.get_num_threads()}, indent=1))
        return
    print(f"| package | what | passes at {args.tokens:,} tokens | peak memory at {args.memory_tokens:,} tokens |")
    print("|---|---|---|---|")
    for row in rows:
        part = "" if row["explained"] == RESPONSE else f" (from {row['explained']} of {RESPONSE} tokens)"
        cost = f"{row['passes']:.2f}{part}" if row["passes"] is not None else f"not run: {row['reason']}"
        print(f"| {row['package']} | {row['what']} | {cost} | {row.get('memory') or '–'} |")


if __name__ == "__main__":
    main()
