"""One explanation in a row of numbers, a thumbnail and boxes. Pure."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from ..attribution.findings.evidence_regions import evidence_regions
from ..attribution.findings.regions import Region, box_region
from ..attribution.findings.verification import Verification
from ..attribution.result import Attribution
from ..benchmarks.grading import grade
from ..faithfulness.evidence import evidence_positions
from ..faithfulness.item import FrozenExample
from ..system.embedded_world import EMBEDDED_WORLD
from ..types import Box, Trace
from .rows import ExplanationRow, VerifiedInBrief

THUMBNAIL = 192  # pixels of its longer side: sharp at half that size on a fine screen
_JPEG_QUALITY = 80


def explanation_row(item: FrozenExample, attribution: Attribution, page: str) -> ExplanationRow:
    """The row of an explained item whose viewer file is `page`."""
    trace = attribution.trace
    shown = _shown_picture(attribution)
    evidence = evidence_regions(trace, attribution.scores)
    inside, covered, met = _inside(attribution, evidence)
    return ExplanationRow(
        key=item.key,
        number=item.number,
        page=page,
        question=trace.question,
        response=trace.response,
        answer=trace.answer_text,
        gold=item.example.answer,
        verdict=grade(item.example, trace.answer_text),
        target=attribution.target.name,
        tokens=len(trace),
        finish=trace.finish,
        foreign=bool(EMBEDDED_WORLD.get().notes(trace)),
        calibration=attribution.calibration.status,
        image_share=attribution.image_share,
        dependence=_dependence(attribution, [p - trace.prompt_length for p in attribution.target.positions]),
        response_dependence=_dependence(attribution, range(len(trace) - trace.prompt_length)),
        inside=inside,
        covered=covered,
        met=met,
        verification=None if attribution.verification is None else _tested(attribution.verification),
        pictures=len(trace.images),
        thumbnail="" if shown is None else _thumbnail(trace.images[shown]),
        evidence=_boxes(trace, evidence, shown),
        given=_boxes(trace, given_regions(trace), shown),
    )


def given_regions(trace: Trace) -> tuple[Region, ...]:
    """The boxes given with the question, as named regions."""
    boxes = trace.evidence_boxes
    names = ["given box"] if len(boxes) == 1 else [f"given box {number}" for number in range(1, len(boxes) + 1)]
    return tuple(box_region(trace, name, box) for name, box in zip(names, boxes, strict=True))


def _dependence(attribution: Attribution, tokens: range | list[int]) -> float | None:
    """What the pictures add to the log-likelihood of some response tokens; None if it was not measured."""
    if attribution.likelihoods is None or not attribution.trace.patches:
        return None
    return float(attribution.visual_dependence()[list(tokens)].sum())


def _inside(
    attribution: Attribution, evidence: tuple[Region, ...]
) -> tuple[float, float, bool] | tuple[None, None, None]:
    """Part of the image share and of the patches inside the given boxes, and whether any of the evidence is there."""
    image = attribution.trace.positions("image")
    found = evidence_positions(attribution.trace).image
    scores = np.abs(attribution.scores)
    if not found or not image or scores[image].sum() == 0:
        return None, None, None
    met = any(position in found for region in evidence for position in region.positions)
    return float(scores[found].sum() / scores[image].sum()), len(found) / len(image), met


def _tested(verification: Verification) -> VerifiedInBrief:
    return VerifiedInBrief(
        verdict=verification.verdict,
        inputs=verification.necessary.inputs,
        answer=verification.necessary.answer,
        draws=verification.random.draws,
        changed=verification.random.changed,
    )


def _shown_picture(attribution: Attribution) -> int | None:
    """The picture with the largest share."""
    shares = attribution.picture_shares[: len(attribution.trace.images)]
    return int(np.argmax(shares)) if shares else None


def _thumbnail(image: Image.Image) -> str:
    """A small copy of a picture as a data URL: PNG or JPEG, whichever is smaller."""
    small = image.copy()
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    png, jpeg = io.BytesIO(), io.BytesIO()
    small.save(png, "PNG", optimize=True)
    small.save(jpeg, "JPEG", quality=_JPEG_QUALITY, optimize=True)
    kind, data = min(("png", png.getvalue()), ("jpeg", jpeg.getvalue()), key=lambda one: len(one[1]))
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _boxes(trace: Trace, regions: tuple[Region, ...], picture: int | None) -> list[list[float]]:
    """The boxes of the regions on one picture, as fractions of its sides."""
    return [_fractions(r.box, trace.images[picture].size) for r in regions if r.box and r.image == picture is not None]


def _fractions(box: Box, size: tuple[int, int]) -> list[float]:
    return [round(value / size[k % 2], 4) for k, value in enumerate(box)]
