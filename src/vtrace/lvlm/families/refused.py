"""Image-text model types that are not supported, and why. Data only; a test compares it with transformers' own list."""

from __future__ import annotations

_CROSS = "pictures enter through cross-attention and have no positions in the sequence that could be scored"
_ENCODER = "it has an encoder for its inputs and a decoder that reads them through cross-attention"
_RESAMPLED = "its image tokens are queries over the whole picture, so no token corresponds to one place"
_CODES = "pictures become discrete codes, which padding and blurring do not describe"
_STREAMS = "its layers keep several residual streams, so what attention adds is not what the next block reads"
_TORCHVISION = "untested: its image processor needs torchvision"
_OCR = "untested: it transcribes documents and writes its own prompt instead of answering questions"
_UNDESCRIBED = "not described yet: no family file says what its image tokens show"

OPEN = {_TORCHVISION, _OCR, _UNDESCRIBED}  # reasons that probing can do without

REFUSED: dict[str, str] = {  # reasons by model type
    "mllama": _CROSS,
    "idefics": _CROSS,
    "blip": _CROSS,
    "evolla": "it reads proteins, not pictures",
    "florence2": _ENCODER,
    "pix2struct": _ENCODER,
    "pp_formulanet": _ENCODER,
    "t5gemma2": _ENCODER,
    "udop": _ENCODER,
    "vision-encoder-decoder": _ENCODER,
    "aria": _RESAMPLED,
    "blip-2": _RESAMPLED,
    "idefics2": _RESAMPLED,
    "instructblip": _RESAMPLED,
    "instructblipvideo": _RESAMPLED,
    "kosmos-2": _RESAMPLED,
    "kosmos-2.5": _RESAMPLED,
    "chameleon": _CODES,
    "emu3": _CODES,
    "deepseek_ocr2": _RESAMPLED,
    "gemma3n": _STREAMS,
    "glm5_next": _STREAMS,
    "qwen4_exp": _STREAMS,
    "muse_spark": "its layers scale the residual stream before adding to it, so updates are not sums of writes",
    "diffusion_gemma": "it writes its response by diffusion, not token by token",
    "pi0": "it predicts actions of a robot, not text",
    "shieldgemma2": "it judges pictures with one token instead of answering questions",
    "git": "its image tokens are part of the decoder's sequence, but not of the prompt's tokens",
    "mistral4": "a text-only decoder, which transformers lists with the models that contain it; not described yet",
    "inkling_mm_model": "its keys and values pass convolutions before attention, which are not read yet",
    "gemma4_unified": _TORCHVISION,
    "minicpm_ocr": _TORCHVISION,
    "muse_glimmer": _TORCHVISION,
    "step3p7": _TORCHVISION,
    "unlimited_ocr": _TORCHVISION,
    "got_ocr2": _OCR,
    "cohere_compass": _UNDESCRIBED,
    "cosmos3_edge": _UNDESCRIBED,
    "deepseek_vl_hybrid": _UNDESCRIBED,
    "fuyu": _UNDESCRIBED,
    "hunyuan_vl": _UNDESCRIBED,
    "pp_chart2table": _UNDESCRIBED,
    "video_llava": _UNDESCRIBED,
}
