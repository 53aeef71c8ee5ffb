"""Where a checkpoint is and what its configuration says, without loading weights."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedModel
from transformers import __version__ as version

from ..errors import ModelError, first_line
from .families.family import Family, ModelConfig
from .families.supported import has_pictures

_SHIPPED = Path(__file__).parent.parent / "pinhole"
EMBEDDED = {"pinhole": _SHIPPED / "checkpoint", "pinhole-internvl": _SHIPPED / "checkpoint_internvl"}

UNFINISHED = {"pinhole-half": _SHIPPED / "checkpoint_half"}  # half trained, for reinforcement learning to start from


# Code in a checkpoint is never run. Without this, transformers asks on a terminal, and a "y" would run it.
NO_FOREIGN_CODE = {"trust_remote_code": False}


class Checkpoint(NamedTuple):
    """A folder or hub id, and the revision if the name ends in one."""

    source: str
    options: dict[str, Any]  # for every `from_pretrained`


def find_checkpoint(name: str) -> Checkpoint:
    """Where the checkpoint with this name is."""
    shipped = EMBEDDED | UNFINISHED
    if name in shipped or os.path.exists(name):
        return Checkpoint(str(shipped.get(name, name)), dict(NO_FOREIGN_CODE))
    source, _, revision = name.partition("@")
    return Checkpoint(source, NO_FOREIGN_CODE | ({"revision": revision} if revision else {}))


def read_config(checkpoint: Checkpoint, name: str) -> ModelConfig:
    """The configuration of a checkpoint, without its weights."""
    try:
        return AutoConfig.from_pretrained(checkpoint.source, **checkpoint.options)
    except Exception as error:
        if reason := _unusable(str(error)):
            raise ModelError(f"cannot read {name}: {reason}") from error
        hint = "give a hub id, a folder with config.json, or one of: " + ", ".join(EMBEDDED)
        raise ModelError(f"cannot find the model {name!r} ({failure_reason(error)}); {hint}") from error


def _unusable(message: str) -> str:
    """Why a checkpoint that was found cannot be used, if transformers says so."""
    if "trust_remote_code" in message:
        return "it needs code of its own, which VTrace never runs; use a checkpoint that transformers supports itself"
    if found := re.search(r"model type `([^`]+)` but Transformers does not recognize", message):
        return f"the installed transformers {version} does not know {found[1]!r} models; update transformers"
    return ""


def failure_reason(error: Exception) -> str:
    """What went wrong, in one line. The hub's own message for a gated model does not say what to do."""
    if "gated repo" in str(error) or "GatedRepo" in type(error).__name__:
        return "its owner requires you to accept terms; accept them on its page, then run: hf auth login"
    if "trust_remote_code" in str(error):
        return "it needs code of its own, which VTrace never runs"
    return first_line(error)


def build_without_weights(config: ModelConfig, family: Family) -> PreTrainedModel:
    """The model of a configuration with shapes but no values: no memory is allocated."""
    with torch.device("meta"):
        return auto_class(family).from_config(config)


def auto_class(family: Family) -> type[AutoModelForImageTextToText] | type[AutoModelForCausalLM]:
    return AutoModelForImageTextToText if has_pictures(family) else AutoModelForCausalLM
