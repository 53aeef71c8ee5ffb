"""The untrained parts of Pinhole: tokenizer, prompt template and architecture.

Everything is of the class its big siblings use: Qwen's byte-level tokenizer and chat template, a
vision tower with 2 x 2 merging and DeepStack, a decoder with M-RoPE, grouped queries and q/k-norm.
"""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    Qwen2Tokenizer,
    Qwen2VLImageProcessorPil,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from ..benchmarks.shapes import TASKS, sample
from ..lvlm.processor import ImageOnlyProcessor
from ..prompt import SYSTEM_PROMPT

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
    "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{- message.content }}"
    "{%- else %}{%- for part in message.content %}"
    "{%- if part.type == 'image' %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{%- else %}{{- part.text }}{%- endif %}"
    "{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def build_tokenizer() -> Qwen2Tokenizer:
    """Byte-level BPE in which every word of the Shapes grammar is one token; bytes cover the rest."""
    texts = [SYSTEM_PROMPT, "user\n", "assistant\n", "system\n"] * 50
    for index in range(len(TASKS) * 400):
        item = sample("train", index)
        texts += [item.question, item.response]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1000, min_frequency=2, initial_alphabet=alphabet))
    model = json.loads(bpe.to_str())["model"]
    vocab = dict(model["vocab"])
    vocab |= {token: len(vocab) + k for k, token in enumerate(SPECIAL)}
    return Qwen2Tokenizer(
        vocab=vocab,
        merges=[tuple(merge) for merge in model["merges"]],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=list(SPECIAL[1:]),
        model_max_length=4096,
    )


def build_processor(tokenizer: Qwen2Tokenizer) -> ImageOnlyProcessor:
    """Pictures keep their size if they have 36 to 64 visual tokens, and are resized to that otherwise."""
    images = Qwen2VLImageProcessorPil(
        patch_size=16, merge_size=2, temporal_patch_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3,
        size={"shortest_edge": 36 * 32 * 32, "longest_edge": 64 * 32 * 32},
    )  # fmt: skip
    return ImageOnlyProcessor(images, tokenizer, chat_template=CHAT_TEMPLATE)


def save(model: Qwen3VLForConditionalGeneration, tokenizer: Qwen2Tokenizer, folder: Path) -> None:
    """Write a checkpoint in bfloat16 that loads like any from the hub."""
    half = copy.deepcopy(model).to(torch.bfloat16)
    half.generation_config = GenerationConfig(
        do_sample=False, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    half.save_pretrained(folder)
    build_processor(tokenizer).save_pretrained(folder)
    config = folder / "processor_config.json"
    # AutoProcessor returns a bare tokenizer for a class it does not know, so name the one it does.
    config.write_text(config.read_text().replace(ImageOnlyProcessor.__name__, "Qwen3VLProcessor"))


def build_model(tokenizer: Qwen2Tokenizer) -> Qwen3VLForConditionalGeneration:
    """Pinhole with random weights: a deep, narrow decoder, so that evidence has to travel between tokens."""
    token = tokenizer.convert_tokens_to_ids
    width = 128
    config = Qwen3VLConfig(
        text_config=dict(
            vocab_size=len(tokenizer), hidden_size=width, intermediate_size=384, num_hidden_layers=8,
            num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=4096,
            initializer_range=0.05, tie_word_embeddings=True, pad_token_id=tokenizer.pad_token_id,
            rope_parameters=dict(
                rope_type="default", rope_theta=1e4, mrope_section=[6, 5, 5], mrope_interleaved=True
            ),
        ),
        vision_config=dict(
            depth=4, hidden_size=128, num_heads=4, intermediate_size=320, patch_size=16, spatial_merge_size=2,
            temporal_patch_size=2, out_hidden_size=width, num_position_embeddings=256,
            deepstack_visual_indexes=[0, 2], initializer_range=0.05,
        ),
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model = Qwen3VLForConditionalGeneration._from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    with torch.no_grad():
        model.model.visual.pos_embed.weight.copy_(0.5 * _sincos_grid(16, 128))
        for stack in (model.model.language_model.layers, model.model.visual.blocks):
            for name, weight in stack.named_parameters():
                if name.endswith(("o_proj.weight", "down_proj.weight", "attn.proj.weight", "linear_fc2.weight")):
                    weight.div_(math.sqrt(2 * len(stack)))
    return model


def _sincos_grid(side: int, width: int) -> torch.Tensor:
    """Two-dimensional sine-cosine positions, one row per cell of a square grid."""
    rates = torch.pi * 2.0 ** torch.linspace(0, 3, width // 4)
    angle = torch.arange(side)[:, None] / side * rates
    axis = torch.cat([angle.sin(), angle.cos()], dim=1)  # side, width / 2
    return torch.cat([axis[:, None].expand(-1, side, -1), axis[None].expand(side, -1, -1)], dim=-1).reshape(-1, width)
