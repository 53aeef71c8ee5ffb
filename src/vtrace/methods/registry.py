"""Every method on one interface: a function of a session and a target, and its options as keywords.

The dictionary below is the whole registry. A method's options are the keywords of its function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

import numpy as np

from ..attribution.options import CalibrateOn
from ..attribution.result import Attribution
from ..attribution.shares import calibrated_tokens, to_shares
from ..errors import InputError, ModelError, VTraceError, running
from ..system.option_check import check_option
from ..types import Target
from .all_paths import attention_multihop, cage, ifr_multihop
from .alti import alti, alti_logit
from .attnlrp import attnlrp
from .chefer import chefer
from .controls import attention, centre, position, random
from .flashtrace import flashtrace
from .flowtracer import flowtracer
from .glimpse import glimpse
from .gradients import gradient, integrated_gradients
from .heta import heta
from .ifr import ifr
from .loo import leave_one_out
from .ordered import ordered
from .outcome import Outcome
from .reagent import reagent
from .rollout import rollout
from .session import TraceSession
from .vtrace import vtrace

MethodFunction = Callable[..., Outcome | Attribution]
Need = Literal["layers", "attention weights", "pairwise matrix", "backward passes", "extra passes", "picture"]
Speed = Literal["instant", "quick", "slow"]


@dataclass(frozen=True)
class Method:
    """A method and what a user should know before choosing it."""

    run: MethodFunction
    about: str
    needs: tuple[Need, ...]
    cost: str  # in forward passes
    speed: Speed = "instant"  # instant: little beyond the instrumented pass; quick: a few passes; slow: many
    status: str = "as published"
    reference: bool = False  # measures dependence directly; the reference for other methods

    @property
    def options(self) -> dict[str, Any]:
        """Keywords and their defaults."""
        found = inspect.signature(self.run).parameters.values()
        return {p.name: p.default for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}

    def check(self, name: str, options: dict[str, Any]) -> None:
        """Refuse unknown options and invalid values."""
        kinds = get_type_hints(self.run, include_extras=True)
        for option, value in options.items():
            if option not in self.options:
                raise InputError(f"{name} has no option {option!r}; it has: {', '.join(self.options) or 'none'}")
            check_option(f"{name}.{option}", value, kinds[option])


LAYERS: Need = "layers"  # needs the layers of an instrumented pass
ATTENTION: Need = "attention weights"  # needs plain softmax attention in all layers
MATRIX: Need = "pairwise matrix"  # does not need the layers to be kept
BACKWARD: Need = "backward passes"
EXTRA: Need = "extra passes"
PICTURE: Need = "picture"
ADAPTED = "adapted: published for text"

METHODS: dict[str, Method] = {
    "vtrace": Method(vtrace, "centred writes, all paths, calibrated", (MATRIX,), "4"),
    "vtrace-ordered": Method(
        ordered, "writes composed in layer order, all paths between tokens", (LAYERS,), "1",
        status="our own variant",
    ),
    "rollout": Method(rollout, "head-averaged attention multiplied over layers", (LAYERS, ATTENTION,), "1"),
    "ifr": Method(
        ifr, "L1 proximity of writes to the receiver's residual", (LAYERS, ATTENTION,), "1, + sums per target token",
        status="as token scores, in FlashTrace's form",
    ),
    "flashtrace": Method(flashtrace, "IFR of a span, continued through the response", (LAYERS, ATTENTION,), "1"),
    "flowtracer": Method(
        flowtracer, "flow to the answer over head-averaged attention", (LAYERS, ATTENTION,), "1",
        status="from summaries: no code is public",
    ),
    "attnlrp": Method(
        attnlrp, "relevance propagation through attention", (ATTENTION, BACKWARD),
        "1 + 1 backward (+ 1 from 512 tokens)", "quick", "as published; LRP is patented, see its page",
    ),
    "reagent": Method(
        reagent, "change of likelihood under random replacements", (EXTRA, PICTURE), "up to 2 x steps x probes",
        "slow", ADAPTED,
    ),
    "heta": Method(
        heta, "attention gate x (curvature + information)", (LAYERS, ATTENTION, BACKWARD, EXTRA),
        "inputs x (1 + 7 x probes)", "slow", ADAPTED,
    ),
    "alti": Method(alti, "L1 proximity multiplied over layers", (LAYERS, ATTENTION,), "1 + T x T x H x d sums", "slow"),
    "alti-logit": Method(
        alti_logit, "logits written by attention, passed down by ALTI", (LAYERS, ATTENTION,), "as alti, + 1", "slow"
    ),
    "chefer": Method(
        chefer, "positive part of attention times its gradient", (LAYERS, ATTENTION, BACKWARD), "2 + 1 backward",
        "quick", "as published, for a sum of logits",
    ),
    "glimpse": Method(
        glimpse, "weighted gradient attention, responses weighted by alignment", (LAYERS, ATTENTION, BACKWARD),
        "2, + 1 backward per target token", "slow", "from a third-party guide",
    ),
    "cage": Method(
        cage, "row-normalised all-paths over the response", (LAYERS, MATRIX), "1",
        status="adapted: over VTrace's matrix",
    ),
    "ifr-multihop": Method(
        ifr_multihop, "the paper's all-paths sum over IFR", (LAYERS, ATTENTION,), "1 + T x T x H x d sums", "slow",
        "the paper's composition",
    ),
    "attention-multihop": Method(
        attention_multihop, "the paper's all-paths sum over mean attention", (LAYERS, ATTENTION,), "1",
        status="a control for the matrix",
    ),
    "loo": Method(
        leave_one_out, "drop in likelihood without one patch or word", (EXTRA, PICTURE),
        "1 + 1 per input, with the vision tower", "slow", "reference", reference=True,
    ),
    "ig": Method(
        integrated_gradients, "gradients integrated from padded to real inputs", (BACKWARD,),
        "2 + steps to max_steps x (1 + 1 backward)", "slow", "as published, on embeddings",
    ),
    "gradient": Method(gradient, "gradient times input", (BACKWARD,), "1 + 1 backward", "quick", "control"),
    "attention": Method(attention, "attention weights of the target", (LAYERS, ATTENTION,), "1", status="control"),
    "random": Method(random, "uniform noise", (), "0", status="control"),
    "centre": Method(centre, "a Gaussian prior on the centre", (), "0", status="control"),
    "position": Method(position, "score increases with position", (), "0", status="control"),
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
        raise InputError(f"unknown method {name!r}; use one of: {', '.join(METHODS)}")
    return METHODS[name]


def needs_layers(names: Sequence[str]) -> bool:
    """Whether one of these methods needs the layers of the instrumented pass."""
    return any(LAYERS in find_method(name).needs for name in names)


def keeps_layers(names: Sequence[str]) -> bool:
    """Whether a session for these methods keeps its layers. A single method that needs only W does not need them."""
    return len(names) > 1 or needs_layers(names)


def run_method(
    name: str, session: TraceSession, target: Target, calibrated: CalibrateOn | None = None, **options: Any
) -> Attribution:
    """Run one method with the given options. `calibrated` puts image and text on one scale, as stage 3 does, measured
    on the target or on the whole response."""
    method = find_method(name)
    method.check(name, options)
    if ATTENTION in method.needs and session.seam.hybrid:
        raise ModelError(
            f"{name} needs softmax attention in all layers, and this model is a hybrid; use vtrace, vtrace-ordered, "
            "cage, gradient, ig, reagent or loo"
        )
    if session.seam.group and BACKWARD in method.needs:
        raise ModelError(
            f"{name} cannot run on a model split over several processes, because it needs gradients; "
            "load the model on one device, or on all GPUs with device auto"
        )
    with running(name):
        try:
            outcome = method.run(session, target, **options)
        except VTraceError as error:
            raise type(error)(f"{name}: {error}") from error
        if isinstance(outcome, Attribution):
            return outcome
        return _as_attribution(name, session, target, outcome, calibrated, {**method.options, **options})


def _as_attribution(
    name: str,
    session: TraceSession,
    target: Target,
    outcome: Outcome,
    calibrated: CalibrateOn | None,
    options: dict[str, Any],
) -> Attribution:
    raw = outcome.scores.detach().cpu().double().numpy().copy()
    if not np.isfinite(raw).all():
        raise ModelError(f"{name}: scores are not finite at position {int(np.argmin(np.isfinite(raw)))}")
    raw[min(target.receivers(options.get("receivers", "predictor"))) :] = 0  # a target relies on what came before
    likelihoods = None
    if calibrated and session.trace.patches:
        likelihoods = calibrated_tokens(session.trace, target, session.padded_likelihoods(), calibrated)
    shares = to_shares(session.trace, raw, likelihoods, calibrated is not None)
    return Attribution(
        trace=session.trace,
        target=target,
        method=name,
        options={
            **options,
            "calibrated": calibrated is not None,
            **({"calibrate_on": calibrated} if calibrated else {}),
        },
        details=outcome.details,
        **shares._asdict(),
    )
