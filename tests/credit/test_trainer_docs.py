"""The code in docs/how-to/credit-trainers.md runs, and what it says about files is true."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch

import vtrace
from support.pages import ROOT, table_with
from vtrace.credit.credit import Credit, Status
from vtrace.credit.rollouts import from_trace
from vtrace.credit.stored_responses import StoredResponse
from vtrace.credit.weight_file import write_weights
from vtrace.credit.weight_rows import CreditReport, WeightRow, credited_rows

PAGE = (ROOT / "docs" / "how-to" / "credit-trainers.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.+?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def code(section: str) -> list[str]:
    return re.findall(r"```python[^\n]*\n(.*?)```", SECTIONS[section], re.DOTALL)


@pytest.fixture(scope="module")
def traces(pinhole):
    """Two prompts of different lengths and pictures."""
    return [vtrace.trace(pinhole, vtrace.example(f"dev-{number}")) for number in (0, 7)]


@pytest.fixture(scope="module")
def rows(pinhole, traces) -> list[WeightRow]:
    stored = [StoredResponse(str(k), lambda lvlm, trace=trace: trace) for k, trace in enumerate(traces)]
    return list(credited_rows(pinhole, stored, Credit(), CreditReport()))


def test_the_three_lines(pinhole, traces, rows):
    batch = []
    for trace in traces:
        inputs = {name: value for name, value in from_trace(pinhole, trace).inputs.items() if name != "input_ids"}
        batch.append((trace.ids[: trace.prompt_length], trace.ids[trace.prompt_length :], inputs, [trace.question]))
    names = {"model": pinhole.model, "processor": pinhole.processor, "batch": batch}
    exec(code("In a training loop")[0], names)
    for found, row in zip(names["weights"], rows, strict=True):
        np.testing.assert_allclose(found, row["weights"])


def test_reading_a_file(rows, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_weights(Path("weights.jsonl"), rows)
    names = {"key": "1", "response_ids": rows[1]["response_ids"], "advantage": -2.0}
    exec(code("As a file")[0], names)
    assert names["advantages"] == [-2.0 * weight for weight in rows[1]["weights"]]


def test_the_columns_are_those_of_a_row():
    listed = [
        name
        for row in table_with("docs/how-to/credit-trainers.md", "column")
        for name in re.findall(r"`(\w+)`", row["column"])
    ]
    assert listed == list(WeightRow.__annotations__)


def test_every_status_of_a_file_is_listed():
    for_trainers = {"skipped", "failed", "empty"}
    assert all(f"`{status}`" in SECTIONS["As a file"] for status in set(get_args(Status)) - for_trainers)


def test_easyr1_on_a_batch_of_its_layout(pinhole, traces, monkeypatch):
    monkeypatch.setattr(vtrace, "load", lambda place: pinhole)
    prompts = max(trace.prompt_length for trace in traces) + 3
    responses = max(len(trace) - trace.prompt_length for trace in traces) + 5
    ids = torch.zeros(2, prompts + responses, dtype=torch.long)
    for row, trace in enumerate(traces):
        ids[row, prompts - trace.prompt_length : prompts + len(trace) - trace.prompt_length] = torch.tensor(trace.ids)
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long(), "responses": ids[:, prompts:]}
    batch["advantages"] = torch.full((2, responses), -0.5)
    pictures = [{"images": list(trace.images)} for trace in traces]
    names = {"data": SimpleNamespace(batch=batch, non_tensor_batch={"multi_modal_data": pictures})}
    edit, function = code("EasyR1")
    exec(function, names)
    exec(edit, names)
    rollouts = [replace(from_trace(pinhole, trace), question=()) for trace in traces]
    for advantages, credit in zip(batch["advantages"], Credit().assign(pinhole, rollouts), strict=True):
        count = len(credit.weights)
        assert credit.status == "assigned"
        np.testing.assert_allclose(advantages[:count], -0.5 * credit.weights)
        assert (advantages[count:] == -0.5).all()


def test_verifiers_gets_one_number_per_sampled_token(rows):
    row = rows[0]
    prompt, sampled = row["prompt_ids"][-2:], row["response_ids"]
    node = SimpleNamespace(token_ids=prompt + sampled, mask=[False] * 2 + [True] * len(sampled), advantages=None)
    names = {"node": node, "row": row, "advantage": 0.5}
    exec(code("verifiers and prime-rl")[0], names)
    assert len(node.advantages) == sum(node.mask)
    assert set(node.advantages) == {0.5, 0.75}


def test_the_plugin_of_ms_swift_is_python():
    compile(code("ms-swift")[0], "credit_plugin.py", "exec")
