"""The paper's ablations and figures as named studies: variants of methods, evaluated on the same items.

A study is data: which variants, on which targets, and what its plot shows. Those that are no table of methods, such as
time by length, are profiles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import InputError
from .profiles import HOPS, PROFILES, Profile

GAMMAS = (0.1, 0.25, 0.5, 0.75, 1.0)
Plot = Literal["bars", "lines", "curves"]


@dataclass(frozen=True)
class Study:
    """Named variants, each a method with options."""

    about: str
    variants: dict[str, tuple[str, dict[str, Any]]]
    plot: Plot = "bars"
    axis: str = ""  # of a line plot: what its x is
    series: dict[str, list[tuple[float, str]]] = field(default_factory=dict)  # of a line plot: x and variant
    ticks: dict[float, str] | None = None  # of a line plot: names of places on its x
    targets: tuple[str, ...] = ("response", "answer")
    subsets: tuple[str, ...] = ("all",)
    calibrated: tuple[str, ...] = ()  # variants of other methods than VTrace that are put on one scale as it does


def _gamma() -> Study:
    series: dict[str, list[tuple[float, str]]] = {}
    variants: dict[str, tuple[str, dict[str, Any]]] = {}
    for label, method in (("VTrace", "vtrace"), ("IFR + multi-hop", "ifr-multihop")):
        for gamma in GAMMAS:
            name = f"{label}, γ = {gamma:g}"
            variants[name] = (method, {"gamma": gamma})
            series.setdefault(label, []).append((gamma, name))
    # Without longer paths at all: what both begin with.
    for label, name, method, options in (
        ("VTrace", "VTrace, direct", "vtrace", {"multihop": False}), ("IFR + multi-hop", "IFR", "ifr", {}),
    ):  # fmt: skip
        variants[name] = (method, options)
        series[label].insert(0, (0.0, name))
    about = "weight of longer paths, for VTrace and for IFR; at 0, direct edges and IFR itself"
    return Study(about, variants, "lines", "γ", series)


def _hops() -> Study:
    variants: dict[str, tuple[str, dict[str, Any]]] = {
        f"{hops} hop{'s' if hops > 1 else ''} each way": ("vtrace", {"hops": hops}) for hops in HOPS
    }
    variants["all paths"] = ("vtrace", {})
    variants["direct edges"] = ("vtrace", {"multihop": False})
    lengths = [*map(str, HOPS), "all"]
    series = {"VTrace": [(float(place), name) for place, name in zip(range(len(lengths)), variants, strict=False)]}
    ticks = {float(place): length for place, length in enumerate(lengths)}
    return Study("how long paths into and out of a source may be", variants, "lines", "hops", series, ticks)


BASELINES = ("rollout", "ifr", "flashtrace", "flowtracer", "attnlrp", "random")
STUDIES: dict[str, Study] = {
    "components": Study(
        "what centring, multi-hop and calibration are worth",
        {
            "VTrace": ("vtrace", {}),
            "no centring": ("vtrace", {"centring": False}),
            "no multi-hop": ("vtrace", {"multihop": False}),
            "no calibration": ("vtrace", {"calibrate": False}),
        },
    ),
    "gamma": _gamma(),
    "hops": _hops(),
    "curves": Study(
        "mean perturbation curves of VTrace and others",
        {"VTrace": ("vtrace", {}), **{name: (name, {}) for name in BASELINES}},
        "curves",
    ),
    "correctness": Study(
        "faithfulness where the model is right and where it is wrong, half of the examples each",
        {"VTrace": ("vtrace", {}), **{name: (name, {}) for name in BASELINES}},
        subsets=("correct", "incorrect"),
    ),
    "receivers": Study(
        "reading the target at its predictors or at its own tokens",
        {"predictors": ("vtrace", {}), "tokens": ("vtrace", {"receivers": "token"})},
    ),
    "calibration": Study(
        "measuring what image and text are worth on the response or on the target",
        {
            "on the response": ("vtrace", {}),
            "on the target": ("vtrace", {"calibrate_on": "target"}),
            "off": ("vtrace", {"calibrate": False}),
        },
    ),
    "ordered": Study(
        "paths in the order of layers against the paper's sum",
        {
            "VTrace": ("vtrace", {}),
            "ordered": ("vtrace-ordered", {}),
            "ordered, columns": ("vtrace-ordered", {"normalise": "columns"}),
            "ordered, own stream": ("vtrace-ordered", {"own": True}),
            "ordered, no centring": ("vtrace-ordered", {"centring": False}),
            "ordered, calibrated": ("vtrace-ordered", {}),
            "IFR": ("ifr", {}),
            "IFR + multi-hop": ("ifr-multihop", {}),
        },
        calibrated=("ordered, calibrated",),
    ),
}


def find_study(name: str) -> Study | Profile:
    known: dict[str, Study | Profile] = {**STUDIES, **PROFILES}
    if name not in known:
        raise InputError(f"unknown study {name!r}; there are: {', '.join(known)}")
    return known[name]
