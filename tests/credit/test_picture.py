"""The picture of a response: what is raised, what is low, and what is unassigned can be told apart."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from rich.style import Style

from vtrace.credit.picture import (
    MOST_LINES,
    NEWLINE,
    SPACE,
    credit_figure,
    describe_rule,
    describe_weights,
    draw_credit,
    shaded_tokens,
    show_credit,
)
from vtrace.credit.weight_rows import WeightRow
from vtrace.credit.weights import RULES, UNASSIGNED, weights
from vtrace.system.text_colours import FAINT


@pytest.fixture(autouse=True)
def fresh_styles() -> None:
    """rich remembers a style as it was first printed, perhaps by another test, for a terminal of fewer colours."""
    Style._add.cache_clear()
    Style.parse.cache_clear()


def row(rule="top", status="assigned", scores=(0.0, 4.0, -1.0, 1.0, None), **changes) -> WeightRow:
    known = np.array([UNASSIGNED if score is None else score for score in scores])
    return (
        WeightRow(
            key="a",
            model="pinhole",
            probed=False,
            source="entropy",
            rule=rule,
            share=0.5,
            boost=1.5,
            seed=0,
            status=status,
            prompt_ids=[1],
            response_ids=[2] * len(scores),
            tokens=["One", " two", " ", ".\n", "three"][: len(scores)],
            weights=weights(known, rule, 0.5).tolist(),
            scores=list(scores),
            image_share=None,
        )
        | changes
    )


def test_levels_are_relative_to_the_highest_score():
    assert [token.level for token in shaded_tokens(row())] == [0.0, 1.0, 0.0, 0.25, None]
    assert [token.raised for token in shaded_tokens(row())] == [False, True, False, True, False]
    assert [token.raised for token in shaded_tokens(row("mean-one"))] == [False, True, False, True, False]
    assert not any(token.raised for token in shaded_tokens(row("proportional")))
    assert [token.level for token in shaded_tokens(row(scores=(-1.0, -2.0)))] == [0.0, 0.0]
    assert shaded_tokens(row(scores=())) == []


def test_words_about_rules_and_weights():
    assert [describe_rule(row(rule)) for rule in RULES] == [
        "top 50 % × 1.5",
        "proportional, up to × 1.5",
        "top 50 % × 1.5, mean one",
    ]
    assert describe_weights(row()) == "1.5 on 2 and 1 on 3 of 5 tokens, 4 of them scored; mean 1.2"
    assert describe_weights(row(status="no answer")) == "no answer: all 5 weights are 1"
    many = row(weights=[1.1, 1.2, 1.3, 1.4, 1.0])
    assert describe_weights(many) == "1 to 1.4 on 5 tokens, 4 of them scored; mean 1.2"


def printed(given: WeightRow, **options) -> str:
    console = Console(file=io.StringIO(), width=100, **options)
    show_credit(given, console)
    return console.file.getvalue()


def test_the_terminal_tells_unassigned_tokens_from_low_ones():
    plain = printed(row())
    assert f"One two .{NEWLINE}" in plain
    assert "entropy · top 50 % × 1.5 · pinhole" in plain
    coloured = printed(row(), force_terminal=True, color_system="truecolor")
    assert "\x1b[2;3mthree" in coloured, "dim and italic"
    assert "255;247;227mOne" in coloured, "low, but scored"
    assert "\x1b[1;4;" in coloured


def texts_of(figure) -> dict[str, str]:
    """Texts of a figure and their colours."""
    return {text.get_text(): text.get_color() for axes in figure.axes for text in axes.texts}


def test_the_figure_has_a_title_a_legend_and_every_token():
    texts = texts_of(credit_figure(row()))
    assert {"entropy · top 50 % × 1.5", "One", "two", SPACE, f".{NEWLINE}", "three", "score", "4"} <= set(texts)
    assert {"raised to 1.5", "unassigned"} <= set(texts)
    assert texts["three"] == texts["unassigned"] == FAINT != texts["One"]
    assert "raised to 1.5" not in texts_of(credit_figure(row("proportional")))


@pytest.mark.parametrize("status", ["no answer", "empty"])
def test_a_response_without_credit_has_a_picture_too(status, tmp_path):
    given = row(status=status, scores=() if status == "empty" else (None, None))
    assert any(status in text for text in texts_of(credit_figure(given)))
    with Image.open(draw_credit(given, tmp_path / "a.png")) as picture:
        assert picture.format == "PNG"
    assert status in printed(given)


def test_a_very_long_response_is_cut():
    long = row(tokens=["word\n"] * 999, scores=[1.0] * 999, weights=[1.2] * 999)
    assert f"… and {999 - MOST_LINES} more tokens" in texts_of(credit_figure(long))
