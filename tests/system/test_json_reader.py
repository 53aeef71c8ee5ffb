"""JSON: whatever the bytes are, a value within the limits or one line."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtrace.errors import InputError, one_line
from vtrace.system.json_reader import MAX_DEPTH, parse_json, read_bytes, read_json, read_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@settings(deadline=None, derandomize=True)
@given(VALUES)
def test_every_valid_value_is_read(value):
    assert parse_json(json.dumps(value), "x") == value
    assert parse_json("\ufeff".encode() + json.dumps(value, ensure_ascii=False).encode(), "x") == value


@settings(deadline=None, derandomize=True)
@given(st.binary() | st.text(alphabet='[]{}",:0123456789-.eEnulltrue\\ud8'))
def test_nothing_else_raises_another_error(data):
    with suppress(InputError):
        parse_json(data, "it is not JSON")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2), "nested more than 64 levels"),
        ("9" * 5000, "5000 digits"),
        ('{"a": "\\ud800"}', "half a character"),
        ('{"\\udfff": 1}', "half a character"),
        (b"\xff\xfe", "utf-8"),
        ("", "Expecting value"),
    ],
    ids=["deep", "rather-deep", "digits", "surrogate", "key", "bytes", "empty"],
)
def test_what_would_break_later_is_refused_here(text, reason):
    with pytest.raises(InputError, match=reason):
        parse_json(text, "it is not JSON")


def test_a_file_is_not_read_beyond_the_limit(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[1, 2, 3]")
    assert read_json(path, "a list") == [1, 2, 3]
    assert read_bytes(path, 9) == b"[1, 2, 3]"
    with pytest.raises(InputError, match="larger than the limit of 8 bytes"):
        read_bytes(path, 8)
    with pytest.raises(InputError, match="larger than the limit"):
        read_bytes(type(path)("/dev/zero"), 1000)
    with pytest.raises(InputError, match="Is a directory"):
        read_bytes(tmp_path)
    path.write_bytes("naïve".encode("latin-1"))
    with pytest.raises(InputError, match="is not UTF-8"):
        read_text(path)


def test_a_message_stays_on_one_line():
    assert one_line("no file a\nb\x1b[31m\u2028c\udcff") == "no file a\\nb\\x1b[31m\\u2028c\\udcff"
    assert one_line("naïve 図 → ok") == "naïve 図 → ok"
