"""verl's own trainer, worker and TransferQueue, on a CPU."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from support.pages import ROOT
from support.verl_batches import queue_row
from support.verl_runs import ENVIRONMENT, environment, overrides
from vtrace.benchmarks.shapes.sample import sample
from vtrace.credit.credit import Credit
from vtrace.credit.rollouts import from_trace
from vtrace.credit.verl_batch import VerlOptions
from vtrace.errors import InputError
from vtrace.tracing.generate import trace as trace_of
from vtrace.types import Example

if find_spec("verl") is None:
    pytest.skip("there is no verl here; `make test-verl` runs these tests", allow_module_level=True)

os.environ.update(ENVIRONMENT)  # before verl is imported

import ray
import transfer_queue as tq
from hydra import compose, initialize_config_module
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils.config import validate_config
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from vtrace.credit.verl import CreditTrainer, CreditWorker

TEXTS = [
    "The red star is at row 1 column 2.\nFinal answer: red star",
    "There is a blue cross at row 2 column 2. The next shape above it is green.\nFinal answer: green",
    "Nothing.\nFinal answer: no",
    "There is no answer here.",
]


def configuration(**given):
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=overrides(given))


def test_one_variable_registers_the_trainer_and_says_so():
    code = "import verl; from verl.trainer.ppo.v1 import get_trainer_cls as get; print(get('vtrace_sync').__name__)"
    others = {name: value for name, value in os.environ.items() if not name.startswith("VERL_")}
    variables = {**others, "VERL_USE_EXTERNAL_MODULES": "vtrace.credit.verl"}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["vtrace: trainer 'vtrace_sync' is registered with verl 0.9.1", "CreditTrainer"]


def test_the_trainer_is_synchronous_in_all_but_name():
    trainer = CreditTrainer(configuration())
    assert trainer.trainer_mode == "sync"
    assert type(trainer.replay_buffer) is ReplayBuffer


def test_bad_options_stop_the_trainer_before_anything_starts():
    with pytest.raises(InputError, match=r"unknown option credit\.sauce"):
        CreditTrainer(configuration(**{"+credit.sauce": "vtrace"}))


def test_the_command_of_the_runbook_is_accepted_by_verl():
    page = (ROOT / "docs" / "how-to" / "credit-verl.md").read_text("utf-8")
    command = next(block for block in re.findall(r"```sh[^\n]*\n(.*?)```", page, re.DOTALL) if "Qwen3-VL" in block)
    variable, *words = shlex.split(command.replace("\\\n", " "))
    assert (variable, words[:3]) == (
        "VERL_USE_EXTERNAL_MODULES=vtrace.credit.verl",
        ["python", "-m", "verl.trainer.main_ppo"],
    )
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=words[3:])
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    trainer = CreditTrainer(config)
    rollout = trainer.config.actor_rollout_ref.rollout
    assert VerlOptions.read(trainer.config.actor_rollout_ref.credit) == VerlOptions()  # the defaults are the paper's
    assert (rollout.n, rollout.temperature, rollout.top_p, trainer.config.trainer.total_epochs) == (8, 0.7, 0.95, 2)


@pytest.fixture(scope="module")
def queue():
    ray.init(num_cpus=8, num_gpus=1, include_dashboard=False, log_to_driver=False)
    tq.init()
    yield
    tq.close()
    ray.shutdown()


@pytest.fixture(scope="module")
def credits(pinhole, traces):
    """What the traces get without verl, which changes the model's classes."""
    return dict(zip(traces, Credit().assign(pinhole, [from_trace(pinhole, t) for t in traces.values()]), strict=True))


@pytest.fixture(scope="module")
def worker(queue, credits):
    """An actor of one process, with FSDP2 and gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(place)
    worker = CreditWorker(CreditTrainer(configuration()).config.actor_rollout_ref, role="actor")
    worker.init_model()
    return worker


class Group:
    """Stands for verl's worker group: the batch is divided as over two processes, and one worker does both parts."""

    def __init__(self, worker):
        self.worker = worker

    def compute_token_credit(self, batch):
        return [self.worker.compute_token_credit(part) for part in batch.chunk(2)]

    def __getattr__(self, name):
        return getattr(self.worker, name)


@pytest.fixture(scope="module")
def trainer(worker):
    trainer = CreditTrainer(configuration())
    trainer.actor_rollout_wg = Group(worker)
    return trainer


@pytest.fixture(scope="module")
def traces(pinhole):
    """Two prompts with pictures of different sizes, and four responses of different lengths to each."""
    found = [sample("dev", index) for index in (0, 7)]
    examples = [Example((s.image,), s.question) for s in found]
    return {
        f"prompt{k}_{session}_0": trace_of(pinhole, example, response=text)
        for k, example in enumerate(examples)
        for session, text in enumerate(TEXTS)
    }


def put_rows(pinhole, traces, rewards, partition):
    """As verl's agent loop does; the rows of the batch are in another order than those of the queue."""
    fields = []
    for (key, frozen), reward in zip(traces.items(), rewards, strict=True):
        row = queue_row(pinhole, frozen)
        mask = torch.ones(len(row.response), dtype=torch.int64)
        ids = torch.cat([row.prompt, row.response])
        fields.append(
            {
                "uid": key.split("_")[0],
                "prompts": row.prompt,
                "responses": row.response,
                "input_ids": ids,
                "position_ids": positions(pinhole, row, ids),
                "response_mask": mask,
                "loss_mask": mask,
                "rm_scores": torch.zeros(len(mask)).index_fill(0, torch.tensor([len(mask) - 1]), reward),
                "rollout_log_probs": torch.zeros(len(mask)),
                "old_log_probs": torch.zeros(len(mask)),
                "multi_modal_inputs": row.pictures,
                "raw_prompt": row.messages,
            }
        )
    tags = [{"seq_len": len(f["input_ids"])} for f in fields]
    keys = list(traces)
    tq.kv_batch_put(keys=keys, partition_id=partition, fields=list_of_dict_to_tensordict(fields), tags=tags)
    order = np.random.default_rng(0).permutation(len(keys))
    assert order.tolist() != sorted(order)
    return tq.KVBatchMeta(
        keys=[keys[k] for k in order],
        tags=[tags[k] for k in order],
        partition_id=partition,
        extra_info={"temperature": 1.0},
    )


def positions(pinhole, row, ids):
    """4,T: those of the text, and three for pictures, as verl stacks them."""
    kinds = ids.eq(pinhole.image_token_id).long()[None]
    vision, _ = pinhole.model.model.get_rope_index(
        ids[None], image_grid_thw=row.pictures["image_grid_thw"], mm_token_type_ids=kinds
    )
    return torch.cat([torch.arange(len(ids))[None], vision[:, 0]])


def expected_advantages(traces, rewards):
    """GRPO by hand: within a prompt, rewards minus their mean, divided by their deviation."""
    found = {}
    for key, reward in zip(traces, rewards, strict=True):
        group = torch.tensor([r for k, r in zip(traces, rewards, strict=True) if k.split("_")[0] == key.split("_")[0]])
        found[key] = float((reward - group.mean()) / (group.std() + 1e-6))
    return found


def read(key, partition):
    return tq.kv_batch_get(keys=[key], partition_id=partition, select_fields=["advantages"])["advantages"].unbind()[0]


def test_every_row_and_token_gets_its_own_weight(pinhole, trainer, traces, credits):
    """Permuted keys, rows of different length, several rollouts of a prompt, two parts of a batch."""
    rewards = [1.0, 0.0, 0.5, -1.0, 0.0, 1.0, 1.0, 0.25]
    metrics = {}
    batch = put_rows(pinhole, traces, rewards, "pairing")
    trainer._compute_advantage(batch, metrics)
    plain = expected_advantages(traces, rewards)
    assert len({len(credit.weights) for credit in credits.values()}) > 3
    for key, credit in credits.items():
        np.testing.assert_allclose(read(key, "pairing"), plain[key] * credit.weights, rtol=1e-5)
    assert metrics["credit/assigned"] == 6 / 8
    assert metrics["credit/without_answer"] == 2 / 8
    assert metrics["credit/failed"] == metrics["credit/skipped"] == 0
    assert metrics["credit/mean_weight"] == pytest.approx(np.concatenate([c.weights for c in credits.values()]).mean())


def test_a_group_of_equal_rewards_is_skipped(pinhole, trainer, traces):
    metrics = {}
    trainer._compute_advantage(put_rows(pinhole, traces, [1.0] * 4 + [0.0, 1.0, 1.0, 0.25], "equal"), metrics)
    assert metrics["credit/skipped"] == 0.5
    assert all(not read(key, "equal").any() for key in traces if key.startswith("prompt0"))


def test_failures_leave_advantages_as_they_are(pinhole, trainer, traces, monkeypatch):
    def fail(*args):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Credit, "assign", fail)
    rewards, metrics = [1.0, 0.0, 0.5, -1.0, 0.0, 1.0, 1.0, 0.25], {}
    trainer._compute_advantage(put_rows(pinhole, traces, rewards, "failing"), metrics)
    for key, value in expected_advantages(traces, rewards).items():
        np.testing.assert_allclose(read(key, "failing"), value, rtol=1e-5)
    assert metrics["credit/failed"] == 1
    assert metrics["credit/mean_weight"] == 1


def test_a_step_of_fsdp2_moves_the_policy_and_the_copy_follows(pinhole, trainer, worker, traces):
    """Log-probabilities, advantages with credit, forward, backward and optimiser."""
    before = {name: tensor.clone() for name, tensor in worker._copy.lvlm.model.state_dict().items()}
    metrics = {}
    batch = put_rows(pinhole, traces, [1.0, 0.0, 0.5, -1.0, 0.0, 1.0, 1.0, 0.25], "step")
    batch = trainer._compute_old_log_prob(batch, metrics)
    batch = trainer._compute_advantage(batch, metrics)
    trainer._update_actor(batch, metrics)
    assert metrics["actor/grad_norm"] > 0
    worker._follow()
    after = worker._copy.lvlm.model.state_dict()
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert "model.language_model.layers.0.self_attn.q_proj.weight" in moved


def test_verl_trains_from_end_to_end(tmp_path: Path):
    """Rollouts, rewards, credit, two steps and the weights back to the rollout; two actors, which share the policy."""
    from support.verl_rollout import write_rows

    write_rows(tmp_path / "rows.parquet", 8)
    settings = {
        "data.train_files": tmp_path / "rows.parquet",
        "data.val_files": tmp_path / "rows.parquet",
        "trainer.total_training_steps": 2,
        "trainer.default_local_dir": tmp_path,
        "trainer.n_gpus_per_node": 2,
        "+credit.source": "vtrace",
        "ray_kwargs.ray_init.num_cpus": 16,
        "+ray_kwargs.ray_init.num_gpus": 2,
        "+ray_kwargs.ray_init.include_dashboard": False,
    }
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *overrides(settings)]
    done = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    steps = [line for line in done.stdout.splitlines() if "step:" in line and "credit/" in line]
    found = [dict(part.rsplit(":", 1) for part in line.split(" - ") if ":" in part) for line in steps]
    assert len(found) == 2
    assert all(float(step["credit/failed"]) == 0 for step in found)
    assert any(float(step["credit/assigned"]) > 0 and float(step["credit/mean_weight"]) > 1 for step in found)
    assert any(float(step["actor/grad_norm"]) > 0 for step in found)
    extremes = [
        (float(s[f"critic/advantages/{e}"]), float(s[f"critic/returns/{e}"])) for s in found for e in ("max", "min")
    ]
    assert any(plain and weighted == pytest.approx(1.5 * plain, rel=1e-4) for weighted, plain in extremes)
