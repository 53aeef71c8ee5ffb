"""What MkDocs does for the site beyond its own: viewer files for the gallery, and links that leave docs/."""

from __future__ import annotations

import posixpath
import re
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

import vtrace
from vtrace.viewer.page import page

ICON = Path(__file__).parents[1] / "src" / "vtrace" / "serve" / "static" / "icon.svg"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s]+)\)")


def on_files(files: Any, *, config: Any) -> Any:
    """The icon is that of the web application, and the gallery's documents become viewer files."""
    files.append(File.generated(config, "assets/icon.svg", abs_src_path=str(ICON)))
    for file in [file for file in files if re.fullmatch(r"gallery/\d+\.json", file.src_uri)]:
        viewer = vtrace.read(file.abs_src_path)
        files.remove(file)
        files.append(File.generated(config, file.src_uri.replace(".json", ".html"), content=page([viewer])))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Links to source files and to pages beside docs/. Without an address of the repository they stay relative: the
    site lies in the clone, as deep as docs/ does."""

    def lead_out(link: re.Match[str]) -> str:
        text, target = link.groups()
        place = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), target))
        if place.startswith("docs/"):
            return link[0]
        address = f"{config.repo_url.rstrip('/')}/blob/main/{place}" if config.repo_url else target
        return f'<a href="{escape(address)}">{text}</a>'

    return LINK.sub(lead_out, markdown)
