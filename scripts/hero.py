"""Record the animation of the README from the real web application: `python scripts/hero.py`.

The embedded model is asked, a word of its answer is clicked, its patches light up, they are hidden, and the answer
changes. Writes an animation and a still for readers who prefer none. Needs Chromium and playwright.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Locator, Page, ViewportSize, sync_playwright

from vtrace.system.files import write_atomically

PLACE = Path(__file__).parents[1] / "docs" / "assets"
SCREEN: ViewportSize = {"width": 1280, "height": 760}
WIDTH = 960  # of the animation, in pixels
CAPTION = 44  # height of the line below the page
MOST_BYTES = 1_500_000
EXAMPLE = "test-00011"
INK, PAPER = "#1f1a24", "#ffffff"
STILL = -1  # the frame that stands for the whole


class Frame(NamedTuple):
    picture: Image.Image
    milliseconds: int


class Film:
    """Frames of a page, with a caption and a pointer."""

    def __init__(self, page: Page):
        self.page = page
        self.frames: list[Frame] = []
        self.font = ImageFont.truetype(font_manager.findfont("DejaVu Sans"), 22)

    def shoot(self, caption: str, at: Locator | tuple[float, float] | None = None, milliseconds: int = 1400) -> None:
        """One frame; the pointer is at the middle of an element, or at a point."""
        self.page.wait_for_timeout(150)
        seen = Image.open(BytesIO(self.page.screenshot())).convert("RGB")
        framed = Image.new("RGB", (seen.width, seen.height + CAPTION), INK)
        framed.paste(seen)
        pen = ImageDraw.Draw(framed)
        pen.text((20, seen.height + 8), caption, fill=PAPER, font=self.font)
        if at is not None:
            draw_pointer(pen, *(middle(at) if isinstance(at, Locator) else at))
        height = round(framed.height * WIDTH / framed.width)
        self.frames.append(Frame(framed.resize((WIDTH, height), Image.Resampling.LANCZOS), milliseconds))


def middle(element: Locator) -> tuple[float, float]:
    box = element.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def draw_pointer(pen: ImageDraw.ImageDraw, x: float, y: float) -> None:
    arrow = [(0, 0), (0, 26), (6, 20), (11, 31), (16, 29), (11, 18), (19, 18)]
    pen.polygon([(x + dx, y + dy) for dx, dy in arrow], fill=INK, outline=PAPER, width=2)


@contextmanager
def web_application() -> Iterator[str]:
    """`vtrace serve` with an empty history, as a user starts it; its address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "vtrace.cli", "serve", "--port", "0", "--store", f"{folder}/history.sqlite"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            server.terminate()
            server.wait()


def record(page: Page, address: str) -> list[Frame]:
    film = Film(page)
    page.goto(address)
    example = page.locator(f"[data-key='{EXAMPLE}'], .examples button").first
    example.click()
    ask = page.get_by_role("button", name="Explain", exact=True)
    film.shoot("1  Ask a question about a picture", ask, 1800)
    ask.click()
    page.wait_for_selector("iframe", timeout=120_000)
    explained = page.locator("iframe").get_attribute("src")
    page.goto(f"{address.rstrip('/')}{explained}")
    page.wait_for_selector("html[data-ready]")
    film.shoot("2  The model answers, and every patch and word gets its share", None, 1800)
    word = page.locator("#response .w").last
    word.scroll_into_view_if_needed()
    film.shoot("3  Click a word of the answer …", word, 1200)
    word.click()
    film.shoot("3  … and the patch it relies on lights up", word, 2200)
    page.locator("#bench").evaluate("element => element.scrollIntoView()")
    strongest = page.get_by_role("button", name=re.compile(r"^Select the (1 )?strongest input$"))
    film.shoot("4  What if it were hidden?", strongest, 1400)
    strongest.click()
    hide = page.get_by_role("button", name="Hide and ask again")
    film.shoot("4  Select the strongest patch, hide it, and ask again", hide, 1600)
    hide.click()
    page.wait_for_selector("#what-if .answer", timeout=120_000)
    film.shoot("5  The answer changes", None, 3200)
    return film.frames


def write(frames: list[Frame], place: Path) -> None:
    first, *others = (frame.picture for frame in frames)
    durations = [frame.milliseconds for frame in frames]
    options = {"save_all": True, "append_images": others, "duration": durations, "loop": 0}
    moving = write_atomically(
        place / "hero.webp", lambda file: first.save(file, "WEBP", quality=72, method=6, **options)
    )
    still = frames[STILL].picture
    write_atomically(place / "hero.png", lambda file: still.save(file, "PNG", optimize=True))
    size = moving.stat().st_size
    assert size < MOST_BYTES, f"{moving} has {size} bytes; the limit is {MOST_BYTES}"
    print(f"wrote {moving} ({size / 1e6:.2f} MB, {len(frames)} frames) and {place / 'hero.png'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="path of the browser")
    parser.add_argument("--out", type=Path, default=PLACE, help="folder of the animation and the still")
    args = parser.parse_args()
    with web_application() as address, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=args.chromium, args=["--no-sandbox", "--disable-gpu"])
        frames = record(browser.new_page(viewport=SCREEN, color_scheme="light"), address)
        browser.close()
    write(frames, args.out)


if __name__ == "__main__":
    main()
