"""Pictures with shaded patches and text with shaded words, as HTML without a script; everything is escaped."""

from __future__ import annotations

from html import escape

from ..attribution.result import Attribution
from ..tracing.spans import word_pieces
from ..types import Kind, Panel, Patch
from ..viewer.export import data_url
from ..viewer.palette import css_colour, ink
from .scale import Scale
from .wording import panel_title, percent

NOTEBOOK_STYLE = """
.vt{color-scheme:light dark;--ink:#1f1a24;--faint:#6b6372;--page:#fff;--line:#e5e0e8}
@media (prefers-color-scheme:dark){.vt{--ink:#efeaf2;--faint:#a79fae;--page:#17131a;--line:#37303c}}
.vt{font:16px/1.6 system-ui,-apple-system,"Segoe UI",sans-serif;color:var(--ink);background:var(--page);
 max-width:1080px;margin:0 auto;padding:28px 24px}
.vt *{box-sizing:border-box}
.vt h1{font-size:22px;line-height:1.3;margin:0 0 4px}
.vt h2{font-size:12px;letter-spacing:.08em;text-transform:uppercase;color:var(--faint);margin:26px 0 6px;
 font-weight:600}
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
.vt summary{cursor:pointer}
""".strip()


def picture_figure(attribution: Attribution, panel: Panel, scale: Scale) -> str:
    """One picture with its patches drawn over it, the strongest on top."""
    trace = attribution.trace
    image = trace.images[panel.image]
    patches = sorted((p for p in trace.patches if (p.image, p.view) == panel), key=lambda p: scale.strength(p.position))
    cells = "".join(_cell(patch, scale, image.width / 130) for patch in patches)
    return (
        f'<figure class="{"thumb" if panel.view else "full"}">'
        f"<figcaption>{panel_title(attribution, panel)}</figcaption>"
        f'<img alt="{trace.panel_name(panel) or "picture"}" src="{data_url(image)}">'
        f'<svg viewBox="0 0 {image.width} {image.height}" preserveAspectRatio="none" role="img" '
        f'aria-label="share of each patch">{cells}</svg></figure>'
    )


def _cell(patch: Patch, scale: Scale, line: float) -> str:
    left, top, right, bottom = patch.box
    level = scale.strength(patch.position)
    outlined = patch.position in scale.outlined
    edge = f' stroke="{css_colour(max(level, 0.45))}" stroke-width="{line:.1f}"' if outlined else ""
    share = percent(scale.share(patch.position))
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" '
        f'fill="{css_colour(level)}" fill-opacity="{0.08 + 0.55 * level:.2f}"{edge}>'
        f"<title>row {patch.row + 1}, column {patch.column + 1}: {share}</title></rect>"
    )


def shaded_words(attribution: Attribution, kind: Kind, scale: Scale) -> str:
    """The text with each word shaded; whitespace between words is kept."""
    trace = attribution.trace
    targeted = set(attribution.target.positions)
    parts = []
    for word, before, text, after in word_pieces(trace, kind):
        level = scale.strength(word.start, word.stop)
        share = percent(scale.share(word.start, word.stop))
        named = " t" if targeted & set(range(word.start, word.stop)) else ""
        style = f' style="{shading(level)}"' if level > 0.02 else ""
        parts.append(
            f'{escape(before)}<span class="w{named}"{style} title="{share}">{escape(text)}</span>{escape(after)}'
        )
    return "".join(parts)


def shading(level: float) -> str:
    """CSS of readable text on the colour of a strength."""
    return f"background:{css_colour(level)};color:{ink(level)}"
