"""AttnLRP (Achtibat et al., 2024): relevance through attention, by one modified forward and one backward pass.

LRP is covered by patents whose owners allow personal and scientific use; see docs/methods/attnlrp.md.
"""

from __future__ import annotations

from contextlib import nullcontext

from ..lvlm.gradients import Graph, checkpointed
from ..lvlm.relevance import Rule, relevance_rules
from ..types import Target
from .option_types import Sign
from .outcome import Outcome, signed_as
from .session import TraceSession

LONG = 512  # from this many tokens on, activations are computed twice instead of kept


def attnlrp(
    session: TraceSession,
    target: Target,
    *,
    rule: Rule = "attnlrp",
    sign: Sign = "positive",
    checkpoint: bool | None = None,
) -> Outcome:
    """Relevance is linear in its starting point, so one backward pass from the sum of logits covers a whole span.

    `rule` "cp" keeps attention and gates constant, which conserves relevance exactly without biases.
    Relevance stops at the fused embeddings and DeepStack rows; the vision tower is not entered.
    """
    decoder = session.seam.decoder
    long = len(session.trace) >= LONG if checkpoint is None else checkpoint
    with relevance_rules(decoder, rule), checkpointed(decoder.layers) if long else nullcontext():
        graph = Graph(session.seam, session.arguments, session.ids, target.positions, heads=False)
        found = graph.gradient(graph.logits.sum())
    relevance = found.times_input(session.trace.positions("image"))
    return signed_as(sign, relevance, {"target_logits": float(graph.logits.detach().sum()), "checkpointed": long})
