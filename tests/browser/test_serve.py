"""The served pages in a real Chromium: from a dropped picture to a saved file, without a complaint."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.opened import new_context
from support.serving import Gate, picture, serving
from support.waiting import wait_until
from vtrace.benchmarks.registry import find_benchmark
from vtrace.faithfulness.plan import EvaluationPlan
from vtrace.faithfulness.run import evaluate

pytestmark = pytest.mark.browser
SCREENSHOTS = Path(__file__).parents[1] / "screenshots"
NASTY = "Is <script>hacked=1</script><img src=x onerror='hacked=1'> here?"
SCREENS = [
    (f"{width}-{scheme}", size, scheme)
    for width, size in (("wide", (1280, 860)), ("narrow", (390, 844)))
    for scheme in ("light", "dark")
]

PLACES = {  # and what is there once it is shown
    "history": ".cards",
    "runs": "text=Evaluation runs",
    "runs/first/all/page/0": ".tabs",
    "runs/first/all/1": "text=Faithfulness",
}


@pytest.fixture(scope="module")
def client(pinhole, tmp_path_factory):
    place = tmp_path_factory.mktemp("serve")
    plan = EvaluationPlan(methods=("vtrace", "random"), steps=2)
    evaluate(pinhole, find_benchmark("shapes"), plan, place / "runs" / "first", limit=2)
    with serving(lambda name: pinhole, place / "history.sqlite", place / "runs") as client:
        yield client


@contextmanager
def tab(browser, client, path: str = "", expected: str = "no complaint", **options):
    """A tab that must not complain, of anything but what is expected."""
    context = new_context(browser, **{"viewport": {"width": 1280, "height": 860}, **options})
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: expected in message.text or complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"http://127.0.0.1:{client.port}/{path}")
    try:
        yield page
        assert complaints == []
        assert all(re.match(rf"http://127.0.0.1:{client.port}/|blob:|data:", url) for url in asked), asked
    finally:
        context.close()


def screenshot(page, name: str) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    page.evaluate(
        "Promise.all([...document.images].filter(image => image.loading !== 'lazy' && !image.complete)"
        ".map(image => new Promise(done => { image.onload = image.onerror = done; })))"
    )
    page.screenshot(path=SCREENSHOTS / f"serve-{name}.png", full_page=True)


def viewer(page):
    """The viewer in its frame, once it is ready."""
    page.wait_for_selector("iframe")
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(state="attached")
    return frame


def test_from_an_uploaded_picture_to_a_saved_file(browser, client, tmp_path):
    file = {"name": "shapes.png", "mimeType": "image/png", "buffer": picture()}
    with tab(browser, client) as page:
        page.set_input_files("#files", file)
        assert page.locator(".gallery figure").count() == 1
        page.fill("#question", "In which cell is the purple cross?")
        page.click(".methods summary")
        page.check("#method-ifr")
        page.click("button[type=submit]")
        frame = viewer(page)
        facts = client.get("/api/explanations?count=1")[1][0]
        assert facts["methods"] == ["vtrace", "ifr"]
        assert facts["answer"] in frame.locator("h1").inner_text()
        with page.expect_download() as download:
            page.click("#save")
        download.value.save_as(tmp_path / "saved.html")
    opened = new_context(browser, offline=True)
    saved = opened.new_page()
    saved.goto((tmp_path / "saved.html").as_uri())
    saved.wait_for_selector("html[data-ready]")
    assert facts["answer"] in saved.inner_text("h1")
    opened.close()


def test_pictures_are_dropped_counted_and_removed(browser, client):
    drop = """async (bytes) => {
      const data = new DataTransfer();
      const file = (name) => new File([new Uint8Array(bytes)], name, {type: "image/png"});
      data.items.add(file("a.png"));
      data.items.add(file("b.png"));
      document.querySelector(".drop").dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));
    }"""
    posted: list[str] = []
    with tab(browser, client) as page:
        page.on("request", lambda request: request.method == "POST" and posted.append(request.url))
        page.wait_for_selector(".drop")
        page.evaluate(drop, list(picture()))
        assert page.locator(".gallery figure").count() == 2
        page.click("[aria-label='Remove a.png']")
        assert page.locator(".gallery figure").count() == 1
        page.fill("#question", "  ")  # the browser itself stops an empty field
        page.click("button[type=submit]:has-text('Explain')")
        assert page.inner_text(".notice.bad") == "Type a question about the picture."
        assert posted == []


def test_what_was_written_is_shown_and_never_run(browser, client):
    with tab(browser, client) as page:
        page.click(".examples button >> nth=1")
        page.fill("#question", NASTY)
        page.keyboard.press("Enter")
        frame = viewer(page)
        assert NASTY in page.inner_text(".toolbar .title")
        assert "<script>" in frame.locator("#question").inner_text()
        assert page.evaluate("typeof hacked") == "undefined"
        page.click("nav >> text=History")
        assert page.inner_text(".card-question >> nth=0") == NASTY
        assert page.evaluate("typeof hacked") == "undefined"


def test_a_refusal_is_shown_beside_the_question(browser, client):
    with tab(browser, client, expected="status of 422") as page:
        page.set_input_files("#files", {"name": "a.png", "mimeType": "image/png", "buffer": b"no picture"})
        page.fill("#question", "What is this?")
        page.click("button[type=submit]")
        page.wait_for_selector(".notice.bad")
        assert "not a picture" in page.inner_text(".notice.bad")


def test_the_place_in_the_queue_is_seen_and_closing_the_tab_gives_it_up(browser, pinhole, tmp_path):
    gate = Gate(pinhole)
    with serving(gate, tmp_path / "history.sqlite") as client:
        with tab(browser, client) as page:
            for number, expected in enumerate(("Loading the model", "Next in the queue", "Number 2 in the queue")):
                if number:
                    page.click("nav >> text=Ask")
                page.click(".examples button >> nth=0")
                page.click("button[type=submit]")
                page.wait_for_selector(f"text={expected}")
            assert page.inner_text("#busy") == "3 in progress"
            screenshot(page, "waiting")
            page.click("text=Cancel")
            page.wait_for_selector("text=The explanation was cancelled.")
            now, others = time.monotonic(), client.service.queue.jobs()
            wait_until(lambda: all(job.seen > now for job in others), "a sign that the other two are still wanted")
            assert client.service.queue.jobs() == others
        client.service.limits = replace(client.service.limits, patience=0.0)
        wait_until(lambda: len(client.service.queue.jobs()) == 1, "the end of the job that waits")
        gate.opened.set()
        client.wait(client.get("/api/explanations")[1][-1]["id"], "cancelled")


def test_a_run_is_browsed_and_opened_in_the_viewer(browser, client):
    with tab(browser, client, "#/runs") as page:
        assert re.fullmatch(r"(vtrace|random) 0\.\d{3}", page.inner_text("tbody b"))  # the best method of the run
        page.click("text=first")
        page.wait_for_selector(".tabs")  # the list of runs, which was there before, has links in a table too
        page.click("tbody a >> nth=0")
        page.wait_for_selector("text=Faithfulness")
        rises = page.eval_on_selector_all(
            "table >> nth=0 >> tbody tr", "rows => rows.map(row => parseFloat(row.cells[3].innerText))"
        )
        assert rises == sorted(rises, reverse=True)
        assert page.locator("table >> nth=0 >> tbody tr >> nth=0 >> td >> nth=3 >> b").count() >= 1
        page.click("text=Next")
        page.wait_for_selector("text=2 of 2")
        question = page.inner_text("h1")
        page.click("text=Open in the viewer")
        viewer(page)
        assert page.inner_text(".toolbar .title") == question


@pytest.mark.parametrize(("name", "size", "scheme"), SCREENS, ids=[name for name, *_ in SCREENS])
def test_every_screen_fits(browser, client, name, size, scheme):
    with tab(browser, client, viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme) as page:
        page.click(".examples button >> nth=0")
        screenshot(page, f"start-{name}")
        page.click("button[type=submit]")
        viewer(page)
        screenshot(page, f"result-{name}")
        if name in ("wide-dark", "narrow-light"):
            return
        for path, awaited in PLACES.items():
            page.goto(f"http://127.0.0.1:{client.port}/#/{path}")
            page.wait_for_selector(awaited)
            screenshot(page, f"{path.replace('/', '-')}-{name}")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
