"""The viewer's file: everything in it, nothing run that it was given, and any trace fits."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import vtrace
from support.opened import agrees, shown
from vtrace.attribution.findings.regions import box_region
from vtrace.errors import InputError
from vtrace.report.wording import percent
from vtrace.types import Patch, Target
from vtrace.viewer.export import export
from vtrace.viewer.page import MODULES, SOURCE, page, policy, script, style, write_page

NASTY = '<script>window.hacked = 1</script> </script><img src=x onerror="window.hacked = 2"> & {{DATA}} <!--'


@pytest.mark.browser
def test_text_is_shown_and_never_run(reader, pinhole):
    told = vtrace.trace(
        pinhole, vtrace.example("dev-0").images, f"Is it {NASTY}?", response=f"{NASTY}\nFinal answer: {NASTY}"
    )
    found = dataclasses.replace(vtrace.attribute(pinhole, told, "answer"), method="<b>x</b>")
    opened = reader(found, title=NASTY, remarks={"<b>x</b>": NASTY})
    opened.settle()
    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.locator("img").count() == 0
    assert NASTY in opened.text("#response")
    assert NASTY in opened.text("#question")
    assert opened.page.title() == NASTY


@pytest.mark.browser
def test_any_script_keeps_its_offsets(reader, pinhole):
    text = "画像 🙂🙂 has a 🙂 star and ﷽.\nFinal answer: 🙂 ok"
    told = vtrace.trace(pinhole, vtrace.example("dev-0").images, "Ist es 星 🙂?", response=text)
    found = vtrace.attribute(pinhole, told)
    opened = reader(found)
    for typed in ("star", "ok", "🙂 ok"):
        opened.page.fill("#target-text", typed)
        opened.page.press("#target-text", "Enter")
        agrees(opened, found.retarget(f'"{typed}"'))


@pytest.mark.browser
def test_several_pictures_and_thumbnails_have_panels_of_their_own(reader, pinhole):
    image = vtrace.example("dev-0").images[0]
    told = vtrace.trace(
        pinhole, [image, image], "Which one has a red star?", response="The first.\nFinal answer: first"
    )
    found = vtrace.attribute(pinhole, told)
    opened = reader(found)
    assert opened.page.locator("#pictures canvas").count() == 2
    shares = [f"picture {k}: {percent(share)}" for k, share in enumerate(found.picture_shares, start=1)]
    assert opened.page.locator("#pictures figcaption").all_inner_texts() == shares
    opened.page.mouse.move(*opened.patch(told.patches[0], image.size, panel=1))
    second = next(patch for patch in told.patches if patch.image == 1)
    assert f"this patch · {percent(found.scores[second.position])}" in opened.text("#tip")

    # the second picture's patches, as if they were a thumbnail of the first
    patches = tuple(Patch(p.position, 0, p.row, p.column, p.box, view=p.image) for p in told.patches)
    opened = reader(dataclasses.replace(found, trace=dataclasses.replace(told, patches=patches, images=(image,))))
    named = opened.page.locator("#pictures figcaption").all_inner_texts()
    assert [caption.partition(":")[0] for caption in named] == ["picture", "thumbnail"]
    assert opened.page.locator("#pictures canvas.thumbnail").count() == 1


@pytest.mark.browser
def test_scores_without_matrix_or_pictures_are_shown_too(reader, attribution):
    bare = dataclasses.replace(
        attribution, pairwise=None, likelihoods=None, trace=dataclasses.replace(attribution.trace, images=())
    )
    opened = reader(bare)
    agrees(opened, attribution)
    assert opened.page.is_disabled("#gamma")
    opened.word(-2).hover()
    assert "was not run for this word" in opened.text("#tip")
    opened.page.click("#settings summary")
    opened.page.uncheck("#calibrated")
    raw = dataclasses.replace(attribution, scores=attribution.uncalibrated)
    assert opened.ranking() == shown(raw)


@pytest.fixture
def small_pages(monkeypatch, attribution):
    """Pages and files without the matrix of the embedded example, and with few targets: as for a long sequence."""
    for module in ("viewer.exported_methods", "report.documents", "attribution.result"):
        monkeypatch.setattr(f"vtrace.{module}.LARGEST_SAVED", len(attribution.trace) - 1)
    monkeypatch.setattr("vtrace.viewer.exported_methods.ROWS_BUDGET", 4 * len(attribution.trace) * 8)


@pytest.mark.browser
def test_a_matrix_too_large_for_a_page_is_replaced_by_targets(reader, attribution, small_pages):
    answer, trace = attribution.retarget("answer"), attribution.trace
    opened = reader(answer)
    agrees(opened, answer)
    note = opened.text("#notes")
    assert f"The pairwise matrix of {len(trace):,} tokens" in note
    assert "was left out. This page has the scores of 8 targets" in note
    assert opened.page.is_disabled("#gamma")
    opened.page.get_by_role("button", name="Reasoning", exact=True).click()
    agrees(opened, attribution.retarget("reasoning"))
    opened.word(0).click()
    opened.page.mouse.move(2, 2)
    first = next(word for word in trace.words if word.kind == "response")
    agrees(opened, attribution.retarget(Target("word", tuple(range(first.start, first.stop)))))
    opened.word(-2).click()
    assert "was not run for" in opened.text("#problem")
    opened.page.get_by_role("button", name="sentence 1", exact=True).click()
    agrees(opened, attribution.retarget("sentence 1"))


def test_a_saved_file_says_that_its_matrix_was_left_out_and_why_it_cannot_be_retargeted(
    attribution, small_pages, tmp_path
):
    loaded = vtrace.read(attribution.save(tmp_path / "a.json"))
    np.testing.assert_array_equal(loaded.scores, attribution.scores)
    assert loaded.pairwise is None
    assert [note for note in loaded.warnings if "too large for a file and was left out" in note]
    with pytest.raises(InputError, match=r"because files hold no matrix of over .*; explain the trace again"):
        loaded.retarget("answer")
    again = vtrace.read(loaded.save(tmp_path / "b.json"))
    assert again.warnings == loaded.warnings
    assert "too large for a file and was left out" in page([loaded])


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


def test_modules_import_what_is_there_and_only_from_above():
    texts = {name: (SOURCE / f"{name}.js").read_text() for name in MODULES}
    assert {path.stem for path in SOURCE.glob("*.js")} == set(MODULES)
    for place, name in enumerate(MODULES):
        for names, home in re.findall(r'^import \{ (.*?) \} from "\./(\w+)\.js";$', texts[name], re.MULTILINE):
            assert home in MODULES[:place], f"{name} imports {home}, which comes later"
            for wanted in names.split(", "):
                assert re.search(rf"^export (async )?(function|const) {wanted}\b", texts[home], re.MULTILINE), wanted
                assert len(re.findall(rf"\b{wanted}\b", texts[name])) > 1, f"{name} has no use for {wanted}"


def test_the_data_holds_what_was_found_beside_the_scores(pinhole, trace, attribution):
    region = box_region(trace, "corner", (0, 0, 50, 50))
    contrast = vtrace.contrast(pinhole, trace, "red star")
    verified = dataclasses.replace(attribution, regions=(region,), contrast=contrast).verify(pinhole, draws=1)
    data = export([verified])
    assert data["regions"][0]["share"] == pytest.approx(attribution.box_share((0, 0, 50, 50)))
    assert data["contrast"]["against"] == "red star"
    (found,) = data["verifications"]
    assert (found["method"], found["target"]["name"]) == ("vtrace", "response")
    assert found["verdict"] == verified.verification.verdict
    assert export([attribution])["verifications"] == []
