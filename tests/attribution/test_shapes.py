"""Shapes are types on the narrow waist: checked in these tests, and free for everyone else."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
import torch
from jaxtyping import TypeCheckError

from vtrace.attribution.attention import Scratch, grouped
from vtrace.attribution.multihop import log_scores
from vtrace.attribution.pairwise import PairwiseMatrix, centre_values
from vtrace.attribution.triangle import Triangle


def test_a_layer_whose_parts_do_not_fit_is_refused(session):
    layer = session.layers()[0]
    for part in ("query", "key", "value", "update", "projection", "residual"):
        with pytest.raises(TypeCheckError):
            dataclasses.replace(layer, **{part: getattr(layer, part)[:-1]})


@pytest.mark.parametrize(
    "call",
    [
        lambda: Triangle.of(torch.zeros(5, 4)),
        lambda: log_scores(Triangle.of(torch.zeros(5, 5)), torch.zeros(5)),
        lambda: grouped(torch.zeros(4, 3, 8), torch.zeros(2, 7, 5), Scratch()),
        lambda: centre_values(torch.zeros(5, 4), [torch.arange(2)]),
        lambda: PairwiseMatrix(5, [torch.zeros(2)]),
    ],
)
def test_tensors_of_the_wrong_shape_are_refused(call):
    with pytest.raises(TypeCheckError):
        call()


def test_the_seam_is_checked(pinhole_session):
    with pytest.raises(TypeCheckError):
        pinhole_session.seam.log_probabilities(pinhole_session.arguments, pinhole_session.ids[None], 5)
    with pytest.raises(TypeCheckError):
        pinhole_session.seam.replace(pinhole_session.arguments, torch.zeros(1, 5), torch.zeros(4), [])


def test_outside_the_tests_nothing_is_checked():
    code = (
        "import sys, vtrace.attribution.multihop as m, vtrace.lvlm.seam as s; "
        "print('beartype' in sys.modules, hasattr(m.log_scores, '__wrapped__'), hasattr(s.Seam.mark, '__wrapped__'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"] * 3
