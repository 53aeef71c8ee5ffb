"""The site builds without a warning, links lead somewhere, and a browser reads and searches it without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from support.opened import new_context
from support.pages import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make docs` builds it."""
    pytest.importorskip("mkdocs", reason="there is no mkdocs: pip install 'vtrace-attribution[docs]'")
    # in a folder as deep as docs/, so that links to source files lead to this clone
    folder = tmp_path_factory.mktemp("site") / "site"
    build = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--config-file",
        ROOT / "mkdocs.yml",
        "--site-dir",
        folder,
    ]
    done = subprocess.run(
        build, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


class References(HTMLParser):
    """Addresses and anchors of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {str(found[name]) for name in ("id", "name") if found.get(name)}
        if tag == "img" or (tag in ("script", "source", "iframe") and found.get("src")):
            self.loaded.append(str(found.get("src", "")))  # text such as <image> becomes a picture of nothing
        if tag == "link" and found.get("href") and found.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(str(found["href"]))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))


@pytest.fixture(scope="module")
def references(site) -> dict[Path, References]:
    pages = [page for page in site.rglob("*.html") if page.name != "404.html" and not is_viewer(page)]
    return {page: References(page.read_text("utf-8")) for page in pages}


def is_viewer(page: Path) -> bool:
    """Files of the gallery are pages of their own, tested elsewhere."""
    return page.parent.name == "gallery" and page.name != "index.html"


def test_nothing_is_loaded_from_elsewhere(references, site):
    for page, found in references.items():
        for address in found.loaded:
            assert not re.match(r"\w+:|//", address), (page, address)
            assert (page.parent / unquote(urlsplit(address).path)).is_file(), (page, address)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", sheet.read_text("utf-8")), sheet


def test_every_link_leads_somewhere(references, site):
    for page, found in references.items():
        for link in found.links:
            address = urlsplit(link)
            if address.scheme:
                assert address.scheme in ("https", "http"), link
                continue
            place = (page.parent / unquote(address.path)).resolve() if address.path else page
            if not place.is_relative_to(site):  # a source file: the site lies in the clone as deep as docs/
                place = ROOT / os.path.relpath(place, site.parent)
            assert place.exists(), (page, link)
            if address.fragment and place in references and not address.fragment.startswith("__"):
                assert unquote(address.fragment) in references[place].anchors, (page, link)


def test_every_public_name_is_in_the_reference(references, site):
    import vtrace

    anchors = references[site / "reference" / "python.html"].anchors
    names = {anchor.rpartition(".")[2] for anchor in anchors}
    assert set(vtrace.__all__) - {"__version__"} <= names


@pytest.mark.browser
def test_the_site_opens_from_a_file_and_searches_without_a_network(site, browser):
    context = new_context(browser, offline=True)
    page = context.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((site / "index.html").as_uri())
    page.click(".md-search__input")
    page.keyboard.type("calibration")
    page.wait_for_selector(".md-search-result__link")
    assert "Calibration" in page.inner_text(".md-search-result__list")
    assert complaints == []
    assert [address for address in requests if not address.startswith(("file:", "data:", "about:", "blob:"))] == []
    context.close()
