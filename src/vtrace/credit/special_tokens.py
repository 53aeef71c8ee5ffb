"""Special tokens that a policy must not sample: a sampled image token makes the next pass look for a picture."""

from __future__ import annotations

import re
from typing import Any

_MARKER = re.compile(r"(?!bos|eos|pad|sep|cls|mask|unk|decoder_start)\w+_token_(id|index)$")


def picture_tokens(config: Any) -> list[int]:
    """Ids of tokens that stand for pictures, videos or sounds, or enclose them, from a model's configuration."""
    return sorted({value for name, value in config.to_dict().items() if _MARKER.match(name) and isinstance(value, int)})


def unsampled_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Ids of all special tokens except those that end a response.

    The padding token counts as an end only if it is the tokenizer's end token: some checkpoints list it among the end
    tokens, but a trainer would mistake it for padding.
    """
    special = {id_ for id_, token in tokenizer.added_tokens_decoder.items() if token.special}
    declared = getattr(model.generation_config, "eos_token_id", None)
    ends = {*(declared if isinstance(declared, list) else [declared]), tokenizer.eos_token_id}
    if tokenizer.pad_token_id != tokenizer.eos_token_id:
        ends.discard(tokenizer.pad_token_id)
    return sorted({*special, *tokenizer.all_special_ids, *picture_tokens(model.config)} - ends)
