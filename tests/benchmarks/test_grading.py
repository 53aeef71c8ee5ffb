"""Grading: the traps that harnesses fall into, and what is left to a judge."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest

from vtrace.benchmarks.grading import grade, read_letter, tidy_answer
from vtrace.benchmarks.multiple_choice import without_curt_request
from vtrace.benchmarks.quantity import Quantity, find_quantity, parse_quantity, read_quantity, same_quantity
from vtrace.credit.gold import infer_gold
from vtrace.tracing.spans import find_answer
from vtrace.types import Example, Gold, Span

JOBS = ("Doctor", "Police officer", "Teacher", "Fire fighter")


def verdict_on(response, gold):
    """As an evaluation grades: the answer is cut out of the response first."""
    span = find_answer(response, Span(0, len(response))).answer
    return grade(Example((), "?", gold=gold), response[slice(*span)] if span else None)


@pytest.mark.parametrize(
    "response",
    [
        # a reply that opens with the article "A" is graded A by rules that look at its start
        "A dog is seen. Option C looks plausible, but he wears a badge: police. Final answer: B",
        "A dog.\nFinal answer: (B) Police",
        "A dog. (C) is wrong.\nFinal answer: B",
        "**Final answer: B**",
        "**Final answer:** B",
        "Final answer: Police officer",
        "final ANSWER : b.",
        "Final answer: A\nWait, that is wrong.\nFinal answer: B",
        r"Final answer: \boxed{B}",
        r"Final answer: $\boxed{\text{B}}$",
        "Final answer:\n\\[\n\\boxed{B}\n\\]",
        "Final answer: Therefore, the correct option is B.",
        "Final answer: B. Police officer",
        "Final answer: A police officer",
        "Final answer: Ｂ",
        "Final answer: (b) police",
        "Final answer: b) police",
    ],
)
def test_the_answer_is_read_where_it_is_said_to_stand(response):
    assert verdict_on(response, Gold("choice", ("B",), JOBS)) == "correct"


@pytest.mark.parametrize("response", ["It is B.", "Answer: B", "", "Final answer:", "The final answer is clear."])
def test_without_a_final_answer_nothing_is_guessed(response):
    assert verdict_on(response, Gold("choice", ("B",), JOBS)) == "unparsed"


@pytest.mark.parametrize(
    "answer",
    ["B or C", "(B) and (C)", "B/C", "not B", "A dog", "Doctor or teacher", "E", "a lawyer", "not a doctor", "?"],
)
def test_an_answer_that_names_no_option_or_two_is_unparsed(answer):
    assert grade(Example((), "?", gold=Gold("choice", ("B",), JOBS)), answer) == "unparsed"


def test_the_same_answer_always_gets_the_same_verdict():
    """Harnesses draw an option at random where they find none."""
    gold = Gold("choice", ("D",), JOBS)
    assert {verdict_on("Final answer: I cannot tell", gold) for _ in range(50)} == {"unparsed"}


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("(C) 120°", "C"), ("120", "C"), ("120 degrees", "C"), (r"$120^\circ$", "C"), ("x = 120", "C"), ("C", "C"),
        ("the third", None), ("12", None), ("the angle is 40°, not 60°", None),
    ],
)  # fmt: skip
def test_options_are_found_by_letter_text_or_number(text, letter):
    assert read_letter(tidy_answer(text), ("40°", "60°", "120°", "140°")) == letter


def test_options_that_are_drawn_have_letters_only():
    assert read_letter("(D)", ("",) * 4) == "D"
    assert read_letter("E", ("",) * 4) is None
    assert read_letter("the one on the left", ("",) * 4) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3.5", Fraction(7, 2)), ("1,234", 1234), ("1/2", Fraction(1, 2)), (r"\frac{1}{2}", Fraction(1, 2)),
        ("½", Fraction(1, 2)),
        ("50%", 50), ("−3", -3), (r"2\frac{1}{2}", Fraction(5, 2)), ("2 1/2", Fraction(5, 2)), ("1.2e3", 1200),
        (r"3\times 10^4", 30000),
        ("x = 12", 12), ("12 cm^2", 12), ("12 cm²", 12), ("10²", 100), ("2½", Fraction(5, 2)),
        ("12 square units", 12), ("The area is 12 cm", 12), ("$5", 5),
        ("12 m/s", 12),
        ("(1+2)*3", 9), (r"\sqrt{16}", 4), ("12 or 13", None), ("5 apples and 3 pears", None), ("a dozen", None),
        ("3 4", None), ("2x", None), ("x - 2", None), ("y/2", None), ("12 apples", 12),
        ("around 12 km/h on average", 12),
    ],
)  # fmt: skip
def test_numbers_are_read_as_people_write_them(text, value):
    found = find_quantity(tidy_answer(text))
    assert (None if found is None else found.value) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "9**9**9**9",
        "9^9^9^9",
        "((((9^64)^64)^64)^64)^64",
        "1/(((9^64)^64)^64)",
        "(" * 5000,
        "1" * 5000,
        "2^-(",
        "1/0",
        "sqrt(-1)",
        "(-8)^0.5",
        "[1]*10",
    ],
)
def test_what_a_model_writes_is_never_run(text):
    assert parse_quantity(text) is None
    assert grade(Example((), "?", gold=Gold("maths", ("7",))), text) == "unparsed"


@pytest.mark.parametrize(
    ("answer", "gold", "decimals", "verdict"),
    [
        ("0.5", "1/2", None, "correct"), ("0.50", ".5", None, "correct"), ("50", "0.5", None, "wrong"),
        ("3.46", r"2\sqrt{3}", None, "correct"), ("3.4", r"2\sqrt{3}", None, "wrong"),
        ("3", r"2\sqrt{3}", None, "wrong"), ("10^64*10^64*10^64*10^64*10^64", r"2\pi", None, "wrong"),
        (r"2 \sqrt{3}", r"2\sqrt{3}", None, "correct"), (r"\sqrt{12}", r"2\sqrt{3}", None, "correct"),
        ("0", "0.5", None, "wrong"),
        ("0.333", "1/3", None, "wrong"), ("0.333", "1/3", 2, "correct"), ("1.24", "1.2", 1, "correct"),
        ("1.3", "1.2", 1, "wrong"),
        ("y = 2x", "x = y/2", None, "undecided"), ("y=2x", "y = 2x", None, "correct"),
        ("many", "12", None, "unparsed"),
        ("1/2", r"$\frac{1}{2}$", None, "correct"), ("102", "10²", None, "wrong"),
        ("[1, 2]", "[1,2]", None, "correct"), ("1, 2.0", "[1, 2]", None, "correct"),
        ("[2, 1]", "[1, 2]", None, "wrong"), ("1", "[1, 2]", None, "wrong"),
    ],
)  # fmt: skip
def test_mathematics_is_compared_as_numbers_and_undecided_otherwise(answer, gold, decimals, verdict):
    assert grade(Example((), "?", gold=Gold("maths", (gold,), decimals=decimals)), answer) == verdict


def test_a_rounding_must_show_its_places():
    assert same_quantity(Quantity(Fraction(157, 50), 2), read_quantity("π"))
    assert not same_quantity(Quantity(Fraction(3), 0), read_quantity("π"))


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("Yes", "correct"),
        ("yes, it is", "correct"),
        ("No", "wrong"),
        ("**Yes**.", "correct"),
        ("Yes, there is no cat", "correct"),
        ("It is: yes", "correct"),
        ("yes or no", "unparsed"),
        ("either yes or no", "unparsed"),
        ("maybe", "unparsed"),
        ("nose", "unparsed"),
    ],
)
def test_yes_and_no_are_words(answer, verdict):
    assert grade(Example((), "?", gold=Gold("yesno", ("yes",))), answer) == verdict


def test_words_are_compared_whole_and_phrases_inside_an_answer():
    example = Example((), "?", answer="yellow star")
    assert grade(example, "Yellow  star.") == "correct"
    assert grade(example, "the yellow star") == "correct"
    assert grade(example, "star") == grade(example, "a red star and a yellow star") == "wrong"
    phrase = dataclasses.replace(example, gold=Gold("phrase", ("yellow star", "gold star"), decimals=2))
    assert grade(phrase, "It is a gold star") == "correct"
    assert grade(phrase, "It is not a gold star") == "undecided"
    assert grade(phrase, "a red star") == "wrong"
    assert grade(dataclasses.replace(example, gold=Gold("phrase", ("12.345",), decimals=2)), "12.35 kg") == "correct"


def test_without_a_gold_there_is_no_verdict():
    assert grade(Example((), "?"), "anything") is None


@pytest.mark.parametrize("unit", [" ", "$", "\\text{", "1 ", "A ", "<answer>", "-", "\\[", "not ", "1/", ". "])
def test_a_very_long_answer_takes_no_longer(unit):
    """Patterns whose time grows with the square of the length would never finish on these."""
    long = unit * (1_000_000 // len(unit))
    for answer in (long, f"A{long}x", f"1{long}", f"${long}x"):
        for kind, right in (("maths", "3"), ("words", "red"), ("yesno", "yes"), ("choice", "A"), ("phrase", "red")):
            grade(Example((), "?", gold=Gold(kind, (right,))), answer)
        read_quantity(answer)
        infer_gold("?", answer, formulas=True)
        without_curt_request(answer)


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        ("$x$", "x"),
        ("$$ x $$.", "x"),
        (r"\(x\)", "x"),
        ("\\[\nx\n\\] .", "x"),
        ("$5", "$5"),
        (r"\(x", r"\(x"),
        ("$$", ""),
    ],
)
def test_the_delimiters_of_a_formula_are_left_out(text, tidied):
    assert tidy_answer(text) == tidied
