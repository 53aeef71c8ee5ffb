"""Two answers in the terminal: what speaks for which."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ...attribution.findings.contrast import Contrast
from ...attribution.result import Attribution
from ..wording import quoted_label, signed_percent


def contrast_parts(attribution: Attribution, contrast: Contrast, count: int) -> Iterator[RenderableType]:
    """The two log-likelihoods, and the inputs with the largest difference, with evidence for both answers."""
    yield Text(f"Why “{contrast.answer}” and not “{contrast.against}”?", "bold")
    yield Text(
        f"Log-likelihood after the same reasoning: {contrast.log_likelihood:.2f} and "
        f"{contrast.against_log_likelihood:.2f} nats. Method: {contrast.method}."
    )
    yield _table(attribution, contrast, count)


def _table(attribution: Attribution, contrast: Contrast, count: int) -> Table:
    columns = [
        attribution.inputs_by(scores) for scores in (contrast.scores, contrast.evidence, contrast.counter_evidence)
    ]
    rows = sorted(zip(*columns, strict=True), key=lambda row: -abs(row[0].score))[:count]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in (f"for “{contrast.answer}”", f"for “{contrast.against}”", "difference"):
        table.add_column(title, justify="right")
    table.add_column("patch or word")
    for difference, one, other in rows:
        shares = (signed_percent(item.score) for item in (one, other, difference))
        table.add_row(*shares, Text(quoted_label(difference)))
    return table
