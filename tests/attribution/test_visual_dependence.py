"""What the image is worth to every response word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vtrace.errors import InputError
from vtrace.report.documents import attribution_document


def test_visual_dependence_is_the_loss_without_the_image(attribution):
    tokens = attribution.visual_dependence()
    np.testing.assert_allclose(tokens, attribution.likelihoods[0] - attribution.likelihoods[1])
    assert tokens.sum() == pytest.approx(attribution.calibration.image_damage)
    words = attribution.word_dependence()
    assert sum(nats for _, nats in words) == pytest.approx(tokens.sum())
    document = attribution_document(attribution, whole=False)
    assert [entry["nats"] for entry in document["visual_dependence"]["words"]] == [nats for _, nats in words]
    strongest = max(words, key=lambda found: found.nats)
    assert strongest.word.text in ("2", "3"), "rows and columns have to be looked up"
    with pytest.raises(InputError, match="visual dependence was not measured"):
        replace(attribution, likelihoods=None).visual_dependence()
