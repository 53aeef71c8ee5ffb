"""A verification in the terminal: the verdict, and what happened at every step."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..attribution.findings.verification import FaithfulnessCurve, Verification, VerifiedSide, in_words
from .wording import likelihood_text, percent


def show_verification(verification: Verification, console: Console) -> None:
    """Print the verification."""
    console.print(Group(*verification_parts(verification)))


def verification_parts(verification: Verification) -> Iterator[RenderableType]:
    """The verdict first, then the table behind it."""
    yield Text(verification.verdict, "bold")
    yield ""
    yield _steps("hidden", verification.necessary)
    yield ""
    yield _steps("kept", verification.sufficient)
    yield ""
    lowest = verification.lowest
    if lowest.draws and verification.necessary.count is not None:
        did = "changes" if lowest.changed else "does not change"
        hidden = in_words(verification.necessary.count, adjective="lowest ranked")
        yield Text(f"Hiding {hidden} instead {did} the answer.")
    yield Text(f"Insertion: {_areas(verification.insertion)}. Deletion: {_areas(verification.deletion)}.")
    yield Text(_cost(verification), "dim")
    for note in verification.warnings:
        yield Text(f"Note: {note}", "yellow")


def _steps(verb: str, side: VerifiedSide) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in (f"strongest {verb}", "share", "response", "target", "random"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("answer")
    for step in side.curve:
        likelihoods = map(likelihood_text, (step.response, step.target, step.random))
        answer = Text(step.answer or "(no answer)", "" if step.changed else "dim")
        row = Text(str(step.inputs), "bold" if step.inputs == side.inputs else "")
        table.add_row(row, percent(step.share), *likelihoods, answer)
    return table


def _areas(curve: FaithfulnessCurve) -> str:
    if curve.rise is None or curve.mas is None:
        return "no curve"
    return f"RISE {curve.rise:.3f}, MAS {curve.mas:.3f} over {len(curve.response) - 1} steps"


def _cost(verification: Verification) -> str:
    return (
        f"{verification.passes} forward passes, {verification.generations} generations "
        f"({verification.sequences} responses)."
    )
