"""Small multiples for a notebook: every method's patches and words, agreement, and cost."""

from __future__ import annotations

from html import escape

from ...attribution.result import Attribution
from ...methods.comparison import Comparison
from ..scale import Scale
from ..shaded_html import NOTEBOOK_STYLE, picture_figure, shaded_words, shading
from ..wording import (
    answer_heading,
    correlation_level,
    correlation_text,
    megabytes_text,
    percent,
    seconds_text,
    short_label,
)

GRID_STYLE = """
.vt{max-width:1360px}
.vt .grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(250px,1fr));gap:30px 26px;margin-top:22px}
.vt .card h3{font-size:16px;margin:0;display:flex;justify-content:space-between;align-items:baseline}
.vt .card h3 small{font-weight:400;font-size:12px;color:var(--faint)}
.vt .card figure{margin:6px 0 8px}
.vt .card p.text{font-size:13px;line-height:1.55}
.vt .card summary{font-size:12px;color:var(--faint);cursor:pointer;margin-top:6px}
.vt .scroll{overflow-x:auto}
.vt table.m{width:auto;font-size:12px}
.vt table.m td,.vt table.m th{border:0;padding:1px}
.vt table.m td div{width:38px;line-height:26px;text-align:center;border-radius:3px;font-variant-numeric:tabular-nums}
.vt table.m th{padding-right:10px;white-space:nowrap;color:var(--ink);font-weight:400}
.vt table.m th.c{text-align:center;color:var(--faint);padding:1px}
""".strip()


def comparison_html(comparison: Comparison) -> str:
    """The HTML that a notebook shows."""
    trace = comparison.trace
    cards = "".join(_card(comparison, name, result) for name, result in comparison.results.items())
    failures = "".join(f'<p class="small">Not run: {escape(reason)}</p>' for reason in comparison.failures.values())
    facts = (
        f"What {len(comparison.results)} methods say it relies on",
        f"target: {comparison.target.name} (underlined)",
        f"model: {trace.model}",
        f"{len(trace)} tokens",
        "each method on its own scale",
    )
    return f"""<style>{NOTEBOOK_STYLE}{GRID_STYLE}</style><main class="vt">
<h1>{escape(answer_heading(trace))}</h1>
<p class="meta">{escape(" · ".join(facts))}</p>
{failures}<div class="grid">{cards}</div>
<h2>Agreement</h2><p class="small">Rank correlation between methods over patches and question words.</p>
<div class="scroll">{_agreement(comparison)}</div>
<h2>Cost</h2><div class="scroll">{_costs(comparison)}</div></main>"""


def _card(comparison: Comparison, name: str, result: Attribution) -> str:
    scale = Scale(result)
    pictures = "".join(picture_figure(result, panel, scale) for panel in result.trace.panels)
    strongest = " · ".join(f"{escape(short_label(item))} {percent(item.score)}" for item in result.top(4))
    return f"""<section class="card"><h3>{escape(name)}<small>image {percent(result.image_share)} ·
{seconds_text(comparison.costs[name].seconds)}</small></h3>{pictures}
<p class="text">{shaded_words(result, "question", scale)}</p><p class="small">{strongest}</p>
<details><summary>response</summary><p class="text">{shaded_words(result, "response", scale)}</p></details></section>"""


def _agreement(comparison: Comparison) -> str:
    names = list(comparison.results)
    head = "".join(f'<th class="c">{number + 1}</th>' for number in range(len(names)))
    rows = []
    for number, (name, values) in enumerate(zip(names, comparison.agreement, strict=True)):
        cells = "".join(
            f'<td><div style="{shading(correlation_level(value))}" title="{escape(f"{name} and {other}")}">'
            f"{correlation_text(value)}</div></td>"
            for other, value in zip(names, values, strict=True)
        )
        rows.append(f"<tr><th>{number + 1} {escape(name)}</th>{cells}</tr>")
    return f'<table class="m"><tr><th></th>{head}</tr>{"".join(rows)}</table>'


def _costs(comparison: Comparison) -> str:
    rows = []
    for name, result in comparison.results.items():
        cost = comparison.costs[name]
        shared = ", ".join(f"{stage} {seconds_text(spent)}" for stage, spent in cost.shared.items()) or "nothing"
        chosen = ", ".join(f"{key} {value}" for key, value in result.options.items())
        rows.append(
            f'<tr><td>{escape(name)}</td><td class="n">{seconds_text(cost.seconds)}</td><td class="n">'
            f'{seconds_text(cost.own_seconds)}</td><td class="n">{megabytes_text(cost.memory)}</td>'
            f'<td>{escape(shared)}</td><td class="small">{escape(chosen)}</td></tr>'
        )
    head = (
        '<tr><th>method</th><th class="n">alone</th><th class="n">added</th><th class="n">memory</th>'
        "<th>shared with others</th><th>options</th></tr>"
    )
    return f"<table>{head}{''.join(rows)}</table>"
