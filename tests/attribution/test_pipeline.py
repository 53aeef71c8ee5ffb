"""The pipeline on the real embedded model, against the pseudocode from end to end."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vtrace
from oracles import algorithm
from vtrace.lvlm.seam import Seam
from vtrace.methods.registry import run_method
from vtrace.methods.session import TraceSession
from vtrace.tracing.prompt import encode_trace
from vtrace.tracing.targets import find_target


def literal(attribution, lvlm, target_positions, gamma=1.0, back=1):
    """Steps 2 and 3 of the pseudocode on the attribution's own W: u_VTrace, u."""
    trace = attribution.trace
    _, u = algorithm.scores(attribution.pairwise.dense(), [p - back for p in target_positions], gamma)
    image, text = trace.positions("image"), trace.positions("question")
    arguments, ids = encode_trace(lvlm, trace), torch.tensor(trace.ids)

    def logp(positions):
        padded = lvlm.seam.pad(arguments, [positions])
        tokens = [p - trace.prompt_length for p in target_positions]
        return float(lvlm.seam.log_probabilities(padded, ids, trace.prompt_length)[0, tokens].sum())

    clean = logp([])
    damage = [clean - logp(positions) for positions in (image, text, image + text)]
    scale = algorithm.image_scale(u, image, text, *damage)
    final = u.clone()
    final[image] *= scale
    return final.numpy(), u.numpy(), float(scale)


@pytest.mark.parametrize("target", ["response", "answer", "sentence 1"])
@pytest.mark.parametrize("options", [{}, {"gamma": 0.5}, {"receivers": "token"}])
def test_scores_equal_the_pseudocode(pinhole, trace, target, options):
    found = vtrace.attribute(pinhole, trace, target, **options)
    back = 0 if options.get("receivers") == "token" else 1
    final, u, scale = literal(found, pinhole, found.target.positions, options.get("gamma", 1.0), back)
    assert found.calibration.applied
    assert found.calibration.scale == pytest.approx(scale, rel=1e-4)  # the padded passes are float32, and batched
    uncalibrated = found.uncalibrated * np.exp(found.log_scale)
    np.testing.assert_allclose(uncalibrated / uncalibrated.sum(), u / u.sum(), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(found.scores * np.exp(found.log_scale), final, rtol=2e-4, atol=1e-12 * final.max())


def test_streamed_and_kept_layers_give_the_same(pinhole, trace):
    """`attribute` folds every layer as it comes; methods that share a session fold the layers it keeps."""
    streamed = vtrace.attribute(pinhole, trace, "answer")
    kept = run_method("vtrace", TraceSession.open(pinhole, trace), find_target(trace, "answer"))
    np.testing.assert_array_equal(streamed.scores, kept.scores)
    assert torch.equal(streamed.pairwise.dense(), kept.pairwise.dense())
    assert (streamed.options, streamed.calibration) == (kept.options, kept.calibration)


@pytest.mark.parametrize(
    ("options", "padded"),
    [({}, 1), ({"centring": False}, 1), ({"calibrate": False}, 0), ({"centring": False, "calibrate": False}, 0)],
)
def test_one_instrumented_pass_whatever_the_options(pinhole, trace, options, padded, monkeypatch):
    """And one batch of padded passes, if image and text are put on one scale."""
    calls = {"capture": 0, "log_probabilities_padded": 0}

    def count(name):
        function = getattr(Seam, name)

        def counted(self, *args):
            calls[name] += 1
            return function(self, *args)

        monkeypatch.setattr(Seam, name, counted)

    for name in calls:
        count(name)
    vtrace.attribute(pinhole, trace, "answer", **options)
    assert calls == {"capture": 1, "log_probabilities_padded": padded}


def test_scores_are_shares(attribution):
    assert attribution.image_share + attribution.text_share == pytest.approx(1)
    assert attribution.image_share == pytest.approx(attribution.calibration.image_share, rel=1e-9)
    assert (attribution.scores >= 0).all()


def test_zero_from_the_first_receiver_on(pinhole, trace):
    found = vtrace.attribute(pinhole, trace, "answer")
    first = found.target.positions[0] - 1
    assert (found.scores[first:] == 0).all()
    assert found.scores[first - 1] > 0


def test_ranking_within_a_modality_is_kept_by_calibration(pinhole, trace):
    raw = vtrace.attribute(pinhole, trace, calibrate=False)
    calibrated = vtrace.attribute(pinhole, trace)
    for kind in ("image", "question"):
        positions = trace.positions(kind)
        assert (np.argsort(raw.scores[positions]) == np.argsort(calibrated.scores[positions])).all()
    assert raw.calibration.status == "off"
    np.testing.assert_allclose(raw.scores, calibrated.uncalibrated, rtol=1e-9)


@pytest.mark.parametrize("target", ["answer", "reasoning", "sentence 2", '"is"', "tokens 3-5"])
def test_retargeting_equals_a_fresh_run(pinhole, attribution, target):
    fresh = vtrace.attribute(pinhole, attribution.trace, target)
    moved = attribution.retarget(target)
    np.testing.assert_allclose(moved.scores, fresh.scores, rtol=1e-6)
    assert moved.target == fresh.target


def test_retargeting_needs_no_model(attribution, monkeypatch):
    monkeypatch.setattr("vtrace.lvlm.seam.Seam.decoder", property(lambda self: pytest.fail("the model was used")))
    assert attribution.retarget("answer").target.name == "answer"


def test_every_token_as_a_target(attribution):
    columns = attribution.every_token()
    start = attribution.trace.prompt_length
    assert columns.shape == (len(attribution.trace), len(attribution.trace) - start)
    for k in (0, 4, columns.shape[1] - 1):
        one = attribution.retarget([k])
        expected = np.log(one.uncalibrated, where=one.uncalibrated > 0, out=np.full(len(columns), -np.inf))
        finite = np.isfinite(expected)
        assert (np.isfinite(columns[:, k]) == finite).all()
        shift = columns[finite, k] - expected[finite]
        np.testing.assert_allclose(shift, shift[0], rtol=0, atol=1e-9)


def test_every_switch_changes_the_scores(pinhole, trace, attribution):
    for option in (
        {"gamma": 0.2},
        {"centring": False},
        {"multihop": False},
        {"calibrate": False},
        {"receivers": "token"},
    ):
        other = vtrace.attribute(pinhole, trace, **option)
        assert not np.allclose(other.scores, attribution.scores), option
        assert other.options == {**attribution.options, **option}


def test_calibration_measures_the_target_unless_the_papers_way_is_asked_for(pinhole, trace):
    own = vtrace.attribute(pinhole, trace, "answer")
    paper = vtrace.attribute(pinhole, trace, "answer", calibrate_on="response")
    whole = vtrace.attribute(pinhole, trace, "response")
    assert own.calibration.joint_damage < whole.calibration.joint_damage
    assert paper.calibration.joint_damage == whole.calibration.joint_damage
    assert whole.retarget("answer").calibration == own.calibration
    np.testing.assert_array_equal(
        vtrace.attribute(pinhole, trace, "response", calibrate_on="response").scores, whole.scores
    )


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"gamma": -1}, "gamma"),
        ({"receivers": "x"}, "receivers"),
        ({"calibrate_on": "x"}, "calibrate_on"),
        ({"beta": 1}, "beta"),
        ({"centring": "no"}, "centring"),
        ({"hops": 1.5}, "hops"),
        ({"hops": -1}, "hops"),
        ({"gamma": "1"}, "gamma"),
        ({"multihop": 1}, "multihop"),
    ],
)
def test_bad_options_are_refused(pinhole, trace, options, word):
    with pytest.raises(vtrace.VTraceError, match=word):
        vtrace.attribute(pinhole, trace, **options)


def test_patches_and_words_share_one_ranking(attribution):
    ranking = attribution.ranking()
    assert {item.kind for item in ranking} == {"image", "question"}
    assert [item.score for item in ranking] == sorted((item.score for item in ranking), reverse=True)
    assert sum(item.score for item in ranking) == pytest.approx(1)
    assert len(attribution.top(5)) == 5


def test_bfloat16_ranks_like_float32(pinhole, trace):
    half = vtrace.load("pinhole", dtype="bfloat16")
    found = vtrace.attribute(half, trace)
    full = vtrace.attribute(pinhole, trace)
    inputs = trace.positions("image", "question")
    ranks = [np.argsort(np.argsort(x.scores[inputs])) for x in (found, full)]
    assert np.corrcoef(*ranks)[0, 1] > 0.98
