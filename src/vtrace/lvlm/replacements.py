"""Possible replacements of words: for each position, a distribution over the model's vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerBase

from ..errors import ModelError, first_line
from ..types import Word
from .checkpoint_source import NO_FOREIGN_CODE
from .families.family import Arguments
from .seam import Seam


@torch.no_grad()
def by_model(seam: Seam, arguments: Arguments, ids: Tensor, positions: Sequence[int]) -> Tensor:
    """The model's own prediction at each position, excluding the current token: n,vocabulary."""
    return _without(seam.predict(arguments, positions)[0].softmax(-1), ids[positions])


def by_unigram(seam: Seam, arguments: Arguments, ids: Tensor, positions: Sequence[int]) -> Tensor:
    """The model's mean prediction over these positions, used at all of them."""
    mean = by_model(seam, arguments, ids, positions).mean(0, keepdim=True)
    return _without(mean.repeat(len(positions), 1), ids[positions])


@torch.no_grad()
def by_masked_lm(
    name: str,
    words: Sequence[Word],
    tokenizer: PreTrainedTokenizerBase,
    fallback: Tensor,
    positions: Sequence[int],
    keep: int = 50,
) -> Tensor:
    """Words that a masked language model proposes and that have as many tokens as the word they replace.

    `fallback` (n,vocabulary) is used at positions for which it proposes none.
    """
    try:
        reader = AutoTokenizer.from_pretrained(name, **NO_FOREIGN_CODE)
        filler = AutoModelForMaskedLM.from_pretrained(name, **NO_FOREIGN_CODE).eval()
    except Exception as error:  # missing, unreadable, or not a masked language model
        raise ModelError(f"cannot load the masked language model {name!r}: {first_line(error)}") from error
    found, place = torch.zeros_like(fallback), {position: row for row, position in enumerate(positions)}
    for number, word in enumerate(words):
        text = " ".join(reader.mask_token if k == number else w.text for k, w in enumerate(words))
        encoded = reader(text, return_tensors="pt", truncation=True)
        masks = (encoded["input_ids"][0] == reader.mask_token_id).nonzero()
        if not len(masks):  # truncated: the question is longer than the masked model's context
            continue
        guess = filler(**encoded).logits[0, masks[0, 0]].softmax(-1).topk(min(keep, len(reader)))
        for share, token in zip(guess.values, guess.indices, strict=True):
            candidate = reader.decode([int(token)]).strip()
            pieces = tokenizer(" " + candidate, add_special_tokens=False)["input_ids"]
            if candidate and candidate != word.text and len(pieces) == word.stop - word.start:
                for position, piece in zip(range(word.start, word.stop), pieces, strict=True):
                    found[place[position], piece] += share
    total = found.sum(1, keepdim=True)
    return torch.where(total > 0, found / total.clamp_min(1e-30), fallback)


def _without(shares: Tensor, ids: Tensor) -> Tensor:
    shares[torch.arange(len(ids)), ids.to(shares.device)] = 0
    return shares / shares.sum(1, keepdim=True).clamp_min(1e-30)
