"""Regions, visual dependence, verified steps and a contrast in the file, in a real Chromium with the network off."""

from __future__ import annotations

from dataclasses import replace

import pytest

import vtrace
from support.opened import UNNAMED, shot, slide, words_of
from vtrace.attribution.findings.regions import box_region
from vtrace.report.wording import percent

pytestmark = pytest.mark.browser

MEAN_BRIGHTNESS = (
    "canvas => { const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
    " return data.reduce((sum, value, k) => sum + (k % 4 < 3 ? value : 0), 0) / (data.length * 0.75); }"
)


@pytest.fixture(scope="module")
def verified(pinhole, trace, attribution):
    """An attribution with everything that can be found beside its scores."""
    answer = replace(
        attribution.retarget("answer"),
        regions=(box_region(trace, "corner", (0, 0, 100, 90)),),
        contrast=vtrace.contrast(pinhole, trace, "red star"),
    )
    return answer.with_evidence_boxes().verify(pinhole, draws=3)


@pytest.mark.parametrize(
    ("name", "width", "scheme"), [("wide", 1360, "light"), ("narrow", 390, "light"), ("dark", 1360, "dark")]
)
def test_verified_steps_are_played_with_a_slider(reader, verified, name, width, scheme):
    opened, found = reader(verified, color_scheme=scheme), verified.verification
    page = opened.page
    page.set_viewport_size({"width": width, "height": 900})
    assert found.verdict in opened.text("#verdict")
    assert opened.text("#verified .verdict") == found.verdict
    opened.settle()
    page.screenshot(path=shot(f"verified-{name}"), full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(UNNAMED) == []
    assert found.necessary.answer in opened.text("#verified .outcome")
    slider = page.get_by_label("Step of the verification")
    for place, step in enumerate(found.necessary.curve):
        slider.fill(str(place))
        told = opened.text("#verified .outcome")
        assert (step.answer or "(no answer)") in told
        assert ("another answer" in told) == step.changed
        assert page.locator("#exhibit-question .w.gone").count() == hidden_words(verified, step.inputs)
    bright = page.locator("#exhibit-pictures canvas").first.evaluate(MEAN_BRIGHTNESS)  # everything is hidden
    assert (bright < 128) == (scheme == "dark")
    page.get_by_role("button", name="Keep only the strongest").click()
    assert found.sufficient.answer in opened.text("#verified .outcome")
    page.locator("#verified summary").click()
    assert page.locator("table.steps").nth(0).locator("tbody tr").count() == len(found.necessary.curve)
    assert f"RISE {found.insertion.rise:.3f}, MAS {found.insertion.mas:.3f}" in opened.text("#verified details")
    page.screenshot(path=shot(f"verified-steps-{name}"), full_page=True)
    page.get_by_role("button", name="▶ Play").click()
    page.wait_for_selector("text=❚❚ Pause")
    page.get_by_role("button", name="❚❚ Pause").click()


def hidden_words(verified, count: int) -> int:
    """How many question words are among the strongest inputs."""
    order = verified.verification.order[:count]
    return sum(verified.trace.kinds[positions[0]] == "question" for positions in order)


def test_a_warning_of_the_verification_stands_beside_its_verdict(reader, verified):
    noted = replace(verified.verification, warnings=("its <own> answer is another one",))
    opened = reader(replace(verified, verification=noted))
    assert opened.text("#verified .note") == "Its <own> answer is another one."


def test_a_page_without_findings_offers_none(reader, attribution):
    opened = reader(attribution)
    for part in ("#verdict", "#bench", "#contrast"):
        assert opened.page.locator(part).is_hidden()


def test_a_saved_contrast_is_shown_with_its_signs(reader, verified):
    opened = reader(verified)
    rows = opened.page.locator("table.contrast tbody tr")
    contrast = verified.contrast
    items = verified.inputs_by(contrast.scores)
    best = max(items, key=lambda item: abs(item.score))
    assert rows.count() == 10
    assert rows.first.locator("canvas").get_attribute("aria-label") == best.label
    assert f"+{percent(best.score)}" in rows.first.inner_text()
    assert "“red star”" in opened.text("#contrast .verdict")
    assert "for “blue cross”" in opened.text("#contrast .key")


def test_regions_of_the_file_are_drawn_and_others_are_dragged_named_and_removed(reader, verified):
    opened = reader(verified)
    page, size = opened.page, verified.trace.images[0].size
    names = page.locator("#region-list .region-name").all_inner_texts()
    assert names[:2] == ["corner", "evidence 1"]
    corner = percent(verified.box_share((0, 0, 100, 90)))
    assert page.locator(".layer .region span").first.inner_text() == f"corner {corner}"
    frame = page.locator("#panel-0").bounding_box()
    page.mouse.move(frame["x"] + frame["width"] * 0.25, frame["y"] + frame["height"] * 0.25)
    page.mouse.down()
    page.mouse.move(frame["x"] + frame["width"] * 0.75, frame["y"] + frame["height"] * 0.5, steps=4)
    page.screenshot(path=shot("region-drag"))
    page.mouse.up()
    box = (size[0] * 0.25, size[1] * 0.25, size[0] * 0.75, size[1] * 0.5)
    row = page.locator("#region-list li").last
    assert row.locator("input").input_value() == "region 1"
    page.keyboard.type("middle")
    page.keyboard.press("Enter")
    assert page.locator(".layer .region span").last.inner_text().startswith("middle ")
    assert row.locator(".n").inner_text() == percent(verified.box_share(box))
    assert page.locator(".routes").count() == 0, "a drag selects no patch"
    page.keyboard.press("r")
    other = verified.retarget("response")
    assert row.locator(".n").inner_text() == percent(other.box_share(box))
    assert "evidence 1" not in opened.text("#region-list"), "that was of another target"
    page.fill("#region-text", "half=0,0,60,60")
    page.press("#region-text", "Enter")
    assert "overlap" in opened.text("#region-notes")
    page.fill("#region-text", "far=900,900,950,950")
    page.press("#region-text", "Enter")
    assert opened.text("#region-problem") == (
        f"region far lies outside its picture, which has {size[0]} x {size[1]} pixels."
    )
    page.screenshot(path=shot("regions"), full_page=True)
    page.wait_for_url("**region=middle*")
    again = page.url
    page.goto("about:blank")
    page.goto(again)
    page.wait_for_selector("html[data-ready]")
    fields = page.locator("#region-list input")
    assert [field.input_value() for field in fields.all()] == ["middle", "half"]
    page.get_by_label("Remove middle").click()
    assert fields.count() == 1


def test_the_strip_shows_what_the_image_adds_to_every_word(reader, attribution):
    opened = reader(attribution)
    page, words = opened.page, words_of(attribution.trace)
    nats = {found.word.start: found.nats for found in attribution.word_dependence()}
    best = max(range(len(words)), key=lambda k: nats[words[k].start])
    strip = page.locator("#dependence svg")
    assert strip.locator(".nats").count() == len(words)
    assert f"highest for “{words[best].text}”, {nats[words[best].start]:.1f} nats" in strip.get_attribute("aria-label")
    strip.scroll_into_view_if_needed()
    frame = strip.bounding_box()
    place = frame["x"] + frame["width"] * (best + 0.5) / len(words), frame["y"] + frame["height"] / 2
    page.mouse.move(*place)
    assert f"“{words[best].text}” · {nats[words[best].start]:.1f} nats" in opened.text("#tip")
    assert "marked" in opened.word(best).get_attribute("class")
    page.mouse.click(*place)
    assert page.locator("#response .w.target").all_inner_texts() == [words[best].text]


def test_shares_beside_a_word_are_measured_for_it_or_as_in_the_paper(reader, attribution):
    opened = reader(attribution)
    opened.word(-2).hover()
    assert "image makes it" in opened.text("#tip")
    opened.page.click("#settings summary")
    opened.page.select_option("#calibrate-on", "response")
    paper = replace(attribution, options={**attribution.options, "calibrate_on": "response"})
    for target in ("answer", "sentence 1"):
        expected = paper.retarget(target)
        opened.page.fill("#target-text", target)
        opened.page.press("#target-text", "Enter")
        assert opened.text("#image-share") == f"image {percent(expected.image_share)}"
        assert "log-likelihood of the response" in opened.text("#calibration")
    slide(opened, "gamma", 0.5)
    assert "on=response" in (opened.page.wait_for_url("**on=response*") or opened.page.url)
