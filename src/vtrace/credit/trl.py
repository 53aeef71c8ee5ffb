"""Credit in TRL: `CreditGRPOTrainer` is a `GRPOTrainer` whose advantages are weighted token by token.

>>> trainer = CreditGRPOTrainer(model, reward_funcs=reward, args=config, train_dataset=rows, credit=Credit())

The mixin overrides one method, the one that generates and scores completions, so that credit is assigned once per
generated batch, whatever the number of iterations and accumulation steps. TRL's losses take advantages of shape
(rows, tokens) from subclasses.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, ModelError
from ..lvlm.processor import TextProcessor
from .credit import Credit, Status, TokenCredit
from .policy import policy_of, unwrapped
from .special_tokens import picture_tokens, unsampled_tokens
from .weights import UNASSIGNED

try:
    import trl
    from accelerate.utils import gather_object
    from trl import GRPOTrainer

    from .trl_batch import trl_rollouts
except (ImportError, RuntimeError) as error:  # TRL loads its modules late, and turns one error into the other
    raise ModelError(
        f"credit in TRL needs trl, which cannot be imported ({error}); pip install 'vtrace-attribution[trl]'"
    ) from error

_Trainer: Any = object  # a mixin: the trainer comes after it
_LOG = logging.getLogger(__name__)
_PAPER = Credit()
_WITHOUT_ANSWER: tuple[Status, ...] = ("no answer", "cut off", "empty")


class CreditMixin(_Trainer):
    """Weights the advantages of a GRPO trainer of TRL. Put it before the trainer among the bases.

    If credit fails during a run, the advantages of that batch keep their values, the traceback is logged once, and the
    metric `credit/failed` counts the rows. Rows with an advantage of zero are skipped.
    """

    def __init__(self, *args: Any, credit: Credit | None = _PAPER, **options: Any):
        """All arguments are the trainer's, except `credit`: how tokens are weighted; None for plain GRPO."""
        super().__init__(*args, **options)
        self.credit = credit
        self._credit_failures = 0
        suppress_special_tokens(self)
        if credit is not None:
            refuse_unsupported(self)
            reader = self.processing_class
            self._policy = policy_of(self.model, reader if hasattr(reader, "tokenizer") else TextProcessor(reader))

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        if self.credit is None:
            return batch
        mode: Literal["train", "eval"] = "train" if self.model.training else "eval"
        began = time.perf_counter()
        found = self._assign_credit(batch, inputs)
        weights = _as_tensor(found, batch["completion_mask"])
        advantages = batch["advantages"]
        batch["advantages"] = (advantages if advantages.dim() == 2 else advantages[:, None]) * weights
        self._metrics[mode]["credit/seconds"].append(time.perf_counter() - began)
        self._log_credit(mode, found)
        return batch

    def _assign_credit(self, batch: dict[str, Any], inputs: list[dict[str, Any]]) -> list[TokenCredit]:
        lengths = batch["completion_mask"].sum(1).tolist()
        moved = batch["advantages"].reshape(len(lengths), -1).ne(0).any(1).tolist()
        rows = [row for row, length in enumerate(lengths) if length and moved[row]]
        found = [_neutral(length, "skipped") for length in lengths]
        try:
            for row, credit in zip(rows, self._credited(batch, inputs, rows), strict=True):
                found[row] = credit
        except Exception:  # a run of days must not end because of a weight
            self._credit_failures += 1
            if self._credit_failures == 1:
                _LOG.exception(
                    "credit failed: the advantages of this batch are not weighted; credit/failed counts rows"
                )
            for row in rows:
                found[row] = _neutral(lengths[row], "failed")
        return found

    def _credited(self, batch: dict[str, Any], inputs: list[dict[str, Any]], rows: Sequence[int]) -> list[TokenCredit]:
        if not rows or self.credit is None:
            return []
        rollouts = trl_rollouts(self._policy, batch, inputs, rows)
        found = self.credit.assign(self._policy, rollouts)
        for rollout, credit in zip(rollouts, found, strict=True):
            good = np.isfinite(credit.weights) & (credit.weights > 0)
            if len(credit.weights) != len(rollout.response) or not good.all():
                raise ModelError(f"credit gave weights that do not fit a response of {len(rollout.response)} tokens")
        return found

    def _log_credit(self, mode: Literal["train", "eval"], found: Sequence[TokenCredit]) -> None:
        """Metrics over all processes."""
        counted = Counter(credit.status for credit in found)
        moved = [credit for credit in found if credit.status != "skipped"]
        shares = [credit.image_share for credit in moved if credit.image_share is not None]
        local = [
            sum(credit.weights.sum() for credit in moved),
            sum(len(credit.weights) for credit in moved),
            sum(counted[status] for status in _WITHOUT_ANSWER),
            len(moved),
            sum(shares),
            len(shares),
            counted["assigned"],
            counted["skipped"],
            counted["failed"],
            len(found),
        ]
        gathered = self.accelerator.gather(torch.tensor(local, dtype=torch.float32, device=self.accelerator.device))
        weight, tokens, without, rows, share, known, assigned, skipped, failed, total = (
            gathered.view(-1, len(local)).sum(0).tolist()
        )
        metrics = self._metrics[mode]
        metrics["credit/mean_weight"].append(weight / tokens if tokens else 1.0)
        metrics["credit/without_answer"].append(without / rows if rows else 0.0)
        metrics["credit/assigned"].append(assigned / total)
        metrics["credit/skipped"].append(skipped / total)
        metrics["credit/failed"].append(failed / total)
        if known:
            metrics["credit/image_share"].append(share / known)
        if self.log_completions:
            self._logs["extra"]["credit"].extend(gather_object([credit.status for credit in found]))
            self._logs["extra"]["image_share"].extend(gather_object([credit.image_share for credit in found]))


class CreditGRPOTrainer(CreditMixin, GRPOTrainer):
    """TRL's `GRPOTrainer` with token credit: the same arguments, and `credit`."""


def _neutral(length: int, status: Status) -> TokenCredit:
    return TokenCredit(np.ones(length), np.full(length, UNASSIGNED), status)


def _as_tensor(found: Sequence[TokenCredit], mask: Tensor) -> Tensor:
    """Weights of the completions, right-padded with 1."""
    weights = torch.ones(mask.shape, dtype=torch.float32, device=mask.device)
    for row, credit in enumerate(found):
        weights[row, mask[row].bool()] = torch.as_tensor(credit.weights, dtype=torch.float32, device=mask.device)
    return weights


def suppress_special_tokens(trainer: Any) -> None:
    """Keep special tokens from being sampled. If the user chose `suppress_tokens`, only those of pictures are added."""
    model = unwrapped(trainer.model)
    tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
    chosen = (trainer.args.generation_kwargs or {}).get("suppress_tokens")
    if chosen is None:
        ids = unsampled_tokens(model, tokenizer)
    else:
        ids = sorted({*chosen, *picture_tokens(model.config)})
    if trainer.use_vllm:
        trainer.vllm_generation.generation_kwargs.setdefault("bad_words", tokenizer.convert_ids_to_tokens(ids))
    else:
        trainer.generation_kwargs["suppress_tokens"] = ids
        trainer.generation_config.suppress_tokens = ids


def refuse_unsupported(trainer: Any) -> None:
    """Settings under which credit would fail in every batch, or have no effect."""
    if not hasattr(GRPOTrainer, "_generate_and_score_completions"):
        raise ModelError(
            f"trl {trl.__version__} generates completions differently; pip install 'vtrace-attribution[trl]'"
        )
    if hasattr(trainer, "liger_grpo_loss"):
        raise InputError("this version of TRL has a Liger loss without token advantages; set use_liger_kernel=False")
    plugin = trainer.accelerator.state.deepspeed_plugin
    if trainer.is_fsdp_enabled or (plugin is not None and plugin.zero_stage == 3):
        raise InputError("credit reads whole weight matrices, which FSDP and ZeRO-3 divide; use DDP or ZeRO-2")
