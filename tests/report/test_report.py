"""What people look at: JSON that loads back, a figure, a notebook's picture, a table. Pages are test_viewer's."""

from __future__ import annotations

import base64
import io
import itertools
import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.font_manager import FontEntry, findfont
from matplotlib.text import Text
from PIL import Image
from rich.console import Console

import vtrace
from vtrace.errors import InputError
from vtrace.report.attribution.console import show_attribution
from vtrace.report.attribution.figure import COLUMN, attribution_figure
from vtrace.report.documents import attribution_document, from_document
from vtrace.report.wording import calibration_details, calibration_sentence, percent
from vtrace.system import fonts
from vtrace.types import Calibration
from vtrace.viewer.page import page
from vtrace.viewer.palette import DARK_STOPS, STOPS, colour


def test_json_loads_back_and_can_be_retargeted(attribution, tmp_path):
    loaded = vtrace.read(attribution.save(tmp_path / "a.json"))
    assert isinstance(loaded, vtrace.Attribution)
    np.testing.assert_array_equal(loaded.scores, attribution.scores)
    assert (loaded.target, loaded.calibration, loaded.options) == (
        attribution.target,
        attribution.calibration,
        attribution.options,
    )
    np.testing.assert_allclose(loaded.retarget("answer").scores, attribution.retarget("answer").scores, rtol=1e-12)


def test_json_without_its_matrix_keeps_the_scores(attribution):
    loaded = from_document(json.loads(json.dumps(attribution_document(attribution, whole=False))))
    np.testing.assert_array_equal(loaded.scores, attribution.scores)
    with pytest.raises(InputError, match="scores only"):
        loaded.retarget("answer")
    assert attribution_figure(loaded).get_size_inches()[1] > 1


@pytest.mark.parametrize("key", ["scores", "trace", "pairwise", "calibration"])
def test_a_document_with_a_part_missing_or_short_is_refused(attribution, key):
    document = json.loads(json.dumps(attribution_document(attribution)))
    document[key] = document[key][:3] if isinstance(document[key], list) else {}
    with pytest.raises(InputError, match=r"^the document is damaged[^\n]*$"):
        from_document(document)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "vtrace.comparison/2"}', '{"schema": "vtrace.trace/1"}', "\x00\x01"]
)
def test_a_damaged_file_is_one_clear_line(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InputError, match=r"^[^\n]+$"):
        vtrace.read(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("schema", "advice"),
    [("vtrace.attribution/1", "older version; explain the trace again"), ("vtrace.trace/99", "newer version; update")],
)
def test_a_file_of_another_version_says_what_to_do(tmp_path, schema, advice):
    (tmp_path / "old.json").write_text(json.dumps({"schema": schema}))
    with pytest.raises(InputError, match=advice):
        vtrace.read(tmp_path / "old.json")


def test_figure_shows_the_picture_large_enough_to_see(attribution, tmp_path):
    figure = Image.open(attribution.save(tmp_path / "a.png"))
    assert figure.width >= 1500
    assert figure.height >= 600
    assert len(figure.convert("RGB").getcolors(1 << 24)) > 1000


def test_figure_takes_any_script_and_leaves_mathematics_alone(pinhole, tmp_path):
    text = r"So $x^2 + \frac{1}{2}$ costs $5, 画像 🙂 [/bold].\nFinal answer: $4$"
    told = vtrace.trace(pinhole, vtrace.example("dev-0").images, "Ist es 星 $y_1$ {a}?", response=text)
    found = vtrace.attribute(pinhole, told, "answer")
    assert found.save(tmp_path / "a.png").stat().st_size > 10_000
    show_attribution(found, Console(file=io.StringIO()))
    drawn = {t.get_text() for t in attribution_figure(found).axes[0].texts}
    assert {"画", "🙂"} <= drawn


class Collector(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.frames = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href") and not value.startswith("data:")]
        self.frames += [value for name, value in attrs if name == "srcdoc"]


def test_a_notebook_shows_the_viewer_in_a_frame_and_a_picture_where_that_is_dropped(attribution):
    bundle = attribution._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/jpeg", "text/plain"}
    found = Collector()
    found.feed(bundle["text/html"])
    assert found.tags == ["style", "img", "iframe"]
    assert found.links == []
    assert found.frames == [page([attribution])]
    assert 'sandbox="allow-scripts allow-downloads"' in bundle["text/html"]
    with Image.open(io.BytesIO(base64.b64decode(bundle["image/jpeg"]))) as still:
        assert still.width > 800
    assert bundle["image/jpeg"] in bundle["text/html"]
    assert attribution._repr_html_() == bundle["text/html"]


def test_everything_in_a_notebook_is_escaped(pinhole):
    nasty = '"></iframe><script>alert("x")</script> & <img src=x onerror=alert(1)>'
    told = vtrace.trace(
        pinhole, vtrace.example("dev-0").images, f"Is it {nasty}?", response=f"{nasty}\nFinal answer: {nasty}"
    )
    found = Collector()
    found.feed(vtrace.attribute(pinhole, told, "answer")._repr_html_())
    assert found.tags == ["style", "img", "iframe"]


@pytest.mark.parametrize("ending", ["pdf", "svg"])
def test_a_figure_for_a_paper_fits_a_column_and_says_the_same_each_time(attribution, tmp_path, ending):
    first, second = (attribution.save(tmp_path / f"{name}.{ending}").read_bytes() for name in "ab")
    assert first == second
    assert first.startswith(b"%PDF" if ending == "pdf" else b"<?xml")
    figure = attribution_figure(attribution, COLUMN)
    assert figure.get_size_inches()[0] <= 3.5
    sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text()]
    assert min(sizes) >= 6  # points, in print


def test_characters_without_a_font_are_named_in_the_figure(pinhole, monkeypatch):
    monkeypatch.setattr("vtrace.system.fonts._candidates", lambda: [])
    told = vtrace.trace(pinhole, vtrace.example("dev-0").images, "Is it 星?", response="Final answer: 星")
    drawn = " ".join(t.get_text() for t in attribution_figure(vtrace.attribute(pinhole, told)).axes[0].texts)
    assert "no installed font has U+661F, drawn as boxes" in drawn
    assert "pinhole is a toy" in drawn


def test_a_font_that_has_the_character_is_used(monkeypatch):
    entry = FontEntry(fname="stars.ttf", name="Stars", style="normal")
    known = {"stars.ttf": frozenset([ord("星")])}
    characters = fonts._characters
    monkeypatch.setattr(fonts, "_candidates", lambda: [entry])
    monkeypatch.setattr(fonts, "_characters", lambda path: known.get(path) or characters(path))
    assert fonts.fonts_for("a 星") == (("DejaVu Sans", "Stars"), ())
    assert fonts.fonts_for("plain é →") == (("DejaVu Sans",), ())


def test_a_font_that_was_installed_after_matplotlib_listed_them_is_found(monkeypatch, tmp_path):
    new, broken = tmp_path / "new.ttf", tmp_path / "broken.ttf"
    shutil.copy(findfont("STIXGeneral"), new)
    broken.write_bytes(b"no font")
    listed = [entry for entry in fonts.fontManager.ttflist if not entry.name.startswith("STIX")]
    monkeypatch.setattr(fonts.fontManager, "ttflist", listed)
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: [str(new), str(broken)])
    fonts._list_new_fonts.cache_clear()
    fonts.fonts_for("星")
    assert str(new) in {entry.fname for entry in fonts._candidates()}


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x00\x01\x00\x00", 42),
        (b"OTTO", 3),
        (b"ttcf" + bytes(8) + b"\x00\x00\x00\x10" + b"OTTO", 3),
        (b"ttcf" + bytes(8) + b"\x00\x00\x00\x10" + b"true", 42),
    ],
)
def test_text_stays_text_in_a_pdf_unless_a_font_has_postscript_outlines(head, kind, monkeypatch, tmp_path):
    (tmp_path / "new.ttf").write_bytes(head)
    entry = FontEntry(fname=str(tmp_path / "new.ttf"), name="New")
    monkeypatch.setattr(fonts.fontManager, "ttflist", [*fonts.fontManager.ttflist, entry])
    assert fonts.pdf_font_type(["DejaVu Sans", "New"]) == kind
    assert fonts.pdf_font_type(["DejaVu Sans"]) == 42


def test_console_prints_ranking_shares_status_and_answer(attribution):
    out = io.StringIO()
    show_attribution(attribution, Console(file=out, width=120))
    text = out.getvalue()
    for piece in (attribution.trace.answer_text, "image", "question", "Hiding the image", attribution.top(1)[0].label):
        assert piece in text


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (111.5, "lowers the log-likelihood of the target by 111.5 nats, hiding the question by 90.0."),
        (-1.2, "raises the log-likelihood of the target by 1.2 nats, hiding the question lowers it by 90.0."),
    ],
)
def test_calibration_is_said_in_one_sentence_with_the_rest_on_demand(attribution, damage, expected):
    applied = replace(attribution.calibration, image_damage=damage, text_damage=90.0, joint_damage=120.0, scale=0.04)
    found = replace(attribution, calibration=applied)
    assert calibration_sentence(found) == f"Hiding the image {expected}"
    assert calibration_details(found) == "Hiding both lowers it by 120.0 nats. Image scores are multiplied by λ = 0.04."
    off = replace(attribution, calibration=Calibration("off"))
    assert (calibration_sentence(off), calibration_details(off)) == ("Calibration off.", "")


def test_colour_is_never_the_only_carrier(attribution, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    show_attribution(attribution, Console(file=out, width=120, force_terminal=True))
    assert "38;2" not in out.getvalue()
    assert percent(attribution.top(1)[0].score) in out.getvalue()


def test_the_scale_darkens_steadily():
    def lightness(rgb):
        return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]

    steps = [lightness(colour(k / 50)) for k in range(51)]
    assert all(a > b for a, b in itertools.pairwise(steps))
    assert (colour(0), colour(1)) == (STOPS[0], STOPS[-1])
    assert all(lightness(a) < lightness(b) for a, b in itertools.pairwise(DARK_STOPS))


@pytest.mark.parametrize("name", ["a.gif", "a"])
def test_unknown_endings_are_refused(attribution, tmp_path, name):
    with pytest.raises(InputError, match=r"\.json, \.html, \.png, \.pdf or \.svg"):
        attribution.save(tmp_path / name)


def test_an_unwritable_place_is_an_input_error(attribution, tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        attribution.save(tmp_path / "no" / "folder" / "a.json")
