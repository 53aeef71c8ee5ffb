"""What a researcher runs on day one, with a small random model and a small file in place of the large ones."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from support.dataset_files import image, mmstar_rows, png, write_parquet
from vtrace.benchmarks.readers.lmms_eval import read_samples, with_samples
from vtrace.benchmarks.registry import find_benchmark
from vtrace.errors import InputError
from vtrace.faithfulness.plan import EvaluationPlan
from vtrace.faithfulness.render import markdown
from vtrace.faithfulness.run import evaluate
from vtrace.faithfulness.store import read_run
from vtrace.faithfulness.tables import tabulate
from vtrace.lvlm.checkpoint_source import EMBEDDED
from vtrace.methods.registry import METHODS
from vtrace.tracing.defaults import SYSTEM_PROMPT
from vtrace.tracing.example import tidy
from vtrace.tracing.prompt import process_prompt

MODEL, COMMIT = "Qwen/Qwen3-VL-8B-Instruct", "0123456789abcdef0123456789abcdef01234567"
REPLY = 4  # tokens; a random model never stops by itself
PLAN = EvaluationPlan(("random", "attention"), steps=2, max_new_tokens=40)


def in_cache(home: Path, kind: str, name: str) -> Path:
    """The folder in which the hub's library keeps a repository that it has downloaded."""
    place = home / "hub" / f"{kind}s--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    snapshot = place / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    return snapshot


@pytest.fixture(scope="module")
def home(random_lvlm, tmp_path_factory):
    """A home of the hub that has the model and MMStar: both small, both through the real loading code."""
    home = tmp_path_factory.mktemp("home")
    rows = [row | {"question": "Hue?\nOptions: A: red, B: green"} for row in mmstar_rows(3)]  # short, for the slow ones
    rows[1]["image"]["bytes"] = rows[1]["image"]["bytes"][:50]
    data = write_parquet(in_cache(home, "dataset", "Lin-Chen/MMStar") / "mmstar.parquet", "mmstar", rows)
    prompt = process_prompt(random_lvlm, tidy(find_benchmark("mmstar", data).example(0)), SYSTEM_PROMPT)
    snapshot = in_cache(home, "model", MODEL)
    random_lvlm.model.save_pretrained(snapshot)
    for name in ("tokenizer.json", "tokenizer_config.json", "processor_config.json", "chat_template.jinja"):
        shutil.copy(EMBEDDED["pinhole"] / name, snapshot)
    config = json.loads((snapshot / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = len(prompt.ids) + REPLY
    (snapshot / "config.json").write_text(json.dumps(config))
    return home


@pytest.fixture(scope="module")
def day_one(home, tmp_path_factory):
    """The command as it is typed, in a process of its own: the hub's library reads its home when it is imported."""
    folder = tmp_path_factory.mktemp("work")
    command = f"-m vtrace.cli evaluate --benchmark mmstar --model {MODEL} --methods all"
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run(
        [sys.executable, *command.split()],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.mark.slow
def test_the_whole_command_measures_every_method_on_what_can_be_measured(day_one):
    folder, done = day_one
    assert done.stdout.strip() == "runs/mmstar-Qwen3-VL-8B-Instruct/run.sqlite"
    assert "vtrace: left out 1: cannot read the picture: image file is truncated; " in done.stderr
    run = read_run(folder / "runs" / "mmstar-Qwen3-VL-8B-Instruct")
    assert [row["key"] for row in run.rows.item] == ["0", "2"]
    assert {row["method"] for row in run.rows.result} == set(METHODS)
    assert len(run.rows.result) == 2 * len(METHODS)
    assert run.settings["revision"].startswith("weights ")
    assert {row["verdict"] for row in run.rows.item} == {"unparsed"}, "a random model gives no final answer"


@pytest.mark.slow
def test_the_table_stands_beside_the_papers_numbers_and_says_what_was_left_out(run, day_one):
    folder, _ = day_one
    code, text, _ = run(
        "table", folder / "runs" / "mmstar-Qwen3-VL-8B-Instruct", "--methods", "vtrace,ifr,rollout,random"
    )
    assert code == 0
    row = next(line for line in text.splitlines() if "RISE ins" in line)
    target, items, setting, _, ours, ifr, rollout, chance = (cell.strip() for cell in row.strip("|").split("|"))
    assert (target, items, setting) == ("response", "2", "image")
    assert all(cell.endswith(")") for cell in (ours, ifr, rollout)), "the paper has these"
    assert not chance.endswith(")")
    assert "Paper: its numbers for this model and benchmark." in text
    assert "Answers: 0 of 2 correct, 2 unparsed." in text
    assert "Left out: 1 of 3 items." in text
    assert "Left out 1: cannot read the picture: " in text


def test_a_benchmark_that_is_not_there_is_one_line(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run("evaluate", "--benchmark", "mathvista", "--model", "pinhole")
    assert code == 2
    assert err.startswith("vtrace: cannot get MathVista (testmini) (AI4Math/MathVista: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_another_revision_of_the_model_is_refused(pinhole, random_lvlm, tmp_path):
    benchmark = find_benchmark("shapes-dev")
    evaluate(random_lvlm, benchmark, PLAN, tmp_path, limit=1)
    evaluate(dataclasses.replace(random_lvlm), benchmark, PLAN, tmp_path, limit=1)
    weight = random_lvlm.model.model.language_model.norm.weight
    before = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.mul_(1.01)
        with pytest.raises(
            InputError, match=r"was made with revision 'weights \w+', not 'weights \w+'; choose another"
        ):
            evaluate(random_lvlm, benchmark, PLAN, tmp_path, limit=1)
    finally:
        with torch.no_grad():
            weight.copy_(before)


def test_the_revision_is_that_of_the_values_not_of_their_type(pinhole):
    import vtrace

    assert vtrace.load("pinhole", dtype="bfloat16").revision == pinhole.revision
    assert vtrace.load("pinhole").revision == pinhole.revision


@pytest.mark.parametrize("change", [{"question": "What else?"}, {"image": image("teal")}, {"answer": "C"}])
def test_an_example_that_changed_under_its_key_stops_the_run(random_lvlm, tmp_path, change):
    rows = mmstar_rows(2)
    evaluate(
        random_lvlm, find_benchmark("mmstar", write_parquet(tmp_path / "a.parquet", "mmstar", rows)), PLAN, tmp_path
    )
    rows[1] |= change
    changed = find_benchmark("mmstar", write_parquet(tmp_path / "a.parquet", "mmstar", rows))
    more = dataclasses.replace(PLAN, methods=("random", "attention", "rollout"))
    with pytest.raises(InputError, match="1 has a different picture, question or answer than when"):
        evaluate(random_lvlm, changed, more, tmp_path)
    run = read_run(tmp_path)
    assert not run.rows.left_out
    assert [row["item"] for row in run.rows.result if row["method"] == "rollout"] == ["0"]


def test_what_was_left_out_can_be_mended_and_joins_the_run(random_lvlm, tmp_path):
    folder = tmp_path / "data"
    row = {"question": "Which?", "options": "['x', 'y']", "answer": "A"}
    good = write_parquet(folder / "Art" / "validation-0.parquet", "mmmu", [row | {"id": "a", "image_1": image()}])
    bad = write_parquet(folder / "Zoo" / "validation-1.parquet", "mmmu", [row | {"id": "z", "image_1": image()}])
    whole = bad.read_bytes()
    bad.write_bytes(whole[: len(whole) // 2])
    run = tmp_path / "run"
    evaluate(random_lvlm, find_benchmark("mmmu", folder), PLAN, run)
    text = markdown(tabulate(read_run(run)))
    assert "Unreadable file, number of items unknown: validation-1.parquet: the file is truncated or damaged" in text
    bad.write_bytes(whole)
    write_parquet(good, "mmmu", [row | {"id": "a", "image_1": image()}, row | {"id": "b"}])
    evaluate(random_lvlm, find_benchmark("mmmu", folder), PLAN, run)
    text = markdown(tabulate(read_run(run)))
    assert "Unreadable file" not in text
    assert "Left out: 1 of 3 items." in text
    assert "Left out 1: no picture was given" in text
    write_parquet(good, "mmmu", [row | {"id": "a", "image_1": image()}, row | {"id": "b", "image_1": image()}])
    evaluate(random_lvlm, find_benchmark("mmmu", folder), PLAN, run)
    assert "Left out" not in markdown(tabulate(read_run(run)))


def logged(number, target, response="It is red.\nFinal answer: A", **more):
    """A line as lmms-eval writes it: responses wrapped in lists, and once only if filtering changed nothing."""
    return json.dumps(
        {
            "doc_id": number,
            "target": target,
            "filtered_resps": [response],
            "input": "Which colour is shown?\nThink.",
            "doc_hash": "0",
            "prompt_hash": "0",
            "target_hash": "0",
            "average": {"score": 1.0},
            **more,
        }
    )


def test_answers_that_lmms_eval_logged_become_traces(run, pinhole, tmp_path):
    data = write_parquet(tmp_path / "mmstar.parquet", "mmstar", mmstar_rows(3))
    log = tmp_path / "samples_mmstar.jsonl"
    cut = logged(0, "A", "A", resps=[["It is red.\nFinal answer: A"]])  # a filter kept only the letter
    log.write_text("\n".join([logged(2, "C"), cut]))
    asked = ("--benchmark", "mmstar", "--data", data, "--samples", log, "--system", "")
    measured = ("--methods", "random", "--steps", 2, "--target", "answer")
    code, _, _ = run("evaluate", *asked, *measured, "--out", tmp_path / "run")
    assert code == 0
    items = read_run(tmp_path / "run").rows.item
    assert [(item["key"], item["verdict"], item["finish"]) for item in items] == [
        ("2", "wrong", "supplied"),
        ("0", "correct", "supplied"),
    ]
    assert {item["response"] for item in items} == {"It is red.\nFinal answer: A"}
    assert {item["question"] for item in items} == {"Which colour is shown?\nThink."}


def test_logs_that_do_not_fit_are_refused(tmp_path):
    benchmark = find_benchmark("mmstar", write_parquet(tmp_path / "mmstar.parquet", "mmstar", mmstar_rows(3)))
    log = tmp_path / "samples.jsonl"
    for text, message in (
        (logged(3, "A"), "has an item 3, but mmstar has only 3; the log belongs to another benchmark or split"),
        ('{"target": "A"}', "line 1 of .* is not a sample of lmms-eval: 'doc_id'"),
        ("nonsense", "line 1 of .* is not JSON"),
        ("5", "line 1 of .* is not a sample of lmms-eval"),
        (logged(0, "A", ""), "line 1 of .* has no response"),
        ("\n", "has no samples"),
    ):
        log.write_text(text)
        with pytest.raises(InputError, match=message):
            with_samples(benchmark, log)
    log.write_text(logged(0, "B"))
    with pytest.raises(InputError, match="the right answer is 'B' in the log and 'A' in the benchmark"):
        with_samples(benchmark, log).example(0)
    with pytest.raises(InputError, match="there is no file"):
        read_samples(tmp_path / "nowhere.jsonl")


def test_a_damaged_line_of_a_log_is_left_out_alone(run, tmp_path):
    data = write_parquet(tmp_path / "mmstar.parquet", "mmstar", mmstar_rows(3))
    log = tmp_path / "samples.jsonl"
    log.write_text("\n".join(["nonsense", logged(1, "B", ""), logged(2, "C"), '{"doc_id": {}}']))
    asked = ("--benchmark", "mmstar", "--data", data, "--samples", log, "--methods", "random", "--steps", 2)
    code, _, err = run("evaluate", *asked, "--out", tmp_path / "run", "--quiet")
    assert code == 0, err
    rows = read_run(tmp_path / "run").rows
    assert [item["key"] for item in rows.item] == ["2"]
    assert [one["item"] for one in rows.left_out] == ["line 1", "line 2", "line 4"]
    assert [one["reason"].partition(": ")[0].rsplit("/", 1)[1] for one in rows.left_out] == [
        "samples.jsonl is not JSON",
        "samples.jsonl has no response",
        "samples.jsonl is not a sample of lmms-eval",
    ]


def test_user_questions_run_from_file_to_table(run, tmp_path):
    import vtrace

    shown = [vtrace.example(f"dev-{number}") for number in (0, 1)]
    lines = []
    for number, example in enumerate(shown):
        example.images[0].save(tmp_path / f"{number}.png")
        said = f"I looked.\nFinal answer: {example.answer}"
        lines.append(
            {"image": f"{number}.png", "question": example.question, "answer": example.answer, "response": said}
        )
    (tmp_path / "notes.png").write_bytes(png()[:30])
    lines.append({"image": "notes.png", "question": "What is it?", "answer": "red"})
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)))
    out = tmp_path / "run"
    code, _, _ = run("evaluate", "-b", tmp_path / "mine.jsonl", "--methods", "random", "--steps", 2, "--out", out)
    assert code == 0
    code, text, _ = run("table", out)
    assert code == 0
    assert "pinhole on mine;" in text
    assert "Answers: 2 of 2 correct." in text
    assert "Left out: 1 of 3 items." in text


def test_the_list_of_benchmarks_is_printed_and_piped(run):
    code, out, _ = run("benchmarks")
    assert code == 0
    assert "Lin-Chen/MMStar" in out
    code, out, _ = run("benchmarks", "--json")
    assert {facts["name"] for facts in json.loads(out)} >= {"mmstar", "mmmu-pro-vision", "easy-vqa"}
