"""A user's own questions: CSV, JSONL, or files beside each other."""

from __future__ import annotations

import json

import pytest

from support.dataset_files import png
from vtrace.benchmarks.grading import grade
from vtrace.benchmarks.registry import find_benchmark
from vtrace.benchmarks.user_questions import open_user_questions
from vtrace.errors import InputError


def test_user_questions_come_from_csv_jsonl_or_files_beside_each_other(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.png").write_bytes(png("blue"))
    (tmp_path / "q.csv").write_text(
        "id,image,question,answer,A,B\nx,a.png,Which?,B,one,two\n,a.png;b.png,How many?,2,,\n"
    )
    table = find_benchmark(str(tmp_path / "q.csv"))
    assert (table.name, table.size, table.key(0), table.key(1)) == ("q", 2, "x", "1")
    assert table.example(0).question == "Which?\n(A) one\n(B) two"
    assert grade(table.example(0), "two") == grade(table.example(1), "2.0") == "correct"
    assert len(table.example(1).images) == 2
    lines = [
        {"images": ["a.png", "b.png"], "question": "Same?", "answer": "yes", "response": "Final answer: yes"},
        {"image": "a.png", "question": "Which?", "options": ["x", "y"], "answer": "y"},
        {"image": "a.png", "question": "Free?"},
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    own = find_benchmark(str(tmp_path / "q.jsonl"))
    assert own.example(0).response == "Final answer: yes"
    assert own.example(1).gold.answers == ("B",)
    assert grade(own.example(2), "anything") is None
    with pytest.raises(InputError, match=r"several tables \(q.csv, q.jsonl\); give one of them"):
        find_benchmark(str(tmp_path))
    (tmp_path / "q.csv").unlink()
    assert find_benchmark(str(tmp_path)).size == 3
    (tmp_path / "q.jsonl").unlink()
    (tmp_path / "a.txt").write_text("What is this?\n")
    pairs = find_benchmark(str(tmp_path))
    assert (pairs.size, pairs.key(0), pairs.example(0).question) == (1, "a", "What is this?\n")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("q.csv", "picture,question\na.png,?\n", "q.csv has no column 'image'; it has: picture, question"),
        ("q.csv", "image,question\n", "has no questions"),
        ("q.jsonl", "{", "line 1 of .* is not JSON"),
        ("q.jsonl", "[1]", "line 1 of .* is not an object"),
        ("q.csv", b"image,question\n\xff,?", "is not UTF-8"),
    ],
)
def test_own_tables_that_cannot_be_read_are_refused_at_once(tmp_path, file, text, message):
    (tmp_path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=message):
        find_benchmark(str(tmp_path / file))


def test_own_rows_that_cannot_be_used_are_left_out_one_by_one(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "q.csv").write_text("image,question,answer,A,B\nmissing.png,?,,,\na.png,?,C,x,y\n")
    benchmark = find_benchmark(str(tmp_path / "q.csv"))
    with pytest.raises(InputError, match=r"there is no picture at .*missing.png"):
        benchmark.example(0)
    with pytest.raises(InputError, match="'C' is neither the letter nor the text of an option"):
        benchmark.example(1)


def test_a_damaged_row_is_left_out_alone(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "q.jsonl").write_text('{"image": "a.png", "question": "?"}\n{\n{"image": "a.png"}\n')
    benchmark = open_user_questions(tmp_path / "q.jsonl")
    assert (benchmark.size, benchmark.example(0).question) == (3, "?")
    with pytest.raises(InputError, match=r"line 2 of .*q.jsonl is not JSON"):
        benchmark.example(1)
    with pytest.raises(InputError, match=r"q.jsonl has no column 'question'"):
        benchmark.example(2)


def test_tokens_of_responses_come_from_a_list_or_its_text(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "q.csv").write_text('image,question,response_ids\na.png,?,"[5, 6]"\na.png,?,\na.png,?,five\n')
    benchmark = find_benchmark(str(tmp_path / "q.csv"))
    assert benchmark.example(0).response_ids == (5, 6)
    assert benchmark.example(1).response_ids == ()
    with pytest.raises(InputError, match="response_ids is not a list of token numbers"):
        benchmark.example(2)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"image": 5, "question": "?"}', "'5' is neither a text nor a list"),
        ('{"image": "a.png", "question": "?", "response": 5}', "the response is '5'; it must be a text"),
        ('{"image": "a.png", "question": "?\\ud800"}', "half a character"),
        ('{"image": "%s.png", "question": "?"}' % ("p" * 5000), "there is no picture at"),
        ('{"image": "a.png", "question": %s}' % ("[" * 100_000), "nested too deeply"),
        ('{"image": "a.png", "question": "?", "response_ids": [1, %s]}' % ("9" * 5000), "5000 digits"),
        ('{"image": "a.png", "question": "?", "options": "[[[[1"}', "is not a list"),
        (b'{"image": "a.png", "question": "\xff"}', "utf-8"),
    ],
    ids=["image", "response", "surrogate", "path", "deep", "digits", "options", "bytes"],
)
def test_one_odd_row_never_hides_the_others(tmp_path, row, reason):
    (tmp_path / "a.png").write_bytes(png())
    good = b'{"image": "a.png", "question": "?"}'
    (tmp_path / "q.jsonl").write_bytes(b"\n".join([good, row if isinstance(row, bytes) else row.encode(), good]))
    benchmark = find_benchmark(str(tmp_path / "q.jsonl"))
    assert [benchmark.example(number).question for number in (0, 2)] == ["?", "?"]
    with pytest.raises(InputError, match=reason):
        benchmark.example(1)


def test_valid_tables_are_read_whatever_their_separators_marks_and_lengths(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    long = "long " * 50_000
    lines = [{"image": "a.png", "question": "before\u2028after\x85end"}, {"image": "a.png", "question": long}]
    text = "\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (tmp_path / "q.jsonl").write_text("\ufeff" + text, "utf-8")
    (tmp_path / "q.csv").write_text(f'\ufeffimage,question\na.png,"{long}"\na.png\na.png,?,more\na.png,é\n', "utf-8")
    own = find_benchmark(str(tmp_path / "q.jsonl"))
    assert [own.example(number).question for number in range(2)] == [line["question"] for line in lines]
    table = find_benchmark(str(tmp_path / "q.csv"))
    assert table.example(0).question == long
    assert table.example(1).question == ""
    with pytest.raises(InputError, match=r"line 4 of .* has 3 cells, but there are only 2 columns"):
        table.example(2)
    assert table.example(3).question == "é"


def test_a_text_beside_a_picture_that_is_not_utf8_is_left_out_alone(tmp_path):
    for name, text in (("a", b"What?"), ("b", "é".encode("latin-1"))):
        (tmp_path / f"{name}.png").write_bytes(png())
        (tmp_path / f"{name}.txt").write_bytes(text)
    pairs = find_benchmark(str(tmp_path))
    assert pairs.example(0).question == "What?"
    with pytest.raises(InputError, match=r"b\.txt is not UTF-8"):
        pairs.example(1)


def boxed(tmp_path, **row):
    (tmp_path / "a.png").write_bytes(png("blue"))
    line = {"image": "a.png", "question": "?", **row}
    (tmp_path / "q.jsonl").write_text(json.dumps(line))
    return open_user_questions(tmp_path / "q.jsonl").example(0).evidence_boxes


@pytest.mark.parametrize(
    ("row", "boxes"),
    [
        ({}, ()),
        ({"box": ""}, ()),
        ({"box": [1, 2, 3, 4.5]}, ((1, 2, 3, 4.5),)),
        ({"box": "1, 2, 3, 4"}, ((1, 2, 3, 4),)),
        ({"boxes": [[1, 2, 3, 4], [0, 0, 5, 5]]}, ((1, 2, 3, 4), (0, 0, 5, 5))),
        ({"boxes": "[[1, 2, 3, 4], [0, 0, 5, 5]]"}, ((1, 2, 3, 4), (0, 0, 5, 5))),
        ({"boxes": "[1, 2, 3, 4], [0, 0, 5, 5]"}, ((1, 2, 3, 4), (0, 0, 5, 5))),
    ],
)
def test_boxes_are_one_list_of_four_numbers_or_several(tmp_path, row, boxes):
    assert boxed(tmp_path, **row) == boxes


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"box": [1, 2, 3]}, "box is not a list of left, top, right and bottom"),
        ({"box": "left"}, "box is not a list of left, top, right and bottom"),
        ({"box": {"left": 1}}, "box is not a list of left, top, right and bottom"),
        ({"box": [3, 2, 1, 4]}, r"the box \[3, 2, 1, 4\] is empty"),
        ({"box": [-9, -9, -1, -1]}, "lies outside the picture"),
        ({"boxes": [[1, 2, 3, 4], [1, 2, "3", 4]]}, "box is not a list of left, top, right and bottom"),
        ({"image": None, "images": ["a.png", "a.png"], "box": [1, 2, 3, 4]}, "boxes need a row with one picture"),
    ],
)
def test_a_box_that_cannot_be_used_says_why(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        boxed(tmp_path, **row)
