"""What if it were hidden? In the served page and in the saved file, in a real Chromium."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest

import vtrace
from support.opened import SETTLED, UNNAMED, new_context, shot
from support.serving import Gate, serving
from vtrace.faithfulness.evidence import evidence_positions

pytestmark = pytest.mark.browser
SCREENS = [("wide", (1360, 900), "light"), ("narrow", (390, 844), "light"), ("dark", (1360, 900), "dark")]


@pytest.fixture(scope="module")
def client(pinhole, trace, tmp_path_factory):
    """A server that has explained the embedded example."""
    with serving(lambda name: pinhole, tmp_path_factory.mktemp("serve") / "history.sqlite") as client:
        client.id = explained(client, trace)
        yield client


def explained(client, trace) -> str:
    made = client.ask(example="test-00011", question=trace.question, target="answer")[2]["id"]
    client.wait(made, "done")
    return made


@contextmanager
def opened(browser, client, id: str, expected: str = "no complaint", **options):
    """The live viewer in a tab of its own, which must not complain of anything but what is expected."""
    context = new_context(browser, **{"viewport": {"width": 1360, "height": 900}, **options})
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: expected in message.text or complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"http://127.0.0.1:{client.port}/api/explanations/{id}/page")
    page.wait_for_selector("html[data-ready]")
    try:
        yield page
        assert complaints == []
    finally:
        context.close()


def point(page, patch, size, canvas: str = "#exhibit-pictures canvas"):
    """The middle of a patch on the screen."""
    page.locator(canvas).scroll_into_view_if_needed()
    frame = page.locator(canvas).bounding_box()
    left, top, right, bottom = patch.box
    x, y = (left + right) / 2 / size[0], (top + bottom) / 2 / size[1]
    return frame["x"] + frame["width"] * x, frame["y"] + frame["height"] * y


def drag(page, start, stop) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*stop, steps=5)
    page.mouse.up()


@pytest.mark.parametrize(("name", "size", "scheme"), SCREENS, ids=[name for name, *_ in SCREENS])
def test_hide_and_ask_again(browser, client, trace, name, size, scheme):
    wide, high = size
    evidence = [patch for patch in trace.patches if patch.position in evidence_positions(trace).image]
    with opened(browser, client, client.id, viewport={"width": wide, "height": high}, color_scheme=scheme) as page:
        assert "Hide the evidence and ask again" in page.inner_text("#verdict")
        assert page.inner_text(".count") == "Nothing is selected yet"
        for patch in evidence:
            page.mouse.click(*point(page, patch, trace.images[0].size))
        page.locator("#exhibit-question .w").nth(1).click()
        assert page.inner_text(".count") == f"{len(evidence)} patches and 1 word selected"
        page.screenshot(path=shot(f"what-if-selected-{name}"), full_page=True)
        page.get_by_role("button", name="Hide and ask again").click()
        page.wait_for_selector("#what-if .answer")
        told = page.inner_text("#what-if .outcome")
        assert "blue cross → " in told
        assert "another answer" in told
        assert page.locator(".w.fallen").count() > 2
        assert page.locator("#exhibit-question .w.gone").count() == 1
        assert re.search(r"likelihood \d+% → ", page.locator(".w.fallen").last.get_attribute("title"))
        page.evaluate(SETTLED)
        page.screenshot(path=shot(f"what-if-{name}"), full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= wide
        assert page.evaluate(UNNAMED) == []
    kept = client.get(f"/api/explanations/{client.id}/experiments")[1][-1]
    chosen = {*(patch.position for patch in evidence), *kept["request"]["positions"]}
    assert set(kept["result"]["hidden"]) == set(kept["request"]["positions"]) == chosen


def test_a_box_is_dragged_kept_and_found_again_in_the_history(browser, pinhole, trace, tmp_path):
    with serving(lambda name: pinhole, tmp_path / "history.sqlite") as client:
        id = explained(client, trace)
        with opened(browser, client, id) as page:
            first, last = trace.patches[0], trace.patches[-1]
            size = trace.images[0].size
            drag(page, point(page, first, size), point(page, trace.patches[9], size))
            assert page.inner_text(".count") == "4 patches selected"
            drag(page, point(page, first, size), point(page, trace.patches[9], size))
            assert page.inner_text(".count") == "Nothing is selected yet"
            page.fill("#region-text", "corner=0,0,64,64")
            page.press("#region-text", "Enter")
            page.get_by_role("button", name="Select the region corner").click()
            assert page.inner_text(".count") == "4 patches selected"
            page.get_by_role("button", name="Select the 3 strongest inputs").click()
            assert sum(map(int, re.findall(r"\d+", page.inner_text(".count")))) == 3
            page.get_by_role("button", name="Hide and ask again").click()
            page.wait_for_selector("#what-if .tried li")
            drag(page, point(page, first, size), point(page, last, size))
            page.get_by_role("button", name="Keep only these").click()
            page.wait_for_selector("#what-if .tried li >> nth=1")
            assert "Only " in page.inner_text("#what-if .tried li >> nth=1")
            page.locator("#what-if .tried button").first.click()
            assert "hidden" in page.inner_text("#exhibit-title")
        with opened(browser, client, id) as again:
            assert again.locator("#what-if .tried li").count() == 2
        saved = client.send("GET", f"/api/explanations/{id}/page?download=true")[2].decode()
        assert "2 experiments" in history_card(browser, client)
    (tmp_path / "saved.html").write_text(saved, "utf-8")
    context = new_context(browser, offline=True)
    page = context.new_page()
    page.goto((tmp_path / "saved.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#what-if .tried li").count() == 2
    assert page.get_by_role("button", name="Hide and ask again").count() == 0
    context.close()


def history_card(browser, client) -> str:
    context = new_context(browser)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{client.port}/#/history")
    page.wait_for_selector(".cards a")
    text = page.inner_text(".cards a")
    context.close()
    return text


def test_what_cannot_be_asked_is_said_and_nothing_is_lost(browser, pinhole, trace, tmp_path):
    gate = Gate(pinhole)
    gate.opened.set()
    with serving(gate, tmp_path / "history.sqlite") as client:
        id = explained(client, trace)
        with opened(browser, client, id, expected="status of 4") as page:
            hide = page.get_by_role("button", name="Hide and ask again")
            hide.click()
            assert page.inner_text("#what-if .note") == (
                "Nothing is selected. Click patches or words of the question first."
            )
            size = trace.images[0].size
            drag(page, point(page, trace.patches[0], size), point(page, trace.patches[-1], size))
            for word in page.locator("#exhibit-question .w").all():
                word.click()
            hide.click()
            assert "so everything would be hidden. Leave some out." in page.inner_text("#what-if .note")
            assert page.inner_text(".count").startswith("64 patches and ")
            page.fill("#against", "  ")
            page.get_by_role("button", name="Compare").click()
            assert "Type another answer first" in page.inner_text("#contrast .note")
            page.fill("#against", "blue cross")
            page.get_by_role("button", name="Compare").click()
            page.wait_for_selector("#contrast .note:has-text('is what the response says; give another one')")
            assert page.input_value("#against") == "blue cross", "what was typed stays"
            client.service.models.names = ("another",)
            page.locator("#exhibit-question .w").first.click()
            hide.click()
            page.wait_for_selector("#what-if .note:has-text('start the server with --model pinhole')")
            assert page.locator("#exhibit-question .w.chosen").count() > 10, "the selection stays"
        with opened(browser, client, id) as page:
            assert "This explanation was made with pinhole" in page.inner_text("#what-if .note")
            assert page.get_by_role("button", name="Hide and ask again").count() == 0


def test_a_running_experiment_streams_and_can_be_cancelled(browser, pinhole, trace, tmp_path):
    gate = Gate(pinhole)
    gate.opened.set()
    with serving(gate, tmp_path / "history.sqlite") as client:
        id = explained(client, trace)
        gate.opened.clear()
        client.service.models._loaded = None
        with opened(browser, client, id) as page:
            page.get_by_role("button", name="Select the strongest input").click()
            page.get_by_role("button", name="Hide and ask again").click()
            page.wait_for_selector("text=Loading the model")
            page.screenshot(path=shot("what-if-running"), full_page=True)
            page.get_by_role("button", name="Cancel").click()
            gate.opened.set()
            page.wait_for_selector("#what-if .note:has-text('Cancelled.')")
            assert page.inner_text(".count") == "1 patch selected"
            gate.opened.clear()
            client.service.models._loaded = None
            page.get_by_role("button", name="Hide and ask again").click()
            page.wait_for_selector("text=Loading the model")
            page.get_by_role("button", name="Cancel").click()
            page.get_by_role("button", name="Select the 3 strongest inputs").click()
            gate.opened.set()
            page.wait_for_selector("#what-if .note:has-text('Cancelled.')")
            assert sum(map(int, re.findall(r"\d+", page.inner_text(".count")))) == 3, "a newer selection stays"


def test_another_answer_is_contrasted_and_an_explanation_verified(browser, client, trace):
    with opened(browser, client, client.id) as page:
        assert "Why “blue cross” and not" in page.inner_text(".against label")
        page.fill("#against", "red star")
        page.get_by_role("button", name="Compare").click()
        page.wait_for_selector("table.contrast")
        assert "“blue cross” is" in page.inner_text("#contrast .verdict")
        first = page.locator("table.contrast tbody tr canvas").first.get_attribute("aria-label")
        page.get_by_role("button", name="Verify", exact=True).click()
        page.get_by_role("button", name="Verify this explanation").click()
        page.wait_for_selector("#verified .verdict")
        assert page.inner_text("#verified .verdict") in page.inner_text("#verdict")
        assert page.locator("#exhibit-title").inner_text().startswith("What the model sees")
    contrast = vtrace.contrast(client.service.models.get("pinhole"), trace, "red star")
    best = max(trace.inputs, key=lambda position: abs(contrast.scores[position]))
    patch = next(patch for patch in trace.patches if patch.position == best)
    assert first == f"patch row {patch.row + 1} column {patch.column + 1}"
