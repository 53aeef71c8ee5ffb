"""Text and tokens: offsets, words, sentences and answers in many scripts."""

from __future__ import annotations

import itertools

import pytest

from vtrace.tracing.spans import detokenise, find_answer, split_sentences, word_runs
from vtrace.types import Span

TEXTS = [
    "The red star is at row 2 column 3.\nFinal answer: red star",
    "Prix : 3,50 €, l'été — naïve café.",
    "画像には赤い星があります。答えは「星」です。",
    "Two 👩🏽‍🚀 astronauts 🚀🚀 and a flag 🇫🇷!",
    r"So $x^2 + \frac{1}{2} = 3$, hence \boxed{4}.",
    "السيارة حمراء. कार लाल है।",
    "  leading and trailing blanks  \n\n\t tabs ",
]


@pytest.mark.parametrize("text", TEXTS)
def test_offsets_cover_the_text_in_order(pinhole, text):
    tokenizer = pinhole.processor.tokenizer
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    found, offsets = detokenise(lambda part: tokenizer.decode(part, clean_up_tokenization_spaces=False), ids)
    assert found == text
    assert len(offsets) == len(ids)
    assert offsets[0][0] == 0
    assert offsets[-1][1] == len(text)
    for (a, b), (c, d) in itertools.pairwise(offsets):
        assert (a, b) == (c, d) or b == c, "tokens follow each other, or share a character"


@pytest.mark.parametrize("text", TEXTS)
def test_words_partition_the_tokens(pinhole, text):
    tokenizer = pinhole.processor.tokenizer
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    _, offsets = detokenise(lambda part: tokenizer.decode(part, clean_up_tokenization_spaces=False), ids)
    runs = word_runs(text, offsets, 0, len(ids))
    assert [p for _, a, b in runs for p in range(a, b)] == list(range(len(ids)))


def test_words_are_what_people_read(pinhole):
    text = "Isn't the 3.5 m red-star at row 2?"
    tokenizer = pinhole.processor.tokenizer
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    _, offsets = detokenise(tokenizer.decode, ids)
    words = [word for word, _, _ in word_runs(text, offsets, 0, len(ids))]
    assert words == ["Isn't", "the", "3.5", "m", "red-star", "at", "row", "2", "?"]


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("It is red.\nFinal answer: red star", "It is red.", "red star"),
        ("Final answer: no. Wait.\nFinal answer: yes", "Final answer: no. Wait.", "yes"),
        ("So.\n**Final answer:** **B**", "So.", "B"),
        ("FINAL ANSWER： 星", "", "星"),
        ("So the final answer is: 42\n", "So the", "42"),
        ("Final answer:\n\n$\\boxed{4}$\nDone", "", "\\boxed{4}"),
        ("Thus\n**Final answer**: B", "Thus", "B"),
        ("Final answer: $5", "", "$5"),
        ("No marker here", "No marker here", None),
        ("Cut off. Final answer:", "Cut off.", None),
    ],
)
def test_the_answer_is_found(text, reasoning, answer):
    thought, found = find_answer(text, Span(0, len(text)))
    assert text[slice(*thought)] == reasoning
    assert (text[slice(*found)] if found else None) == answer


def test_sentences():
    text = 'One is 3.5 m. "Two!" he said. 三つ。四つ。\nFinal answer: x'
    assert [text[a:b] for a, b in split_sentences(text, 0)] == [
        "One is 3.5 m.",
        '"Two!',
        "he said.",
        "三つ。",
        "四つ。",
        "Final answer: x",
    ]
