"""One colour per method, the same in every plot."""

from __future__ import annotations

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
OTHER_COLOURS = ("#4c125c", "#c77700", "#0072b2", "#007a5a", "#b5372a", "#7d5ba6", "#5a8a3c", "#8c8391")


def colour_of(label: str, number: int) -> str:
    """The colour of a method; of anything else, one by its number among its kind."""
    name = _WRITTEN.get(label.lower(), label.lower())
    return METHOD_COLOURS.get(name, OTHER_COLOURS[number % len(OTHER_COLOURS)])
