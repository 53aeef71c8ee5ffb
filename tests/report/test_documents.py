"""Documents from files: whatever is changed in one, it loads to something that works, or is refused in one line."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import zlib
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vtrace
from vtrace.attribution.result import Attribution
from vtrace.errors import InputError, VTraceError
from vtrace.report.documents import attribution_document, from_document
from vtrace.report.trace_document import trace_document
from vtrace.viewer.page import page

ODD = [None, True, -1, 0, 1, 10**12, 0.5, float("nan"), float("inf"), "", "x", "\0", [], [[]], {}, {"a": 1}, [None] * 3]


@pytest.fixture(scope="module")
def documents(attribution):
    found = [trace_document(attribution.trace), attribution_document(attribution)]
    return [json.loads(json.dumps(document)) for document in found]


@pytest.fixture(scope="module")
def findings(attribution, pinhole):
    """What else can be in a document, all of it."""
    contrast = vtrace.contrast(pinhole, attribution.trace, "red star")
    found = dataclasses.replace(attribution, contrast=contrast).with_evidence_boxes()
    return json.loads(json.dumps(attribution_document(found.verify(pinhole, draws=1, generations=2))))


def places(value, path=()):
    """Every place in a document; of long lists only the first three."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value[:3]):
            yield from places(inner, (*path, number))


def changed(document, path, value):
    document = copy.deepcopy(document)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_document_with_one_place_changed_works_or_is_refused(documents, pinhole, data):
    document = data.draw(st.sampled_from(documents))
    path = data.draw(st.sampled_from([path for path in places(document) if path]))
    with suppress(VTraceError):
        found = from_document(changed(document, path, data.draw(st.sampled_from(ODD))))
        if isinstance(found, Attribution):
            found.top()
            found.retarget("response")
            page([found])


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_findings_with_one_place_changed_work_or_are_refused(findings, data):
    part = data.draw(st.sampled_from(["verification", "contrast", "regions"]))
    path = (part, *data.draw(st.sampled_from([path for path in places(findings[part]) if path])))
    with suppress(VTraceError):
        found = from_document(changed(findings, path, data.draw(st.sampled_from(ODD))))
        assert found.verification.verdict
        page([found])


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("verification", "necessary", "curve", 0, "share"), "x", "not a number"),
        (("verification", "order", 0), [0], "positions that cannot be hidden"),
        (("verification", "sufficient", "curve", 1, "inputs"), 10**6, "more inputs than there are"),
        (("contrast", "scores"), [0.5], "the contrast does not fit the trace"),
        (("contrast", "answer"), 3, "not a text"),
    ],
)
def test_damaged_findings_are_refused(findings, path, value, reason):
    with pytest.raises(InputError, match=f"the document is damaged: .*{reason}"):
        from_document(changed(findings, path, value))


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("ids", 0), -5, "no token"),
        (("ids", 0), True, "not a whole number"),
        (("offsets", 0), [0, 10**9], "outside the text"),
        (("kinds", 0), "picture", "trace.kinds is 'picture', not one of"),
        (("prompt_length",), 10**6, "outside the sequence"),
        (("text",), "", "outside the text"),
        (("patches", 0, 0), 0, "patches and image positions differ"),
        (("patches", 0, 1), 7, "picture that does not exist"),
        (("words", 0, 2), 10**6, "positions that do not exist"),
        (("response_span",), [5], "1 values instead of 2"),
        (("images",), ["AAAA"], "not a picture"),
        (("images",), ["%%%"], "base64"),
        (("finish",), "maybe", "not one of"),
        (("more",), 1, "unknown field 'more'"),
    ],
)
def test_what_is_wrong_is_said(documents, path, value, reason):
    with pytest.raises(InputError, match=f"the document is damaged: .*{reason}"):
        from_document(changed(documents[0], path, value))


def test_a_document_with_a_host_of_regions_is_refused(findings):
    region = {**findings["regions"][0], "kind": "box"}
    with pytest.raises(InputError, match="the document is damaged: there are more than 500 regions"):
        from_document({**findings, "regions": [region] * 501})


def test_a_matrix_is_not_unpacked_beyond_its_size(documents):
    packing = zlib.compressobj(9)
    bomb = b"".join(packing.compress(bytes(10**6)) for _ in range(200)) + packing.flush()
    document = changed(documents[1], ("pairwise", "data"), base64.b64encode(bomb).decode())
    with pytest.raises(InputError, match="does not have as many edges as its size says"):
        from_document(document)
    with pytest.raises(InputError, match="does not fit the trace"):
        from_document(changed(document, ("pairwise", "size"), 20_000))


def test_tokens_that_the_model_does_not_have_are_refused(documents, pinhole):
    last = len(documents[0]["ids"]) - 1
    for token, reason in ((10**6, "has only"), (pinhole.image_token_id, "token of a picture")):
        trace = from_document(changed(documents[0], ("ids", last), token))
        with pytest.raises(InputError, match=reason):
            vtrace.attribute(pinhole, trace)
