"""Take the screenshot of the viewer that the documentation shows: `python scripts/viewer_screenshot.py`.

The embedded model explains its answer to the embedded example; the strongest patch is selected, so that its paths are
drawn. Needs Chromium and playwright.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

import vtrace

PLACE = Path(__file__).parents[1] / "docs" / "viewer.png"
SIZE: ViewportSize = {"width": 1440, "height": 1000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="path of the browser")
    parser.add_argument("--out", type=Path, default=PLACE)
    args = parser.parse_args()
    lvlm = vtrace.load("pinhole")
    attribution = vtrace.attribute(lvlm, vtrace.trace(lvlm, vtrace.example()), "answer")
    patch = next(item for item in attribution.ranking() if item.kind == "image")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = attribution.save(Path(folder) / "page.html")
        browser = driver.chromium.launch(executable_path=args.chromium, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(viewport=SIZE)
        opened.goto(f"{page.as_uri()}#input={patch.positions[0]}")
        opened.wait_for_selector("#wires .wire", state="attached")
        opened.screenshot(path=args.out)
        browser.close()
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
