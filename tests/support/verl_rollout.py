"""A rollout of verl on a CPU: a server that samples with transformers, one request at a time, and rows of Shapes."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray
import torch
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout import base
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

import support.verl_cpu  # noqa: F401
from vtrace.benchmarks.shapes.sample import sample
from vtrace.credit import reward
from vtrace.credit.training_rows import TrainingItem, mark_pictures, row_schema, verl_row
from vtrace.lvlm.load import load
from vtrace.types import Gold

NAME = "transformers"


class Server:
    """Samples responses. An actor of Ray; its weights come from the trainer."""

    def __init__(self, path: str, response_length: int):
        self.lvlm = load(path, device="cpu")
        self.response_length = response_length
        self.step: int | None = None
        self.lock = asyncio.Lock()

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], image_data: Any, **rest: Any
    ) -> TokenOutput:
        async with self.lock:
            return await asyncio.to_thread(self._sample, prompt_ids, sampling_params, image_data)

    @torch.no_grad()
    def _sample(self, prompt_ids: list[int], sampling: dict[str, Any], pictures: Any) -> TokenOutput:
        processor, ids = self.lvlm.processor, torch.tensor([prompt_ids])
        inputs = {}
        if pictures:
            placeholders = processor.image_token * len(pictures)
            inputs = dict(processor(text=[placeholders], images=pictures, return_tensors="pt"))
            inputs["mm_token_type_ids"] = ids.eq(self.lvlm.image_token_id).long()
        warm = sampling.get("temperature", 1.0)
        chosen = {"temperature": warm, "top_p": sampling.get("top_p", 1.0)} if warm else {}
        end = self.lvlm.model.generation_config.eos_token_id
        out = self.lvlm.model.generate(
            **{**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)},
            do_sample=bool(warm),
            **chosen,
            max_new_tokens=sampling.get("max_tokens") or self.response_length,
            suppress_tokens=[token for token in processor.tokenizer.all_special_ids if token != end],
            return_dict_in_generate=True,
            output_scores=True,
        )
        tokens = out.sequences[0, len(prompt_ids) :]
        logs = [float(s[0].log_softmax(-1)[t]) for s, t in zip(out.scores, tokens, strict=True)]
        return TokenOutput(
            token_ids=tokens.tolist(), log_probs=logs, stop_reason="completed", extra_fields={"global_steps": self.step}
        )

    async def update_weights(self, weights: dict[str, torch.Tensor], step: int | None) -> None:
        async with self.lock:
            self.lvlm.model.load_state_dict(weights, strict=False)
            self.step = step

    async def nothing(self, *args: Any, **options: Any) -> None: ...

    sleep = wake_up = abort_all_requests = resume_generation = clear_kv_cache = nothing


class Replica(RolloutReplica):
    """One server for one worker."""

    async def launch_servers(self) -> None:
        options = {"name": f"{NAME}_server_{self.replica_rank}", "num_cpus": 0, "max_concurrency": 1000}
        server = ray.remote(Server).options(**options).remote(self.model_config.path, self.config.response_length)
        self.servers, self._server_handle, self._server_address = [server], server, f"{NAME}:{self.replica_rank}"


class Adapter(BaseRollout):
    """Hands the trainer's weights to the server."""

    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(self, weights: Iterator[tuple[str, torch.Tensor]], **options: Any) -> None:
        server = ray.get_actor(f"{NAME}_server_{os.environ['RANK']}")
        await server.update_weights.remote({n: t.cpu().clone() for n, t in weights}, options.get("global_steps"))


RolloutReplicaRegistry.register(NAME, lambda: Replica)
base._ROLLOUT_REGISTRY[(NAME, "async")] = f"{__name__}.Adapter"


class Rows(RLHFDataset):
    """Pictures are opened without qwen_vl_utils, which needs torchvision."""

    @classmethod
    def _process_multi_modal_info(cls, messages: list[dict], image_patch_size: int, config: Any) -> tuple:
        parts = [p for m in messages if isinstance(m["content"], list) for p in m["content"]]
        return [p["image"] for p in parts if p["type"] == "image"] or None, None, None


def write_rows(path: Path, count: int) -> None:
    """Questions about shapes, in verl's schema."""
    rows = []
    for index in range(count):
        found, picture = sample("train", index), io.BytesIO()
        found.image.save(picture, "png")
        question, gold = mark_pictures(found.question, 1), Gold("words", (found.answer,))
        item = TrainingItem(found.key, "shapes", question, (picture.getvalue(),), found.answer, gold)
        rows.append(verl_row(item, index))
    pq.write_table(pa.Table.from_pylist(rows, schema=row_schema("verl")), path)


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **rest: Any) -> float:
    """The reward of the final answer. A trained model is mostly right, so length counts too: groups then vary."""
    return reward.compute_score(data_source, solution_str, ground_truth, extra_info) - len(solution_str) / 1000
