"""`vtrace compare` and `vtrace methods` as a user meets them."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from vtrace.methods.registry import METHODS, Method


def test_json_on_stdout_has_a_score_for_every_position(run):
    code, out, err = run("compare", "--methods", "vtrace,ifr,random", "--target", "answer", "--json", "-")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert list(document["methods"]) == ["vtrace", "ifr", "random"]
    for method in document["methods"].values():
        assert len(method["scores"]) == len(document["kinds"])
        assert method["seconds"] >= method["own_seconds"] >= 0
        assert isinstance(method["options"], dict)
    assert document["methods"]["ifr"]["options"]["aggregate"] == "rows"
    assert document["agreement"]["methods"] == ["vtrace", "ifr", "random"]
    assert document["failures"] == {}


def rows_of(table: str) -> list[str]:
    """The first word of every line, without the number in front of it."""
    return [line.split()[int(line.split()[0].isdigit())] for line in table.splitlines() if line.strip()]


def test_quick_methods_are_compared_without_being_named(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    code, out, err = run(
        "compare", "--html", tmp_path / "c.html", "--png", tmp_path / "c.png", "--json", tmp_path / "c.json"
    )
    assert code == 0
    quick = [name for name, method in METHODS.items() if method.speed != "slow"]
    costs, agreement = out.split("Rank correlation")
    assert rows_of(costs)[-len(quick) :] == rows_of(agreement)[-len(quick) :] == quick
    assert err.count("wrote") == 3
    page = (tmp_path / "c.html").read_text()
    assert all(f'"label":"{name}"' in page for name in quick)
    with Image.open(tmp_path / "c.png") as figure:
        assert figure.width > 1000
    assert list(json.loads((tmp_path / "c.json").read_text())["methods"]) == quick


def test_options_are_set_per_method_and_recorded(run):
    options = "--set flowtracer.mode=flow --set ifr.threshold=0.5 --calibrated"
    code, out, _ = run("compare", "--methods", "flowtracer,ifr", *options.split(), "--json", "-")
    assert code == 0
    methods = json.loads(out)["methods"]
    assert methods["flowtracer"]["options"]["mode"] == "flow"
    assert methods["ifr"]["options"]["threshold"] == 0.5
    assert methods["ifr"]["calibration"]["status"] == "applied"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "nope"], "unknown method 'nope'; use one of: vtrace"),
        (["--methods", ""], "unknown method ''"),
        (["--methods", "ifr", "--set", "ifr.width=3"], "ifr has no option 'width'; it has: aggregate"),
        (["--methods", "ifr", "--set", "ifr.aggregate=sum"], "ifr.aggregate is 'sum'; use one of: 'rows', 'span'"),
        (["--methods", "ig", "--set", "ig.steps=0"], "ig.steps is 0; it must be at least 1"),
        (["--methods", "ig", "--set", "ig.steps=many"], "ig.steps is 'many'; it must be a whole number"),
        (["--methods", "ifr", "--set", "rollout.residual=0.4"], "options were given for rollout"),
        (["--methods", "ifr", "--set", "span"], "write METHOD.OPTION=VALUE, such as ifr.aggregate=span"),
        (["--methods", "ifr", "--target", "sentence 99"], "there is no sentence 99"),
        (["--methods", "ifr", "--html", "/nowhere/x.html"], "there is no folder /nowhere"),
        (["one.png"], "give at least one picture and a question"),
    ],
)
def test_bad_input_is_one_line_and_a_code(run, arguments, message):
    code, out, err = run("compare", *arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_a_method_that_cannot_run_is_reported_and_the_others_go_on(run, monkeypatch):
    def broken(session, target):
        raise RuntimeError("\"norm\" not implemented for 'Half'\nand more")

    monkeypatch.setitem(METHODS, "gradient", Method("broken", (), "0", run=broken))
    code, out, err = run("compare", "--methods", "gradient,attention")
    assert code == 0
    assert "attention" in out
    assert err == "vtrace: gradient cannot run on this model: \"norm\" not implemented for 'Half'\n"


def test_the_list_of_methods_names_cost_and_status(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    code, out, _ = run("methods")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[1 : 1 + len(METHODS)] == [f"{name} {m.about} {m.cost} {m.status}" for name, m in METHODS.items()]
    facts = json.loads(run("methods", "--json")[1])
    assert list(facts) == list(METHODS)
    assert facts["flowtracer"]["options"]["mode"] == "reach"
    assert "patent" in facts["attnlrp"]["status"]
