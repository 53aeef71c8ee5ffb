"""The triage page as a reader meets it: files in a folder, in a real Chromium, with the network off."""

from __future__ import annotations

import re

import pytest

from support.opened import SETTLED, new_context, shot
from vtrace.report.wording import percent
from vtrace.triage.document import triage_document
from vtrace.triage.flags import NO_ANSWER, OUTSIDE
from vtrace.triage.page import TRIAGE_PAGE, write_triage_page
from vtrace.triage.plan import ExplanationSettings
from vtrace.triage.rows import ExplainedItem
from vtrace.triage.store import ExplanationStore, read_explanations

pytestmark = pytest.mark.browser


@pytest.fixture
def open_folder(browser):
    """Open the page of a folder; afterwards nothing may have failed, and nothing been asked of a network."""
    contexts, complaints, requests = [], [], []

    def open_page(folder, link="", width=1360, **options):
        contexts.append(new_context(browser, offline=True, viewport={"width": width, "height": 900}, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto((folder / TRIAGE_PAGE).as_uri() + link)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert all(url.startswith(("file:", "data:")) for url in requests), requests


@pytest.fixture(scope="module")
def many(explained, tmp_path_factory) -> list[dict]:
    """A folder with 130 rows whose image shares are known."""
    folder = tmp_path_factory.mktemp("many")
    found = read_explanations(explained)
    settings: ExplanationSettings = found.settings
    with ExplanationStore(folder, settings) as store:
        for number in range(130):
            row = found.rows[0] | {
                "key": f"item {number}",
                "number": number,
                "page": f"items/{number}.html",
                "image_share": (37 * number % 130) / 130,
                "verdict": "wrong" if number % 10 == 3 else "correct",
                "met": number % 13 != 0,
            }
            store.save(ExplainedItem(row, f"<!doctype html><title>viewer {number}</title>"))
    write_triage_page(folder, 130)
    return folder


def names(page) -> list[str]:
    return page.locator("#items tbody strong").all_inner_texts()


def test_the_page_shows_every_question_with_its_numbers_and_leads_to_its_viewer(open_folder, explained):
    page = open_folder(explained)
    document = triage_document(explained)
    assert page.inner_text("h1") == "4 of 7 answers explained"
    assert sorted(names(page)) == sorted(item["key"] for item in document["items"])
    for item in document["items"]:
        row = page.locator("#items tbody tr", has=page.get_by_role("link", name=item["key"], exact=True))
        told = row.inner_text()
        assert percent(item["image_share"]) in told
        assert all(flag in told for flag in item["flags"])
        assert row.locator("img").evaluate("one => one.naturalWidth") > 0
        assert row.locator("rect.evidence").count() >= 1
    assert page.locator("#left-out tbody tr").count() == 3
    assert page.locator("#plots svg").count() == 3
    page.get_by_role("link", name="right place").click()
    page.wait_for_selector("html[data-ready] #response")
    assert "right place" in page.inner_text("#about")
    page.go_back()
    page.wait_for_selector("html[data-ready] #items")


def test_columns_sort_both_ways_with_mouse_and_keyboard(open_folder, many):
    page = open_folder(many)
    rows = read_explanations(many).rows
    by_share = [row["key"] for row in sorted(rows, key=lambda row: row["image_share"])]
    head = page.get_by_role("columnheader", name="image share")
    head.get_by_role("button").click()
    assert names(page) == by_share[:100]
    assert head.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")  # the button keeps the focus
    assert names(page) == by_share[::-1][:100]
    assert head.get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Show 30 more").click()
    assert names(page) == by_share[::-1]
    page.wait_for_url("**#sort=image&order=-1")
    again = open_folder(many, "#sort=image&order=-1")
    assert names(again) == by_share[::-1][:100]


def test_rows_are_filtered_by_flag_verdict_and_words(open_folder, many):
    page = open_folder(many)
    assert page.inner_text("#shown") == "130 of 130 questions, by flags"
    assert names(page)[:10] == [f"item {13 * k}" for k in range(10)]  # the flagged ones first
    page.get_by_role("button", name=OUTSIDE).click()
    assert names(page) == [f"item {13 * k}" for k in range(10)]
    page.get_by_role("button", name=re.compile("^wrong")).click()
    assert names(page) == ["item 13"]
    assert page.get_by_role("button", name=re.compile("^wrong")).get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name=OUTSIDE).click()
    assert len(names(page)) == 13
    page.keyboard.press("/")
    page.keyboard.type("item 12")
    assert names(page) == ["item 123"]
    page.get_by_role("button", name=re.compile("^all")).click()
    assert names(page) == ["item 12", "item 120", *(f"item {k}" for k in range(121, 130))]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("name", "width"), [("wide", 1360), ("narrow", 390)])
def test_the_page_fits_light_and_dark_wide_and_narrow(open_folder, explained, scheme, name, width):
    page = open_folder(explained, width=width, color_scheme=scheme)
    page.evaluate(SETTLED)
    page.screenshot(path=shot(f"triage-{name}-{scheme}"), full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    back = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back)[:3])) > 380) == (scheme == "light")
    if name == "narrow":  # the head of the table is hidden, so a list sorts
        page.select_option("#sort", "answer")
        assert page.inner_text("#shown").endswith("by answer")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_a_screen_reader_hears_names_columns_and_pictures(open_folder, explained):
    page = open_folder(explained)
    assert page.get_by_role("table", name="Questions").get_by_role("row").count() == 5
    for label in page.eval_on_selector_all("#plots svg", "all => all.map(one => one.getAttribute('aria-label'))"):
        assert re.search(r": median .*, from .* to .*, \d+ questions", label)
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input, select, button, a:not([aria-hidden])')].filter(one =>"
        " !(one.labels?.length || one.ariaLabel || one.textContent)).length"
    )
    assert unnamed == 0
    page.get_by_role("button", name=NO_ANSWER).focus()
    page.keyboard.press("Enter")
    assert names(page) == ["supplied"]
    assert page.inner_text("#shown").startswith("1 of 4 questions")
