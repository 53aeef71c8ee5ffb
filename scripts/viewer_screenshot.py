"""Take the screenshots of the viewer that the documentation shows: `python scripts/viewer_screenshot.py`.

The embedded model explains its answer to the embedded example. On the first picture the strongest patch is selected, so
that its paths are drawn. The second shows the verification, the third the triage page of a few questions. Needs
Chromium and playwright.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

import vtrace
from vtrace.benchmarks.registry import find_benchmark
from vtrace.triage.plan import ExplanationPlan
from vtrace.triage.run import explain_benchmark

DOCS = Path(__file__).parents[1] / "docs" / "reference"
SIZE: ViewportSize = {"width": 1440, "height": 1000}
QUESTIONS, VERIFIED_PASSES = 24, 30  # of the triage page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="path of the browser")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the pictures")
    args = parser.parse_args()
    lvlm = vtrace.load("pinhole")
    attribution = vtrace.attribute(lvlm, vtrace.trace(lvlm, vtrace.example()), "answer")
    patch = next(item for item in attribution.ranking() if item.kind == "image")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        plain = attribution.save(Path(folder) / "plain.html")
        verified = attribution.verify(lvlm).save(Path(folder) / "verified.html")
        browser = driver.chromium.launch(executable_path=args.chromium, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(viewport=SIZE)
        opened.goto(f"{plain.as_uri()}#input={patch.positions[0]}")
        opened.wait_for_selector("#wires .wire", state="attached")
        opened.screenshot(path=args.out / "viewer.png")
        opened.goto(verified.as_uri())
        show_verification(opened, args.out / "verified.png")
        plan = ExplanationPlan("answer", passes=VERIFIED_PASSES)
        opened.goto(explain_benchmark(lvlm, find_benchmark("shapes"), plan, Path(folder), limit=QUESTIONS).as_uri())
        opened.wait_for_selector("html[data-ready]")
        opened.screenshot(path=args.out / "triage.png")
        browser.close()
    print(f"wrote viewer.png, verified.png and triage.png in {args.out}")


def show_verification(page: Page, place: Path) -> None:
    page.wait_for_selector("html[data-ready]")
    page.locator("#bench").screenshot(path=place)


if __name__ == "__main__":
    main()
