"""The contract with TRL, on the embedded model: what reaches the loss, which rows are asked for, and what is logged."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest
import torch

pytest.importorskip("trl", reason="there is no TRL: pip install 'vtrace-attribution[trl]'")

from packaging.version import Version

from support.pages import ROOT
from support.trl_training import ROLLOUTS, ROWS, SAMPLES, TokenValues, every_other, rows, token_values, trainer_of
from vtrace.credit.credit import Credit
from vtrace.credit.rollouts import from_trace
from vtrace.credit.shapes_training import shapes_questions
from vtrace.credit.trl_batch import trl_rollouts, user_texts
from vtrace.errors import InputError
from vtrace.tracing.generate import retrace
from vtrace.tracing.reply import Reply
from vtrace.types import Example


def advantages(trainer) -> list[torch.Tensor]:
    return [batch["advantages"] for batch in trainer.batches]


def metrics(trainer, name: str) -> list[float]:
    return [row[name] for row in trainer.state.log_history if name in row]


def test_weighted_advantages_of_every_token_reach_the_loss(pinhole, tmp_path):
    trainer = trainer_of(pinhole, tmp_path, Credit(), max_steps=2)
    trainer.train()
    for batch in trainer.batches:
        assert batch["advantages"].shape == batch["completion_ids"].shape
        size = batch["advantages"].abs()
        ratio = size / size.min(1, keepdim=True).values
        assert ((ratio - 1).abs() < 1e-5).any(1).all(), "some tokens keep their advantage"
        assert 1.4 < ratio.max() <= 1.5 + 1e-5
    for name in ("mean_weight", "without_answer", "image_share", "assigned", "skipped", "failed", "seconds"):
        assert len(metrics(trainer, f"credit/{name}")) == 2
    assert all(1 < value < 1.2001 for value in metrics(trainer, "credit/mean_weight"))
    assert all(0 < value < 1 for value in metrics(trainer, "credit/image_share"))
    assert metrics(trainer, "credit/failed") == metrics(trainer, "credit/skipped") == [0, 0]


@pytest.fixture(scope="module")
def plain(pinhole, tmp_path_factory):
    """Two steps without credit."""
    trainer = trainer_of(pinhole, tmp_path_factory.mktemp("plain"), None, max_steps=2)
    trainer.train()
    return trainer


def test_weights_of_one_are_plain_grpo_to_the_last_bit(pinhole, tmp_path, plain):
    trainer = trainer_of(pinhole, tmp_path, Credit("uniform", boost=1.0), max_steps=2)
    trainer.train()
    assert [a.dim() for a in advantages(plain)] == [1, 1]
    assert [a.dim() for a in advantages(trainer)] == [2, 2]
    assert trainer.losses == plain.losses
    assert all(map(torch.equal, trainer.model.parameters(), plain.model.parameters()))


def test_a_weight_of_one_and_a_half_is_one_and_a_half_times_the_loss(pinhole, tmp_path):
    trainer = trainer_of(pinhole, tmp_path, None, prompts=1, rollouts=2)
    trainer.train()
    batch = trainer.batches[0]
    spread = {**batch, "advantages": batch["advantages"][:, None].expand(batch["completion_ids"].shape)}
    for loss_type in ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo"):
        trainer.loss_type = loss_type
        with torch.no_grad():
            plain, one = (trainer._compute_loss(trainer.model, inputs) for inputs in (batch, spread))
            more = trainer._compute_loss(trainer.model, {**spread, "advantages": 1.5 * spread["advantages"]})
        assert torch.equal(plain, one), loss_type
        assert torch.allclose(1.5 * plain, more, rtol=1e-5, atol=1e-7), loss_type


def test_rows_keep_their_weights_through_shuffling_splitting_and_iterations(pinhole, tmp_path):
    """Two accumulation steps and two iterations: one generation serves four losses."""
    credit = TokenValues()
    trainer = trainer_of(
        pinhole,
        tmp_path,
        credit,
        max_steps=4,
        per_device_train_batch_size=ROWS // 2,
        gradient_accumulation_steps=2,
        num_iterations=2,
    )
    trainer.train()
    assert [len(asked) for asked in credit.asked] == [ROWS, ROWS]
    assert len(trainer.batches) == 8
    for batch in trainer.batches:
        assert (
            batch["advantages"].shape == batch["completion_ids"].shape == (ROWS // 2, batch["completion_ids"].shape[1])
        )
        for ids, mask, weighted in zip(
            batch["completion_ids"], batch["completion_mask"].bool(), batch["advantages"], strict=True
        ):
            expected = token_values(ids[mask].numpy())
            ratio = (weighted / weighted[0])[mask].numpy()
            np.testing.assert_allclose(ratio, expected / expected[0], rtol=1e-5)


def test_rollouts_are_those_that_vtrace_itself_would_trace(pinhole, tmp_path):
    """Prompts of different lengths with pictures of different sizes, out of a padded batch."""
    examples = [rows()[k] for k in (0, 0, 3, 3, 5, 5, 7, 7)]
    trainer = trainer_of(pinhole, tmp_path, None, prompts=4, rollouts=2)
    batch = trainer._generate_and_score_completions([dict(example) for example in examples])
    assert len({tuple(grid) for grid in batch["image_grid_thw"].tolist()}) > 1
    assert (batch["prompt_mask"] == 0).any()
    assert (batch["completion_mask"] == 0).any()
    found = trl_rollouts(pinhole, batch, examples, range(len(examples)))
    for rollout, example in zip(found, examples, strict=True):
        sample = next(s for s in SAMPLES if s.key == example["key"])
        finish = "stop" if rollout.finished else "length"
        trace = retrace(pinhole, Example((sample.image,), sample.question), Reply(list(rollout.response), finish))
        expected = from_trace(pinhole, trace)
        for name in ("ids", "prompt_length", "question", "answer", "finished"):
            assert getattr(rollout, name) == getattr(expected, name)
        assert rollout.inputs.keys() == expected.inputs.keys()
        assert all(torch.equal(rollout.inputs[name], value) for name, value in expected.inputs.items())


def test_several_pictures_per_prompt(pinhole, tmp_path):
    pictures = [[SAMPLES[k].image for k in chosen] for chosen in ((0, 3), (5,))]
    examples = [{"prompt": rows()[k]["prompt"], "images": pictures[k]} for k in (0, 0, 1, 1)]
    trainer = trainer_of(pinhole, tmp_path, Credit(), prompts=2, rollouts=2)
    batch = trainer._generate_and_score_completions([dict(example) for example in examples])
    assert batch["num_images"] == [2, 2, 1, 1]
    assert trainer._metrics["eval"]["credit/failed"] == [0], "a model that was just loaded is not in training mode"
    for rollout, k in zip(trl_rollouts(pinhole, batch, examples, range(4)), (0, 0, 1, 1), strict=True):
        example = Example(tuple(pictures[k]), SAMPLES[k].question)
        expected = from_trace(pinhole, retrace(pinhole, example, Reply(list(rollout.response), "stop")))
        assert rollout.ids == expected.ids
        assert all(torch.equal(rollout.inputs[name], value) for name, value in expected.inputs.items())


def test_weights_move_with_their_rows(pinhole, tmp_path):
    """The real credit of a permuted batch is the permuted credit."""
    from trl.trainer.utils import split_pixel_values_by_grid, unsplit_pixel_values_by_grid

    examples = [rows()[k] for k in (0, 0, 3, 3, 5, 5, 7, 7)]
    trainer = trainer_of(pinhole, tmp_path, Credit(), prompts=4, rollouts=2)
    batch = trainer._generate_and_score_completions([dict(example) for example in examples])
    batch["advantages"] = torch.ones(len(examples))
    order = [5, 2, 7, 0, 3, 6, 1, 4]

    def moved(value):
        if isinstance(value, list):
            return [value[k] for k in order]
        return value[order] if value.dim() else value

    permuted = {name: moved(value) for name, value in split_pixel_values_by_grid(batch).items()}
    permuted = unsplit_pixel_values_by_grid(permuted)
    straight = trainer._assign_credit(batch, examples)
    shuffled = trainer._assign_credit(permuted, [examples[k] for k in order])
    assert len({credit.weights.tobytes() for credit in straight if credit.status == "assigned"}) > 2
    for k, credit in zip(order, shuffled, strict=True):
        assert credit.status == straight[k].status
        np.testing.assert_allclose(credit.scores, straight[k].scores, rtol=1e-3, atol=1e-7)
        np.testing.assert_allclose(credit.weights, straight[k].weights, rtol=1e-5)


def test_a_group_without_a_difference_is_skipped(pinhole, tmp_path):
    def first_group_alike(completions, **others):
        return [1.0] * ROLLOUTS + every_other(completions[ROLLOUTS:])

    credit = TokenValues()
    trainer = trainer_of(pinhole, tmp_path, credit, first_group_alike)
    trainer.train()
    assert [len(asked) for asked in credit.asked] == [ROLLOUTS]
    assert metrics(trainer, "credit/skipped") == [0.5]
    assert (advantages(trainer)[0] == 0).all(1).sum() == ROLLOUTS


def test_a_batch_without_any_difference_costs_no_pass(pinhole, tmp_path):
    credit = TokenValues()
    trainer = trainer_of(pinhole, tmp_path, credit, lambda completions, **others: [1.0] * len(completions))
    trainer.train()
    assert credit.asked == []
    assert metrics(trainer, "credit/skipped") == metrics(trainer, "credit/mean_weight") == [1]
    assert advantages(trainer)[0].shape == trainer.batches[0]["completion_ids"].shape


class _Broken(TokenValues):
    def assign(self, lvlm, rollouts):
        raise RuntimeError("no memory is left")


class _Zero(TokenValues):
    def assign(self, lvlm, rollouts):
        return [credit._replace(weights=0 * credit.weights) for credit in super().assign(lvlm, rollouts)]


class _Short(TokenValues):
    def assign(self, lvlm, rollouts):
        return [credit._replace(weights=credit.weights[:-1]) for credit in super().assign(lvlm, rollouts)]


@pytest.mark.parametrize("credit", [_Broken, _Zero, _Short])
def test_credit_that_fails_leaves_plain_grpo_and_is_counted(pinhole, tmp_path, plain, caplog, credit):
    with caplog.at_level(logging.ERROR, logger="vtrace.credit.trainer_rows"):
        trainer = trainer_of(pinhole, tmp_path, credit(), max_steps=2)
        trainer.train()
    assert trainer.losses == plain.losses
    assert metrics(trainer, "credit/failed") == metrics(trainer, "credit/mean_weight") == [1, 1]
    logged = [record for record in caplog.records if record.name == "vtrace.credit.trainer_rows"]
    assert len(logged) == 1, "the traceback is logged once"
    assert logged[0].exc_info


def test_evaluation_has_its_own_metrics(pinhole, tmp_path):
    credit = TokenValues()
    trainer = trainer_of(pinhole, tmp_path, credit, per_device_eval_batch_size=ROWS)
    trainer.evaluate(rows().select([0, 1]))
    found = trainer.state.log_history[-1]
    assert found["eval_credit/assigned"] == 1
    assert found["eval_credit/mean_weight"] > 1
    assert [len(asked) for asked in credit.asked] == [ROWS]
    assert not trainer.model.training


def test_logged_completions_say_what_became_of_them(pinhole, tmp_path):
    trainer = trainer_of(pinhole, tmp_path, Credit(), log_completions=True)
    trainer._generate_and_score_completions([dict(rows()[k // ROLLOUTS]) for k in range(ROWS)])
    table = trainer._logs["extra"]
    assert len(table["credit"]) == len(table["image_share"]) == len(trainer._logs["completion"]) == ROWS
    assert set(table["credit"]) <= {"assigned", "no answer", "cut off"}


def test_texts_of_a_prompt_are_those_of_its_turns():
    parts = [{"type": "image", "image": None}, {"type": "text", "text": "What is it?"}]
    turns = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": "Yes."}]
    assert user_texts([{"role": "system", "content": "Think."}, *turns, {"role": "user", "content": parts}]) == [
        "Look.",
        "Yes.",
        "What is it?",
    ]
    assert user_texts("Just text.") == ["Just text."]


def test_the_versions_that_are_tested_are_those_of_the_extra():
    extra = re.search(r'"trl>=([\d.]+),<([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    oldest = re.search(r"^TRL_OLDEST := (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    newest = re.search(r"^trl==(.+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    assert extra
    assert oldest
    assert newest
    assert Version(oldest[1]) == Version(extra[1])
    assert Version(newest[1]).release[1] + 1 == Version(extra[2]).release[1]


def test_tasks_are_checked():
    with pytest.raises(InputError, match="unknown task 'sing'; use some of: where"):
        shapes_questions("train", 1, ("sing",))
