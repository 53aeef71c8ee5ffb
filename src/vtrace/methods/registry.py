"""Every method on one interface: a function of a session and a target, and its options as keywords.

The dictionary below has the function of every method in the catalogue. A method's options are its keywords.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

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
from .catalogue import ATTENTION, BACKWARD, CATALOGUE, LAYERS, REFINED, CatalogueEntry, refined_entry, unknown_method
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
from .refine import refine
from .rollout import rollout
from .session import TraceSession
from .vtrace import vtrace

MethodFunction = Callable[..., Outcome | Attribution]
AfterFunction = Callable[..., Attribution]


@dataclass(frozen=True)
class Method(CatalogueEntry):
    """A method that can be run."""

    run: MethodFunction = field(kw_only=True)
    after: AfterFunction | None = field(default=None, kw_only=True)  # changes what `run` has found

    @property
    def options(self) -> dict[str, Any]:
        """Keywords and their defaults."""
        return options_of(self.run) | (options_of(self.after) if self.after else {})

    def check(self, name: str, options: dict[str, Any]) -> None:
        """Refuse unknown options and invalid values."""
        kinds = get_type_hints(self.run, include_extras=True)
        kinds |= get_type_hints(self.after, include_extras=True) if self.after else {}
        for option, value in options.items():
            if option not in self.options:
                raise InputError(f"{name} has no option {option!r}; it has: {', '.join(self.options) or 'none'}")
            check_option(f"{name}.{option}", value, kinds[option])


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Keywords of a function and their defaults."""
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}


_FUNCTIONS: dict[str, MethodFunction] = {
    "vtrace": vtrace,
    "vtrace-ordered": ordered,
    "rollout": rollout,
    "ifr": ifr,
    "flashtrace": flashtrace,
    "flowtracer": flowtracer,
    "attnlrp": attnlrp,
    "reagent": reagent,
    "heta": heta,
    "alti": alti,
    "alti-logit": alti_logit,
    "chefer": chefer,
    "glimpse": glimpse,
    "cage": cage,
    "ifr-multihop": ifr_multihop,
    "attention-multihop": attention_multihop,
    "loo": leave_one_out,
    "ig": integrated_gradients,
    "gradient": gradient,
    "attention": attention,
    "random": random,
    "centre": centre,
    "position": position,
}


def _runnable(name: str, entry: CatalogueEntry) -> Method:
    plain = name.removesuffix(REFINED)
    return Method(**vars(entry), run=_FUNCTIONS[plain], after=None if plain == name else refine)


METHODS: dict[str, Method] = {name: _runnable(name, entry) for name, entry in CATALOGUE.items()}


def find_method(name: str) -> Method:
    """A method by its name; the name of any method followed by "-refined" is that method, refined."""
    if name in METHODS:
        return METHODS[name]
    if (plain := name.removesuffix(REFINED)) in METHODS and not METHODS[plain].after:
        return replace(refined_entry(plain, METHODS[plain]), after=refine)
    raise unknown_method(name)


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
    plain = name.removesuffix(REFINED) if method.after else name
    with running(name):
        try:
            outcome = method.run(session, target, **_only(method.run, options))
            if not isinstance(outcome, Attribution):
                used = options_of(method.run) | _only(method.run, options)
                outcome = _as_attribution(plain, session, target, outcome, calibrated, used)
            return method.after(session, outcome, **_only(method.after, options)) if method.after else outcome
        except VTraceError as error:
            raise type(error)(f"{name}: {error}") from error


def _only(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a function has."""
    known = options_of(function)
    return {key: value for key, value in options.items() if key in known}


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
        raise ModelError(f"scores are not finite at position {int(np.argmin(np.isfinite(raw)))}")
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
