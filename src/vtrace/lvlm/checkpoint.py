"""What the configuration of a checkpoint says, without loading weights."""

from __future__ import annotations

import re

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedModel
from transformers import __version__ as version

from ..errors import ModelError
from .checkpoint_source import Checkpoint, failure_reason, unknown_model
from .families.family import Family, ModelConfig
from .families.supported import has_pictures
from .joined import BUILT

_OWN_CODE = "it needs code of its own, which VTrace never runs; use a checkpoint that transformers supports itself"


def read_config(checkpoint: Checkpoint, name: str) -> ModelConfig:
    """The configuration of a checkpoint, without its weights."""
    try:
        config = AutoConfig.from_pretrained(checkpoint.source, **checkpoint.options)
    except Exception as error:
        if reason := _unusable(str(error)):
            raise ModelError(f"cannot read {name}: {reason}") from error
        if name in BUILT:
            raise ModelError(f"cannot read {name}: {damaged_cache(checkpoint)}") from error
        raise unknown_model(name, failure_reason(error)) from error
    if "/" in str(config._attn_implementation):  # a repository of kernels, whose code transformers would run
        raise ModelError(f"cannot read {name}: {_OWN_CODE}")
    return config


def damaged_cache(checkpoint: Checkpoint) -> str:
    """What to do about a model that was built in the user's cache and cannot be read."""
    return f"its files in the cache are damaged; remove {checkpoint.source}, and it will be built again"


def _unusable(message: str) -> str:
    """Why a checkpoint that was found cannot be used, if transformers says so."""
    if "trust_remote_code" in message:
        return _OWN_CODE
    if found := re.search(r"model type `([^`]+)` but Transformers does not recognize", message):
        return f"the installed transformers {version} does not know {found[1]!r} models; update transformers"
    return ""


def build_without_weights(config: ModelConfig, family: Family) -> PreTrainedModel:
    """The model of a configuration with shapes but no values: no memory is allocated."""
    try:
        with torch.device("meta"):
            return auto_class(family).from_config(config)
    except Exception as error:  # a configuration can be damaged in many ways
        raise ModelError(f"no model can be built from this configuration: {failure_reason(error)}") from error


def auto_class(family: Family) -> type[AutoModelForImageTextToText] | type[AutoModelForCausalLM]:
    return AutoModelForImageTextToText if has_pictures(family) else AutoModelForCausalLM
