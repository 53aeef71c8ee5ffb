"""The hub: files that are fetched in advance, and no network afterwards."""

from __future__ import annotations

import os

from ..errors import ModelError
from .checkpoint_source import Checkpoint, failure_reason

_FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")  # of a checkpoint, and no code


def fetch_checkpoint(checkpoint: Checkpoint) -> None:
    """Download a checkpoint that is not a folder, so that it can be loaded without a network."""
    if os.path.exists(checkpoint.source):
        return
    from huggingface_hub import snapshot_download

    try:
        revision = checkpoint.options.get("revision")
        snapshot_download(checkpoint.source, revision=revision, allow_patterns=list(_FILES))
    except Exception as error:  # the network fails in many ways
        raise ModelError(f"cannot download {checkpoint.source}: {failure_reason(error)}") from error


def go_offline() -> None:
    """From now on, this process reads only what is in the hub's cache."""
    from huggingface_hub import constants

    os.environ["HF_HUB_OFFLINE"] = "1"
    constants.HF_HUB_OFFLINE = True
