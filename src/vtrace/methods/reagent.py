"""ReAGent (Zhao & Shan, 2024): replace random inputs repeatedly, and learn which absences hurt.

The published method explains one token of a text. Here the target is a span, whose likelihood is
exp(mean log p), and image positions can be replaced too.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ..lvlm.replacements import by_masked_lm, by_model, by_unigram
from ..tracing.pictures import BLUR
from ..types import Target
from .option_types import Count
from .outcome import Outcome
from .session import TraceSession

_LIMIT = 1 - 1e-6  # a change of likelihood by exactly one would give an infinite logit


def reagent(
    session: TraceSession,
    target: Target,
    *,
    probes: Count = 5,
    steps: Count = 100,
    rate: float = 0.3,
    keep: Count = 5,
    top: Count = 3,
    sampler: str = "model",
    image: Literal["blur", "shuffle", "pad"] = "blur",
    radius: float = BLUR,
    scale: Literal["log", "softmax"] = "log",
    seed: int = 0,
) -> Outcome:
    """`sampler` "model", "unigram", or the name of a masked language model; `image` "blur", "shuffle" or "pad".

    A probe stops when, with only its `keep` best inputs left, every target token is among the model's `top`.
    `scale` "log" ranks by the probes' mean logits, which do not saturate; "softmax" gives the published scores.
    """
    rng = torch.Generator().manual_seed(seed)
    replacer = _Replacer(session, sampler, image, radius, rng)
    places = torch.tensor(session.inputs)
    clean = _likelihood(session, target, replacer, torch.zeros(1, len(places), dtype=torch.bool), places)
    logits = torch.rand(probes, len(places), generator=rng, dtype=torch.float64)
    active = torch.ones(probes, dtype=torch.bool)
    for step in range(steps):
        running = active.nonzero()[:, 0]
        masked = torch.rand(len(running), len(places), generator=rng) < rate
        change = (clean - _likelihood(session, target, replacer, masked, places)).clamp(-_LIMIT, _LIMIT)[:, None] / 2
        logits[running] += torch.where(masked, torch.logit(0.5 + change), torch.logit(0.5 - change))
        rest = torch.ones(len(running), len(places), dtype=torch.bool)
        rest.scatter_(1, logits[running].topk(min(keep, len(places)), dim=1).indices, False)
        ranks = session.seam.ranks(replacer.arguments(rest, places), session.ids, target.positions)
        active[running] = ~(ranks < top).all(1).cpu()
        session.progress(step + 1, steps)
        if not active.any():
            break
    used = ~active if (~active).any() else torch.ones_like(active)
    softmax = torch.softmax(logits[used], dim=1).mean(0)
    ranked = (logits[used] - logits[used].min(1, keepdim=True).values).mean(0)
    scores = torch.zeros(len(session.trace), dtype=torch.float64)
    scores[places] = ranked if scale == "log" else softmax
    return Outcome(scores, {"stopped": int((~active).sum()), "steps": step + 1, "softmax": softmax.tolist()})


def _likelihood(session: TraceSession, target: Target, replacer: _Replacer, masked: Tensor, places: Tensor) -> Tensor:
    """exp of the mean log p of the target's tokens in each row."""
    start = session.trace.prompt_length
    logs = session.seam.log_probabilities(replacer.arguments(masked, places), session.ids, start)
    return logs[:, [p - start for p in target.positions]].mean(1).exp().cpu()


class _Replacer:
    """Decoder arguments with chosen inputs replaced by plausible ones."""

    def __init__(self, session: TraceSession, sampler: str, image: str, radius: float, rng: torch.Generator):
        self.session, self.image, self.rng = session, image, rng
        self.words, self.patches = session.trace.positions("question"), session.trace.positions("image")
        facts = (session.seam, session.arguments, session.ids, self.words)
        if sampler == "unigram":
            self.table = by_unigram(*facts)
        else:
            self.table = by_model(*facts)
        if sampler not in ("model", "unigram"):
            asked = [w for w in session.trace.words if w.kind == "question"]
            self.table = by_masked_lm(sampler, asked, session.lvlm.processor.tokenizer, self.table, self.words)
        other = {
            "pad": lambda: session.seam.pad(session.arguments, [self.patches]),
            "blur": lambda: session.perturbation(radius).all_blurred(),
        }
        self.other = session.seam.inputs(other.get(image, lambda: session.arguments)())

    def arguments(self, masked: Tensor, places: Tensor) -> dict:
        """One row per row of `masked` (rows by places); every row draws its own replacements."""
        session, seam, count = self.session, self.session.seam, len(masked)
        arguments = seam.repeat(session.arguments, count)
        rows = torch.zeros(count, len(session.trace), dtype=torch.bool)
        rows[:, places] = masked
        embeds = self.other[0].repeat(count, 1, 1)
        extras = [x.repeat(count, 1) for x in self.other[1:]]
        if self.image == "shuffle":
            order = torch.cat([torch.randperm(len(self.patches), generator=self.rng) for _ in range(count)])
            order = order.view(count, -1)
            for row in range(count):
                embeds[row, self.patches] = self.other[0][0, self.patches][order[row]]
            own = seam.extra_rows(session.arguments, self.patches)
            for extra, x in zip(extras, self.other[1:], strict=True):
                extra[own.repeat(count)] = torch.cat([x[own][order[row]] for row in range(count)])
        ids = torch.full(rows.shape, seam.pad_id, device=embeds.device)
        if self.words:
            drawn = torch.multinomial(self.table.cpu(), count, replacement=True, generator=self.rng).T
            ids[:, self.words] = drawn.to(embeds.device)
            embeds[:, self.words] = seam.model.get_input_embeddings()(ids[:, self.words]).to(embeds.dtype)
        return seam.replace(arguments, rows.to(embeds.device), embeds, extras, ids)
