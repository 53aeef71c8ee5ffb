"""Credit in TRL with models as trainers wrap them, and what is refused before training starts."""

from __future__ import annotations

import copy
import importlib
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("trl", reason="there is no TRL: pip install 'vtrace-attribution[trl]'")

import trl
from packaging.version import Version
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen2ForCausalLM

import vtrace
from support.pages import ROOT
from support.trl_training import ROLLOUTS, ROWS, every_other, rows, trainer_of
from vtrace.credit.credit import Credit
from vtrace.credit.shapes_training import cpu_config, freeze_vision
from vtrace.credit.special_tokens import picture_tokens, unsampled_tokens
from vtrace.credit.trl import CreditGRPOTrainer, refuse_unsupported, suppress_special_tokens
from vtrace.errors import InputError, ModelError

TILES = Version("1.12")  # the first TRL that divides pictures of InternVL among rows


def assigned(trainer) -> list[float]:
    return [row["credit/assigned"] for row in trainer.state.log_history if "credit/assigned" in row]


def failed(trainer) -> list[float]:
    return [row["credit/failed"] for row in trainer.state.log_history if "credit/failed" in row]


def batch_of(trainer) -> tuple[dict, list[dict]]:
    """A generated batch in which every row has an advantage, and its examples."""
    examples = [dict(rows()[k // ROLLOUTS]) for k in range(ROWS)]
    batch = trainer._generate_and_score_completions(examples)
    return {**batch, "advantages": torch.ones(ROWS)}, examples


def adapted(model):
    """A copy with LoRA on the projections that credit reads, with a delta that is not zero."""
    config = LoraConfig(r=2, target_modules=r".*language_model.*\.(q_proj|v_proj|o_proj)", lora_dropout=0.3)
    found = get_peft_model(copy.deepcopy(model), config)
    for name, parameter in found.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    return found


def test_adapters_are_part_of_what_is_read(pinhole, tmp_path):
    model = adapted(pinhole.model)
    whole = copy.deepcopy(model).merge_and_unload()
    trainer = trainer_of(pinhole, tmp_path, Credit(), model=model)
    batch, examples = batch_of(trainer)
    found = trainer._assign_credit(batch, examples)
    merged = trainer_of(pinhole, tmp_path, Credit(), model=whole)
    bare = trainer_of(pinhole, tmp_path, Credit())
    assert any(credit.status == "assigned" for credit in found)
    differences = []
    for own, same, other in zip(
        found, merged._assign_credit(batch, examples), bare._assign_credit(batch, examples), strict=True
    ):
        np.testing.assert_allclose(own.scores, same.scores, rtol=1e-3, atol=1e-6)
        differences.append(np.nanmax(np.abs(own.scores - other.scores), initial=0))
    assert max(differences) > 1e-3, "the adapter matters"


def test_adapters_are_trained_with_credit(pinhole, tmp_path):
    config = LoraConfig(r=2, target_modules=r".*language_model.*\.(q_proj|o_proj)")
    trainer = trainer_of(pinhole, tmp_path, Credit(), peft_config=config)
    trainer.train()
    assert failed(trainer) == [0]
    assert assigned(trainer)[0] > 0
    assert trainer.model.training, "the model is left in the trainer's mode"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of torch.compile, which looks at everything
def test_compiled_models_are_read_without_their_graphs(pinhole, tmp_path):
    plain = trainer_of(pinhole, tmp_path, Credit())
    plain.train()
    trainer = trainer_of(pinhole, tmp_path, Credit(), torch_compile=True, torch_compile_backend="eager")
    trainer.train()
    assert failed(trainer) == [0]
    assert trainer.losses == pytest.approx(plain.losses, rel=1e-4)
    for own, other in zip(trainer.batches, plain.batches, strict=True):
        assert torch.allclose(own["advantages"], other["advantages"], rtol=1e-4)


def test_special_tokens_are_never_sampled(pinhole, tmp_path):
    """At a temperature of 1,000 every token is equally likely, and one in 62 is special."""
    trainer = trainer_of(pinhole, tmp_path, Credit(), temperature=1000.0)
    trainer.train()
    tokenizer = pinhole.processor.tokenizer
    special = set(tokenizer.all_special_ids)
    sampled = [
        set(ids[mask.bool()].tolist())
        for batch in trainer.batches
        for ids, mask in zip(batch["completion_ids"], batch["completion_mask"], strict=True)
    ]
    assert set.union(*sampled) & special <= {tokenizer.eos_token_id}
    assert set(trainer.generation_config.suppress_tokens) == special - {tokenizer.eos_token_id}
    assert failed(trainer) == [0]


def test_plain_grpo_does_not_sample_them_either(pinhole, tmp_path):
    trainer = trainer_of(pinhole, tmp_path, None)
    assert pinhole.image_token_id in trainer.generation_config.suppress_tokens


def test_a_choice_of_suppressed_tokens_is_kept_except_for_pictures(pinhole, tmp_path):
    trainer = trainer_of(pinhole, tmp_path, None, generation_kwargs={"suppress_tokens": [7]})
    assert trainer.generation_config.suppress_tokens == [7, *picture_tokens(pinhole.model.config)]


def test_tokens_that_end_a_response_can_be_sampled(pinhole):
    model, tokenizer = copy.deepcopy(pinhole.model), pinhole.processor.tokenizer
    turn, pad = tokenizer.convert_tokens_to_ids("<|im_start|>"), tokenizer.pad_token_id
    assert {turn, pad} < set(unsampled_tokens(model, tokenizer))
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, turn, pad]
    found = set(unsampled_tokens(model, tokenizer))
    assert turn not in found
    assert pad in found, "padding is no end, even if a checkpoint says so"


def test_vllm_is_given_words_instead(pinhole, tmp_path):
    generation = SimpleNamespace(generation_kwargs={})
    trainer = SimpleNamespace(
        model=pinhole.model,
        processing_class=pinhole.processor,
        args=SimpleNamespace(generation_kwargs=None),
        use_vllm=True,
        vllm_generation=generation,
    )
    suppress_special_tokens(trainer)
    assert "<|image_pad|>" in generation.generation_kwargs["bad_words"]
    assert "<|im_end|>" not in generation.generation_kwargs["bad_words"]


@pytest.mark.skipif(Version(trl.__version__) < TILES, reason="this TRL cannot train InternVL")
def test_pictures_in_tiles(tmp_path):
    lvlm = vtrace.load("pinhole-internvl")
    trainer = trainer_of(lvlm, tmp_path, Credit())
    trainer.train()
    assert failed(trainer) == [0]
    assert assigned(trainer)[0] > 0


def test_a_batch_without_pictures(pinhole, tmp_path):
    trainer = trainer_of(pinhole, tmp_path, Credit("visual dependence"), dataset=rows().remove_columns("image"))
    trainer.train()
    assert failed(trainer) == assigned(trainer) == [0]


def text_policy(kind, config):
    torch.manual_seed(0)
    return kind(config)


def test_a_text_model_with_its_tokenizer(pinhole, tmp_path):
    tokenizer = copy.deepcopy(pinhole.processor.tokenizer)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    args = cpu_config(str(tmp_path), prompts=1, rollouts=2, max_completion_length=8, max_steps=1)
    dataset = rows().remove_columns("image")
    trainer = CreditGRPOTrainer(
        text_policy(Qwen2ForCausalLM, config), every_other, args, dataset, processing_class=tokenizer
    )
    trainer.train()
    assert failed(trainer) == assigned(trainer) == [0], "random words hold no answer"


def test_a_family_that_cannot_be_read_is_refused_before_training(pinhole, tmp_path):
    tokenizer = pinhole.processor.tokenizer
    model = text_policy(GPT2LMHeadModel, GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2))
    args = cpu_config(str(tmp_path))
    with pytest.raises(ModelError, match="gpt2"):
        CreditGRPOTrainer(model, every_other, args=args, train_dataset=rows(), processing_class=tokenizer)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("liger_grpo_loss", object(), "set use_liger_kernel=False"),
        ("is_fsdp_enabled", True, "use DDP or ZeRO-2"),
    ],
)
def test_settings_that_rule_credit_out_are_refused(pinhole, tmp_path, name, value, message):
    trainer = trainer_of(pinhole, tmp_path, None)
    refuse_unsupported(trainer)
    setattr(trainer, name, value)
    with pytest.raises(InputError, match=message):
        refuse_unsupported(trainer)


def test_without_trl_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "trl", None)
    monkeypatch.delitem(sys.modules, "vtrace.credit.trl")
    with pytest.raises(ModelError, match=r"pip install 'vtrace-attribution\[trl\]'"):
        importlib.import_module("vtrace.credit.trl")


@pytest.mark.slow
def test_the_example_of_the_page_runs(monkeypatch, tmp_path, capsys):
    page = (ROOT / "docs" / "how-to" / "credit-trl.md").read_text("utf-8")
    (example,) = (block for block in re.findall(r"```python[^\n]*\n(.*?)```", page, re.DOTALL) if "load(" in block)
    monkeypatch.chdir(tmp_path)
    known: dict = {}
    exec(example, known)
    assert len(failed(known["trainer"])) == 2


def test_a_frozen_tower_sees_the_same(pinhole):
    model = copy.deepcopy(pinhole.model)
    freeze_vision(model)
    pictures = [rows()[k]["image"] for k in (0, 1, 0, 0)]
    inputs = pinhole.processor.image_processor(pictures, return_tensors="pt")
    for _ in range(2):
        own, other = (m.model.get_image_features(**inputs) for m in (model, pinhole.model))
        assert torch.allclose(torch.cat(own.pooler_output), torch.cat(other.pooler_output), atol=1e-5)
        for one, same in zip(own.deepstack_features, other.deepstack_features, strict=True):
            assert torch.allclose(torch.cat(one), torch.cat(same), atol=1e-5)
    assert len(model.model.visual.forward.known) == 2
