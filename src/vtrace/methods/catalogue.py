"""What is known about every method without running it: imported in an instant, because PyTorch is not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar

from ..errors import InputError

Need = Literal[
    "layers", "instrumented pass", "attention weights", "pairwise matrix", "backward passes", "extra passes", "picture"
]
Speed = Literal["instant", "quick", "slow"]


@dataclass(frozen=True)
class CatalogueEntry:
    """What a user should know before choosing a method."""

    about: str
    needs: tuple[Need, ...]
    cost: str  # in forward passes
    speed: Speed = "instant"  # instant: little beyond the instrumented pass; quick: a few passes; slow: many
    status: str = "as published"
    reference: bool = False  # measures dependence directly; the reference for other methods


AnyEntry = TypeVar("AnyEntry", bound=CatalogueEntry)

LAYERS: Need = "layers"  # needs the layers of an instrumented pass
ATTENTION: Need = "attention weights"  # needs plain softmax attention in all layers
STREAM: Need = "instrumented pass"  # reads layers as they are computed; they are not kept for it alone
MATRIX: Need = "pairwise matrix"  # does not need the layers to be kept
BACKWARD: Need = "backward passes"
EXTRA: Need = "extra passes"
PICTURE: Need = "picture"
ADAPTED = "adapted: published for text"

REFINED = "-refined"  # after the name of a method
DEFAULT_BUDGET = 32

_VTRACE = CatalogueEntry("centred writes, all paths, calibrated", (MATRIX,), "4")


def refined_entry(name: str, entry: AnyEntry) -> AnyEntry:
    """The same method, whose strongest inputs are then hidden one at a time."""
    return replace(
        entry,
        about=f"{name}; its {DEFAULT_BUDGET} strongest inputs hidden one at a time",
        needs=tuple(dict.fromkeys((*entry.needs, EXTRA, PICTURE))),
        cost=f"{entry.cost}, + 1 + {DEFAULT_BUDGET}, with the vision tower",
        speed="slow",
        status="our own variant",
        reference=False,
    )


CATALOGUE: dict[str, CatalogueEntry] = {
    "vtrace": _VTRACE,
    "vtrace-refined": refined_entry("vtrace", _VTRACE),
    "vtrace-ordered": CatalogueEntry(
        "writes composed in layer order, all paths between tokens", (STREAM,), "1",
        status="our own variant",
    ),
    "rollout": CatalogueEntry("head-averaged attention multiplied over layers", (LAYERS, ATTENTION,), "1"),
    "ifr": CatalogueEntry(
        "L1 proximity of writes to the receiver's residual", (LAYERS, ATTENTION,), "1, + sums per target token",
        status="as token scores, in FlashTrace's form",
    ),
    "flashtrace": CatalogueEntry("IFR of a span, continued through the response", (LAYERS, ATTENTION,), "1"),
    "flowtracer": CatalogueEntry(
        "flow to the answer over head-averaged attention", (LAYERS, ATTENTION,), "1",
        status="from summaries: no code is public",
    ),
    "attnlrp": CatalogueEntry(
        "relevance propagation through attention", (ATTENTION, BACKWARD),
        "1 + 1 backward (+ 1 from 512 tokens)", "quick", "as published; LRP is patented, see its page",
    ),
    "reagent": CatalogueEntry(
        "change of likelihood under random replacements", (EXTRA, PICTURE), "up to 2 x steps x probes",
        "slow", ADAPTED,
    ),
    "heta": CatalogueEntry(
        "attention gate x (curvature + information)", (LAYERS, ATTENTION, BACKWARD, EXTRA),
        "inputs x (1 + 7 x probes)", "slow", ADAPTED,
    ),
    "alti": CatalogueEntry(
        "L1 proximity multiplied over layers", (LAYERS, ATTENTION,), "1 + T x T x H x d sums", "slow"
    ),
    "alti-logit": CatalogueEntry(
        "logits written by attention, passed down by ALTI", (LAYERS, ATTENTION,), "as alti, + 1", "slow"
    ),
    "chefer": CatalogueEntry(
        "positive part of attention times its gradient", (LAYERS, ATTENTION, BACKWARD), "2 + 1 backward",
        "quick", "as published, for a sum of logits",
    ),
    "glimpse": CatalogueEntry(
        "weighted gradient attention, responses weighted by alignment", (LAYERS, ATTENTION, BACKWARD),
        "2, + 1 backward per target token", "slow", "from a third-party guide",
    ),
    "cage": CatalogueEntry(
        "row-normalised all-paths over the response", (LAYERS, MATRIX), "1",
        status="adapted: over VTrace's matrix",
    ),
    "ifr-multihop": CatalogueEntry(
        "the paper's all-paths sum over IFR", (LAYERS, ATTENTION,), "1 + T x T x H x d sums", "slow",
        "the paper's composition",
    ),
    "attention-multihop": CatalogueEntry(
        "the paper's all-paths sum over mean attention", (LAYERS, ATTENTION,), "1",
        status="a control for the matrix",
    ),
    "loo": CatalogueEntry(
        "drop in likelihood without one patch or word", (EXTRA, PICTURE),
        "1 + 1 per input, with the vision tower", "slow", "reference", reference=True,
    ),
    "ig": CatalogueEntry(
        "gradients integrated from padded to real inputs", (BACKWARD,),
        "2 + steps to max_steps x (1 + 1 backward)", "slow", "as published, on embeddings",
    ),
    "gradient": CatalogueEntry("gradient times input", (BACKWARD,), "1 + 1 backward", "quick", "control"),
    "attention": CatalogueEntry("attention weights of the target", (LAYERS, ATTENTION,), "1", status="control"),
    "random": CatalogueEntry("uniform noise", (), "0", status="control"),
    "centre": CatalogueEntry("a Gaussian prior on the centre", (), "0", status="control"),
    "position": CatalogueEntry("score increases with position", (), "0", status="control"),
}  # fmt: skip


def names_of(*speeds: Speed) -> list[str]:
    """Methods of these speeds."""
    return [name for name, method in CATALOGUE.items() if method.speed in speeds]


def parse_names(text: str) -> list[str]:
    """Methods from "vtrace,ifr", or from a group: "instant", "quick" (with the instant ones) or "all"."""
    groups = {"instant": names_of("instant"), "quick": names_of("instant", "quick"), "all": list(CATALOGUE)}
    return groups.get(text) or [check_name(name) for name in dict.fromkeys(map(str.strip, text.split(",")))]


def check_name(name: str) -> str:
    """The name of a method, or an error that lists all."""
    plain = name.removesuffix(REFINED)
    if name not in CATALOGUE and (plain not in CATALOGUE or plain.endswith(REFINED)):
        raise unknown_method(name)
    return name


def unknown_method(name: str) -> InputError:
    """The error for a name that no method has."""
    known = ", ".join(CATALOGUE)
    return InputError(f"unknown method {name!r}; use one of: {known}, or one of them with {REFINED}")


class RefinedNames(NamedTuple):
    """Names of methods, and their options."""

    names: list[str]
    options: dict[str, dict[str, Any]]


def refine_all(names: Sequence[str], options: Mapping[str, Mapping[str, Any]], budget: int | None) -> RefinedNames:
    """All of these methods refined with this budget; None leaves them as they are. Options given for a method go with
    it."""
    if budget is None:
        return RefinedNames(list(names), {name: dict(own) for name, own in options.items()})
    new = {name: name if check_name(name).endswith(REFINED) else name + REFINED for name in [*names, *options]}
    moved = {new[name]: {"budget": budget} for name in names}
    for name, own in options.items():
        moved[new[name]] = {**moved.get(new[name], {}), **own}
    return RefinedNames(list(dict.fromkeys(new[name] for name in names)), moved)
