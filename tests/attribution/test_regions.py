"""Named parts of pictures and question: one share each; and the strongest evidence as boxes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from vtrace.attribution.findings.evidence_regions import coco_document, evidence_regions
from vtrace.attribution.findings.region_files import read_regions
from vtrace.attribution.findings.regions import box_region, mask_region, region_notes, segment_region
from vtrace.errors import InputError
from vtrace.report.documents import attribution_document, from_document


@pytest.fixture(scope="module")
def answer(attribution):
    return attribution.retarget("answer")


def test_the_whole_picture_has_the_image_share(answer):
    width, height = answer.trace.images[0].size
    assert answer.box_share((0, 0, width, height)) == pytest.approx(answer.image_share)
    halves = (0, 0, 100, height), (100, 0, width, height)
    assert sum(map(answer.box_share, halves)) == pytest.approx(answer.image_share)


def test_a_patch_counts_by_the_part_of_it_that_is_covered(answer):
    patch = answer.trace.patches[0]
    left, top, right, bottom = patch.box
    half = (left, top, (left + right) / 2, bottom)
    assert answer.box_share(patch.box) == pytest.approx(answer.scores[patch.position])
    assert answer.box_share(half) == pytest.approx(answer.scores[patch.position] / 2)


def test_a_mask_of_a_box_has_the_share_of_the_box(answer):
    width, height = answer.trace.images[0].size
    mask = np.zeros((height, width), bool)
    mask[20:90, 10:130] = True
    found = mask_region(answer.trace, "shape", mask)
    assert found.share(answer.scores) == pytest.approx(answer.box_share((10, 20, 130, 90)))
    assert found.box == (10, 20, 130, 90)


def test_a_part_of_the_question_has_the_share_of_its_words(answer):
    words = [w for w in answer.trace.words if w.kind == "question" and w.text in ("purple", "circle")]
    expected = sum(answer.scores[w.start : w.stop].sum() for w in words)
    assert answer.segment_share("purple circle") == pytest.approx(expected)
    assert answer.segment_share(answer.trace.question) == pytest.approx(answer.text_share)
    with pytest.raises(InputError, match="the question does not contain 'yellow'"):
        segment_region(answer.trace, "yellow")
    with pytest.raises(InputError, match="a segment is empty"):
        segment_region(answer.trace, " ")


def test_regions_come_from_a_box_an_annotation_file_and_a_mask(answer, tmp_path):
    width, height = answer.trace.images[0].size
    boxes = {
        "images": [{"id": 7, "width": width, "height": height}],
        "categories": [{"id": 1, "name": "cup"}],
        "annotations": [{"bbox": [0, 0, 30, 40], "category_id": 1, "image_id": 7}, {"bbox": [50, 50, 9, 9]}] * 2,
    }
    (tmp_path / "boxes.json").write_text(json.dumps(boxes))
    mask = Image.new("L", (width, height))
    mask.paste(1, (0, 0, 20, 20))
    mask.paste(5, (30, 30, 40, 40))
    mask.save(tmp_path / "mask.png")
    given = ["cup=1,2,3,4", str(tmp_path / "boxes.json"), str(tmp_path / "mask.png")]
    found = read_regions(answer.trace, given)
    assert [region.name for region in found] == ["cup 1", "cup 2", "region 1", "cup 3", "region 2", "mask 1", "mask 5"]
    assert found[1].box == (0, 0, 30, 40)
    assert found[-1].box == (30, 30, 40, 40)


def test_strongest_evidence_is_exported_as_merged_boxes(answer):
    found = evidence_regions(answer.trace, answer.scores)
    assert found[0].share(answer.scores) == pytest.approx(max(answer.scores[answer.trace.positions("image")]))
    shares = [region.share(answer.scores) for region in found]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) >= answer.image_share / 2
    everything = evidence_regions(answer.trace, answer.scores, part=1.0)
    assert [region.box for region in everything] == [(0, 0, *answer.trace.images[0].size)]
    document = coco_document(answer.trace, found, answer.scores)
    left, top, width, height = document["annotations"][0]["bbox"]
    assert (left, top, left + width, top + height) == found[0].box
    assert document["annotations"][0]["score"] == shares[0]


def test_patches_that_touch_at_a_corner_only_stay_apart(answer):
    patches = {(patch.row, patch.column): patch.position for patch in answer.trace.patches}
    scores = np.zeros(len(answer.trace))
    scores[[patches[0, 0], patches[0, 1], patches[1, 2], patches[5, 5]]] = 0.25
    boxes = evidence_regions(answer.trace, scores, part=1.0)
    assert [len(region.positions) for region in boxes] == [2, 1, 1]


def test_regions_are_saved_and_evidence_is_dropped_with_its_target(answer):
    region = box_region(answer.trace, "corner", (0, 0, 50, 50))
    named = replace(answer, regions=(region,)).with_evidence_boxes()
    document = json.loads(json.dumps(attribution_document(named)))
    assert document["regions"][0]["share"] == pytest.approx(answer.box_share((0, 0, 50, 50)))
    assert from_document(document).regions == named.regions
    assert named.retarget("response").regions == (region,)


def test_region_notes_are_noted(answer):
    one, two = (box_region(answer.trace, name, box) for name, box in (("a", (0, 0, 50, 50)), ("b", (40, 40, 90, 90))))
    apart = box_region(answer.trace, "c", (50, 0, 90, 40))
    assert region_notes([one, apart]) == []
    (note,) = region_notes([one, two, apart])
    assert note == "regions a and b overlap; what they have in common counts for both"
    assert note in replace(answer, regions=(one, two)).warnings
    assert region_notes([one] * 9)[4:] == [note.replace("and b", "and a"), "31 more pairs of regions overlap"]


def test_a_region_that_leaves_the_picture_is_cut_and_noted(answer):
    inside, beyond = (box_region(answer.trace, "cup", (200, 200, side, side)) for side in (256.4, 300))
    assert region_notes([inside]) == []
    assert (beyond.box, beyond.cut) == ((200, 200, 256, 256), True)
    named = replace(answer, regions=(beyond,))
    assert "region cup is cut: a part of it lies outside its picture" in named.warnings
    assert from_document(json.loads(json.dumps(attribution_document(named)))).warnings == named.warnings


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("cup=300,300,400,400", "region cup lies outside its picture, which has 256 x 256 pixels"),
        ("cup=30,30,10,40", "region cup is empty; write left,top,right,bottom"),
        ("cup=1,2,3", "cannot read region 'cup=1,2,3'; write NAME=LEFT,TOP,RIGHT,BOTTOM"),
        ("cup=1,2,3,nan", "cannot read region"),
        ("=1,2,3,4", "cannot read region"),
        ("nothing", "cannot read region"),
        ("cup@2=1,2,3,4", "region cup is on picture 2, but there is 1"),
        ("missing.json", "there is no file"),
        ("missing.png", "there is no picture"),
        ("small.png", "has 10 x 12 pixels, but its picture has 256 x 256; resize it"),
        ("photo.png", "values; a mask has one value per region"),
        ("empty.png", "is an empty mask"),
        ("other.json", "describes a picture of 10 x 12 pixels, but this one has 256 x 256"),
        ("bad.json", "is not in the layout of COCO"),
        ("text.json", "is not a file in the layout of COCO"),
        ("none.json", "has no annotations"),
        ("many.json", "has more than 500 annotations; keep those of this picture"),
    ],
)
def test_bad_regions_are_one_line(answer, tmp_path, given, words):
    Image.new("L", (10, 12), 1).save(tmp_path / "small.png")
    Image.effect_noise((256, 256), 90).save(tmp_path / "photo.png")
    Image.new("L", (256, 256)).save(tmp_path / "empty.png")
    box = {"bbox": [1, 2, 3, 4]}
    sized = {"images": [{"id": 1, "width": 10, "height": 12}], "annotations": [box]}
    others = {"bad": [{"bbox": 3}], "none": [], "many": [box] * 501}
    for name, value in (("other", sized), *((name, {"annotations": boxes}) for name, boxes in others.items())):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(InputError) as caught:
        read_regions(answer.trace, [str(tmp_path / given) if given.endswith((".json", ".png")) else given])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_line_prints_shares_and_writes_boxes(run, tmp_path):
    place = tmp_path / "boxes.json"
    options = ("--region", "corner=0,0,64,64", "--segment", "purple circle", "--boxes", place, "--quiet")
    code, out, err = run("explain", "--target", "answer", "--json", "-", "--png", tmp_path / "figure.png", *options)
    assert code == 0
    found = json.loads(out)["regions"]
    assert [region["name"] for region in found][:3] == ["corner", "purple circle", "evidence 1"]
    assert json.loads(place.read_text("utf-8"))["annotations"][0]["bbox"] == [96, 96, 32, 32]
    assert f"wrote {place}" in err
    code, out, err = run("explain", "--region", "cup=300,300,400,400", "--boxes", tmp_path / "b.json", "--quiet")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert not (tmp_path / "b.json").exists()
