"""The reward: the verdict of the grader on the final answer, in the signatures of both trainers, without a failure."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from vtrace.credit import reward
from vtrace.credit.gold import gold_from_json, gold_to_json, infer_gold
from vtrace.credit.reward import compute_score, final_answer_reward, grade_response
from vtrace.errors import InputError
from vtrace.types import Gold

CHOICES = "Which is it?\nA. 30°\nB. 45°\nC. 60°"


@pytest.mark.parametrize(
    ("question", "answer", "kind", "right"),
    [
        (CHOICES, "B", "choice", ("B",)),
        (CHOICES, "(b)", "choice", ("B",)),
        (CHOICES, r"\boxed{B}", "choice", ("B",)),
        (CHOICES, "<answer> B. 45° </answer>", "choice", ("B",)),
        (CHOICES, "45", "choice", ("B",)),
        (CHOICES, "E", "choice", ("E",)),  # the options may go on where they cannot be read
        ("Which letter is in the circle?", "D", "choice", ("D",)),
        ("", r"$5\sqrt{3}$", "maths", (r"5\sqrt{3}",)),
        ("", "30 cm", "maths", ("30 cm",)),
        ("", "AB = 5", "maths", ("AB = 5",)),
        ("", "Yes", "yesno", ("yes",)),
        ("", "triangle ABC", "words", ("triangle ABC",)),
        ("", "3:45", "words", ("3:45",)),
        ("", "x", "words", ("x",)),
    ],
)
def test_how_to_grade_is_inferred_from_question_and_answer(question, answer, kind, right):
    gold = infer_gold(question, answer)
    assert gold is not None
    assert (gold.kind, gold.answers) == (kind, right)
    assert grade_response(f"Hm.\nFinal answer: {right[0]}", gold) == 1.0


@pytest.mark.parametrize("answer", ["AC", "A, C", "B and C", "30 or 45", "the smallest of all the angles", "red"])
def test_an_answer_that_names_no_listed_option_needs_a_judge(answer):
    assert infer_gold(CHOICES, answer) is None


@pytest.mark.parametrize("answer", ["y = 2x + 1", "(2, 3)", "3, 5", r"\{1, 2\}"])
def test_formulas_are_graded_on_demand_and_as_text(answer):
    assert infer_gold("", answer) is None
    gold = infer_gold("", answer, formulas=True)
    assert grade_response(f"Final answer: {answer}", gold) == 1.0
    assert grade_response("Final answer: 0", gold) == 0.0


@pytest.mark.parametrize("answer", ["", "  ", "?", "one two three four five six", r"\alpha + " * 40])
def test_what_cannot_be_graded_has_no_gold(answer):
    assert infer_gold("", answer, formulas=True) is None


def test_an_equation_is_not_the_number_on_its_right():
    for equation in ("x^2 + y^2 = 25", "2x = 6", "x = 1, y = 2"):
        assert infer_gold("", equation) is None
        assert infer_gold("", equation, formulas=True) is None
    assert grade_response("Final answer: 25", infer_gold("", "AB = 25")) == 1.0


def test_a_gold_survives_json():
    gold = Gold("choice", ("B",), ("30°", "45°", "60°"), decimals=2)
    assert gold_from_json(gold_to_json(gold)) == gold
    for text in ("", "[]", "{}", "null", '{"kind": "essay", "answers": ["a"]}', '{"kind": "words", "answers": []}'):
        with pytest.raises(InputError, match="not the gold of a training row"):
            gold_from_json(text)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("The sum is 180°, so it is 45°.\nFinal answer: B", 1.0),
        ("Final answer: A\nNo.\nFinal answer: 45°<|im_end|>", 1.0),
        (r"<think>…</think> **Final answer:** \boxed{B}", 1.0),
        ([{"role": "assistant", "content": "Final answer: B"}], 1.0),
        ([{"role": "assistant", "content": [{"type": "text", "text": "Final answer: B"}]}], 1.0),
        ([{"role": "assistant", "content": "Final answer: A"}, {"role": "tool", "content": "Final answer: B"}], 0.0),
        ("Final answer: A", 0.0),
        ("Final answer: A or B", 0.0),
        ("Final answer: not B", 0.0),
        ("The answer is B.", 0.0),
        ("Final answer:", 0.0),
        ("", 0.0),
        ([], 0.0),
        ([{}], 0.0),
        ([{"role": "assistant", "content": None}], 0.0),
        ([None], 0.0),
        (None, 0.0),
        (3.5, 0.0),
        (b"Final answer: B", 0.0),
        ("Final answer: " + "((((9^64)^64)^64)^64)^64", 0.0),
        ("Final answer: " + "\\text{" * 2000, 0.0),
        ("Final answer: \ud800", 0.0),
    ],
)
def test_odd_responses_get_nothing_and_never_fail(response, expected):
    assert grade_response(response, infer_gold(CHOICES, "B")) == expected
    assert compute_score("mmr1-rl", response, "B", {"question": CHOICES}) == expected


def test_trl_passes_columns_and_gets_one_reward_per_completion():
    """With the column `gold`, or from question and answer alone."""
    prompts = [
        [{"role": "system", "content": "Look."}, {"role": "user", "content": [{"type": "text", "text": CHOICES}]}]
    ]
    completions = [[{"role": "assistant", "content": f"Final answer: {text}"}] for text in ("45°", "60°")]
    columns = dict(completion_ids=[[1], [2]], trainer_state=None, images=[None] * 2, source=["mmr1-rl"] * 2)
    gold = [gold_to_json(infer_gold(CHOICES, "B"))] * 2
    for known in ({}, {"gold": gold}, {"gold": [None, "not JSON"]}):
        rewards = final_answer_reward(
            prompts=prompts * 2, completions=completions, answer=["B"] * 2, **columns, **known
        )
        assert rewards == [1.0, 0.0]
    assert final_answer_reward(["What is it?"], ["Final answer: 7"], answer=[7]) == [1.0]  # plain text, a number


def test_verl_passes_the_gold_in_extra_info():
    extra = {"gold": gold_to_json(Gold("words", ("red",))), "index": 3, "num_turns": None, "rollout_reward_scores": {}}
    score = compute_score(
        data_source="revisual-r1", solution_str="Final answer: Red.", ground_truth="red", extra_info=extra, router=None
    )
    assert score == 1.0
    assert compute_score("x", "Final answer: 7", "7") == 1.0
    assert list(inspect.signature(compute_score).parameters)[:4] == [
        "data_source", "solution_str", "ground_truth", "extra_info",
    ]  # fmt: skip


def test_a_row_without_a_gradable_answer_gets_nothing_and_a_warning():
    for answer in (None, "", "a text that is much too long to compare"):
        with pytest.warns(UserWarning, match="cannot be graded"):
            assert compute_score("x", "Final answer: 7", answer) == 0.0


def test_a_bug_in_the_grader_costs_one_reward_and_not_the_run(monkeypatch):
    def broken(example, answer):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(reward, "grade", broken)
    with pytest.warns(UserWarning, match="could not be graded and gets no reward: oh"):
        assert grade_response("Final answer: 7", Gold("maths", ("7",))) == 0.0


def test_the_reward_needs_neither_a_trainer_nor_pytorch():
    """Trainers call it in many processes."""
    code = "import sys, vtrace.credit.reward; print({'torch', 'transformers', 'trl', 'verl'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
