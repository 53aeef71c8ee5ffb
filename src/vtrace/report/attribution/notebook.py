"""An attribution in a notebook: no script, no network, everything escaped. Files are written by the viewer."""

from __future__ import annotations

from html import escape

from ...attribution.result import Attribution
from ...viewer.palette import STOPS, css_colour
from ..scale import Scale
from ..shaded_html import NOTEBOOK_STYLE, picture_figure, shaded_words
from ..wording import answer_heading, calibration_details, calibration_sentence, percent, quoted_label

ROWS_IN_NOTEBOOK = 12  # of the ranking


def attribution_html(attribution: Attribution) -> str:
    """The HTML that a notebook shows."""
    trace = attribution.trace
    scale = Scale(attribution)
    pictures = "".join(picture_figure(attribution, panel, scale) for panel in trace.panels)
    notes = "".join(f'<p class="small">Note: {escape(note)}</p>' for note in attribution.warnings)
    facts = (
        attribution.method,
        f"target: {attribution.target.name} (underlined)",
        f"model: {trace.model}",
        f"{len(trace)} tokens",
    )
    return f"""<style>{NOTEBOOK_STYLE}</style><main class="vt">
<h1>{escape(answer_heading(trace))}</h1>
<p class="meta">{escape(" · ".join(facts))}</p>
<div class="cols"><div>{pictures}{_legend(scale.full)}</div><div>
<h2>Question</h2><p class="text">{shaded_words(attribution, "question", scale)}</p>
<h2>Response</h2><p class="text">{shaded_words(attribution, "response", scale)}</p>
<h2>Image and question</h2>{_balance(attribution)}{notes}
{_verdict(attribution)}<h2>Strongest inputs</h2>{_ranking(attribution)}
</div></div></main>"""


def _balance(attribution: Attribution) -> str:
    image, text = percent(attribution.image_share), percent(attribution.text_share)
    width = f"{100 * attribution.image_share:.1f}%"
    return (
        f'<div class="ends"><span>image {image}</span><span>question {text}</span></div>'
        f'<div class="bar" role="img" aria-label="image {image}, question {text}">'
        f'<div style="width:{width};background:{css_colour(0.8)}"></div>'
        f'<div style="flex:1;background:{css_colour(0.3)}"></div></div>{_calibration(attribution)}'
    )


def _calibration(attribution: Attribution) -> str:
    sentence, details = calibration_sentence(attribution), calibration_details(attribution)
    if not details:
        return f'<p class="small">{escape(sentence)}</p>'
    return f'<details class="small"><summary>{escape(sentence)}</summary>{escape(details)}</details>'


def _verdict(attribution: Attribution) -> str:
    verified = attribution.verification
    return "" if verified is None else f'<h2>Verified</h2><p class="text">{escape(verified.verdict)}</p>'


def _legend(full: float) -> str:
    stops = ",".join(f"rgb{stop}" for stop in STOPS)
    return (
        f'<div class="ramp" style="background:linear-gradient(90deg,{stops})"></div>'
        '<div class="ends small"><span>0%</span><span>share of all inputs</span>'
        f"<span>{percent(full)} or more</span></div>"
    )


def _ranking(attribution: Attribution) -> str:
    items = attribution.top(ROWS_IN_NOTEBOOK)
    full = items[0].score if items and items[0].score else 1.0
    rows = []
    for rank, item in enumerate(items, start=1):
        level = item.score / full
        bar = f'<i style="width:{round(110 * level)}px;background:{css_colour(0.25 + 0.6 * level)}"></i>'
        rows.append(
            f'<tr><td class="n">{rank}</td><td>{escape(quoted_label(item))}</td>'
            f'<td class="n">{percent(item.score)}</td><td>{bar}</td></tr>'
        )
    head = '<tr><th class="n">#</th><th>patch or word</th><th class="n">share</th><th></th></tr>'
    return f"<table>{head}{''.join(rows)}</table>"
