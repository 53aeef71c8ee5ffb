"""Loaders: real schemas, real libraries, and every trap that the datasets set."""

from __future__ import annotations

import sys

import pytest

from support.dataset_files import base64_png, image, mmstar_rows, png, write_parquet, write_tsv
from vtrace.benchmarks.grading import grade
from vtrace.benchmarks.multiple_choice import inline_options
from vtrace.benchmarks.readers.hub import fetch_dataset
from vtrace.benchmarks.registry import PUBLIC_BENCHMARKS, describe_benchmarks, find_benchmark
from vtrace.errors import InputError

OPTIONS = ["small", "large", "round", "flat"]


def only(tmp_path, name, row, file="data.parquet"):
    """The example made of one row of a benchmark."""
    return find_benchmark(name, write_parquet(tmp_path / file, name, [row])).example(0)


def colour_of(example, picture=0):
    return example.images[picture].convert("RGB").getpixel((5, 5))


def test_mmstar_lists_its_options_in_the_question(tmp_path):
    benchmark = find_benchmark("mmstar", write_parquet(tmp_path / "mmstar.parquet", "mmstar", mmstar_rows(5)))
    assert benchmark.size == 5
    assert [benchmark.key(n) for n in range(5)] == ["0", "1", "2", "3", "4"]
    example = benchmark.example(4)
    assert example.gold.options == ("red, as of a rose", "green", "blue", "none of these")
    assert colour_of(example) == (0, 128, 0)
    assert grade(example, "B") == grade(example, "green") == "correct"
    assert "Options: A: red" in example.question


def test_mathvista_has_texts_for_answers_floats_for_precision_and_paths_for_pictures(tmp_path):
    row = {
        "pid": "7",
        "question": "How large is it?",
        "image": "images/7.jpg",
        "decoded_image": image("blue", "JPEG"),
        "question_type": "multi_choice",
        "answer_type": "text",
        "choices": OPTIONS,
        "answer": "large",
    }
    example = only(tmp_path, "mathvista", row)
    assert example.question.endswith("(A) small\n(B) large\n(C) round\n(D) flat")
    assert example.gold.answers == ("B",)
    assert grade(example, "B") == grade(example, "Large") == "correct"
    free = row | {"choices": None, "answer": "1.2", "answer_type": "float", "precision": 1.0, "unit": "$"}
    example = only(tmp_path, "mathvista", free)
    assert example.question == "How large is it? (unit: $)\nGive the answer with 1 decimal place."
    assert example.gold.decimals == 1
    assert isinstance(example.gold.decimals, int)
    assert grade(example, "1.24") == grade(example, "$1.2") == "correct"
    assert grade(example, "1.3") == "wrong"
    whole = only(tmp_path, "mathvista", free | {"answer": "3", "answer_type": "integer", "precision": None})
    assert grade(whole, "3.0") == "correct"
    assert grade(whole, "3.7") == "wrong"


def test_mmmu_keeps_the_pictures_it_refers_to_and_numbers_them(tmp_path):
    row = {
        "id": "validation_Art_1",
        "question": "Compare <image 3> with <image 1>.",
        "options": "['it\\'s <image 1>', \"b\"]",
        "image_1": image("red"),
        "image_2": image("green"),
        "image_3": image("blue"),
        "answer": "A",
        "question_type": "multiple-choice",
    }
    example = only(tmp_path, "mmmu", row)
    assert example.question == "Compare <image 2> with <image 1>.\n(A) it's <image 1>\n(B) b"
    assert [colour_of(example, k) for k in range(2)] == [(255, 0, 0), (0, 0, 255)]
    unmarked = only(tmp_path, "mmmu", row | {"question": "What is it?", "options": "['x', 'y']"})
    assert len(unmarked.images) == 3
    with pytest.raises(InputError, match=r"refers to <image 5>, but the dataset has no such picture"):
        only(tmp_path, "mmmu", row | {"question": "Look at <image 5>."})


def test_mmmu_has_open_questions_some_with_several_answers(tmp_path):
    row = {
        "id": "validation_Math_1",
        "question": "How much?",
        "options": "[]",
        "image_1": image(),
        "answer": "12.345",
        "question_type": "open",
    }
    assert grade(only(tmp_path, "mmmu", row), "12.35") == "correct"
    several = only(tmp_path, "mmmu", row | {"answer": "['sedimentary', 'sediment']"})
    assert grade(several, "a kind of sediment") == "correct"
    assert grade(several, "granite") == "wrong"


def test_mmmu_is_read_from_a_folder_per_subject_without_its_other_splits(tmp_path):
    row = {"question": "?", "options": "['x', 'y']", "image_1": image(), "answer": "A"}
    for subject in ("Art", "Music"):
        for split in ("dev", "validation", "test"):
            path = tmp_path / subject / f"{split}-00000-of-00001.parquet"
            write_parquet(path, "mmmu", [row | {"id": f"{split}_{subject}_1"}])
    benchmark = find_benchmark("mmmu", tmp_path)
    assert [benchmark.key(n) for n in range(benchmark.size)] == ["validation_Art_1", "validation_Music_1"]


def test_mmmu_pro_has_three_forms_and_the_seen_one_is_graded_after_reasoning(tmp_path):
    row = {"id": "test_Art_1", "question": "?", "options": repr(list("qrstuvwxyz")), "image_1": image(), "answer": "J"}
    write_parquet(tmp_path / "standard (10 options)" / "test-00000-of-00001.parquet", "mmmu-pro", [row])
    four = row | {"options": "['q', 'r', 's', 't']", "answer": "D"}
    write_parquet(tmp_path / "standard (4 options)" / "test-00000-of-00001.parquet", "mmmu-pro", [four])
    seen = {"id": "test_Art_1", "image": image(), "options": repr(OPTIONS), "answer": "C"}
    write_parquet(tmp_path / "vision" / "test-00000-of-00001.parquet", "mmmu-pro-vision", [seen])
    assert len(find_benchmark("mmmu-pro", tmp_path).example(0).gold.options) == 10
    assert len(find_benchmark("mmmu-pro-4", tmp_path).example(0).gold.options) == 4
    example = find_benchmark("mmmu-pro-vision", tmp_path).example(0)
    assert example.question == "Answer the multiple-choice question in the picture."
    assert grade(example, "(C) round") == "correct"


def test_mathverse_has_choices_inline_and_versions_without_text(tmp_path):
    row = {
        "sample_index": "1",
        "problem_version": "Text Dominant",
        "image": image(),
        "answer": "D",
        "question_type": "multi-choice",
        "question": "Find the angle. ()\nChoices:\nA:40°\nB:60°\nC:120°\nD:140°",
    }
    example = only(tmp_path, "mathverse", row)
    assert example.gold.options == ("40°", "60°", "120°", "140°")
    assert grade(example, "140 degrees") == "correct"
    seen = only(tmp_path, "mathverse", row | {"question": "", "problem_version": "Vision Only"})
    assert seen.question == "Answer the question in the picture."
    assert grade(seen, "D") == "correct"
    free = only(tmp_path, "mathverse", row | {"question": "y?", "question_type": "free-form", "answer": "y=2x+1"})
    assert grade(free, "y = 2x + 1") == "correct"
    assert grade(free, "2x + 1") == "undecided"
    assert "text_only" not in " ".join(PUBLIC_BENCHMARKS["mathverse"].files)
    write_parquet(tmp_path / "testmini_text_only.parquet", "mathverse", [row])
    write_parquet(tmp_path / "testmini.parquet", "mathverse", [row, row])
    assert find_benchmark("mathverse", tmp_path).size == 2


@pytest.mark.parametrize(
    "file", ["data.parquet", "data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"]
)
def test_visualpuzzles_is_its_only_split_whatever_that_is_called(tmp_path, file):
    row = {"id": 4, "image": image(), "question": "Which figure in <image2>?", "options": None, "answer": "B"}
    write_parquet(tmp_path / file, "visualpuzzles", [row])
    example = find_benchmark("visualpuzzles", tmp_path).example(0)
    assert example.question == "Which figure in <image2>?\nChoose from A, B, C, D in the picture."
    assert grade(example, "(B)") == "correct"
    assert grade(only(tmp_path, "visualpuzzles", row | {"options": OPTIONS}), "large") == "correct"


def test_hallusionbench_has_texts_for_all_its_numbers(tmp_path):
    row = {
        "category": "VD",
        "subcategory": "figure",
        "set_id": "0",
        "figure_id": "1",
        "question_id": "2",
        "question": "Is it round?",
        "gt_answer": "0",
        "image": image(),
    }
    write_parquet(tmp_path / "data" / "image-00000-of-00001.parquet", "hallusionbench", [row])
    write_parquet(tmp_path / "data" / "non_image-00000-of-00001.parquet", "hallusionbench", [row | {"image": None}] * 3)
    benchmark = find_benchmark("hallusionbench", tmp_path)
    assert (benchmark.size, benchmark.key(0)) == (1, "VD_figure_0_1_2")
    assert grade(benchmark.example(0), "No, it is not") == "correct"


def test_realworldqa_asks_for_no_curt_answer(tmp_path):
    curt = "Please answer directly with only the letter of the correct option and nothing else."
    row = {"image": image("green", "WEBP"), "question": f"How far?\n\nA. near\nB. far\n{curt}", "answer": "B"}
    example = only(tmp_path, "realworldqa", row)
    assert example.question == "How far?\n\nA. near\nB. far"
    assert grade(example, "far") == "correct"
    count = "How many? Please answer directly with a single word or number."
    number = only(tmp_path, "realworldqa", row | {"question": count, "answer": "3"})
    assert number.question == "How many?"
    assert grade(number, "3 cars") == "correct"
    word = only(tmp_path, "realworldqa", row | {"question": "Where?", "answer": "Left"})
    assert grade(word, "left") == "correct"
    twice = find_benchmark("realworldqa", write_parquet(tmp_path / "two.parquet", "realworldqa", [row, row]))
    assert [twice.key(0), twice.key(1)] == ["0", "1"]


def test_mathvision_has_options_that_are_drawn(tmp_path):
    row = {
        "id": "3",
        "question": "Which piece? <image1>",
        "options": list("ABCDE"),
        "image": "images/3.jpg",
        "decoded_image": image(),
        "answer": "E",
        "level": 2,
    }
    example = only(tmp_path, "mathvision", row)
    assert example.question == "Which piece? <image1>\nChoose from A, B, C, D, E in the picture."
    assert grade(example, r"\boxed{E}") == "correct"
    free = only(tmp_path, "mathvision", row | {"options": [], "answer": r"\frac{1}{3}"})
    assert grade(free, "0.333") == "correct"
    assert grade(free, "0.3") == "wrong"


def test_options_inside_a_question_may_hold_commas_and_letters():
    assert inline_options("Which?\nOptions: A: 1, 2 and 3, B: A or B, C: none") == ("1, 2 and 3", "A or B", "none")
    assert inline_options("Which?\nA. one\nB. two") == ("one", "two")
    assert inline_options("Is A: the first of the letters?") == ()


@pytest.mark.parametrize("name", PUBLIC_BENCHMARKS)
def test_every_benchmark_opens_from_a_table_of_vlmevalkit(tmp_path, name):
    row = {
        "index": "9",
        "image": base64_png("blue"),
        "question": 'Which "one"?\nLook\twell.',
        "A": "small",
        "B": "large",
        "answer": "B",
        "category": "x",
    }
    write_tsv(tmp_path / f"{PUBLIC_BENCHMARKS[name].tsv}.tsv", [row, row | {"index": "10"}])
    benchmark = find_benchmark(name, tmp_path)
    example = benchmark.example(0)
    assert (benchmark.size, benchmark.key(1)) == (2, "10")
    assert example.question == 'Which "one"?\nLook\twell.\n(A) small\n(B) large'
    assert colour_of(example) == (0, 0, 255)
    assert grade(example, "large") == "correct"


@pytest.mark.parametrize(
    ("name", "row", "question", "said"),
    [
        ("realworldqa", {"question": "How far? Please answer directly with only the letter.", "A": "near", "B": "far"},
         "How far?\n(A) near\n(B) far", "far"),
        ("mathvision", {"question": "Which?", "choices": "['A', 'B', 'C']"},
         "Which?\nChoose from A, B, C in the picture.", "(B)"),
        ("visualpuzzles", {"question": "Which?", "options": repr(OPTIONS)},
         "Which?\n(A) small\n(B) large\n(C) round\n(D) flat", "large"),
        ("mathverse", {"question": "", "question_type": "multi-choice"}, "Answer the question in the picture.", "(B)"),
        ("mmmu-pro-vision", {"question": "", "options": repr(OPTIONS)}, "Answer the question in the picture.", "large"),
        ("mathvista", {"question": "Which?", "choices": repr(OPTIONS[:2]), "answer": "large"},
         "Which?\n(A) small\n(B) large", "B"),
        ("hallusionbench", {"question": "Is it round?", "answer": "0"}, "Is it round? Answer yes or no.", "No"),
        ("hallusionbench", {"question": "Is it round?", "answer": "Yes"}, "Is it round? Answer yes or no.", "yes"),
    ],
)  # fmt: skip
def test_traps_are_the_same_in_a_table_of_vlmevalkit(tmp_path, name, row, question, said):
    table = write_tsv(tmp_path / "x.tsv", [{"index": "1", "image": base64_png(), "answer": "B"} | row])
    example = find_benchmark(name, table).example(0)
    assert example.question == question
    assert grade(example, said) == "correct"


def test_pictures_of_vlmevalkit_may_be_shared_or_several(tmp_path):
    row = {"index": "1", "image": base64_png("blue"), "question": "?", "answer": "no", "split": "validation"}
    rows = [
        row,
        row | {"index": "2", "image": "1"},
        row | {"index": "3", "image": repr([base64_png("red"), base64_png("green")])},
        row | {"index": "4", "image": "77"},
        row | {"index": "5", "image": ""},
        row | {"index": "6", "image": "%" * 99},
        row | {"index": "7", "split": "dev"},
    ]
    benchmark = find_benchmark("mmmu", write_tsv(tmp_path / "MMMU_DEV_VAL.tsv", rows))
    assert benchmark.size == 6
    assert colour_of(benchmark.example(1)) == (0, 0, 255)
    assert [colour_of(benchmark.example(2), k) for k in range(2)] == [(255, 0, 0), (0, 128, 0)]
    for number, reason in ((3, "row '77', which does not exist"), (4, "there is no picture"), (5, "not base64")):
        with pytest.raises(InputError, match=reason):
            benchmark.example(number)


def test_a_column_that_changed_its_name_is_named(tmp_path):
    import pyarrow.parquet as pq

    path = write_parquet(tmp_path / "mmstar.parquet", "mmstar", mmstar_rows())
    table = pq.read_table(path)
    pq.write_table(table.rename_columns(["prompt" if n == "question" else n for n in table.column_names]), path)
    with pytest.raises(InputError, match=r"mmstar.parquet has no column 'question'; it has: index, prompt, image, "):
        find_benchmark("mmstar", path)
    with pytest.raises(InputError, match=r"x.tsv has no column 'image'"):
        find_benchmark("mmstar", write_tsv(tmp_path / "x.tsv", [{"index": 1, "question": "?", "answer": "A"}]))


def test_a_truncated_file_is_named_and_the_others_are_used(tmp_path):
    row = {"question": "?", "options": "['x', 'y']", "image_1": image(), "answer": "A"}
    paths = [
        write_parquet(tmp_path / name / "validation-00000-of-00001.parquet", "mmmu", [row | {"id": name}] * 2)
        for name in ("Art", "Music")
    ]
    paths[0].write_bytes(paths[0].read_bytes()[:-100])
    benchmark = find_benchmark("mmmu", tmp_path)
    assert [benchmark.key(n) for n in range(benchmark.size)] == ["Music", "Music#2"]
    ((file, reason),) = benchmark.lost
    assert file == "validation-00000-of-00001.parquet"
    assert "truncated or damaged" in reason
    with pytest.raises(InputError, match=r"is truncated or damaged .*; download it again"):
        find_benchmark("mmmu", paths[0])
    whole = write_tsv(
        tmp_path / "a.tsv", [{"index": n, "image": base64_png(), "question": "?", "answer": "A"} for n in range(3)]
    )
    whole.write_bytes(whole.read_bytes()[:-5])
    assert find_benchmark("mmstar", whole).size == 2
    assert "line 4 has" in find_benchmark("mmstar", whole).lost[0][1]


def test_damage_inside_a_file_costs_only_the_rows_it_hits(tmp_path):
    rows = mmstar_rows(4)
    path = write_parquet(tmp_path / "mmstar.parquet", "mmstar", rows, group=2)
    data = bytearray(path.read_bytes())
    at = data.index(rows[0]["image"]["bytes"][:40])
    data[at - 60 : at] = bytes(60)  # the head of the page of pictures
    path.write_bytes(data)
    benchmark = find_benchmark("mmstar", path)
    with pytest.raises(InputError, match=r"mmstar.parquet is damaged|cannot read the picture"):
        benchmark.example(0)
    assert colour_of(benchmark.example(3)) == (255, 0, 0)


def test_pictures_that_do_not_decode_are_reasons_of_their_own(tmp_path):
    rows = mmstar_rows(3)
    rows[0]["image"]["bytes"] = rows[0]["image"]["bytes"][:60]
    rows[1]["image"]["bytes"] = b"<html>not found</html>"
    rows[2]["image"] = None
    benchmark = find_benchmark("mmstar", write_parquet(tmp_path / "m.parquet", "mmstar", rows))
    for number, reason in (
        (0, "cannot read the picture: "),
        (1, "is not a picture"),
        (2, "there is no picture"),
    ):
        with pytest.raises(InputError, match=reason):
            benchmark.example(number)


def test_places_without_the_benchmark_are_explained(tmp_path):
    with pytest.raises(InputError, match=r"nowhere does not exist; give a folder of Parquet files"):
        find_benchmark("mmstar", tmp_path / "nowhere")
    with pytest.raises(
        InputError, match=r"neither data/testmini-\*.parquet nor MathVista_MINI.tsv \(there is no Parquet"
    ):
        find_benchmark("mathvista", tmp_path)
    with pytest.raises(InputError, match="generated by VTrace; remove --data"):
        find_benchmark("shapes", tmp_path)
    with pytest.raises(
        InputError, match=r"unknown benchmark 'mmsta'; give a CSV or JSONL file, a folder, or one of: shapes"
    ):
        find_benchmark("mmsta")


def test_a_dataset_that_cannot_be_had_is_reported_with_every_place_that_was_tried():
    with pytest.raises(InputError) as caught:
        fetch_dataset(("lmms-lab/RealWorldQA", "xai-org/RealworldQA"), ("data/*",), "RealWorldQA")
    message = str(caught.value)
    assert message.startswith("cannot get RealWorldQA (lmms-lab/RealWorldQA: ")
    assert "xai-org/RealworldQA: " in message
    assert message.endswith("; download it and pass its folder with --data")
    assert "\n" not in message


def test_without_pyarrow_the_message_says_what_to_install(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "m.parquet", "mmstar", mmstar_rows(1))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="pip install pyarrow"):
        find_benchmark("mmstar", path)


def test_easy_vqa_is_read_from_a_folder(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "0.png").write_bytes(png())
    (tmp_path / "questions.json").write_text('[["what shape?", "circle", 0], ["is it red?", "yes", 0]]')
    benchmark = find_benchmark("easy-vqa", tmp_path)
    assert benchmark.size == 2
    assert grade(benchmark.example(0), "Circle") == grade(benchmark.example(1), "yes") == "correct"
    with pytest.raises(InputError, match=r"there is no file .*questions.json"):
        find_benchmark("easy-vqa", tmp_path / "images")


def test_the_list_has_size_licence_and_place_of_every_benchmark():
    names = [facts["name"] for facts in describe_benchmarks()]
    assert names[:6] == ["shapes", "shapes-dev", "facts", "facts-dev", "easy-vqa", "mmstar"]
    assert all(facts["size"] and facts["licence"] and facts["from"] for facts in describe_benchmarks())
    assert {facts["name"]: facts["size"] for facts in describe_benchmarks()}["mathverse"] == 3940
