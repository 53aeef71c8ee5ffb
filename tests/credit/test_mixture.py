"""Training rows: the real columns in, what TRL and verl read out, and every row that is left out counted."""

from __future__ import annotations

import io
import json
import re
import sys
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from support.dataset_files import image, png, write_parquet
from support.pages import table_with
from vtrace.credit import mixture
from vtrace.credit.gold import gold_from_json
from vtrace.credit.mixture import convert_mixture, describe_left_out
from vtrace.credit.mixture_rows import LeftOut
from vtrace.credit.reward import compute_score, final_answer_reward
from vtrace.credit.training_rows import mark_pictures, row_schema
from vtrace.errors import InputError
from vtrace.lvlm.processor import render_chat
from vtrace.tracing.conversation import unmarked
from vtrace.tracing.defaults import SYSTEM_PROMPT
from vtrace.tracing.prompt import process_prompt
from vtrace.types import Example

CHOICES = "Which colour is it?\nChoices:\nA. red\nB. green\nC. blue"
COLOURS = ("red", "green", "blue")


def mmr1_rows() -> list[dict]:
    """One row per colour; the answer is the letter of the option, its text, or its letter in LaTeX."""
    answers = ("A", "green", r"\boxed{C}")
    return [
        {"images": [image(colour)], "problem": f"<image>\n{CHOICES}", "answer": answer}
        for colour, answer in zip(COLOURS, answers, strict=True)
    ]


def revisual_rows() -> list[dict]:
    two = {"images": [image("red"), image("blue")], "answer": "No", "dataset": "iconqa", "pass_rate": 0.5}
    return [
        {"images": [image("red", "JPEG")], "problem": "<image>Find x.", "answer": r"$\frac{1}{2}$", "dataset": "geoqa"},
        two | {"problem": "Is <image> the same as <image>?"},
        two | {"problem": "Are they the same?", "dataset": None},
    ]


BAD_ROWS = {
    "no picture": {"images": []},
    "no question": {"problem": "<image>\n "},
    "no answer": {"answer": " "},
    "unreadable picture": {"images": [{"bytes": png()[:60], "path": None}]},
    "picture too narrow": {"images": [{"bytes": png(size=(401, 2)), "path": None}]},
    "not one <image> marker per picture": {"problem": "<image><image>\nWhich?"},
    "special token, or marker of a video or sound": {"problem": "<image>What does <|image_pad|> show?"},
    "answer needs a judge": {"problem": "<image>Find y.", "answer": "y = 2x + 1"},
}


@pytest.fixture
def files(tmp_path):
    mmr1 = write_parquet(tmp_path / "MMR1-RL" / "data" / "train-00000-of-00001.parquet", "mmr1-rl", mmr1_rows())
    revisual = write_parquet(tmp_path / "mmrl" / "train.parquet", "revisual-r1", revisual_rows())
    return {"mmr1-rl": [mmr1.parents[1]], "revisual-r1": [revisual]}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.parquet"


def written(path) -> list[dict]:
    return pq.read_table(path).to_pylist()


def test_rows_for_trl_are_conversations_with_pictures_and_a_gold(files, out):
    report = convert_mixture(files, "trl", out)
    assert [(source.read, source.kept) for source in report.values()] == [(3, 3), (3, 3)]
    assert describe_left_out(report) == []
    rows = written(out)
    system, user = rows[0]["prompt"]
    assert system == {"role": "system", "content": [{"type": "text", "text": SYSTEM_PROMPT}]}
    assert user["content"] == [{"type": "image", "text": None}, {"type": "text", "text": CHOICES}]
    assert [row["source"] for row in rows] == ["mmr1-rl"] * 3 + [
        "revisual-r1/geoqa",
        "revisual-r1/iconqa",
        "revisual-r1",
    ]
    assert rows[0]["key"] == "mmr1-rl/train-00000-of-00001/0"
    assert len({row["key"] for row in rows}) == len(rows)
    assert [row["answer"] for row in rows] == ["A", "green", r"\boxed{C}", r"$\frac{1}{2}$", "No", "No"]
    assert [gold_from_json(row["gold"]).kind for row in rows] == ["choice"] * 3 + ["maths", "yesno", "yesno"]
    assert [part["type"] for part in rows[4]["prompt"][1]["content"]] == ["text", "image", "text", "image", "text"]
    assert [part["type"] for part in rows[5]["prompt"][1]["content"]] == ["image", "image", "text"]


def test_rows_for_verl_have_the_columns_of_its_examples(files, out):
    convert_mixture(files, "verl", out)
    rows = written(out)
    assert list(rows[0]) == ["data_source", "prompt", "images", "ability", "reward_model", "extra_info"]
    assert rows[0]["prompt"] == [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": f"<image>{CHOICES}"},
    ]
    assert rows[3]["reward_model"] == {"style": "rule", "ground_truth": r"$\frac{1}{2}$"}
    assert [row["extra_info"]["index"] for row in rows] == list(range(6))
    for row in rows:
        assert row["prompt"][1]["content"].count("<image>") == len(row["images"])


@pytest.mark.parametrize("form", ["trl", "verl"])
def test_pictures_questions_and_answers_stay_together(files, out, form):
    """Pictures keep their bytes, and the reward of each row accepts its own colour and no other."""
    convert_mixture(files, form, out)
    for row, colour in zip(written(out), COLOURS, strict=False):
        assert [picture["bytes"] for picture in row["images"]] == [png(colour)]
        for other in COLOURS:
            said = f"Final answer: {other}"
            if form == "trl":
                (reward,) = final_answer_reward([row["prompt"]], [said], [row["answer"]], [row["gold"]])
            else:
                truth = row["reward_model"]["ground_truth"]
                reward = compute_score(row["data_source"], said, truth, row["extra_info"])
            assert reward == (other == colour)


def test_both_trainers_render_the_prompt_of_an_evaluation(files, out, pinhole):
    convert_mixture(files, "trl", out)
    for_trl = written(out)
    convert_mixture(files, "verl", out)
    for row, other in zip(for_trl, written(out), strict=True):
        split = [re.split("(<image>)", message["content"]) for message in other["prompt"]]  # as verl does
        parts = [[{"type": "image"} if p == "<image>" else {"type": "text", "text": p} for p in s if p] for s in split]
        messages = [m | {"content": p} for m, p in zip(other["prompt"], parts, strict=True)]
        assert render_chat(pinhole.processor, row["prompt"]) == render_chat(pinhole.processor, messages)
    picture = Image.open(io.BytesIO(for_trl[0]["images"][0]["bytes"]))
    evaluated = process_prompt(pinhole, Example((picture,), CHOICES), SYSTEM_PROMPT)
    assert render_chat(pinhole.processor, for_trl[0]["prompt"]) == unmarked(evaluated.text)


def test_datasets_decodes_the_pictures_and_trl_puts_them_in_place(files, out, tmp_path, pinhole):
    datasets = pytest.importorskip("datasets")
    convert_mixture(files, "trl", out)
    rows = datasets.load_dataset("parquet", data_files=str(out), cache_dir=str(tmp_path / "cache"))["train"]
    assert rows[0]["images"][0].getpixel((0, 0)) == (255, 0, 0)
    trl = pytest.importorskip("trl.data_utils")
    for row in rows:
        messages = trl.prepare_multimodal_messages(row["prompt"], images=row["images"])
        placed = [part["image"] for part in messages[1]["content"] if part["type"] == "image"]
        assert placed == row["images"]
        assert render_chat(pinhole.processor, messages) == render_chat(pinhole.processor, row["prompt"])


@pytest.mark.parametrize("reason", BAD_ROWS)
def test_a_bad_row_is_left_out_and_counted(tmp_path, out, reason):
    good, last = mmr1_rows()[:2]
    bad = good | BAD_ROWS[reason]
    path = write_parquet(tmp_path / "train.parquet", "mmr1-rl", [good, bad, bad, last])
    report = convert_mixture({"mmr1-rl": [path]}, "trl", out)
    assert report["mmr1-rl"].left_out == {reason: 2}
    assert describe_left_out(report) == [f"mmr1-rl: 2 left out, {reason} (first: mmr1-rl/train/1)"]
    assert [row["key"] for row in written(out)] == ["mmr1-rl/train/0", "mmr1-rl/train/3"]


def test_cells_of_a_strange_type_are_left_out_too(tmp_path, out):
    """Text that is not UTF-8, and a column of numbers where pictures should be."""
    texts = pa.array([b"<image>Find x.", b"\xff\xfe"], pa.binary()).view(pa.string())
    pictures = pa.array([[image()], [image()]])
    path = tmp_path / "train.parquet"
    pq.write_table(pa.table({"images": pictures, "problem": texts, "answer": ["7", "7"]}), path)
    assert convert_mixture({"mmr1-rl": [path]}, "trl", out)["mmr1-rl"].left_out == {"unreadable row": 1}
    pq.write_table(pa.table({"images": [1, 2], "problem": ["Find x."] * 2, "answer": ["7", "7"]}), path)
    with pytest.raises(InputError, match=r"no row could be used \(mmr1-rl: 2 left out, unreadable picture"):
        convert_mixture({"mmr1-rl": [path]}, "trl", out)
    assert len(written(out)) == 1, "the file of before is still there"


def test_numbers_paths_and_other_names_of_columns_are_understood(tmp_path, out):
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "a.png").write_bytes(png("blue"))
    path = tmp_path / "train.parquet"
    pq.write_table(
        pa.table({"image": ["shown/a.png", "none.png"], "question": ["Find x."] * 2, "answer": [7, 8]}), path
    )
    report = convert_mixture({"revisual-r1": [path]}, "verl", out)
    assert report["revisual-r1"].left_out == {"unreadable picture": 1}
    (row,) = written(out)
    assert row["images"][0]["bytes"] == png("blue")
    assert row["prompt"][1]["content"] == "<image>Find x."
    assert row["reward_model"]["ground_truth"] == "7"


def test_formulas_are_kept_on_demand_and_a_limit_counts_usable_rows(tmp_path, out):
    good = mmr1_rows()
    formula = good[0] | BAD_ROWS["answer needs a judge"]
    path = write_parquet(tmp_path / "train.parquet", "mmr1-rl", [formula, *good])
    report = convert_mixture({"mmr1-rl": [path]}, "trl", out, keep_formulas=True, limit=2)
    assert report["mmr1-rl"].kept == len(written(out)) == 2
    report = convert_mixture({"mmr1-rl": [path]}, "trl", out, limit=2)
    assert (report["mmr1-rl"].read, report["mmr1-rl"].kept) == (3, 2)


def test_rows_of_files_with_the_same_name_have_different_keys(tmp_path, out):
    paths = [write_parquet(tmp_path / part / "train.parquet", "mmr1-rl", mmr1_rows()[:1]) for part in ("a", "b")]
    convert_mixture({"mmr1-rl": paths}, "trl", out)
    assert [row["key"] for row in written(out)] == ["mmr1-rl/train/0", "mmr1-rl/train#2/0"]


def test_a_damaged_file_is_reported_and_the_others_are_used(tmp_path, out):
    good = write_parquet(tmp_path / "good.parquet", "mmr1-rl", mmr1_rows())
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(good.read_bytes()[:-100])
    half = write_parquet(tmp_path / "half.parquet", "mmr1-rl", mmr1_rows())  # two groups of rows
    start = pq.ParquetFile(half).metadata.row_group(1).column(0).data_page_offset
    data = half.read_bytes()
    half.write_bytes(data[:start] + b"\xff" * 40 + data[start + 40 :])
    report = convert_mixture({"mmr1-rl": [cut, half, good]}, "trl", out)["mmr1-rl"]
    assert [lost.name for lost in report.lost] == ["cut.parquet", "half.parquet"]
    assert report.kept == len(written(out)) >= 3
    with pytest.raises(InputError, match=r"no row could be used \(mmr1-rl: cut.parquet is truncated or damaged"):
        convert_mixture({"mmr1-rl": [cut]}, "trl", out)


def test_what_cannot_be_converted_is_refused_before_anything_is_written(tmp_path, files, out):
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"images": [[image()]], "text": ["?"], "answer": ["7"]}), other)
    expected = r"other.parquet has no column with the question \(problem or question\); it has: images, text, answer"
    with pytest.raises(InputError, match=expected):
        convert_mixture(files | {"revisual-r1": [other]}, "trl", out)
    for given, place, message in (
        ({}, out, "no files were given"),
        ({"mmr1-rl": [tmp_path / "none"]}, out, "does not exist"),
        ({"mmr1-rl": [tmp_path / "empty"]}, out, "has no Parquet files"),
        (files, tmp_path / "out.jsonl", "should end in .parquet"),
        (files, tmp_path / "none" / "out.parquet", "there is no folder"),
        (files, files["revisual-r1"][0], "is one of the datasets"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(InputError, match=message):
            convert_mixture(given, "trl", place)
    with pytest.raises(InputError, match="must be positive"):
        convert_mixture(files, "trl", out, limit=0)
    assert not out.exists()


def test_an_interrupted_conversion_leaves_no_file(files, out):
    def stop(done, total, label=""):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_mixture(files, "trl", out, progress=stop)
    assert list(out.parent.glob("*out*")) == []


def test_progress_counts_the_rows_of_each_file(files, out):
    seen = []
    convert_mixture(files, "trl", out, progress=lambda done, total, label="": seen.append((done, total, label)))
    assert seen[2] == (3, 3, "train-00000-of-00001.parquet")
    assert seen[-1] == (3, 3, "train.parquet")


def test_markers_stand_where_the_pictures_are():
    assert mark_pictures("What?", 2) == "<image><image>What?"
    assert mark_pictures(" <image>\n<image> \nWhat?", 2) == "<image><image>What?"
    assert mark_pictures("Is <image> like\n<image>?", 2) == "Is <image> like\n<image>?"


@pytest.mark.parametrize("form", ["trl", "verl"])
def test_the_schema_tells_datasets_what_the_columns_are(form):
    datasets = pytest.importorskip("datasets")
    schema = row_schema(form)
    features = datasets.Features.from_arrow_schema(schema)
    assert isinstance(features["images"].feature, datasets.Image)
    assert features.arrow_schema.remove_metadata() == schema.remove_metadata()


def test_the_page_lists_every_reason():
    listed = [row["reason"].strip("`") for row in table_with("docs/how-to/credit-data.md", "reason")]
    assert listed == list(get_args(LeftOut))
    assert set(BAD_ROWS) | {"unreadable row"} == set(listed)


def test_the_command_prints_what_was_kept_and_why_not(files, out, monkeypatch, capsys, tmp_path):
    bad = write_parquet(tmp_path / "bad.parquet", "mmr1-rl", [mmr1_rows()[0] | BAD_ROWS["no answer"]])

    def run(*options) -> str:
        given = ["--mmr1", *files["mmr1-rl"], bad, "--revisual", *files["revisual-r1"], "--out", out, *options]
        monkeypatch.setattr(sys, "argv", ["mixture", *map(str, given)])
        mixture.main()
        return capsys.readouterr().out

    assert run("--to", "verl").splitlines() == [
        "mmr1-rl: 3 of 4 rows kept",
        "revisual-r1: 3 of 3 rows kept",
        "mmr1-rl: 1 left out, no answer (first: mmr1-rl/bad/0)",
    ]
    assert json.loads(run("--to", "trl", "--json"))["mmr1-rl"]["left_out"] == {"no answer": 1}
    with pytest.raises(SystemExit) as stop:
        run("--to", "trl", "--out", tmp_path)
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"vtrace: {tmp_path} is a folder; give a file name\n"
