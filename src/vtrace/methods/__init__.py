"""Every method on one interface: a function of shared work and a target, and its options as keywords.

The dictionary below is the whole registry. A method's options are the keywords of its function.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

import numpy as np

from ..attribution import Attribution, make_options, score
from ..calibrate import Likelihoods, calibrate
from ..errors import InputError, ModelError, VTraceError, running
from ..types import Calibration, Target
from .alti import alti, alti_logit
from .attnlrp import attnlrp
from .chefer import chefer
from .choices import Receivers, check_choice
from .composed import attention_multihop, cage, ifr_multihop
from .controls import attention, centre, position, random
from .flashtrace import flashtrace
from .flowtracer import flowtracer
from .glimpse import glimpse
from .gradients import gradient, integrated_gradients
from .heta import heta
from .ifr import ifr
from .loo import leave_one_out
from .ordered import ordered
from .reagent import reagent
from .rollout import rollout
from .work import Outcome, Work

Run = Callable[..., Outcome | Attribution]
Speed = Literal["instant", "quick", "slow"]


def vtrace(
    work: Work, target: Target, *, gamma: float = 1.0, centring: bool = True, multihop: bool = True,
    hops: int = 0,
    calibrate: bool = True, calibrate_on: Literal["response", "target"] = "response",
    receivers: Receivers = "predictor",
) -> Attribution:  # fmt: skip
    """The paper's three stages: centred writes, all paths, image and text on one scale."""
    options = make_options(
        gamma=gamma, centring=centring, multihop=multihop, hops=hops, calibrate=calibrate, calibrate_on=calibrate_on,
        receivers=receivers,
    )  # fmt: skip
    likelihoods = work.likelihoods if options.calibrate and work.trace.patches else None
    return score(work.trace, target, work.pairwise(centring), likelihoods, options)


@dataclass(frozen=True)
class Method:
    """A method and what a user should know before choosing it."""

    run: Run
    about: str
    needs: tuple[str, ...]  # recorded pass, pairwise matrix, backward passes, extra passes, picture
    cost: str  # in forward passes
    speed: Speed = "instant"  # instant: little beyond the recorded pass; quick: a few passes; slow: many
    status: str = "as published"

    @property
    def options(self) -> dict[str, Any]:
        """Keywords and their defaults."""
        found = inspect.signature(self.run).parameters.values()
        return {p.name: p.default for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}

    def check(self, name: str, options: dict[str, Any]) -> None:
        """Refuse options that the method does not have, and values that they cannot take."""
        kinds = get_type_hints(self.run, include_extras=True)
        for option, value in options.items():
            if option not in self.options:
                raise InputError(f"{name} has no option {option!r}; it has: {', '.join(self.options) or 'none'}")
            check_choice(f"{name}.{option}", value, kinds[option])


RECORD, MATRIX, BACKWARD, EXTRA, PICTURE = (
    "recorded pass", "pairwise matrix", "backward passes", "extra passes", "picture",
)  # fmt: skip
ADAPTED = "adapted: published for text"

METHODS: dict[str, Method] = {
    "vtrace": Method(vtrace, "centred writes, all paths, calibrated", (RECORD, MATRIX), "1 recorded + 3"),
    "vtrace-ordered": Method(
        ordered, "writes composed in the order of layers, all paths between tokens", (RECORD,), "1 recorded",
        status="our own variant",
    ),
    "rollout": Method(rollout, "head-mean attention multiplied over layers", (RECORD,), "1 recorded"),
    "ifr": Method(
        ifr, "L1 proximity of writes to the receiver's residual", (RECORD,), "1 recorded, + sums per target token",
        status="as token scores, in FlashTrace's form",
    ),
    "flashtrace": Method(flashtrace, "IFR of a span, traced on through the response", (RECORD,), "1 recorded"),
    "flowtracer": Method(
        flowtracer, "flow to the answer over head-mean attention", (RECORD,), "1 recorded",
        status="from summaries: no code is public",
    ),
    "attnlrp": Method(
        attnlrp, "relevance propagation through attention", (BACKWARD,), "1 + 1 backward (+ 1 from 512 tokens)",
        "quick", "as published; LRP is patented, see its page",
    ),
    "reagent": Method(
        reagent, "replace inputs at random, learn whose absence hurts", (EXTRA, PICTURE), "up to 2 x steps x probes",
        "slow", ADAPTED,
    ),
    "heta": Method(
        heta, "attention gate x (curvature + information)", (RECORD, BACKWARD, EXTRA), "inputs x (1 + 7 x probes)",
        "slow", ADAPTED,
    ),
    "alti": Method(alti, "L1 proximity multiplied over layers", (RECORD,), "1 recorded + T x T x H x d sums", "slow"),
    "alti-logit": Method(
        alti_logit, "logits written by attention, handed down by ALTI", (RECORD,), "as alti, + 1", "slow"
    ),
    "chefer": Method(
        chefer, "attention times its gradient, positive part", (RECORD, BACKWARD), "1 recorded + 1 + 1 backward",
        "quick", "as published, for a sum of logits",
    ),
    "glimpse": Method(
        glimpse, "weighted gradient attention, responses weighted by alignment", (RECORD, BACKWARD),
        "1 recorded + 1 + 1 backward per target token", "slow", "from a third-party guide",
    ),
    "cage": Method(
        cage, "row-normalised all-paths over the response", (RECORD, MATRIX), "1 recorded",
        status="adapted: over VTrace's matrix",
    ),
    "ifr-multihop": Method(
        ifr_multihop, "the paper's all-paths sum over IFR", (RECORD,), "1 recorded + T x T x H x d sums", "slow",
        "the paper's composition",
    ),
    "attention-multihop": Method(
        attention_multihop, "the paper's all-paths sum over mean attention", (RECORD,), "1 recorded",
        status="a control for the matrix",
    ),
    "loo": Method(
        leave_one_out, "blur one patch or pad one word: measured dependence", (EXTRA, PICTURE),
        "1 + 1 per input, with the vision tower", "slow", "reference",
    ),
    "ig": Method(
        integrated_gradients, "gradients on the way from padded inputs", (BACKWARD,), "steps x (1 + 1 backward)",
        "slow", "as published, on embeddings",
    ),
    "gradient": Method(gradient, "gradient times input", (BACKWARD,), "1 + 1 backward", "quick", "control"),
    "attention": Method(attention, "attention weights of the target", (RECORD,), "1 recorded", status="control"),
    "random": Method(random, "noise", (), "0", status="control"),
    "centre": Method(centre, "a prior on the middle", (), "0", status="control"),
    "position": Method(position, "the later, the more", (), "0", status="control"),
}  # fmt: skip


def names_of(*speeds: Speed) -> list[str]:
    """Methods of these speeds."""
    return [name for name, method in METHODS.items() if method.speed in speeds]


def parse_names(text: str) -> list[str]:
    """Methods from "vtrace,ifr", or from a group: "instant", "quick" (with the instant ones) or "all"."""
    groups = {"instant": names_of("instant"), "quick": names_of("instant", "quick"), "all": list(METHODS)}
    names = groups.get(text) or list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        find_method(name)
    return names


def find_method(name: str) -> Method:
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; there are: {', '.join(METHODS)}")
    return METHODS[name]


def run_method(name: str, work: Work, target: Target, calibrated: bool = False, **options: Any) -> Attribution:
    """Run one method with the given options. `calibrated` puts image and text on one scale, as stage 3 does."""
    method = find_method(name)
    method.check(name, options)
    with running(name):
        try:
            outcome = method.run(work, target, **options)
        except VTraceError as error:
            raise type(error)(f"{name}: {error}") from error
        if isinstance(outcome, Attribution):
            return outcome
        return _as_attribution(name, work, target, outcome, calibrated, {**method.options, **options})


def _as_attribution(
    name: str, work: Work, target: Target, outcome: Outcome, calibrated: bool, variant: dict[str, Any]
) -> Attribution:
    trace = work.trace
    raw = outcome.scores.detach().cpu().double().numpy().copy()
    if not np.isfinite(raw).all():
        raise ModelError(f"{name}: scores are not finite at position {int(np.argmin(np.isfinite(raw)))}")
    first = min(target.positions) - (variant.get("receivers") != "token")
    raw[first:] = 0  # a target relies on what came before it is read
    image, text = trace.positions("image"), trace.positions("question")
    calibration = Calibration("off")
    if calibrated and image:
        totals = Likelihoods(*map(float, work.likelihoods.sum(axis=1)))
        calibration = calibrate(totals, float(np.abs(raw[image]).sum()), float(np.abs(raw[text]).sum()))
        raw[image] *= calibration.scale
    total = float(np.abs(raw[image + text]).sum()) or 1.0
    return Attribution(
        trace=trace, target=target, scores=raw / total, log_scale=math.log(total), calibration=calibration,
        method=name, variant={**variant, "calibrated": calibrated}, details=outcome.details,
    )  # fmt: skip
