"""Numbers and names as every report writes them."""

from __future__ import annotations

import math

from ..attribution.result import Attribution, RankedInput
from ..methods.catalogue import REFINED
from ..methods.comparison import Comparison
from ..types import Panel, Trace


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{share:.1%}" if share >= 0.001 else "<0.1%"


def seconds_text(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def megabytes_text(size: int | None) -> str:
    """Bytes in MB; None if the system does not report them."""
    return "–" if size is None else f"{size / 1e6:.0f} MB"


def passes_text(passes: int) -> str:
    return "1 forward pass" if passes == 1 else f"{passes} forward passes"


def correlation_text(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}".replace("0.", ".").replace("1.00", "1")


def correlation_level(value: float) -> float:
    """How strongly a correlation is shaded: light enough that its number stays readable."""
    return 0.0 if math.isnan(value) else 0.8 * max(0.0, float(value))


def quoted_label(item: RankedInput) -> str:
    """A patch by its place, or a word in quotes."""
    return item.label if item.kind == "image" else f"“{item.label}”"


def short_label(item: RankedInput) -> str:
    """A short label: a patch by row and column."""
    return quoted_label(item).replace("patch row ", "r").replace(" column ", "c") if item.box else quoted_label(item)


def answer_heading(trace: Trace) -> str:
    return f"Answer: {trace.answer_text}" if trace.answer_text else "No final answer"


def panel_title(attribution: Attribution, panel: Panel) -> str:
    """Name and share of one of several pictures or views; empty for the only one."""
    name = attribution.trace.panel_name(panel)
    if not name and len(attribution.trace.panels) > 1:
        name = "picture"
    return f"{name}: {percent(attribution.panel_share(panel))}" if name else ""


def cost_remarks(comparison: Comparison) -> dict[str, str]:
    """What each method cost, in a few words."""
    return {
        name: f"{passes_text(cost.passes)}, {seconds_text(cost.seconds)} on its own, {megabytes_text(cost.memory)}"
        for name, cost in comparison.costs.items()
    }


def calibration_sentence(attribution: Attribution) -> str:
    """How hiding the image or the question changes the likelihood, or why calibration was not applied, or what refining
    measured instead."""
    c = attribution.calibration
    if refinement := attribution.details.get("refinement"):
        base, what = attribution.method.removesuffix(REFINED), attribution.options["measured_on"]
        cost, count = passes_text(refinement["passes"]), len(refinement["worth"])
        if attribution.options["sides"] == "hidden":
            how, lost = "hidden", "lost"
        else:
            how, lost = "hidden, and shown without all others", "lost and gained"
        return (
            f"Refined in {cost}: the {count} strongest inputs of {base} were {how}, one at a time, and shares are what "
            f"the log-likelihood of the {what} {lost}."
        )
    if not c.applied:
        return f"Calibration {c.status}."
    what = attribution.options.get("calibrate_on", "response")
    verb = "" if (c.image_damage < 0) == (c.text_damage < 0) else f"{_change(c.text_damage)} it "
    return (
        f"Hiding the image {_change(c.image_damage)} the log-likelihood of the {what} "
        f"by {abs(c.image_damage):.1f} nats, hiding the question {verb}by {abs(c.text_damage):.1f}."
    )


def calibration_details(attribution: Attribution) -> str:
    """The rest of the calibration, shown on demand; empty where there is none."""
    c = attribution.calibration
    if not c.applied:
        return ""
    return (
        f"Hiding both {_change(c.joint_damage)} it by {abs(c.joint_damage):.1f} nats. "
        f"Image scores are multiplied by λ = {c.scale:.3g}."
    )


def visual_dependence_sentence(attribution: Attribution, count: int = 3) -> str:
    """The response words whose likelihood falls most when the image is hidden."""
    words = sorted(attribution.word_dependence(), key=lambda found: -found.nats)
    named = ", ".join(f"“{word.text}” {nats:.1f}" for word, nats in words[:count] if nats > 0)
    return f"Words that depend most on the image, in nats: {named or 'none'}."


def likelihood_text(value: float | None) -> str:
    """A likelihood; empty if it was not measured."""
    return "" if value is None else f"{value:.3f}"


def signed_percent(share: float) -> str:
    """A share with its sign, if it has one when it is rounded; colour is never the only carrier of it."""
    return percent(0.0) if abs(share) < 0.001 else f"{'+' if share > 0 else '−'}{percent(abs(share))}"


def _change(damage: float) -> str:
    return "raises" if damage < 0 else "lowers"
