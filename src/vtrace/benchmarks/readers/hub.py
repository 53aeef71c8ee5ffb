"""Datasets from the hub: only the files that are needed, through the hub's own cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError, first_line


def fetch_dataset(ids: Sequence[str], files: Sequence[str], title: str) -> Path:
    """A local folder with the files, from the first of the repositories that can be downloaded."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError

    reasons = []
    for name in ids:
        try:
            return Path(snapshot_download(name, repo_type="dataset", allow_patterns=list(files)))
        except GatedRepoError:
            reasons.append(f"{name} requires a login; accept its terms on the hub, then run: hf auth login")
        except Exception as error:  # the network fails in many ways
            reasons.append(f"{name}: {first_line(error)[:160]}")
    raise InputError(f"cannot get {title} ({'; '.join(reasons)}); download it and pass its folder with --data")
