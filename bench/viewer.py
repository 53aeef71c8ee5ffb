"""Size and speed of the viewer at 1,500 tokens: `python bench/viewer.py [--json]`.

The trace is synthetic: 1,000 prompt tokens, most of them patches of a picture like a photograph, 500 response tokens,
and a W with most edges present, spread over several orders of magnitude, the worst case for compression. Times are
medians over targets in Chromium, from the click to the end of the next frame's work. On a busy machine, the processor
time of the page's thread shows what an idle one would need.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image, ImageFilter

from vtrace.attribution.options import Options
from vtrace.attribution.pipeline import score
from vtrace.attribution.result import Attribution
from vtrace.attribution.triangle import Triangle
from vtrace.tracing.targets import find_target
from vtrace.types import Box, Kind, Patch, Span, Trace, Word
from vtrace.viewer.page import concatenate, page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LIMITS = {"megabytes": 3.0, "retarget_ms": 100.0}  # our limits
PATIENCE = 600_000.0  # milliseconds; for a machine that is busy with other work
GRID = (28, 32)  # rows and columns of patches: 896 of the 1,000 prompt tokens

TIMES = """
async (targets) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const times = { retarget: [], hover: [], gamma: [], follow: [] };
  const timed = async (name, action) => {
    const began = performance.now();
    action();
    await frame();
    times[name].push(performance.now() - began);
  };
  const words = [...document.querySelectorAll("#response .w")];
  const point = (word, kind) => word.dispatchEvent(new PointerEvent(kind, { bubbles: true, pointerType: "mouse" }));
  await frame();
  for (const k of targets) {
    await timed("hover", () => point(words[k], "pointerover"));
    await timed("retarget", () => { point(words[k], "pointerdown"); point(words[k], "pointerup"); });
    const slider = document.getElementById("gamma");
    await timed("gamma", () => { slider.value = 0.5 + (k % 10) / 20; slider.dispatchEvent(new Event("input")); });
    await timed("follow", () => document.querySelector("#ranking tbody button").click());
    document.querySelector("#paths button").click();
  }
  return times;
}
"""


CLICKS = """
async (targets) => {
  const words = [...document.querySelectorAll("#response .w")];
  for (const k of targets) {
    for (const kind of ["pointerdown", "pointerup"])
      words[k].dispatchEvent(new PointerEvent(kind, { bubbles: true, pointerType: "mouse" }));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }
}
"""
MATHS = ("quantised", "multihop", "calibrate", "attribution", "targets", "regions", "state")
SCORES = """
async ([data, names]) => {
  const trace = await maths.prepare(JSON.parse(data));
  const [method] = trace.methods;
  const found = (name) => maths.attribute(trace, method, maths.findTarget(trace, name), { calibrated: true });
  return names.map((name) => [...found(name).scores]);
}
"""


def synthetic(tokens: int, response: int, seed: int = 0) -> Attribution:
    """A trace of that size with a picture, and its attribution."""
    rng = np.random.default_rng(seed)
    prompt = tokens - response
    rows, columns = GRID if prompt > 950 else (8, 8)
    patches = tuple(
        Patch(10 + r * columns + c, 0, r, c, Box(c * 32.0, r * 32.0, c * 32.0 + 32, r * 32.0 + 32))
        for r in range(rows)
        for c in range(columns)
    )
    kinds: list[Kind] = ["template"] * 10
    kinds += ["image"] * len(patches)
    kinds += ["question"] * (prompt - 14 - len(patches))
    kinds += ["template"] * 4
    kinds += ["response"] * response
    text = "".join(f" w{p}" for p in range(tokens))
    ends = np.cumsum([len(f" w{p}") for p in range(tokens)]).tolist()
    offsets = tuple(Span(start, stop) for start, stop in zip([0, *ends[:-1]], ends, strict=True))
    words = tuple(Word(f"w{p}", p, p + 1, kind) for p, kind in enumerate(kinds) if kind != "image")
    noise = rng.integers(0, 256, (rows * 8, columns * 8, 3), dtype=np.uint8)
    image = Image.fromarray(noise).resize((columns * 32, rows * 32), Image.Resampling.BICUBIC)
    trace = Trace(
        model="synthetic",
        images=(image.filter(ImageFilter.GaussianBlur(2)),),
        system="",
        question="synthetic",
        ids=tuple(range(tokens)),
        prompt_length=prompt,
        text=text,
        offsets=offsets,
        kinds=tuple(kinds),
        patches=patches,
        words=words,
        response_span=Span(offsets[prompt].start, len(text)),
        sentences=tuple(
            Span(offsets[p].start, offsets[min(p + 24, tokens - 1)].stop) for p in range(prompt, tokens, 25)
        ),
        reasoning=Span(offsets[prompt].start, offsets[-6].stop),
        answer=Span(offsets[-5].start, len(text)),
        finish="stop",
    )
    edges = np.exp(rng.normal(-4, 1.8, (tokens, tokens))) * (rng.random((tokens, tokens)) < 0.97)
    pairwise = Triangle.of(torch.from_numpy(np.triu(edges, 1).astype(np.float32)))
    likelihoods = rng.normal(-1, 0.5, (4, response)) - np.array([[0], [1.0], [0.6], [1.4]])
    target, options = find_target(trace, "response"), Options()
    shares = score(trace, target, pairwise, likelihoods, options)
    return Attribution(
        trace, target, "vtrace", vars(options), likelihoods=likelihoods, pairwise=pairwise, **shares._asdict()
    )


def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("VTRACE_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


def measure(attribution: Attribution, targets: int) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    text = page([attribution])
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        place = Path(folder) / "page.html"
        place.write_text(text, "utf-8")
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=chromium(), args=flags, timeout=PATIENCE)
        opened = browser.new_page(viewport={"width": 1360, "height": 900})
        opened.set_default_timeout(PATIENCE)
        processor_ms = processor_clock(opened)
        began = processor_ms()
        opened.goto(place.as_uri())
        opened.wait_for_selector("html[data-ready]")
        opening = processor_ms() - began
        ready = opened.evaluate("performance.now()")
        shown = opened.evaluate("document.querySelectorAll('#response .w').length")
        chosen = np.linspace(1, shown - 1, targets).astype(int).tolist()
        times = opened.evaluate(TIMES, chosen)
        began = processor_ms()
        opened.evaluate(CLICKS, chosen)
        retarget = (processor_ms() - began) / len(chosen)
        error = largest_error(browser, attribution, text)
        browser.close()
    medians = {f"{name}_ms": round(statistics.median(values), 1) for name, values in times.items()}
    return {
        "tokens": len(attribution.trace),
        "response": len(attribution.trace) - attribution.trace.prompt_length,
        "megabytes": round(len(text.encode()) / 1e6, 2),
        "picture_megabytes": round(sum(map(len, json.loads(_data(text))["pictures"])) / 1e6, 2),
        "open_ms": round(ready, 0),
        **medians,
        "open_processor_ms": round(opening, 1),
        "retarget_processor_ms": round(retarget, 1),
        "quickest_retarget_ms": round(min(times["retarget"]), 1),
        "slowest_retarget_ms": round(max(times["retarget"]), 1),
        "load": round(os.getloadavg()[0], 1),
        "largest_share_error": error,
        "limits": LIMITS,
    }


def processor_clock(opened: Page) -> Callable[[], float]:
    """Reads the processor time of the page's thread, which does not depend on what else the machine does."""
    session = opened.context.new_cdp_session(opened)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(1000 * metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    return spent


def largest_error(browser: Browser, attribution: Attribution, text: str) -> float:
    """How far shares computed by the page's own maths are from Python's, relative to the strongest; over sentences."""
    names = [f"sentence {k + 1}" for k in range(len(attribution.trace.sentences))][::5]
    opened = browser.new_page()
    opened.set_default_timeout(PATIENCE)
    opened.add_script_tag(content=f"{concatenate(MATHS)}\nwindow.maths = {{ prepare, attribute, findTarget }};")
    found = opened.evaluate(SCORES, [_data(text), names])
    worst = 0.0
    for name, scores in zip(names, found, strict=True):
        expected = attribution.retarget(name)
        inputs = expected.trace.positions("image", "question")
        difference = np.abs(np.array(scores)[inputs] - expected.scores[inputs])
        worst = max(worst, float(difference.max() / expected.scores[inputs].max()))
    return float(f"{worst:.2g}")


def _data(text: str) -> str:
    return text.split('id="data">', 1)[1].split("</script>", 1)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--response", type=int, default=500)
    parser.add_argument("--targets", type=int, default=25, help="number of words to click")
    args = parser.parse_args()
    if not chromium():
        sys.exit("there is no Chromium: apt-get install chromium, or set VTRACE_CHROMIUM to its path")
    found = measure(synthetic(args.tokens, args.response), args.targets)
    if args.json:
        print(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        print(f"{name:>22} {value}")


if __name__ == "__main__":
    main()
