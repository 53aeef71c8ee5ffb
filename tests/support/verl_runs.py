"""verl's configuration and environment for a model that trains on a CPU."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).parents[1]
CHECKPOINT = TESTS.parent / "src" / "vtrace" / "pinhole" / "checkpoint"
ROLLOUT = TESTS / "support" / "verl_rollout.py"

# Modules that every process of verl imports, the platform first. The engine is chosen by the name of its device.
ENVIRONMENT = {
    "VERL_USE_EXTERNAL_MODULES": "support.verl_cpu,support.verl_rollout,vtrace.credit.verl",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def environment() -> dict[str, str]:
    paths = [str(TESTS.parent / "src"), str(TESTS)]
    return {**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(paths)}


def overrides(given: Mapping[str, object] | None = None) -> list[str]:
    """GRPO of Pinhole with FSDP2 and gloo, two prompts of four responses."""
    settings = {
        "trainer.v1.trainer_mode": "vtrace_sync",
        "algorithm.adv_estimator": "grpo",
        "data.train_batch_size": 2,
        "data.dataloader_num_workers": 0,
        "data.max_response_length": 128,
        "data.custom_cls.path": ROLLOUT,
        "data.custom_cls.name": "Rows",
        "actor_rollout_ref.model.path": CHECKPOINT,
        "actor_rollout_ref.model.use_remove_padding": False,
        "actor_rollout_ref.model.enable_gradient_checkpointing": False,
        "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        "actor_rollout_ref.actor.strategy": "fsdp2",
        "actor_rollout_ref.actor.optim.lr": 1e-3,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 2,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4,
        "actor_rollout_ref.actor.use_torch_compile": False,
        "actor_rollout_ref.rollout.name": "transformers",
        "actor_rollout_ref.rollout.n": 4,
        "actor_rollout_ref.rollout.temperature": 1.5,
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 4,
        "actor_rollout_ref.rollout.agent.num_workers": 1,
        "reward.num_workers": 1,
        "reward.custom_reward_function.path": ROLLOUT,
        "trainer.device": "cpu",
        "trainer.n_gpus_per_node": 1,
        "trainer.logger": "[console]",
        "trainer.val_before_train": False,
        "trainer.resume_mode": "disable",
    }
    return [f"{name}={value}" for name, value in {**settings, **(given or {})}.items()]
