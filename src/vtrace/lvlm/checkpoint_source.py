"""Names of checkpoints: embedded ones, folders, and hub ids. Known in an instant, without transformers."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ModelError, first_line
from .joined import BUILT, built_checkpoint, built_folder

_SHIPPED = Path(__file__).parent.parent / "pinhole"
EMBEDDED = {"pinhole": _SHIPPED / "checkpoint", "pinhole-internvl": _SHIPPED / "checkpoint_internvl"}
UNFINISHED = {"pinhole-half": _SHIPPED / "checkpoint_half"}  # half trained, for reinforcement learning to start from
HUB_SECONDS = 10.0  # for the one short question to the hub
_HINT = "give a hub id, a folder with config.json, or one of: " + ", ".join([*EMBEDDED, *BUILT])

# Code in a checkpoint is never run. Without this, transformers asks on a terminal, and a "y" would run it.
NO_FOREIGN_CODE = {"trust_remote_code": False}


class Checkpoint(NamedTuple):
    """A folder or hub id, and the revision if the name ends in one."""

    source: str
    options: dict[str, Any]  # for every `from_pretrained`


def find_checkpoint(name: str) -> Checkpoint:
    """What a name means; whether there is such a checkpoint is not checked."""
    if name in BUILT:
        return Checkpoint(str(built_folder(name)), dict(NO_FOREIGN_CODE))
    shipped = EMBEDDED | UNFINISHED
    if name in shipped or os.path.exists(name):
        return Checkpoint(str(shipped.get(name, name)), dict(NO_FOREIGN_CODE))
    source, _, revision = name.partition("@")
    return Checkpoint(source, NO_FOREIGN_CODE | ({"revision": revision} if revision else {}))


def reach_checkpoint(name: str) -> Checkpoint:
    """The checkpoint of a name, or an error if there is none. One that comes in a package is built if it has not been.
    The hub is asked briefly and once: its own library repeats a failed request for half a minute. If it does not
    answer, only its cache is read."""
    if name in BUILT:
        built_checkpoint(name)
    found = find_checkpoint(name)
    if os.path.exists(found.source):
        return found
    if os.path.isabs(name) or name.startswith(("./", "../", "~")):
        raise unknown_model(name, "there is no such folder")
    if _on_hub(found.source, found.options.get("revision", "")):
        return found
    return Checkpoint(found.source, {**found.options, "local_files_only": True})


@cache
def _on_hub(source: str, revision: str) -> bool:
    """Whether the hub has a checkpoint. False if the hub cannot be reached but its cache has the checkpoint; an error
    if neither does."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    name = f"{source}@{revision}" if revision else source
    try:
        if _is_cached(source, revision) and constants.HF_HUB_OFFLINE:
            return False
        HfApi().model_info(source, revision=revision or None, timeout=HUB_SECONDS)
    except RevisionNotFoundError as error:
        raise unknown_model(name, f"the hub has no revision {revision!r} of it") from error
    except RepositoryNotFoundError as error:
        raise unknown_model(name, "the hub has no such model; if it is private, run: hf auth login") from error
    except HFValidationError as error:
        raise unknown_model(name, "it is neither a folder nor written like a hub id") from error
    except HfHubHTTPError:  # such as too many requests: what comes next may still work
        return True
    except Exception as error:  # without a network, whatever the library for requests raises
        if _is_cached(source, revision):
            return False
        why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"cannot reach the hub: {first_line(error)}"
        raise unknown_model(name, f"{why}; it is not in the hub's cache either") from error
    return True


def _is_cached(source: str, revision: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    files = ("config.json", "adapter_config.json")
    return any(isinstance(try_to_load_from_cache(source, file, revision=revision or None), str) for file in files)


def unknown_model(name: str, reason: str) -> ModelError:
    """The error for a name under which there is no checkpoint."""
    return ModelError(f"cannot find the model {name!r} ({reason}); {_HINT}")


_MISSING = re.compile(r"(?:requires the|Missing optional dependencies:) (\w+)")  # as transformers says it


def failure_reason(error: Exception) -> str:
    """What went wrong, in one line. The hub's own message for a gated model does not say what to do."""
    if "gated repo" in str(error) or "GatedRepo" in type(error).__name__:
        return "its owner requires you to accept terms; accept them on its page, then run: hf auth login"
    if "trust_remote_code" in str(error):
        return "it needs code of its own, which VTrace never runs"
    if found := _MISSING.search(str(error)):
        return f"it needs {found[1]}; install it with: pip install {found[1]}"
    if "weights_only" in str(error):  # PyTorch's own message says how to run what a pickle contains
        return "its weights are a pickle with code in it, which VTrace never runs; use weights in .safetensors format"
    return first_line(error)
