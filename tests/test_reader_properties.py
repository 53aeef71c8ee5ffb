"""Every reader of files, under whatever bytes: a value that fits, or an `InputError` in one line, and nothing else."""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from support.dataset_files import png
from vtrace.benchmarks.readers.lmms_eval import read_samples
from vtrace.benchmarks.readers.pictures import decode_picture, from_base64
from vtrace.benchmarks.readers.tables import read_table
from vtrace.benchmarks.readers.tsv import read_tsv, tsv_example
from vtrace.benchmarks.user_questions import open_user_questions
from vtrace.errors import InputError, VTraceError
from vtrace.faithfulness.store import read_run
from vtrace.system.typed_json import as_typed
from vtrace.system.user_pattern import find_pattern
from vtrace.tracing.example import from_chat, read_chat
from vtrace.tracing.pictures import open_image

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["image", "images", "question", "answer", "response", "response_ids", "options", "A", "B", "id"]
)
CELLS = JSON | st.sampled_from(["a.png", "missing.png", "['a', 'b']", "[1, 2]", "yes", "3.5", "p" * 5000])
ROWS = st.dictionaries(NAMES, CELLS, max_size=5)
PNG = png("blue")
quick = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readers")
    (folder / "a.png").write_bytes(PNG)
    return folder


def write(path, data: bytes):
    path.write_bytes(data)
    return path


@quick
@given(rows=st.lists(ROWS, max_size=4), junk=st.binary(max_size=60))
def test_jsonl_of_questions(place, rows, junk):
    lines = [json.dumps(row).encode() for row in rows]
    path = write(place / "q.jsonl", b"\n".join([*lines, junk]))
    with suppress(InputError):
        table = open_user_questions(path)
        assert len({table.key(number) for number in range(table.size)}) == table.size
        for number in range(table.size):
            with suppress(InputError):
                assert table.example(number).images


@quick
@given(rows=st.lists(st.lists(st.text(max_size=30), min_size=2, max_size=2), max_size=5))
def test_valid_csv_comes_back_as_it_was_written(place, rows):
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows([["image", "question"], *rows])
    text = buffer.getvalue()
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    read = read_table(write(place / "q.csv", data))
    again = [row for row in csv.reader(io.StringIO(text, newline="")) if row][1:]
    assert [list(row.values()) for row in read if isinstance(row, dict)] == again


@quick
@given(data=st.binary(max_size=200))
def test_any_bytes_as_a_table_a_sample_or_a_chat(place, data):
    for suffix in ("csv", "jsonl", "tsv", "json"):
        write(place / f"any.{suffix}", data)
    with suppress(InputError):
        open_user_questions(place / "any.csv")
    with suppress(InputError):
        open_user_questions(place / "any.jsonl")
    with suppress(InputError):
        read_samples(place / "any.jsonl")
    with suppress(InputError):
        read_tsv(place / "any.tsv", "any")
    with suppress(InputError):
        from_chat(read_chat(place / "any.json"), place)


@quick
@given(
    messages=JSON
    | st.lists(
        st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]) | JSON, "content": JSON}),
        max_size=4,
    )
)
def test_chats(place, messages):
    with suppress(InputError):
        from_chat(read_chat(write(place / "talk.json", json.dumps(messages).encode())), place)


@quick
@given(
    rows=st.lists(
        st.fixed_dictionaries({}, optional={"doc_id": JSON, "resps": JSON, "target": JSON, "input": JSON}), max_size=3
    )
)
def test_samples(place, rows):
    with suppress(InputError):
        read_samples(write(place / "s.jsonl", b"\n".join(json.dumps(row).encode() for row in rows)))


@quick
@given(cells=st.lists(st.text(max_size=20), min_size=4, max_size=4))
def test_tsv(place, cells):
    row = [cell.replace("\t", " ") for cell in cells]
    text = "index\timage\tquestion\tanswer\n" + "\t".join(row) + "\n"
    with suppress(InputError, UnicodeEncodeError):
        table = read_tsv(write(place / "any.tsv", text.encode()), "any")
        for number in range(len(table.texts)):
            tsv_example(table.whole(number), "words")


@quick
@given(data=st.data())
def test_pictures(data):
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"]))
    buffer = io.BytesIO()
    Image.new(data.draw(st.sampled_from(["RGB", "L"])), (20, 20)).save(buffer, kind)
    damaged = bytearray(buffer.getvalue())
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(damaged) - 1), st.integers(0, 255)), max_size=8)
    ):
        damaged[place] = value
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for one in (bytes(damaged), cut):
        with suppress(InputError):
            assert open_image(one).mode == "RGB"
        with suppress(InputError):
            decode_picture({"bytes": one})


@quick
@given(text=st.text())
def test_base64_and_patterns(text):
    with suppress(InputError):
        from_base64(text)
    with suppress(InputError):
        find_pattern(text, "The red star is at row 1 column 2.")


class Pair(NamedTuple):
    low: int
    high: float


@dataclass(frozen=True)
class Shaped:
    name: str
    pairs: tuple[Pair, ...]
    kind: Literal["a", "b"] = "a"
    more: str | None = None


@quick
@given(value=JSON)
def test_typed_values(value):
    for kind in (Shaped, Pair, tuple[int, ...], str | None, Literal["a"]):
        with suppress(ValueError):
            as_typed(kind, value, "value")
    with suppress(ValueError):
        found = as_typed(Shaped, {"name": value, "pairs": [[1, 2]]}, "value")
        assert found == Shaped(value, (Pair(1, 2.0),))


@quick
@given(data=st.binary(max_size=300), header=st.booleans())
def test_runs(place, data, header):
    path = write(place / "run.sqlite", b"SQLite format 3\0" + data if header else data)
    with suppress(VTraceError):
        read_run(path)
