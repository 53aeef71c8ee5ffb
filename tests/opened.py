"""The viewer open in a real Chromium, and what can be read off it."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
from PIL import Image

from vtrace.report.scale import calibration_words, percent

SCREENSHOTS = Path(__file__).parent / "screenshots"  # kept to be looked at, ignored by git


class Opened:
    """A page from a file, and everything it complained about."""

    def __init__(self, browser, text: str, folder: Path, link: str = "", **options):
        (folder / "page.html").write_text(text, "utf-8")
        self.context = browser.new_context(offline=True, viewport={"width": 1360, "height": 900}, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto((folder / "page.html").as_uri() + link)
        self.page.wait_for_selector("html[data-ready]", timeout=20_000)

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def word(self, text: str, place: int = 0, box: str = "#response"):
        return self.page.locator(f"{box} .w", has_text=re.compile(f"^{re.escape(text)}$")).nth(place)

    def ranking(self) -> list[tuple[str, str]]:
        rows = self.page.eval_on_selector_all(
            "#ranking tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
        )
        return [(row[1].strip("“”"), row[2]) for row in rows]

    def patch(self, row: int, column: int, panel: int = 0, cells: int = 8) -> tuple[float, float]:
        """The middle of a patch on the screen, of a square grid."""
        box = self.page.locator(f"#panel-{panel}").bounding_box()
        return box["x"] + box["width"] * (column + 0.5) / cells, box["y"] + box["height"] * (row + 0.5) / cells

    def pixels(self, panel: int = 0) -> np.ndarray:
        data = self.page.evaluate(f"document.getElementById('panel-{panel}').toDataURL()")
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(data.split(",")[1]))).convert("RGB"), dtype=int)


def slide(opened: Opened, name: str, value: float) -> None:
    opened.page.evaluate(
        "([id, value]) => { const one = document.getElementById(id); one.value = value;"
        " one.dispatchEvent(new Event('input')); }",
        [name, value],
    )


def shown(attribution, count=12):
    return [(item.label, percent(item.score)) for item in attribution.top(count)]


def agrees(opened: Opened, expected) -> None:
    """Every number in sight is the Python result's."""
    assert opened.ranking() == shown(expected)
    assert opened.text("#image-share") == f"image {percent(expected.image_share)}"
    assert opened.text("#text-share") == f"question {percent(expected.text_share)}"
    assert opened.text("#calibration") == calibration_words(expected)


def shot(name: str) -> Path:
    SCREENSHOTS.mkdir(exist_ok=True)
    return SCREENSHOTS / f"{name}.png"
