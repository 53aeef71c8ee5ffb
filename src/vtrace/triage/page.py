"""The triage page: one self-contained HTML file that lists every explained question and links to its viewer file."""

from __future__ import annotations

import functools
from pathlib import Path

from ..system.files import write_atomically
from ..types import model_label
from ..viewer.page import SOURCE as VIEWER
from ..viewer.single_file import joined_modules, single_file
from .document import item_entry, rest_of
from .store import read_explanations

TRIAGE_PAGE = "index.html"
_SOURCE = Path(__file__).parent / "source"
_MODULES = (
    *(VIEWER / f"{name}.js" for name in ("scale", "dom", "theme")),
    *(_SOURCE / f"{name}.js" for name in ("rows", "histogram", "table", "triage")),
)


def triage_page(folder: Path, wanted: int) -> str:
    """The page about the explanations of a folder, of which there will be `wanted`."""
    found = read_explanations(folder)
    items = list(map(item_entry, found.rows))
    data = {**found.settings, **rest_of(found), "wanted": wanted, "items": items}
    model = model_label(found.settings["model"], bool(found.settings["family"]))
    title = f"VTrace: {found.settings['benchmark']}, {model}"
    return single_file(_SOURCE / "page.html", title, triage_style(), triage_script(), data)


def write_triage_page(folder: Path, wanted: int) -> Path:
    """Write it atomically, into the folder."""
    text = triage_page(folder, wanted)
    return write_atomically(folder / TRIAGE_PAGE, lambda file: file.write_text(text, "utf-8"))


@functools.cache
def triage_style() -> str:
    """The viewer's style, and what this page adds."""
    return "".join((folder / "style.css").read_text("utf-8") for folder in (VIEWER, _SOURCE))


@functools.cache
def triage_script() -> str:
    return joined_modules(_MODULES)
