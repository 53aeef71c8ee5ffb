"""Credit in TRL: `CreditGRPOTrainer` is a `GRPOTrainer` whose advantages are weighted token by token.

>>> trainer = CreditGRPOTrainer(model, reward_funcs=reward, args=config, train_dataset=rows, credit=Credit())

The mixin overrides one method, the one that generates and scores completions, so that credit is assigned once per
generated batch, whatever the number of iterations and accumulation steps. TRL's losses take advantages of shape
(rows, tokens) from subclasses.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from ..errors import InputError, ModelError
from ..lvlm.processor import TextProcessor
from .credit import Credit, TokenCredit
from .policy import policy_of, unwrapped
from .special_tokens import picture_tokens, unsampled_tokens
from .trainer_rows import CreditedRows, CreditTotals

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
_PAPER = Credit()


class CreditMixin(_Trainer):
    """Weights the advantages of a GRPO trainer of TRL. Put it before the trainer among the bases.

    If credit fails during a run, the advantages of those rows keep their values, the first traceback is logged, and the
    metric `credit/failed` counts the rows. Rows with an advantage of zero are skipped.
    """

    def __init__(self, *args: Any, credit: Credit | None = _PAPER, **options: Any):
        """All arguments are the trainer's, except `credit`: how tokens are weighted; None for plain GRPO."""
        super().__init__(*args, **options)
        self.credit = credit
        suppress_special_tokens(self)
        if credit is not None:
            refuse_unsupported(self)
            self._credited_rows = CreditedRows(credit)
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
        rollouts = partial(trl_rollouts, self._policy, batch, inputs)
        return self._credited_rows(self._policy, lengths, moved, rollouts)

    def _log_credit(self, mode: Literal["train", "eval"], found: Sequence[TokenCredit]) -> None:
        """Metrics over all processes."""
        local = torch.tensor(CreditTotals.of(found), dtype=torch.float32, device=self.accelerator.device)
        gathered = self.accelerator.gather(local).view(-1, len(local))
        for name, value in CreditTotals(*gathered.sum(0).tolist()).metrics().items():
            self._metrics[mode][name].append(value)
        if self.log_completions:
            self._logs["extra"]["credit"].extend(gather_object([credit.status for credit in found]))
            self._logs["extra"]["image_share"].extend(gather_object([credit.image_share for credit in found]))


class CreditGRPOTrainer(CreditMixin, GRPOTrainer):
    """TRL's `GRPOTrainer` with token credit: the same arguments, and `credit`."""


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
        settings = trainer.vllm_generation.generation_kwargs
        settings["bad_words"] = [*settings.get("bad_words", ()), *tokenizer.convert_ids_to_tokens(ids)]
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
