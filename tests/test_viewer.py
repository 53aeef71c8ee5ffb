"""The viewer as a reader meets it: one file in a real Chromium, with the network off."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vtrace
from vtrace.errors import InputError
from vtrace.report.scale import calibration_words, percent
from vtrace.types import Patch
from vtrace.viewer import page, policy, script, style, write_page

SCREENSHOTS = Path(__file__).parent / "screenshots"
NASTY = '<script>window.hacked = 1</script> </script><img src=x onerror="window.hacked = 2"> & {{DATA}} <!--'


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


@pytest.fixture
def reader(browser, tmp_path):
    """Open attributions in Chromium; afterwards nothing may have failed, and nothing been asked of a network."""
    opened: list[Opened] = []

    def read(*results, link: str = "", title: str = "", remarks=None, **options) -> Opened:
        opened.append(Opened(browser, page(results, title, remarks), tmp_path, link, **options))
        return opened[-1]

    yield read
    for one in opened:
        one.context.close()
        assert one.complaints == []
        assert all(url.startswith(("file:", "data:", "blob:")) for url in one.requests), one.requests


def shown(attribution, count=12):
    return [(item.label, percent(item.score)) for item in attribution.top(count)]


def agrees(opened: Opened, expected) -> None:
    """Every number in sight is the Python result's."""
    assert opened.ranking() == shown(expected)
    assert opened.text("#image-share") == f"image {percent(expected.image_share)}"
    assert opened.text("#text-share") == f"question {percent(expected.text_share)}"
    assert opened.text("#calibration") == calibration_words(expected)


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
    opened.word("blue").click()
    opened.page.mouse.move(2, 2)
    agrees(opened, attribution.retarget('"blue"'))
    first, last = opened.word("row", 1).bounding_box(), opened.word("3", 2).bounding_box()
    opened.page.mouse.move(first["x"] + 4, first["y"] + 8)
    opened.page.mouse.down()
    opened.page.mouse.move(last["x"] + 4, last["y"] + 8, steps=6)
    opened.page.mouse.up()
    opened.page.mouse.move(2, 2)
    agrees(opened, attribution.retarget('"row 3"#2'))
    opened.page.get_by_role("button", name="Answer", exact=True).click()
    agrees(opened, attribution.retarget("answer"))
    opened.page.select_option("#sentence", "sentence 2")
    agrees(opened, attribution.retarget("sentence 2"))
    opened.word("above").dblclick()
    opened.page.mouse.move(2, 2)
    agrees(opened, attribution.retarget("sentence 3"))
    for typed in (r"/row \d/", "blue star"):
        opened.page.fill("#target-text", typed)
        opened.page.press("#target-text", "Enter")
        agrees(opened, attribution.retarget(typed if typed.startswith("/") else f'"{typed}"'))
    opened.page.fill("#target-text", "green elephant")
    opened.page.press("#target-text", "Enter")
    assert opened.text("#problem") == "the response does not contain “green elephant”."


def test_a_word_lights_up_its_patches_while_pointed_at(reader, attribution):
    opened = reader(attribution)
    before = opened.pixels()
    opened.word("blue").hover()
    blue = attribution.retarget('"blue"')
    assert (opened.pixels() != before).any()
    assert opened.text("#image-share") == f"image {percent(blue.image_share)}"
    assert blue.top(1)[0].label in opened.text("#tip")
    opened.page.mouse.move(2, 2)
    assert (opened.pixels() == before).all()
    agrees(opened, attribution)


def test_a_patch_lights_up_the_words_it_supports(reader, attribution):
    opened = reader(attribution)
    patch = next(p for p in attribution.trace.patches if (p.row, p.column) == (2, 2))
    words = [w for w in attribution.trace.words if w.kind == "response" and not w.text.startswith("<|")]
    each = [
        attribution.retarget([p - attribution.trace.prompt_length for p in range(w.start, w.stop)]).scores[
            patch.position
        ]
        for w in words
    ]
    opened.page.mouse.move(*opened.patch(2, 2))
    labels = opened.page.eval_on_selector_all("#response .w", "all => all.map(one => one.getAttribute('aria-label'))")
    assert labels == [f"{word.text}, {percent(share)}" for word, share in zip(words, each, strict=True)]
    tip = opened.text("#tip")
    assert f"patch row 3 column 3 · {percent(attribution.scores[patch.position])}" in tip
    assert f"“{words[int(np.argmax(each))].text}” {percent(max(each))}" in tip
    opened.page.mouse.move(2, 2)
    assert opened.page.locator("#tip").is_hidden()


def test_a_chosen_patch_shows_its_paths_and_what_it_passes_through(reader, attribution):
    opened = reader(attribution.retarget("answer"))
    opened.page.mouse.click(*opened.patch(2, 2))
    assert opened.page.locator("#wires .wire").count() >= 2
    assert opened.page.locator(".routes li").count() == 5
    assert opened.page.locator(".routes li").first.inner_text().startswith("patch row 3 column 3 →")
    assert opened.page.locator(".via li").count() >= 2
    starts = opened.page.eval_on_selector_all("#wires .wire", "all => all.map(one => one.getPointAtLength(0))")
    assert starts
    opened.page.screenshot(path=shot("paths"), full_page=True)
    opened.page.get_by_role("button", name="let go").click()
    assert opened.page.locator("#wires .wire").count() == 0
    opened.word("circle", box="#question").click()
    assert opened.page.locator(".routes li").first.inner_text().startswith("“circle” →")


def slide(opened: Opened, name: str, value: float) -> None:
    opened.page.evaluate(
        "([id, value]) => { const one = document.getElementById(id); one.value = value;"
        " one.dispatchEvent(new Event('input')); }",
        [name, value],
    )


def test_sliders_compute_again_from_the_matrix(reader, attribution, pinhole):
    opened = reader(attribution)
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
    seen = [opened.pixels()]
    for change in (
        lambda: slide(opened, "opacity", 20),
        lambda: slide(opened, "strongest", 5),
        lambda: opened.page.check("input[value=outline]"),
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
    agrees(opened, attribution.retarget('"purple"'))
    opened.page.focus("#response .w[tabindex='0']")
    press("Shift+ArrowRight")
    opened.page.evaluate("document.activeElement.blur()")
    agrees(opened, attribution.retarget('"purple circle"'))
    opened.page.focus("#panel-0")
    press("ArrowDown")
    press("ArrowRight")
    assert opened.text("#status").startswith("patch row 2 column 2")
    press("Enter")
    assert opened.text("#paths").split("\n")[0].startswith("patch row 2 column 2")
    press("Escape")
    assert opened.page.locator(".routes").count() == 0
    press("Escape")
    agrees(opened, attribution)
    press("o")
    assert opened.page.is_checked("input[value=outline]")
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
    assert opened.page.locator("#response [aria-selected=true]").count() == 2
    unnamed = opened.page.evaluate(
        "[...document.querySelectorAll('input, select, button, canvas')].filter(one => !(one.labels?.length"
        " || one.ariaLabel || one.innerText || one.getAttribute('aria-label'))).map(one => one.id)"
    )
    assert unnamed == ["panel-0"] or unnamed == []


def test_a_link_leads_to_a_target(reader, attribution):
    opened = reader(attribution, link="#target=sentence+2&gamma=0.5")
    assert opened.text("#gamma-value") == "0.50"
    assert opened.page.input_value("#sentence") == "sentence 2"
    opened.word("blue").click()
    again = opened.page.evaluate("location.href")
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
    assert "gradient keeps no matrix and was not run for the whole response" in opened.text("#problem")
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


def test_text_is_shown_and_never_run(reader, pinhole):
    told = vtrace.trace(
        pinhole, vtrace.example("dev-0").images, f"Is it {NASTY}?", response=f"{NASTY}\nFinal answer: {NASTY}"
    )
    found = dataclasses.replace(vtrace.attribute(pinhole, told, "answer"), method="<b>x</b>")
    opened = reader(found, title=NASTY, remarks={"<b>x</b>": NASTY})
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.locator("img").count() == 0
    assert NASTY in opened.text("#response")
    assert NASTY in opened.text("#question")
    assert opened.page.title() == NASTY


def test_any_script_keeps_its_offsets(reader, pinhole):
    text = "画像 🙂🙂 has a 🙂 star and ﷽.\nFinal answer: 🙂 ok"
    told = vtrace.trace(pinhole, vtrace.example("dev-0").images, "Ist es 星 🙂?", response=text)
    found = vtrace.attribute(pinhole, told)
    opened = reader(found)
    for typed in ("star", "ok", "🙂 ok"):
        opened.page.fill("#target-text", typed)
        opened.page.press("#target-text", "Enter")
        agrees(opened, found.retarget(f'"{typed}"'))


def test_several_pictures_and_thumbnails_have_panels_of_their_own(reader, pinhole):
    image = vtrace.example("dev-0").images[0]
    told = vtrace.trace(
        pinhole, [image, image], "Which one has a red star?", response="The first.\nFinal answer: first"
    )
    found = vtrace.attribute(pinhole, told)
    opened = reader(found)
    assert opened.page.locator("#pictures canvas").count() == 2
    assert opened.page.locator("#pictures figcaption").all_inner_texts() == ["Picture 1", "Picture 2"]
    opened.page.mouse.move(*opened.patch(0, 0, panel=1))
    assert "picture 2 patch row 1 column 1" in opened.text("#tip")

    @dataclasses.dataclass(frozen=True)
    class Viewed(Patch):
        view: int = 0

    # the second picture's patches, as if they were a thumbnail of the first
    patches = tuple(Viewed(p.position, 0, p.row, p.column, p.box, view=p.image) for p in told.patches)
    opened = reader(dataclasses.replace(found, trace=dataclasses.replace(told, patches=patches)))
    assert opened.page.locator("#pictures figcaption").all_inner_texts() == ["Thumbnail"]
    assert opened.page.locator("#pictures canvas.thumbnail").count() == 1


def test_scores_without_matrix_or_pictures_are_shown_too(reader, attribution):
    bare = dataclasses.replace(
        attribution, pairwise=None, likelihoods=None, trace=dataclasses.replace(attribution.trace, images=())
    )
    opened = reader(bare)
    agrees(opened, attribution)
    assert opened.page.is_disabled("#gamma")
    opened.word("blue").hover()
    assert "has no scores of its own" in opened.text("#tip")
    opened.page.uncheck("#calibrated")
    raw = dataclasses.replace(attribution, scores=attribution.uncalibrated)
    assert opened.ranking() == shown(raw)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("name", "width", "height"), [("wide", 1360, 900), ("narrow", 390, 844)])
def test_the_page_fits_light_and_dark_wide_and_narrow(reader, attribution, scheme, name, width, height):
    opened = reader(attribution.retarget("answer"), color_scheme=scheme)
    opened.page.set_viewport_size({"width": width, "height": height})
    opened.page.wait_for_timeout(150)
    opened.page.screenshot(path=shot(f"{name}-{scheme}"), full_page=True)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    back = opened.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back)[:3])) > 380) == (scheme == "light")
    opened.page.click("#theme")
    opened.page.click("#theme")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"


def shot(name: str) -> Path:
    SCREENSHOTS.mkdir(exist_ok=True)
    return SCREENSHOTS / f"{name}.png"


class Collector(HTMLParser):
    def __init__(self):
        super().__init__()
        self.scripts, self.links, self.policy = [], [], ""

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.links += [found[name] for name in ("src", "href") if name in found]
        if tag == "script":
            self.scripts.append(found["type"])
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]


def test_the_policy_allows_only_what_stands_in_the_file(attribution):
    found = Collector()
    found.feed(page([attribution]))
    assert found.links == ["#response"]
    assert found.scripts == ["application/json", "module"]
    assert found.policy == policy()
    assert "unsafe" not in policy()
    for text in (script(), style()):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy()
        assert text in page([attribution])


def test_writing_is_whole_or_not_at_all(attribution, trace, pinhole, tmp_path):
    assert write_page([attribution], tmp_path / "a.html") == tmp_path / "a.html"
    assert (tmp_path / "a.html").read_text() == page([attribution])
    assert (attribution.save(tmp_path / "b.html")).read_text() == page([attribution])
    with pytest.raises(InputError, match="cannot write"):
        write_page([attribution], tmp_path / "no" / "a.html")
    with pytest.raises(InputError, match="at least one"):
        page([])
    other = vtrace.attribute(pinhole, vtrace.trace(pinhole, vtrace.example("dev-0"), response="Final answer: no"))
    with pytest.raises(InputError, match="different responses"):
        page([attribution, other])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "b.html"]
