"""Parts that small checkpoints of all families share: a tokenizer, configurations, templates."""

from __future__ import annotations

import json

from transformers import Qwen2Tokenizer

from vtrace.lvlm.checkpoint_source import EMBEDDED
from vtrace.pinhole.build import CHAT_TEMPLATE

IMAGE = dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)


def tokenizer(*special: str, **roles: str) -> Qwen2Tokenizer:
    """The embedded model's words, with the special tokens of another family."""
    model = json.loads((EMBEDDED["pinhole"] / "tokenizer.json").read_text())["model"]
    vocab = {token: index for token, index in model["vocab"].items() if not token.startswith("<|")}
    vocab = {token: index for index, token in enumerate(vocab)}
    named = dict.fromkeys(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *special, *roles.values()])
    vocab |= {token: len(vocab) + k for k, token in enumerate(named)}
    extra = roles or [*named][1:]
    return Qwen2Tokenizer(
        vocab=vocab,
        merges=[tuple(m) for m in model["merges"]],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=extra,
        model_max_length=4096,
        add_prefix_space=False,  # explicit, for families whose tokenizers are read as GPT-2's
    )


def text_config(words: Qwen2Tokenizer, **more) -> dict:
    """Heads that do not fill the width, and share keys."""
    return (
        dict(
            vocab_size=len(words),
            hidden_size=48,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            max_position_embeddings=2048,
            initializer_range=0.2,
            tie_word_embeddings=False,
            pad_token_id=words.pad_token_id,
            bos_token_id=None,
            eos_token_id=words.eos_token_id,
        )
        | more
    )


def vision_config(**more) -> dict:
    """A CLIP-like tower of two layers."""
    return (
        dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, initializer_range=0.2)
        | more
    )


def mrope(**more) -> dict:
    return dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[4, 2, 2], **more))


MOE = dict(moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2, decoder_sparse_step=1)


def template(placeholder: str) -> str:
    return CHAT_TEMPLATE.replace("PICTURE", placeholder)


def ids(words: Qwen2Tokenizer, **names: str) -> dict:
    return {name: words.convert_tokens_to_ids(token) for name, token in names.items()}
