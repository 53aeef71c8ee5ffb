"""Names of all studies, and what they are about: known in an instant, because PyTorch is not needed."""

from __future__ import annotations

from ..errors import InputError

STUDY_SUBJECTS = {  # phrases in lower case
    "components": "what centring, multi-hop and calibration contribute",
    "gamma": "the weight γ of longer paths, for VTrace and IFR; γ = 0 stands for direct edges and plain IFR",
    "hops": "maximum length of paths into and out of a source",
    "curves": "mean perturbation curves of VTrace and baselines",
    "correctness": "faithfulness on correct and on incorrect answers, half of the examples each",
    "receivers": "reading the target at its predictors or at its own tokens",
    "calibration": "calibrating on the whole response or on the target",
    "ordered": "paths in the order of layers compared with the paper's sum",
    "refine": "budget and base of rankings whose strongest inputs are measured by hiding them",
    "budget": "how many of the top-ranked tokens are image tokens, and how much of the answer they recover",
    "credit": "from direct edges to all paths: how far back credit comes from, the image's share of it, and RISE",
    "blur": "how strong the blur has to be",
    "efficiency": "time and memory by sequence length, time against faithfulness, one target against every token",
    "verify": "how few patches have to be hidden to change an answer",
    "sanity": "attributions under randomised weights, and of responses that do not belong to the question",
}


def check_study(name: str) -> None:
    if name not in STUDY_SUBJECTS:
        raise InputError(f"unknown study {name!r}; use one of: {', '.join(STUDY_SUBJECTS)}")
