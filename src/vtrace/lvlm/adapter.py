"""PEFT adapters: which model one belongs to, and how it is added to a loaded one."""

from __future__ import annotations

import os
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from transformers.utils import cached_file

from ..errors import InputError, ModelError
from ..system.json_reader import read_json
from .checkpoint_source import Checkpoint, failure_reason, reach_checkpoint

_CONFIG = "adapter_config.json"


class AdaptedName(NamedTuple):
    """The name of a model, and that of an adapter, which may be empty."""

    model: str
    adapter: str


def split_adapter(name: str) -> AdaptedName:
    """The model of a checkpoint that holds only an adapter, and the adapter; any other name as it is."""
    found = reach_checkpoint(name)
    if os.path.exists(Path(found.source) / "config.json"):
        return AdaptedName(name, "")
    base = _settings(found).get("base_model_name_or_path")
    return AdaptedName(base, name) if base and isinstance(base, str) else AdaptedName(name, "")


def _settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """The configuration of an adapter; empty if there is none."""
    try:
        path = cached_file(
            checkpoint.source,
            _CONFIG,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
            _raise_exceptions_for_gated_repo=False,
            revision=checkpoint.options.get("revision"),
            local_files_only=checkpoint.options.get("local_files_only", False),
        )
        found = read_json(Path(path), "the configuration of an adapter") if path else {}
    except (OSError, ValueError, InputError):  # an unknown name or a damaged file; reading the model says so
        return {}
    return found if isinstance(found, dict) else {}


def adapted(model: Any, adapter: str, name: str) -> Any:
    """The model with an adapter: merged into its weights, or active beside them if they are quantised."""
    if find_spec("peft") is None:
        raise ModelError("an adapter needs peft; install it with: pip install peft")
    from peft import PeftModel

    found = reach_checkpoint(adapter)
    if not _settings(found):
        raise ModelError(f"there is no adapter at {adapter!r}: it has no {_CONFIG}")
    try:
        with warnings.catch_warnings(action="ignore"):  # PEFT only warns of what is refused below
            whole = PeftModel.from_pretrained(model, found.source, revision=found.options.get("revision"))
        unfit = _unfit(whole, found)
    except Exception as error:  # adapters and their files can be wrong in many ways
        raise ModelError(f"the adapter {adapter} does not fit {name}: {failure_reason(error)}") from error
    if unfit.homeless:
        raise ModelError(f"the adapter {adapter} does not fit {name}: there is no place for {unfit.homeless[0]}")
    if unfit.missing:
        raise ModelError(f"the adapter {adapter} does not fit {name}: it has no weights for {unfit.missing[0]}")
    quantised = getattr(model, "is_quantized", False)
    return whole.get_base_model() if quantised else whole.merge_and_unload()


class _Unfit(NamedTuple):
    """Weights of an adapter that a model has no place for, and places of the model that the adapter has none for."""

    homeless: list[str]
    missing: list[str]


def _unfit(whole: Any, adapter: Checkpoint) -> _Unfit:
    from peft import get_peft_model_state_dict
    from peft.utils import load_peft_weights

    own = get_peft_model_state_dict(whole, save_embedding_layers=False)
    stored = load_peft_weights(adapter.source, device="cpu", revision=adapter.options.get("revision"))
    return _Unfit([key for key in stored if key not in own], [key for key in own if key not in stored])
