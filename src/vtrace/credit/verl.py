"""Credit in verl, by configuration only: a trainer whose advantages are weighted token by token.

>>> VERL_USE_EXTERNAL_MODULES=vtrace.credit.verl python -m verl.trainer.main_ppo \
...     trainer.v1.trainer_mode=vtrace_sync +credit.source=vtrace …

verl imports this module wherever it is imported itself. The trainer is verl's synchronous one. After the advantages of
a batch, it asks the actor's workers for the weights of all response tokens, and multiplies the two. Every worker keeps
a whole copy of the policy for that, which follows the policy's weights. Batches stay in verl's TransferQueue.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ModelError
from .credit import TokenCredit, neutral_credit
from .policy_copy import PolicyCopy
from .trainer_rows import CreditedRows, CreditTotals
from .verl_batch import VerlOptions, VerlRow

try:
    import ray
    import transfer_queue as tq
    import verl
    from omegaconf import DictConfig, open_dict
    from tensordict import TensorDict
    from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
    from verl.trainer.ppo.utils import Role
    from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
    from verl.utils.device import get_device_id, get_device_name
    from verl.utils.fs import copy_to_local
    from verl.utils.model import convert_weight_keys
    from verl.utils.tensordict_utils import get_tensordict
    from verl.workers.engine_workers import ActorRolloutRefWorker
except ImportError as error:
    raise ModelError(
        f"credit in verl needs verl 0.9 with its queue, which cannot be imported ({error}); "
        "pip install 'vtrace-attribution[verl]'"
    ) from error

MODE = "vtrace_sync"
_TENSORS = ("prompts", "responses", "advantages")
_OBJECTS = ("multi_modal_inputs", "raw_prompt")
_NO_SCORES = np.empty(0)  # they stay in the workers
_WEIGHTS, _STATUS, _SHARE = "credit_weights", "credit_status", "credit_image_share"


class CreditWorker(ActorRolloutRefWorker):
    """verl's worker, which also credits the tokens of its rows."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        """The copy, and then verl's models. Fails here if credit could not work with them, not during training."""
        self._options = VerlOptions.read(self.config.credit)
        self._credited = CreditedRows(self._options.credit)
        device = "cpu" if get_device_name() == "cpu" else f"{get_device_name()}:{get_device_id()}"
        path = copy_to_local(self.config.model.path, use_shm=self.config.model.get("use_shm", False))
        self._copy = PolicyCopy.load(path, device, self._options.dtype, self._options.offload)
        super().init_model()
        self._follow()
        self._age = self._options.refresh  # a checkpoint may be loaded before the first batch

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))
    def compute_token_credit(self, data: TensorDict) -> TensorDict:
        """Weights of all response tokens of these rows, as fields of the TransferQueue."""
        rows = verl_rows(data)
        try:
            if self._age >= self._options.refresh:
                self._follow()
            self._age += 1
            lengths, moved = [len(row.response) for row in rows], [row.moved for row in rows]
            with self._copy.awake() as lvlm:
                found = self._credited(lvlm, lengths, moved, lambda some: [rows[k].rollout(lvlm) for k in some])
        except Exception:  # of the copy; it must not end a run
            self._credited.log_failure()
            found = [neutral_credit(len(row.response), "failed") for row in rows]
        shares = [float("nan") if credit.image_share is None else credit.image_share for credit in found]
        return get_tensordict(
            {
                _WEIGHTS: _nested([torch.as_tensor(credit.weights, dtype=torch.float32) for credit in found]),
                _STATUS: [credit.status for credit in found],
                _SHARE: torch.tensor(shares, dtype=torch.float32),
            }
        )

    def _follow(self) -> None:
        """Every process of the actor takes part in this."""
        weights, adapter = self.actor.engine.get_per_tensor_param()
        if adapter is not None:
            raise ModelError("credit needs merged adapters; set actor_rollout_ref.model.lora.merge=True")
        model = self._copy.lvlm.model
        self._copy.refresh(weights, convert_weight_keys({name: name for name in model.state_dict()}, model))
        self._age = 0


@register_trainer(MODE)
class CreditTrainer(PPOTrainerSync):
    """verl's synchronous trainer with token credit."""

    # verl looks for the literal "sync" to choose the replay buffer, and for settings under this name.
    trainer_mode = property(lambda self: "sync", lambda self, value: None)

    def __init__(self, config: DictConfig):
        options = config.get("credit") or {}
        VerlOptions.read(options)  # complains before anything starts
        with open_dict(config.actor_rollout_ref):
            config.actor_rollout_ref.credit = options  # all that workers see
        super().__init__(config)

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in (Role.Actor, Role.ActorRollout, Role.ActorRolloutRef):
            if role in self.role_worker_mapping:
                self.role_worker_mapping[role] = ray.remote(CreditWorker)

    def _compute_advantage(self, batch: tq.KVBatchMeta, metrics: dict[str, Any]) -> tq.KVBatchMeta:
        batch = super()._compute_advantage(batch, metrics)
        began = time.perf_counter()
        where = {"keys": batch.keys, "partition_id": batch.partition_id}
        wanted = [name for name in (*_TENSORS, *_OBJECTS) if name in batch.fields]
        self.actor_rollout_wg.compute_token_credit(tq.KVBatchMeta(**where, tags=batch.tags, fields=wanted))
        data = tq.kv_batch_get(**where, select_fields=["advantages", _WEIGHTS, _STATUS, _SHARE])
        weights = data[_WEIGHTS].unbind()
        weighted = [a * w for a, w in zip(data["advantages"].unbind(), weights, strict=True)]
        tq.kv_batch_put(**where, fields=TensorDict({"advantages": _nested(weighted)}, batch_size=len(weighted)))
        real = [k for k, tag in enumerate(batch.tags) if not tag.get("is_padding")]
        statuses, shares = list(data[_STATUS]), data[_SHARE].tolist()
        found = [TokenCredit(weights[k].numpy(), _NO_SCORES, statuses[k], _known(shares[k])) for k in real]
        metrics.update(CreditTotals.of(found).metrics())
        metrics["credit/seconds"] = time.perf_counter() - began
        return batch


def verl_rows(data: TensorDict) -> list[VerlRow]:
    """The rows of a batch from the TransferQueue, in its order."""
    columns = [data[name].unbind() for name in _TENSORS]
    columns += [list(data[name]) if name in data else [None] * len(data) for name in _OBJECTS]
    return [VerlRow(*row) for row in zip(*columns, strict=True)]


def _known(share: float) -> float | None:
    return None if math.isnan(share) else share


def _nested(rows: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


print(f"vtrace: trainer {MODE!r} is registered with verl {verl.__version__}", flush=True)
