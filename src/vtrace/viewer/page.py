"""The viewer: one self-contained HTML file that explains any part of a response offline.

The page's source is plain HTML, CSS and JavaScript modules in `source`; they are joined into one file without changes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..attribution.result import Attribution
from ..system.files import write_atomically
from .export import export
from .single_file import joined_modules, security_policy, single_file

SOURCE = Path(__file__).parent / "source"
MODULES = (
    "quantised", "multihop", "routes", "calibrate", "attribution", "targets", "regions", "scale",
    "state", "dom", "theme", "crops", "dragging", "pictures", "words", "ranking", "wires", "view", "methods",
    "controls", "region_list", "dependence", "experiments", "hiding", "verified_chart", "verified", "likelihood_marks",
    "what_if", "bench", "contrast", "figure", "main",
)  # fmt: skip
STYLES = ("style", "findings")


def page(
    results: Sequence[Attribution],
    title: str = "",
    remarks: Mapping[str, str] | None = None,
    experiments: Sequence[Mapping[str, Any]] = (),
    server: Mapping[str, str] | None = None,
    compared: str = "method",
) -> str:
    """The complete page: one attribution, or several methods, or models, on the same trace side by side.

    `remarks` has a line for each method, such as its cost, or the reason why a method has no result. `experiments` are
    those of the web application, which a page with a `server` can ask for more: at `path`, unless there is a `problem`.
    """
    document = {
        **export(results, title, remarks),
        "compared": compared,
        "experiments": list(experiments),
        "server": server,
    }
    return single_file(SOURCE / "page.html", document["title"], style(), script(), document, live=server is not None)


def write_page(
    results: Sequence[Attribution], path: str | Path, title: str = "", remarks: Mapping[str, str] | None = None
) -> Path:
    """Write the page atomically."""
    text = page(results, title, remarks)
    return write_atomically(path, lambda file: file.write_text(text, "utf-8"))


@functools.cache
def policy(live: bool = False) -> str:
    """The page's content-security policy: only its own script, style and embedded pictures are allowed.

    Only a live page may make requests, and only to the server that it came from.
    """
    return security_policy(style(), script(), live)


@functools.cache
def style() -> str:
    return "".join((SOURCE / f"{name}.css").read_text("utf-8") for name in STYLES)


@functools.cache
def script() -> str:
    return concatenate(MODULES)


def concatenate(modules: Sequence[str]) -> str:
    """Modules of the viewer as one script."""
    return joined_modules([SOURCE / f"{module}.js" for module in modules])
