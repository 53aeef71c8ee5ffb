"""What the embedded models share: the tokenizer, the chat template, parts of the decoder, and saving.

The tokenizer and the template have the same form as those of the large models: Qwen's byte-level tokenizer and chat
template.
"""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import GenerationConfig, PreTrainedModel, ProcessorMixin, Qwen2Tokenizer
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from ..benchmarks.shapes.questions import TASKS
from ..benchmarks.shapes.sample import sample
from ..benchmarks.shapes.scene import NURSERY
from ..tracing.defaults import SYSTEM_PROMPT

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{- message.content }}"
    "{%- else %}{%- for part in message.content %}"
    "{%- if part.type == 'image' %}{{- 'PICTURE' }}"
    "{%- else %}{{- part.text }}{%- endif %}"
    "{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)  # PICTURE is what the processor of a family turns into image tokens


def build_tokenizer(special: tuple[str, ...], **roles: str) -> Qwen2Tokenizer:
    """Byte-level BPE trained on the words of the Shapes grammar; bytes cover the rest.

    Special tokens come last, so that models with equally many of them agree on all ids.
    """
    texts = [SYSTEM_PROMPT, "user\n", "assistant\n", "system\n"] * 50
    for index in range(len(TASKS) * 400):
        item = sample("train", index, NURSERY)
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
    vocab |= {token: len(vocab) + k for k, token in enumerate(special)}
    return Qwen2Tokenizer(
        vocab=vocab,
        merges=[tuple(merge) for merge in model["merges"]],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=roles or list(special[1:]),
        model_max_length=4096,
    )


def decoder_config(tokenizer: Qwen2Tokenizer, **rope: object) -> dict[str, Any]:
    """A deep, narrow decoder, so that information has to pass between tokens; q/k-norm and grouped queries."""
    return dict(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=4096,
        initializer_range=0.05,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        rope_parameters=dict(rope_type="default", rope_theta=1e4, **rope),
    )


def shrink_outputs(stack: nn.ModuleList, names: tuple[str, ...]) -> None:
    """Scale down the initial outputs of residual branches by the square root of their number."""
    with torch.no_grad():
        for name, weight in stack.named_parameters():
            if name.endswith(names):
                weight.div_(math.sqrt(2 * len(stack)))


def save_checkpoint(model: PreTrainedModel, processor: ProcessorMixin, folder: Path) -> None:
    """Write a checkpoint in bfloat16 that loads like one from the hub."""
    half = copy.deepcopy(model).to(torch.bfloat16)
    tokenizer = processor.tokenizer
    half.generation_config = GenerationConfig(
        do_sample=False, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    half.save_pretrained(folder)
    processor.save_pretrained(folder)
    config = folder / "processor_config.json"
    # AutoProcessor returns a bare tokenizer for an unknown class, so a known class is named.
    own, known = type(processor).__name__, type(processor).__mro__[1].__name__
    config.write_text(config.read_text().replace(own, known))


def sincos_grid(side: int, width: int) -> torch.Tensor:
    """Two-dimensional sine-cosine positions, one row per cell of a square grid."""
    rates = torch.pi * 2.0 ** torch.linspace(0, 3, width // 4)
    angle = torch.arange(side)[:, None] / side * rates
    axis = torch.cat([angle.sin(), angle.cos()], dim=1)  # side, width / 2
    return torch.cat([axis[:, None].expand(-1, side, -1), axis[None].expand(side, -1, -1)], dim=-1).reshape(-1, width)
