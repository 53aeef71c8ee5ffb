"""`vtrace explain --method`, `--refine`, and pages that switch between methods."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import pytest

from vtrace.attribution.options import Options
from vtrace.errors import InputError
from vtrace.methods.explanation import choose_method, explain
from vtrace.tracing.targets import find_target
from vtrace.viewer.exported_methods import BESIDE_BUDGET, fitting_targets


def page_data(path) -> dict:
    return json.loads(re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', path.read_text(), re.S)[1])


def test_a_refined_explanation_and_its_page(run, tmp_path):
    code, out, _ = run("explain", "--target", "answer", "--refine", 3, "--html", tmp_path / "a.html", "-q")
    assert code == 0
    assert "Refined in 4 forward passes: the 3 strongest inputs of vtrace were hidden" in " ".join(out.split())
    methods = {entry["method"]: entry for entry in page_data(tmp_path / "a.html")["methods"]}
    assert list(methods) == ["vtrace-refined", "vtrace", "vtrace-ordered"]
    assert methods["vtrace-refined"]["remark"] == "8 forward passes"
    assert methods["vtrace-ordered"]["remark"] == "1 forward pass"
    assert methods["vtrace"]["matrix"] == 0, "the page recomputes it for any target"
    names = [one["name"] for one in methods["vtrace-ordered"]["exported"]]
    assert {"answer", "response", "reasoning", "sentence 1"} <= set(names)


def test_any_method_explains(run):
    code, out, _ = run("explain", "--method", "vtrace-ordered", "--json", "-", "-q")
    found = json.loads(out)
    assert (code, found["method"]) == (0, "vtrace-ordered")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--method", "nothing"], "unknown method 'nothing'"),
        (["--method", "ifr", "--gamma", "0.5"], "gamma is an option of vtrace; set those of ifr with --set ifr.OPTION"),
        (["--method", "ifr", "--set", "rollout.x=1"], "options were given for rollout, but the method is ifr"),
        (["--refine", "0"], "--refine"),
        (["--set", "vtrace.budget=3"], "vtrace has no option 'budget'"),
    ],
)
def test_a_choice_that_cannot_be_is_one_line(run, arguments, reason):
    code, _, err = run("explain", *arguments, "-q")
    assert code == 2
    assert reason in err
    assert err.strip().count("\n") == 0


def test_options_reach_the_method_they_are_for():
    chosen = choose_method("vtrace", 8, {"vtrace": {"hops": 2}}, Options(gamma=0.5))
    assert chosen.name == "vtrace-refined"
    assert chosen.options | {"budget": 8, "hops": 2, "gamma": 0.5} == chosen.options
    with pytest.raises(InputError, match=r"vtrace-refined\.budget is 0"):
        choose_method("vtrace-refined", None, {"vtrace-refined": {"budget": 0}}, Options())


def test_a_page_says_why_it_has_no_ordered_paths(random_lvlm, random_trace):
    chosen = choose_method("vtrace", None, {}, Options(calibrate=False))
    targets = fitting_targets(random_trace, find_target(random_trace, "answer"), BESIDE_BUDGET)
    found = explain(random_lvlm, random_trace, "answer", chosen, page_targets=targets, memory="16GB")
    assert found.others == []
    assert found.missing == {
        "vtrace-ordered": "vtrace-ordered keeps edges of all layers, which a limit on memory does not allow"
    }


@pytest.mark.parametrize("method", ["vtrace", "vtrace-ordered", "ifr"])
def test_one_instrumented_pass_serves_a_whole_page(random_lvlm, random_trace, method):
    passes = []
    hook = random_lvlm.seam.decoder.register_forward_hook(lambda *_: passes.append(1))
    chosen = choose_method(method, None, {}, Options())._replace(of_paper=asdict(Options(calibrate=False)))
    chosen = chosen._replace(options=chosen.of_paper) if method == "vtrace" else chosen
    targets = fitting_targets(random_trace, find_target(random_trace, "answer"), BESIDE_BUDGET)
    found = explain(random_lvlm, random_trace, "answer", chosen, page_targets=targets)
    hook.remove()
    assert len(passes) == 1
    shown = [found.attribution, *found.others]
    positions = {result.target.positions for result in shown if result.method == "vtrace-ordered"}
    assert positions == {target.positions for target in targets}
    assert all(count == 1 for count in found.passes.values())
