"""One colour per method, the same in every plot."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.colors import to_hex, to_rgb

# Those that are compared most are furthest apart, also for the colour-blind (Okabe and Ito's palette, darkened where it
# is too light for text); the others are fixed, but can only be told apart together with their labels.
METHOD_COLOURS = {
    "vtrace": "#7b1fa2",
    "vtrace-ordered": "#c2357a",
    "vtrace-refined": "#9575cd",
    "ifr": "#c77700",
    "flashtrace": "#0072b2",
    "rollout": "#b5372a",
    "attnlrp": "#007a5a",
    "loo": "#1f1a24",
    "random": "#8c8391",
    "flowtracer": "#3f8fb5",
    "gradient": "#7a8f1e",
    "ig": "#a07d00",
    "chefer": "#5a8a3c",
    "glimpse": "#2f6f6f",
    "reagent": "#8a4b2a",
    "heta": "#9c5a7d",
    "alti": "#6b6b1f",
    "alti-logit": "#93902f",
    "cage": "#5d6ea8",
    "ifr-multihop": "#e0a030",
    "attention-multihop": "#77a6c4",
    "attention": "#4f7f9e",
    "centre": "#a89c8c",
    "position": "#b9aebf",
    "none": "#2b2b2b",  # sources of credit that are no methods
    "visual dependence": "#00806a",
    "entropy": "#b06c00",
}
_WRITTEN = {"ordered": "vtrace-ordered", "ifr + multi-hop": "ifr-multihop", "leave-one-out": "loo"}  # as studies do
OTHER_COLOURS = ("#5f6b7a", "#8f7f63", "#93a1b3", "#3d4a44", "#b8ab93", "#8fa394")  # muted: no method has them
_LIGHTEST = 0.35  # of a variant; lighter ones could not be read as text


def colours_of(labels: Iterable[str]) -> dict[str, str]:
    """A colour for each label: a method has its own, variants of it ("ordered, no centring") have lighter ones, and
    what is neither has a muted one."""
    families: dict[str, list[str]] = {}
    others = []
    wanted = list(dict.fromkeys(labels))
    for label in wanted:
        head = label.lower().partition(", ")[0]
        method = _WRITTEN.get(head, head)
        if method in METHOD_COLOURS:
            families.setdefault(method, []).append(label)
        else:
            others.append(label)
    found = {label: OTHER_COLOURS[number % len(OTHER_COLOURS)] for number, label in enumerate(others)}
    for method, own in families.items():
        own.sort(key=lambda label: ", " in label)  # the method itself first: it keeps its colour
        for number, label in enumerate(own):
            found[label] = _lighter(METHOD_COLOURS[method], _LIGHTEST * number / max(1, len(own) - 1))
    return {label: found[label] for label in wanted}


def _lighter(colour: str, share: float) -> str:
    """Mixed with so much white."""
    return to_hex([own + share * (1 - own) for own in to_rgb(colour)])
