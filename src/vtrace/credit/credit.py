"""Credit: rollouts in, one weight per sampled token out, whatever the trainer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from ..errors import InputError, ModelError
from ..lvlm.families.supported import family_of
from ..lvlm.model import Lvlm
from .rollouts import Rollout, encoded_parts
from .sources import SOURCES
from .weights import BOOST, SHARE, UNASSIGNED, RuleName, check_rule, weights

TOKENS_AT_ONCE = 8192  # decoded together; bounds the memory of a batch
Status = Literal[
    "assigned",
    "no answer",  # the response has no "Final answer:" line
    "cut off",  # it was stopped at the token budget, so its answer may be incomplete
    "empty",  # nothing was sampled
    "nothing before the answer",  # so there is nothing to credit
    "no picture",  # the source compares with and without one
    "not finite",  # the model's numbers overflowed
    "skipped",  # the trainer did not ask: an advantage of zero stays zero
    "failed",  # an error, which the trainer logs
]


class TokenCredit(NamedTuple):
    """Credit of one response."""

    weights: np.ndarray  # one per response token; 1.0 where unassigned, never 0
    scores: np.ndarray  # one per response token; nan where unassigned
    status: Status
    image_share: float | None = None  # of the answer's image and question scores, where the source knows it


def neutral(rollout: Rollout, status: Status) -> TokenCredit:
    """Weights that change nothing."""
    count = len(rollout.response)
    return TokenCredit(np.ones(count), np.full(count, UNASSIGNED), status)


@dataclass(frozen=True)
class Credit:
    """How responses are credited.

    Args:
        source: where scores come from, a name in `SOURCES`.
        rule: how scores become weights, see `weights`.
        share: of the scored tokens that the rule raises; the paper's 0.4.
        boost: what it raises them to; the paper's 1.5.
        seed: of the source "random".
        tokens_at_once: how many tokens are decoded together; fewer need less memory.
    """

    source: str = "vtrace"
    rule: RuleName = "top"
    share: float = SHARE
    boost: float = BOOST
    seed: int = 0
    tokens_at_once: int = TOKENS_AT_ONCE

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise InputError(f"unknown source {self.source!r}; use one of: {', '.join(SOURCES)}")
        check_rule(self.rule, self.share, self.boost)
        if self.tokens_at_once < 1:
            raise InputError(f"tokens_at_once is {self.tokens_at_once}; give at least 1")

    def assign(self, lvlm: Lvlm, rollouts: Sequence[Rollout]) -> list[TokenCredit]:
        """Credit of every rollout, in order. Responses that cannot be credited keep the weight 1.0 and say why."""
        found = [neutral(rollout, self._reason(lvlm, rollout)) for rollout in rollouts]
        able = [k for k, credit in enumerate(found) if credit.status == "assigned"]
        with undisturbed(lvlm.model):
            for part in encoded_parts(lvlm, [rollouts[k] for k in able], self.tokens_at_once):
                scored = SOURCES[self.source].score(lvlm, part, self.seed)
                for index, rollout, scores in zip(part.indices, part.rollouts, scored, strict=True):
                    found[able[index]] = self._weigh(rollout, scores.values, scores.image_share)
        return found

    def _reason(self, lvlm: Lvlm, rollout: Rollout) -> Status:
        """Why a response cannot be credited; "assigned" if it can."""
        if not rollout.response:
            return "empty"
        if not rollout.finished:
            return "cut off"
        if not rollout.answer:
            return "no answer"
        if not len(rollout.scored):
            return "nothing before the answer"
        if SOURCES[self.source].needs_picture and lvlm.image_token_id not in rollout.ids[: rollout.prompt_length]:
            return "no picture"
        return "assigned"

    def _weigh(self, rollout: Rollout, values: np.ndarray, image_share: float | None) -> TokenCredit:
        if not np.isfinite(values).all():
            return neutral(rollout, "not finite")
        blank = neutral(rollout, "assigned")
        blank.scores[: len(values)] = values
        raised = weights(blank.scores, self.rule, self.share, self.boost)
        return blank._replace(weights=raised, image_share=image_share)


@contextmanager
def undisturbed(model: Any) -> Iterator[None]:
    """Run in evaluation mode, without gradients and without compiled graphs; the model's own mode is restored."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            yield
    finally:
        model.train(training)


def policy(model: Any, processor: Any, name: str = "policy") -> Lvlm:
    """A trainer's model, out of its wrappers (PEFT, torch.compile), checked to be one whose layers can be read.

    Call it before training starts: it fails with a `ModelError` where credit would fail later.
    """
    bare = unwrapped(model)
    if not hasattr(bare, "config"):
        raise ModelError(f"{type(model).__name__} hides the model: it has no configuration; unwrap it first")
    lvlm = Lvlm(name, bare, processor, family_of(bare.config, name))
    try:
        layers = lvlm.seam.decoder.layers
        _ = [layer.self_attn.o_proj for layer in layers]
    except AttributeError as error:
        raise ModelError(f"the decoder of {type(bare).__name__} cannot be reached: {error}; unwrap it first") from error
    _read_once(lvlm)
    return lvlm


def unwrapped(model: Any) -> Any:
    """The model of `transformers` inside compiled, distributed and adapted ones. Adapters stay active inside it."""
    while True:
        if hasattr(model, "_orig_mod"):  # torch.compile
            model = model._orig_mod
        elif type(model).__name__ in ("DistributedDataParallel", "DataParallel"):
            model = model.module
        elif hasattr(model, "get_base_model"):  # PEFT
            model = model.get_base_model()
        else:
            return model


def _read_once(lvlm: Lvlm) -> None:
    """Instrument a pass over four tokens."""
    seen: list[int] = []
    embed = lvlm.model.get_input_embeddings()
    with undisturbed(lvlm.model), lvlm.seam.undisturbed():
        embeds = embed(torch.full((1, 4), lvlm.seam.pad_id, device=lvlm.device))
        with lvlm.seam.capture(lambda layer: seen.append(layer.index)):
            lvlm.seam.decoder(inputs_embeds=embeds, use_cache=False)
