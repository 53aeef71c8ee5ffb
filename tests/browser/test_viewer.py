"""The viewer as a reader meets it: one file in a real Chromium, with the network off."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image

import vtrace
from support.opened import SCREENSHOTS, UNNAMED, agrees, shot, shown, slide, tokens_of, words_of
from vtrace.report.wording import percent

pytestmark = pytest.mark.browser


def test_the_page_opens_on_the_exported_target_with_its_numbers(reader, attribution):
    answer = attribution.retarget("answer")
    opened = reader(answer)
    agrees(opened, answer)
    assert opened.text("h1") == f"Answer: {attribution.trace.answer_text}"
    assert opened.text("#question").split() == attribution.trace.question.split()
    assert opened.text("#response").split() == attribution.trace.response.split()
    assert opened.page.locator("#response .w.target").all_inner_texts() == attribution.trace.answer_text.split()


def test_a_click_a_drag_a_button_and_a_sentence_choose_the_target(reader, attribution):
    opened = reader(attribution)
    agrees(opened, attribution)
    words = words_of(attribution.trace)
    opened.word(-2).click()
    opened.page.mouse.move(2, 2)
    agrees(opened, attribution.retarget(tokens_of(attribution.trace, words[-2])))
    first, last = opened.word(3).bounding_box(), opened.word(5).bounding_box()
    opened.page.mouse.move(first["x"] + 4, first["y"] + 8)
    opened.page.mouse.down()
    opened.page.mouse.move(last["x"] + 4, last["y"] + 8, steps=6)
    opened.page.mouse.up()
    opened.page.mouse.move(2, 2)
    agrees(opened, attribution.retarget(tokens_of(attribution.trace, words[3], words[5])))
    opened.page.get_by_role("button", name="Answer", exact=True).click()
    agrees(opened, attribution.retarget("answer"))
    opened.page.select_option("#sentence", "sentence 2")
    agrees(opened, attribution.retarget("sentence 2"))
    opened.word(0).dblclick()
    opened.page.mouse.move(2, 2)
    agrees(opened, attribution.retarget("sentence 1"))
    for typed in (r"/\w+t\b/", attribution.trace.answer_text):
        opened.page.fill("#target-text", typed)
        opened.page.press("#target-text", "Enter")
        agrees(opened, attribution.retarget(typed if typed.startswith("/") else f'"{typed}"'))
    opened.page.fill("#target-text", "green elephant")
    opened.page.press("#target-text", "Enter")
    assert opened.text("#problem") == "the response does not contain “green elephant”."


def test_a_word_lights_up_its_patches_while_pointed_at(reader, attribution):
    opened = reader(attribution)
    before = opened.pixels()
    opened.word(-2).hover()
    alone = attribution.retarget(tokens_of(attribution.trace, words_of(attribution.trace)[-2]))
    assert (opened.pixels() != before).any()
    assert opened.text("#image-share") == f"image {percent(alone.image_share)}"
    agrees(opened, alone)  # hovering changes everything
    assert opened.text("#ranking-title").lower() == f"strongest inputs for “{words_of(attribution.trace)[-2].text}”"
    assert opened.page.locator("#tip canvas").get_attribute("aria-label") == alone.top(1)[0].label
    opened.page.mouse.move(2, 2)
    assert (opened.pixels() == before).all()
    agrees(opened, attribution)


def test_words_stay_where_they_are_while_pointed_at_on_a_narrow_screen(reader, attribution):
    opened = reader(attribution)  # for the whole response, whose legend is longer than that of a word
    opened.page.set_viewport_size({"width": 390, "height": 844})
    opened.word(-2).scroll_into_view_if_needed()
    opened.settle()
    before = opened.word(-2).bounding_box()
    opened.page.mouse.move(before["x"] + 5, before["y"] + 8)
    opened.settle()
    assert opened.text("#ranking-title").lower().startswith("strongest inputs for “")
    assert opened.word(-2).bounding_box() == before


def test_a_patch_lights_up_the_words_it_supports(reader, attribution):
    opened = reader(attribution)
    patch = next(p for p in attribution.trace.patches if (p.row, p.column) == (2, 2))
    words = words_of(attribution.trace)
    each = [attribution.retarget(tokens_of(attribution.trace, w)).scores[patch.position] for w in words]
    opened.page.mouse.move(*opened.patch(patch, attribution.trace.images[0].size))
    labels = opened.page.eval_on_selector_all("#response .w", "all => all.map(one => one.getAttribute('aria-label'))")
    assert labels == [f"{word.text}, {percent(share)}" for word, share in zip(words, each, strict=True)]
    tip = opened.text("#tip")
    assert f"this patch · {percent(attribution.scores[patch.position])}" in tip
    assert f"“{words[int(np.argmax(each))].text}” {percent(max(each))}" in tip
    opened.page.mouse.move(2, 2)
    assert opened.page.locator("#tip").is_hidden()


def test_a_chosen_patch_shows_its_paths_and_what_it_passes_through(reader, attribution):
    answer = attribution.retarget("answer")
    opened = reader(answer)
    best = next(item for item in answer.ranking() if item.kind == "image")
    patch = next(p for p in attribution.trace.patches if p.position in best.positions)
    opened.page.mouse.click(*opened.patch(patch, attribution.trace.images[0].size))
    shares = [float(text.split()[-1].strip("<%")) / 100 for text in opened.page.locator(".routes li").all_inner_texts()]
    assert opened.page.locator("#wires .wire").count() == sum(share >= 0.01 for share in shares) >= 1
    assert opened.page.locator(".routes li").count() == 5
    assert opened.page.locator(".routes li canvas").first.get_attribute("aria-label") == best.label
    assert opened.page.locator(".via li").count() >= 2
    starts = opened.page.eval_on_selector_all("#wires .wire", "all => all.map(one => one.getPointAtLength(0))")
    assert starts
    opened.page.mouse.move(2, 2)
    opened.page.set_viewport_size({"width": 1440, "height": 1000})
    opened.settle()
    opened.page.screenshot(path=shot("paths"))
    opened.page.get_by_role("button", name="clear selection").click()
    assert opened.page.locator("#wires .wire").count() == 0
    opened.word(3, box="#question").click()
    word = words_of(attribution.trace, "question")[3]
    assert opened.page.locator(".routes li").first.inner_text().startswith(f"“{word.text}” →")


def test_sliders_compute_again_from_the_matrix(reader, attribution, pinhole):
    opened = reader(attribution)
    opened.page.click("#settings summary")
    for gamma in (0.5, 1.3):
        slide(opened, "gamma", gamma)
        agrees(opened, vtrace.attribute(pinhole, attribution.trace, gamma=gamma))
    slide(opened, "gamma", 1)
    for value, options, words in ((0, {"multihop": False}, "direct edges only"), (2, {"hops": 2}, "up to 2 hops")):
        slide(opened, "hops", value)
        agrees(opened, vtrace.attribute(pinhole, attribution.trace, **options))
        assert opened.text("#hops-value") == words
    opened.page.click("#reset")
    agrees(opened, attribution)
    opened.page.uncheck("#calibrated")
    plain = vtrace.attribute(pinhole, attribution.trace, calibrate=False)
    assert opened.ranking() == shown(plain)
    assert opened.text("#calibration").startswith("Shown without calibration")


def test_opacity_threshold_outline_and_numbers_change_the_picture(reader, attribution):
    opened = reader(attribution.retarget("answer"))
    opened.page.click("#settings summary")
    seen = [opened.pixels()]
    for change in (
        lambda: slide(opened, "opacity", 20),
        lambda: opened.page.check("input[value=heat]", force=True),
        lambda: slide(opened, "strongest", 5),
        lambda: opened.page.check("#numbers"),
    ):
        change()
        seen.append(opened.pixels())
        assert (seen[-1] != seen[-2]).any()
    unshaded = opened.page.eval_on_selector_all(
        "#question .w", "all => all.filter(one => !one.style.backgroundColor).length"
    )
    assert unshaded >= 20  # only the strongest twentieth is shown


def test_everything_can_be_done_with_the_keyboard(reader, attribution):
    opened = reader(attribution)
    press = opened.page.keyboard.press
    press("a")
    agrees(opened, attribution.retarget("answer"))
    press("]")
    agrees(opened, attribution.retarget("sentence 1"))
    opened.page.focus("#response .w[tabindex='0']")
    press("ArrowRight")
    press("Enter")
    opened.page.evaluate("document.activeElement.blur()")
    words = words_of(attribution.trace)
    agrees(opened, attribution.retarget(tokens_of(attribution.trace, words[1])))
    opened.page.focus("#response .w[tabindex='0']")
    press("Shift+ArrowRight")
    opened.page.evaluate("document.activeElement.blur()")
    agrees(opened, attribution.retarget(tokens_of(attribution.trace, words[1], words[2])))
    opened.page.focus("#panel-0")
    press("ArrowDown")
    press("ArrowRight")
    assert opened.text("#status").startswith("patch row 2 column 2")
    press("Enter")
    assert opened.page.locator("#paths canvas").first.get_attribute("aria-label") == "patch row 2 column 2"
    press("Escape")
    assert opened.page.locator(".routes").count() == 0
    press("Escape")
    agrees(opened, attribution)
    assert opened.page.is_checked("input[value=outline]")
    press("o")
    assert opened.page.is_checked("input[value=heat]")
    press("?")
    assert opened.page.locator("#keys").is_visible()
    press("Escape")
    assert opened.page.locator("#keys").is_hidden()


def test_a_screen_reader_hears_what_is_shown(reader, attribution):
    opened = reader(attribution)
    opened.page.keyboard.press("a")
    answer = attribution.retarget("answer")
    best = answer.top(1)[0]
    said = opened.text("#status")
    assert f"image {percent(answer.image_share)}" in said
    assert f"{best.label} {percent(best.score)}" in said
    assert opened.page.get_by_role("listbox", name="Response").get_by_role("option").count() > 30
    assert opened.page.locator("#response [aria-selected=true]").count() == len(attribution.trace.answer_text.split())
    assert opened.page.evaluate(UNNAMED) == []


def test_a_link_leads_to_a_target(reader, attribution):
    opened = reader(attribution, link="#target=sentence+2&gamma=0.5")
    opened.page.click("#settings summary")
    assert opened.text("#gamma-value") == "0.50"
    assert opened.page.input_value("#sentence") == "sentence 2"
    opened.word(-2).click()
    opened.page.wait_for_url("**#target=tokens*")
    again = opened.page.url
    agrees_with = opened.ranking()
    opened.page.goto("about:blank")
    opened.page.goto(again)
    opened.page.wait_for_selector("html[data-ready]")
    assert opened.ranking() == agrees_with
    opened.page.evaluate("location.hash = 'target=sentence+99'")
    opened.page.wait_for_selector("#problem:not([hidden])")
    assert "there is no sentence 99" in opened.text("#problem")
    agrees(opened, attribution)


def test_a_figure_is_copied_or_saved(reader, attribution, tmp_path):
    opened = reader(attribution.retarget("answer"))
    opened.page.evaluate("() => { navigator.clipboard.write = () => Promise.reject(new Error('refused')); }")
    with opened.page.expect_download() as waiting:
        opened.page.click("#copy-png")
    waiting.value.save_as(tmp_path / "figure.png")
    SCREENSHOTS.mkdir(exist_ok=True)
    waiting.value.save_as(SCREENSHOTS / "copied.png")
    with Image.open(tmp_path / "figure.png") as figure:
        assert figure.width == 2200
        assert len(figure.convert("RGB").getcolors(1 << 24)) > 1000


def test_methods_stand_side_by_side(reader, pinhole, trace):
    found = vtrace.compare(pinhole, trace, ["vtrace", "ifr", "gradient"], target="answer")
    opened = reader(*found.results.values(), remarks={"ifr": "0.1 s", "loo": "loo: out of memory"})
    cards = opened.page.locator("#cards article")
    assert cards.count() == 3
    assert "0.1 s" in cards.nth(1).inner_text()
    assert "Not run: loo: out of memory" in opened.text("#notes")
    for k, (name, result) in enumerate(found.results.items()):
        assert f"image {percent(result.image_share)}" in cards.nth(k).inner_text()
        opened.page.select_option("#method", label=name)
        assert opened.ranking() == shown(result)
    assert f"ρ {found.agreement[2, 1]:.2f}" in cards.nth(1).inner_text()
    opened.page.screenshot(path=shot("methods"), full_page=True)
    opened.page.keyboard.press("r")  # not exported for gradient, which is shown
    assert "gradient gives scores only, and was not run for the whole response" in opened.text("#problem")
    opened.page.get_by_role("button", name="answer", exact=True).first.click()
    assert opened.page.locator("#problem").is_hidden()
    assert opened.ranking() == shown(found["gradient"])


def test_methods_of_several_targets_show_the_one_that_is_asked_for(reader, pinhole, trace):
    both = [vtrace.compare(pinhole, trace, ["ifr"], target=target)["ifr"] for target in ("response", "answer")]
    opened = reader(*both)
    assert opened.page.locator("#methods").is_hidden()
    assert opened.ranking() == shown(both[0])
    opened.page.keyboard.press("a")
    assert opened.ranking() == shown(both[1])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("name", "width", "height"), [("wide", 1360, 900), ("narrow", 390, 844)])
def test_the_page_fits_light_and_dark_wide_and_narrow(reader, attribution, scheme, name, width, height):
    opened = reader(attribution.retarget("answer"), color_scheme=scheme)
    opened.page.set_viewport_size({"width": width, "height": height})
    opened.settle()
    opened.page.screenshot(path=shot(f"{name}-{scheme}"), full_page=True)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    back = opened.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back)[:3])) > 380) == (scheme == "light")
    opened.page.click("#theme")
    opened.page.click("#theme")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"
