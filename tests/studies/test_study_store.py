"""The store of a study: one file, one writer, one set of settings."""

from __future__ import annotations

import pytest

from vtrace.errors import InputError
from vtrace.faithfulness.rows import RunRows
from vtrace.studies.point_study import Point
from vtrace.studies.store import STUDY_FILE, StudyStore


def test_measurements_and_verdicts_are_kept(tmp_path):
    with StudyStore(tmp_path / "deep", {"seed": 0}) as store:
        store.save("a", [Point("panel", "series", 1.0, 0.5)])
        store.save("b", RunRows(left_out=[{"item": "b", "reason": "why"}]))
        store.save_verdict("a", True)
    with StudyStore(tmp_path / "deep", {"seed": 0}) as store:
        found = store.measurements()
        assert found["a"] == [["panel", "series", 1.0, 0.5]]
        assert RunRows(**found["b"]).left_out == [{"item": "b", "reason": "why"}]
        assert store.verdicts() == {"a": True}


def test_a_study_belongs_to_one_process_and_to_one_set_of_settings(tmp_path):
    with (
        StudyStore(tmp_path, {"seed": 0}),
        pytest.raises(InputError, match=r"another process is writing to .*study\.sqlite"),
    ):
        StudyStore(tmp_path, {"seed": 0})
    with pytest.raises(InputError, match="was made with seed 0, not 1; choose another --out"):
        StudyStore(tmp_path, {"seed": 1})


def test_files_that_cannot_be_used_are_named(tmp_path):
    (tmp_path / STUDY_FILE).write_bytes(b"this is no database, it only looks like a file of some length" * 20)
    with pytest.raises(InputError, match=r"is damaged .*; move it away and run again"):
        StudyStore(tmp_path, {})
    with pytest.raises(InputError, match=r"cannot write .*; choose another --out"):
        StudyStore(tmp_path / STUDY_FILE / "below", {})


def test_results_of_an_older_version_are_refused(tmp_path):
    (tmp_path / "points.jsonl").touch()
    with pytest.raises(InputError, match=r"has points\.jsonl of an older version; choose another --out"):
        StudyStore(tmp_path, {})
