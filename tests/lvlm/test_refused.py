"""Reasons for which model types are refused, checked against the code of the installed transformers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import transformers
from packaging.version import Version
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

from vtrace.lvlm.families.refused import REFUSED
from vtrace.lvlm.families.supported import listed_types

pytestmark = pytest.mark.skipif(
    Version(transformers.__version__) < Version("5.22"), reason="reasons describe transformers 5.22 and later"
)
MODELS = Path(transformers.__file__).parent / "models"
FOLDERS = {"inkling_mm_model": "inkling", "pp_chart2table": "got_ocr2", "blip": "blip", "kosmos-2.5": "kosmos2_5"}
EVIDENCE = {  # what a reason says, and what then stands in the model's code
    "cross-attention and have no positions": r"(?i)cross_?att",
    "an encoder for its inputs": r"encoder_hidden_states|encoder_outputs",
    "queries over the whole picture": r"(?i)qformer|resampler|latent_query|self\.query",
    "discrete codes": r"VQVAE",
    "several residual streams": r"AltUp|HyperConnection|hyper_connection",
    "scale the residual stream": r"alpha \* residual",
    "pass convolutions before attention": r"v_sconv\(self\.v_proj",
    "proteins": r"protein_encoder",
    "actions of a robot": r"PI0ActionTimeEmbedding",
    "judges pictures with one token": r"yes_token_index",
    "not of the prompt's tokens": r"torch\.cat\(\(projected_visual_features, embedding_output\)",
    "by diffusion": r"BlockDiffusion",
    "a text-only decoder": r"class Mistral4ForCausalLM",
}


def source(kind: str, part: str) -> str:
    folder = FOLDERS.get(kind, kind.replace("kosmos-2", "kosmos2").replace("-", "_"))
    return "".join(path.read_text("utf-8") for path in sorted((MODELS / folder).glob(f"{part}*.py")))


@pytest.mark.parametrize("kind", [kind for kind in REFUSED if kind in listed_types()])
def test_the_reason_stands_in_the_code_of_the_model(kind):
    reason = REFUSED[kind]
    for said, pattern in EVIDENCE.items():
        if said in reason:
            assert re.search(pattern, source(kind, "modeling"))
            return
    if "needs torchvision" in reason:
        assert "Pil" not in source(kind, "image_processing")
        assert "pil" not in IMAGE_PROCESSOR_MAPPING_NAMES.get(kind, {})
        assert "TorchvisionBackend" in source(kind, "image_processing")
    elif "writes its own prompt" in reason:
        assert "ckpt has not chat template" in source(kind, "processing")
    else:
        assert reason.startswith("not described yet")
        backends = IMAGE_PROCESSOR_MAPPING_NAMES.get(kind, {})
        assert "pil" in backends or not backends, "say that it needs torchvision"
