"""The viewer open in a real Chromium, and what can be read off it."""

from __future__ import annotations

import base64
import io
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from support.waiting import PATIENCE
from vtrace.attribution.result import Attribution
from vtrace.report.wording import calibration_sentence, percent
from vtrace.types import Patch, Trace, Word

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator

SCREENSHOTS = Path(__file__).parents[1] / "screenshots"  # kept to be looked at, ignored by git


UNNAMED = (  # controls and pictures that a screen reader could not tell apart
    "[...document.querySelectorAll('input, select, button, canvas, [role=img]')].filter(one => one.checkVisibility()"
    " && !(one.labels?.length || one.textContent || one.getAttribute('aria-label'))).map(one => one.outerHTML)"
)
SETTLED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"


def chromium() -> str | None:
    """Path of a browser on this machine."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("VTRACE_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """A browser window in which nothing times out only because the machine is slow."""
    context = browser.new_context(**options)
    context.set_default_timeout(1000 * PATIENCE)
    context.set_default_navigation_timeout(1000 * PATIENCE)
    return context


class Opened:
    """A page from a file, and everything it complained about."""

    def __init__(self, browser: Browser, text: str, folder: Path, link: str = "", **options: Any):
        (folder / "page.html").write_text(text, "utf-8")
        self.context = new_context(browser, offline=True, viewport={"width": 1360, "height": 900}, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto((folder / "page.html").as_uri() + link)
        self.page.wait_for_selector("html[data-ready]")

    def settle(self) -> None:
        """Wait until the page has drawn what follows from the last change."""
        self.page.evaluate(SETTLED)

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def word(self, place: int, box: str = "#response") -> Locator:
        """A shown word, counted from 0; from the end for negative numbers."""
        return self.page.locator(f"{box} .w").nth(place)

    def ranking(self) -> list[tuple[str, str]]:
        """Names and shares. Patches are shown as crops, whose names are for screen readers."""
        read = "rows => rows.map(row => [row.querySelector('button').ariaLabel, row.cells[2].innerText])"
        return [(name, share) for name, share in self.page.eval_on_selector_all("#ranking tbody tr", read)]

    def patch(self, patch: Patch, size: tuple[int, int], panel: int = 0) -> tuple[float, float]:
        """The middle of a patch of a picture of that size, on the screen."""
        frame = self.page.locator(f"#panel-{panel}").bounding_box()
        assert frame
        left, top, right, bottom = patch.box
        x, y = (left + right) / 2 / size[0], (top + bottom) / 2 / size[1]
        return frame["x"] + frame["width"] * x, frame["y"] + frame["height"] * y

    def pixels(self, panel: int = 0) -> np.ndarray:
        data = self.page.evaluate(f"document.getElementById('panel-{panel}').toDataURL()")
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(data.split(",")[1]))).convert("RGB"), dtype=int)


def slide(opened: Opened, name: str, value: float) -> None:
    opened.page.evaluate(
        "([id, value]) => { const one = document.getElementById(id); one.value = value;"
        " one.dispatchEvent(new Event('input')); }",
        [name, value],
    )


def words_of(trace: Trace, kind: str = "response") -> list[Word]:
    """The words that the page shows."""
    return [word for word in trace.words if word.kind == kind and not word.text.startswith("<|")]


def tokens_of(trace: Trace, *words: Word) -> slice:
    """A target: from the first of the words to the last."""
    return slice(words[0].start - trace.prompt_length, words[-1].stop - trace.prompt_length)


def shown(attribution: Attribution, count: int = 12) -> list[tuple[str, str]]:
    """The ranking as the page writes it."""
    return [(item.label, percent(item.score)) for item in attribution.top(count)]


def agrees(opened: Opened, expected: Attribution) -> None:
    """Every number in sight is the Python result's."""
    assert opened.ranking() == shown(expected)
    assert opened.text("#image-share") == f"image {percent(expected.image_share)}"
    assert opened.text("#text-share") == f"question {percent(expected.text_share)}"
    assert opened.text("#calibration") == calibration_sentence(expected)


def shot(name: str) -> Path:
    SCREENSHOTS.mkdir(exist_ok=True)
    return SCREENSHOTS / f"{name}.png"
