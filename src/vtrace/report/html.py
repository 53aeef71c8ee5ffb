"""An attribution in a notebook: no script, no network, everything escaped. Files are written by the viewer."""

from __future__ import annotations

from html import escape

from ..attribution.result import Attribution
from ..tracing.spans import word_pieces
from ..types import Panel
from ..viewer.export import data_url
from ..viewer.palette import STOPS, colour, ink
from .scale import Scale, calibration_words, panel_title, percent

STYLE = """
.vt{color-scheme:light dark;--ink:#1f1a24;--faint:#6b6372;--page:#fff;--line:#e5e0e8}
@media (prefers-color-scheme:dark){.vt{--ink:#efeaf2;--faint:#a79fae;--page:#17131a;--line:#37303c}}
.vt{font:16px/1.6 system-ui,-apple-system,"Segoe UI",sans-serif;color:var(--ink);background:var(--page);
 max-width:1080px;margin:0 auto;padding:28px 24px}
.vt *{box-sizing:border-box}
.vt h1{font-size:22px;line-height:1.3;margin:0 0 4px}
.vt h2{font-size:12px;letter-spacing:.08em;text-transform:uppercase;color:var(--faint);margin:26px 0 6px;font-weight:600}
.vt .meta{color:var(--faint);font-size:14px;margin:0}
.vt .cols{display:grid;grid-template-columns:minmax(260px,5fr) 6fr;gap:36px;align-items:start}
@media (max-width:760px){.vt .cols{grid-template-columns:1fr;gap:8px}}
.vt figure{margin:22px 0 0;position:relative}
.vt figure img{width:100%;display:block;filter:grayscale(.55) brightness(1.06)}
.vt figure.thumb{width:45%}
.vt figcaption{position:absolute;top:-20px;font-size:12px;color:var(--faint)}
.vt figure svg{position:absolute;inset:0;width:100%;height:100%}
.vt .w{border-radius:4px;padding:1px 2px;margin:0 -1px}
.vt .t{text-decoration:underline;text-underline-offset:4px;text-decoration-thickness:2px}
.vt p.text{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}
/* The scale runs from paper to dark ink, so in dark mode shaded text stays on paper. */
@media (prefers-color-scheme:dark){.vt p.text{background:#fffdf8;color:#1f1a24;border-radius:8px;padding:8px 12px}}
.vt .bar{display:flex;height:14px;border-radius:7px;overflow:hidden;margin:4px 0}
.vt .ends{display:flex;justify-content:space-between;font-size:14px}
.vt .small{font-size:13px;color:var(--faint);margin:4px 0 0}
.vt .ramp{height:12px;border-radius:6px;margin:14px 0 2px}
.vt table{border-collapse:collapse;width:100%;font-size:14px}
.vt td,.vt th{text-align:left;padding:5px 10px 5px 0;border-bottom:1px solid var(--line)}
.vt th{color:var(--faint);font-weight:500}
.vt td.n,.vt th.n{text-align:right;font-variant-numeric:tabular-nums}
.vt i{display:inline-block;height:10px;border-radius:2px;vertical-align:middle}
""".strip()


def fragment(attribution: Attribution) -> str:
    """What a notebook shows."""
    trace = attribution.trace
    scale = Scale(attribution)
    pictures = "".join(picture_figure(attribution, panel, scale) for panel in trace.panels)
    notes = "".join(f'<p class="small">Note: {escape(note)}</p>' for note in attribution.warnings)
    return f"""<style>{STYLE}</style><main class="vt">
<h1>{escape(f"Answer: {trace.answer_text}" if trace.answer_text else "No final answer")}</h1>
<p class="meta">{escape(attribution.method)} · target: {escape(attribution.target.name)} (underlined) · model: {escape(trace.model)} · {len(trace)} tokens</p>
<div class="cols"><div>{pictures}{_legend(scale.full)}</div><div>
<h2>Question</h2><p class="text">{shaded_words(attribution, "question", scale)}</p>
<h2>Response</h2><p class="text">{shaded_words(attribution, "response", scale)}</p>
<h2>Image and text</h2>{_balance(attribution)}{notes}
<h2>Strongest evidence</h2>{_table(attribution)}
</div></div></main>"""


def picture_figure(attribution: Attribution, panel: Panel, scale: Scale) -> str:
    image = attribution.trace.images[panel[0]]
    patches = sorted(
        (p for p in attribution.trace.patches if (p.image, p.view) == panel), key=lambda p: scale.strength(p.position)
    )
    name = attribution.trace.panel_name(panel)
    cells = []
    for patch in patches:
        left, top, right, bottom = patch.box
        level = scale.strength(patch.position)
        red, green, blue = colour(level)
        edge = (
            f' stroke="rgb{colour(max(level, 0.45))}" stroke-width="{image.width / 130:.1f}"'
            if patch.position in scale.outlined
            else ""
        )
        share = percent(scale.share(patch.position))
        cells.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" '
            f'fill="rgb({red},{green},{blue})" fill-opacity="{0.08 + 0.55 * level:.2f}"{edge}>'
            f"<title>row {patch.row + 1}, column {patch.column + 1}: {share}</title></rect>"
        )
    return (
        f'<figure class="{"thumb" if panel[1] else "full"}"><figcaption>{panel_title(attribution, panel)}</figcaption>'
        f'<img alt="{name or "picture"}" src="{data_url(image)}">'
        f'<svg viewBox="0 0 {image.width} {image.height}" preserveAspectRatio="none" role="img" '
        f'aria-label="evidence by patch">{"".join(cells)}</svg></figure>'
    )


def shaded_words(attribution: Attribution, kind: str, scale: Scale) -> str:
    """The text with each word shaded; blanks between words are kept as they are."""
    trace = attribution.trace
    targeted = set(attribution.target.positions)
    parts = []
    for word, before, text, after in word_pieces(trace.text, trace.offsets, [w for w in trace.words if w.kind == kind]):
        level = scale.strength(word.start, word.stop)
        share = percent(scale.share(word.start, word.stop))
        named = " t" if targeted & set(range(word.start, word.stop)) else ""
        red, green, blue = colour(level)
        style = f' style="background:rgb({red},{green},{blue});color:{ink(level)}"' if level > 0.02 else ""
        parts.append(
            f'{escape(before)}<span class="w{named}"{style} title="{share}">{escape(text)}</span>{escape(after)}'
        )
    return "".join(parts)


def _balance(attribution: Attribution) -> str:
    image = attribution.image_share
    dark, light = colour(0.8), colour(0.3)
    return (
        f'<div class="ends"><span>image {percent(image)}</span><span>question {percent(attribution.text_share)}</span></div>'
        f'<div class="bar" role="img" aria-label="image {percent(image)}"><div style="width:{100 * image:.1f}%;background:rgb{dark}"></div>'
        f'<div style="flex:1;background:rgb{light}"></div></div>'
        f'<p class="small">{escape(calibration_words(attribution))}</p>'
    )


def _legend(full: float) -> str:
    stops = ",".join(f"rgb{stop}" for stop in STOPS)
    return (
        f'<div class="ramp" style="background:linear-gradient(90deg,{stops})"></div>'
        f'<div class="ends small"><span>0 %</span><span>share of the evidence</span><span>{percent(full)} and more</span></div>'
    )


def _table(attribution: Attribution, count: int = 12) -> str:
    items = attribution.top(count)
    full = items[0].score if items and items[0].score else 1.0
    rows = []
    for rank, item in enumerate(items, start=1):
        level = item.score / full
        label = escape(item.label) if item.kind == "image" else f"“{escape(item.label)}”"
        bar = f'<i style="width:{round(110 * level)}px;background:rgb{colour(0.25 + 0.6 * level)}"></i>'
        rows.append(
            f'<tr><td class="n">{rank}</td><td>{label}</td><td class="n">{percent(item.score)}</td><td>{bar}</td></tr>'
        )
    head = '<tr><th class="n">#</th><th>evidence</th><th class="n">share</th><th></th></tr>'
    return f"<table>{head}{''.join(rows)}</table>"
