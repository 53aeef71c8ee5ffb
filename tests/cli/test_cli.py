"""The command line as a user meets it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest
from PIL import Image

import vtrace
from vtrace.lvlm.families.refused import REFUSED
from vtrace.lvlm.families.supported import FAMILIES, image_text_types
from vtrace.report.trace_document import ATTRIBUTION_SCHEMA

HEAVY = {"torch", "transformers", "numpy", "matplotlib"}


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures") / "scene.png"
    vtrace.example("dev-2").images[0].save(path)
    return path


@pytest.fixture
def wide(monkeypatch):
    """A terminal in which no cell of a table is broken."""
    monkeypatch.setenv("COLUMNS", "400")


def imported_by(*arguments: object) -> set[str]:
    """Which heavy packages a command imports, in a process of its own."""
    code = (
        "import sys\nfrom vtrace.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code\n"
        f"print(*({HEAVY!r} & sys.modules.keys()), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split())


INSTANT = ("--help", "--version", "explain --help", "study --help", "benchmarks", "methods", "models", "study list")


@pytest.mark.parametrize("command", INSTANT)
def test_help_and_lists_import_nothing_heavy(command):
    assert imported_by(*command.split()) == set()


def test_tables_need_no_model_library(run_folder):
    assert imported_by("table", run_folder).isdisjoint({"torch", "transformers"})


def processor_seconds(*command: object) -> float:
    """Processor time of a command: unlike time on the clock, it hardly depends on what else the machine does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_a_cold_start_costs_little_more_than_importing_its_libraries(tmp_path):
    libraries = "import torch\nfrom transformers import AutoProcessor, Qwen3VLForConditionalGeneration"

    def ratio() -> float:
        explained = processor_seconds("-m", "vtrace.cli", "explain", "--html", tmp_path / "a.html")
        return explained / processor_seconds("-c", libraries)

    assert any(ratio() < 2 for _ in range(3))  # 1.2 on an idle machine


def test_help_has_examples(run):
    code, out, _ = run("explain", "--help")
    assert code == 0
    assert "vtrace explain --trace saved.json --target" in out


def test_help_says_which_device_is_the_default(run):
    for command in ("explain", "compare", "evaluate", "study"):
        assert "a GPU if there is one, else the CPU" in " ".join(run(command, "--help")[1].split())


def test_without_arguments_an_embedded_example_is_explained(run, wide, attribution):
    code, out, err = run("explain")
    assert (code, err) == (0, "")
    assert attribution.trace.question in out
    assert attribution.trace.answer_text in out
    places = [out.index(item.label) for item in attribution.top(10) if item.kind == "image"]
    assert places
    assert places == sorted(places), "the ranking is printed in its order"


def test_json_on_stdout_is_the_attribution(run):
    code, out, _ = run("explain", "--json", "-", "--target", "answer", "--example", "test-9")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == ATTRIBUTION_SCHEMA
    assert document["target"]["name"] == "answer"
    assert len(document["scores"]) == len(document["trace"]["ids"])
    assert document["image_share"] + document["text_share"] == pytest.approx(1)
    scores = [item["score"] for item in document["top"]]
    assert scores == sorted(scores, reverse=True)


def test_every_output_at_once(run, picture, tmp_path):
    names = ["a.json", "a.html", "a.png", "trace.json"]
    places = [tmp_path / name for name in names]
    outputs = [
        part for pair in zip(("--json", "--html", "--png", "--save-trace"), places, strict=True) for part in pair
    ]
    code, _, err = run("explain", picture, "Name the shapes in row 2.", *outputs, "--target", "reasoning")
    assert code == 0
    assert sorted(err.splitlines()) == sorted(f"wrote {place}" for place in places)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
    saved, frozen = vtrace.read(places[0]), vtrace.read(places[3])
    assert saved.target.name == "reasoning"
    assert saved.trace == frozen
    assert places[1].read_text("utf-8").lower().startswith("<!doctype html>")
    with Image.open(places[2]) as figure:
        assert figure.format == "PNG"
    code, out, _ = run("explain", "--trace", places[3], "--target", "sentence 1", "--json", "-")
    assert code == 0
    assert json.loads(out)["target"]["name"] == "sentence 1"


def test_a_supplied_response(run, picture):
    code, out, _ = run("explain", picture, "Is there a star?", "--response", "I see.\nFinal answer: no", "--json", "-")
    assert code == 0
    assert json.loads(out)["answer"] == "no"


def test_ablation_switches_reach_the_result(run):
    switches = "--gamma 0.5 --no-centring --no-multihop --hops 3 --no-calibrate --calibrate-on target --receivers token"
    code, out, _ = run("explain", "--json", "-", *switches.split())
    assert code == 0
    assert json.loads(out)["options"] == {
        "gamma": 0.5,
        "centring": False,
        "multihop": False,
        "hops": 3,
        "calibrate": False,
        "calibrate_on": "target",
        "receivers": "token",
    }


BAD = {
    "one argument": (["explain", "only-a-picture.png"], 2, "at least one picture and a question"),
    "missing picture": (["explain", "nothing.png", "What?"], 2, "there is no picture at nothing.png"),
    "unknown target": (["explain", "--target", '"zebra"'], 2, "does not contain 'zebra'"),
    "no such example": (["explain", "--example", "zebra"], 2, "there is no example 'zebra'"),
    "unwritable": (["explain", "--html", "no/such/folder/a.html"], 2, "there is no folder"),
    "output is a folder": (["explain", "--png", "."], 2, "is a folder"),
    "missing trace": (["explain", "--trace", "nothing.json"], 2, "there is no file nothing.json"),
    "missing model": (["explain", "--model", "no/such-model-here"], 3, "cannot find the model"),
    "bad device": (["explain", "--device", "abacus"], 3, "unknown device 'abacus'; use cpu, cuda"),
    "two sources": (["explain", "a.png", "What?", "--example", "test-1"], 2, "--example are mutually exclusive"),
    "trace and response": (["explain", "--trace", "a", "--response", "b"], 2, "--response are mutually exclusive"),
    "bad dtype": (["explain", "--dtype", "float99"], 3, "unknown dtype"),
    "bad receivers": (["explain", "--receivers", "all"], 2, "use one of: 'predictor', 'token'"),
    "bad shard": (["evaluate", "--shard", "two"], 2, "write it as I/N"),
    "bad format": (["table", "run.sqlite", "--format", "word"], 2, "use one of: markdown"),
    "unknown study": (["study", "zebra"], 2, "unknown study 'zebra'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_an_exit_code(run, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, expected, word = BAD[name]
    code, out, err = run(*arguments)
    assert code == expected, err
    assert out == ""
    assert err.startswith("vtrace: ")
    assert err.count("\n") == 1, err
    assert word in err
    assert list(tmp_path.iterdir()) == []


def test_a_corrupt_picture(run, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nnot really")
    code, _, err = run("explain", tmp_path / "bad.png", "What?")
    assert (code, err.count("\n")) == (2, 1)
    assert "bad.png" in err


def test_models_that_cannot_be_explained_are_refused_with_the_reason(run, tmp_path):
    from transformers import AutoConfig

    AutoConfig.for_model("mllama").save_pretrained(tmp_path / "crossed")
    AutoConfig.for_model("gpt2").save_pretrained(tmp_path / "other")
    code, _, err = run("explain", "--model", tmp_path / "crossed")
    assert (code, err.count("\n")) == (3, 1)
    assert REFUSED["mllama"] in err
    code, _, err = run("explain", "--model", tmp_path / "other")
    assert (code, err.count("\n")) == (3, 1)
    assert "not supported yet" in err


def test_models_are_listed_with_their_status_and_those_refused_with_the_reason(run, wide):
    code, out, _ = run("models")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for family in FAMILIES:
        assert f"{family.name} {', '.join(family.model_types)} {family.status}" in lines
    for why in set(REFUSED.values()):
        assert f"{', '.join(kind for kind in sorted(REFUSED) if REFUSED[kind] == why)} {why}" in lines
    facts = json.loads(run("models", "--json")[1])
    assert facts["image_text_types"] == [one._asdict() for one in image_text_types()]
    assert [family["name"] for family in facts["families"]] == [family.name for family in FAMILIES]


def test_a_checkpoint_without_weights(run, tmp_path, pinhole):
    pinhole.model.config.save_pretrained(tmp_path / "hollow")
    code, _, err = run("explain", "--model", tmp_path / "hollow")
    assert (code, err.count("\n")) == (3, 1)
    assert err.startswith(f"vtrace: cannot load {tmp_path / 'hollow'}")


def test_an_interrupted_run_writes_nothing(run, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("vtrace.lvlm.seam.Seam.log_probabilities_padded", interrupt)
    code, out, err = run("explain", "--html", tmp_path / "a.html")
    assert (code, out) == (130, "")
    assert "interrupted" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate 20 GiB")])
def test_out_of_memory_is_one_line(run, monkeypatch, error):
    def exhaust(*_, **__):
        raise error

    monkeypatch.setattr("vtrace.attribution.pairwise.PairwiseMatrix.add", exhaust)
    code, _, err = run("explain")
    assert (code, err.count("\n")) == (3, 1)
    assert "out of memory" in err


def test_a_bug_of_ours_is_one_line_with_the_path_of_its_traceback(run, monkeypatch, tmp_path):
    def stumble(*_, **__):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr("vtrace.attribution.pairwise.PairwiseMatrix.add", stumble)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, out, err = run("explain")
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "an error inside VTrace (RuntimeError: shapes do not match)" in err
    (log,) = tmp_path.iterdir()
    assert str(log) in err
    assert "in stumble" in log.read_text()


def test_doctor_prints_what_a_run_needs(run, wide):
    facts = json.loads(run("doctor", "--json")[1])
    code, out, _ = run("doctor")
    assert code == 0
    for fact in (facts["family"], facts["status"], facts["device"], facts["plan"]["passes"], "transformers"):
        assert fact in out
    facts = json.loads(run("doctor", "--json", "--tokens", "100000")[1])
    assert facts["fits_context"] is False
    assert facts["plan"]["matrix_bytes"] == pytest.approx(2 * 100_000**2, rel=0.01)  # a triangle of float32


def test_doctor_says_that_a_hybrid_is_supported_and_what_it_needs(run, wide, tmp_path):
    from transformers import AutoConfig

    AutoConfig.for_model("qwen3_5").save_pretrained(tmp_path)
    code, out, _ = run("doctor", "--model", tmp_path)
    assert code == 0
    for fact in (f"{tmp_path}: supported; ", "Qwen3.5, 32 layers", "float32 weights", "4 forward passes"):
        assert fact in out


def test_doctor_says_what_goes_to_a_file_and_how_much_disk_it_takes(run, wide):
    plan = json.loads(run("doctor", "--json", "--tokens", "32000")[1])["plan"]
    assert plan["disk_bytes"] == 0
    limited = json.loads(run("doctor", "--json", "--tokens", "32000", "--memory", f"{plan['total_bytes'] // 2}B")[1])
    assert limited["plan"]["disk_bytes"] == plan["matrix_bytes"]
    assert limited["plan"]["total_bytes"] < plan["total_bytes"] // 2
    code, out, _ = run("doctor", "--tokens", "32000", "--memory", f"{plan['total_bytes'] // 2}B")
    assert code == 0
    assert "2.06 GB, in a temporary file in" in out
    assert "2.06 GB, in memory" in run("doctor", "--tokens", "32000")[1]


@pytest.mark.parametrize("command", ["explain", "doctor"])
@pytest.mark.parametrize(
    ("memory", "words"),
    [("lots", "write it as 4GB, 500MB or 4GiB"), ("1MB", "tokens do not fit into 1 MB of memory; allow at least")],
)
def test_a_memory_budget_that_cannot_be_kept_is_one_line(run, command, memory, words):
    code, out, err = run(command, "--memory", memory)
    assert (code, out) == (2, "")
    assert words in err.splitlines()[-1]


def test_an_explanation_within_a_budget_is_the_same(run):
    assert run("explain", "--memory", "100GB", "--json", "-")[1] == run("explain", "--json", "-")[1]


def test_doctor_still_reports_when_the_model_is_not_supported(run, wide, tmp_path):
    from transformers import AutoConfig

    AutoConfig.for_model("mllama").save_pretrained(tmp_path)
    code, out, err = run("doctor", "--model", tmp_path)
    assert (code, err) == (3, "")
    assert "torch" in out
    assert REFUSED["mllama"] in out


def test_doctor_counts_parameters_and_memory_from_the_configuration(run, pinhole, tmp_path):
    pinhole.model.config.save_pretrained(tmp_path)  # no weights
    _, out, _ = run("doctor", "--model", tmp_path, "--json", "--tokens", "1000", "--dtype", "float32")
    plan = json.loads(out)["plan"]
    assert plan["parameters"] == sum(p.numel() for p in pinhole.model.parameters())
    assert plan["decoder_parameters"] == sum(p.numel() for p in pinhole.seam.decoder.parameters())
    assert plan["weights_bytes"] == 4 * plan["parameters"]
    text = pinhole.model.config.text_config
    assert plan["cache_bytes"] == 8 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim * 1000
    _, out, _ = run("doctor", "--model", tmp_path, "--json", "--dtype", "int4")
    assert json.loads(out)["plan"]["weights_bytes"] < 0.4 * plan["weights_bytes"]
