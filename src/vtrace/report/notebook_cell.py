"""A result in a notebook: the viewer in a frame of its own, and a picture where pages may not run scripts."""

from __future__ import annotations

import base64
import io
from html import escape

from matplotlib.figure import Figure
from PIL import Image

from .shaded_figure import png_of

HEIGHT = 780  # pixels; the frame can be made taller
_QUALITY = 88  # of the picture, which is stored in the notebook twice
# A notebook that is not trusted drops styles and frames, which leaves the picture; elsewhere the style hides it.
_STYLE = ".vtrace-still{display:none}.vtrace-frame{width:100%;border:0;resize:vertical;overflow:auto}"


def notebook_bundle(page: str, figure: Figure, about: str) -> dict[str, str]:
    """What a notebook stores, by media type. The page has no access to the notebook, nor to a network."""
    still = _still(figure)
    html = (
        f'<style>{_STYLE}</style><img class="vtrace-still" alt="{escape(about)}" src="data:image/jpeg;base64,{still}">'
        f'<iframe class="vtrace-frame" style="height:{HEIGHT}px" title="{escape(about)}" '
        f'sandbox="allow-scripts allow-downloads" srcdoc="{escape(page)}"></iframe>'
    )
    return {"text/html": html, "image/jpeg": still, "text/plain": about}


def _still(figure: Figure) -> str:
    """A small JPEG in base64."""
    small = io.BytesIO()
    with Image.open(io.BytesIO(png_of(figure, dpi=90))) as drawn:
        drawn.convert("RGB").save(small, "JPEG", quality=_QUALITY, optimize=True)
    return base64.b64encode(small.getvalue()).decode("ascii")
