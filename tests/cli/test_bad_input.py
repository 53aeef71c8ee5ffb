"""What goes wrong on day one, at the command line: one clear line, and nothing half-made stays behind."""

from __future__ import annotations

from unittest import mock

import pyarrow.parquet as pq
import pytest
from huggingface_hub.errors import GatedRepoError

from support.dataset_files import mmstar_rows, write_parquet

QUICK = ("--methods", "random", "--steps", "2", "--limit", "1")


def gated(*_, **__):
    """What the hub answers about a repository whose terms were not accepted."""
    raise GatedRepoError("403 Client Error.\n\nAccess to it is restricted.", response=mock.Mock(headers={}))


def refused(answer: tuple[int, str, str], code: int, words: str) -> None:
    assert answer[0] == code
    assert answer[1] == ""
    assert words in answer[2]
    assert answer[2].count("\n") == 1, answer[2]


@pytest.mark.parametrize("command", [("explain",), ("evaluate", *QUICK)])
def test_a_gated_model(run, tmp_path, monkeypatch, command):
    """The hub's answer goes through transformers, which has words of its own for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vtrace.lvlm.checkpoint_source._on_hub", lambda source, revision: True)
    monkeypatch.setattr("transformers.utils.hub.hf_hub_download", gated)
    refused(run(*command, "--model", "google/gemma-3-4b-it"), 3, "accept them on its page, then run: hf auth login")
    assert not list(tmp_path.iterdir())


def test_a_gated_dataset(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", gated)
    refused(run("evaluate", "--benchmark", "mmstar", *QUICK), 2, "accept its terms on the hub, then run: hf auth login")
    assert not list(tmp_path.iterdir())


def test_a_renamed_column(run, tmp_path):
    path = write_parquet(tmp_path / "mmstar.parquet", "mmstar", mmstar_rows())
    table = pq.read_table(path)
    pq.write_table(table.rename_columns(["prompt" if n == "question" else n for n in table.column_names]), path)
    answer = run("evaluate", "--benchmark", "mmstar", "--data", path, *QUICK, "--out", tmp_path / "run")
    refused(answer, 2, "mmstar.parquet has no column 'question'; it has: index, prompt, image")
    assert not (tmp_path / "run").exists()


def test_a_truncated_file_that_is_the_only_one(run, tmp_path):
    path = write_parquet(tmp_path / "mmstar.parquet", "mmstar", mmstar_rows())
    path.write_bytes(path.read_bytes()[:-100])
    answer = run("evaluate", "--benchmark", "mmstar", "--data", path, *QUICK, "--out", tmp_path / "run")
    refused(answer, 2, "mmstar.parquet: the file is truncated or damaged")
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_resumed_with_another_revision_of_its_model(run, tmp_path, monkeypatch):
    command = ("evaluate", "--benchmark", "shapes-dev", *QUICK, "--quiet", "--out", tmp_path)
    assert run(*command)[0] == 0
    assert run(*command)[0] == 0
    monkeypatch.setattr("vtrace.lvlm.model.revision_of", lambda model: "weights 0123456789abcdef")
    refused(run(*command), 2, "not 'weights 0123456789abcdef'; choose another --out")
