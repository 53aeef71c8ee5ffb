"""The viewer: one self-contained HTML file that explains any part of a response offline.

The page's source is plain HTML, CSS and JavaScript modules in `source`; they are joined into one file without changes.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from ..attribution.result import Attribution
from ..system.files import write_atomically
from .export import export

SOURCE = Path(__file__).parent / "source"
MODULES = (
    "quantised", "multihop", "routes", "calibrate", "attribution", "targets", "scale",
    "state", "dom", "pictures", "words", "ranking", "wires", "view", "methods", "controls",
    "figure", "main",
)  # fmt: skip
_IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)


def page(results: Sequence[Attribution], title: str = "", remarks: Mapping[str, str] | None = None) -> str:
    """The complete page: one attribution, or several methods on the same trace side by side.

    `remarks` has a line for each method, such as its cost, or the reason why a method has no result.
    """
    document = export(results, title, remarks)
    data = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    slots = {
        "POLICY": policy(),
        "TITLE": escape(document["title"]),
        "STYLE": style(),
        "SCRIPT": script(),
        "DATA": data.replace("<", "\\u003c"),  # so that nothing in it can close the surrounding element
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: slots[slot[1]], (SOURCE / "page.html").read_text("utf-8"))


def write_page(
    results: Sequence[Attribution], path: str | Path, title: str = "", remarks: Mapping[str, str] | None = None
) -> Path:
    """Write the page atomically."""
    text = page(results, title, remarks)
    return write_atomically(path, lambda file: file.write_text(text, "utf-8"))


@functools.cache
def policy() -> str:
    """The page's content-security policy: only its own script, style and embedded pictures are allowed."""
    return (
        f"default-src 'none'; script-src '{_digest(script())}'; style-src '{_digest(style())}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


@functools.cache
def style() -> str:
    return (SOURCE / "style.css").read_text("utf-8")


@functools.cache
def script() -> str:
    return concatenate(MODULES)


def concatenate(modules: Sequence[str]) -> str:
    """Modules as one script, in the order of their imports. All names are distinct, so import lines can be dropped."""
    texts = [(SOURCE / f"{module}.js").read_text("utf-8") for module in modules]
    return "\n".join(re.sub(r"^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE) for text in texts)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
