"""One row per response with its tokens, scores and weights, for trainers that we do not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import numpy as np

from ..errors import InputError, VTraceError, running
from ..lvlm.model import Lvlm
from ..types import Progress, Trace, silent
from .credit import Credit, TokenCredit
from .left_out import RowsLeftOut
from .rollouts import Rollout, from_trace
from .stored_responses import StoredResponse

RESPONSES_AT_ONCE = 32  # in memory; `Credit` decides how many of them are decoded together
_NAMED = 3  # reasons in an error


class WeightRow(TypedDict):
    """A response and its credit. Lists have one entry per response token, `prompt_ids` one per prompt token."""

    key: str
    model: str
    probed: bool  # whether the places of image tokens were found by probing
    source: str
    rule: str
    share: float
    boost: float
    seed: int
    status: str  # "assigned", or why the response keeps neutral weights
    prompt_ids: list[int]
    response_ids: list[int]
    tokens: list[str]  # texts, which together are that of the response
    weights: list[float]
    scores: list[float | None]  # None where unassigned, which is not a score of 0
    image_share: float | None  # of the answer's image and question scores, where the source knows it


@dataclass
class CreditReport(RowsLeftOut):
    """What became of the responses."""

    statuses: Counter[str] = field(default_factory=Counter)  # of the written rows
    tokens: int = 0
    total_weight: float = 0.0

    def count(self, row: WeightRow) -> None:
        self.statuses[row["status"]] += 1
        self.tokens += len(row["weights"])
        self.total_weight += sum(row["weights"])

    @property
    def rows(self) -> int:
        return sum(self.statuses.values())

    @property
    def mean_weight(self) -> float:
        return self.total_weight / self.tokens if self.tokens else 1.0

    def summary(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "rows": self.rows,
            "statuses": dict(self.statuses.most_common()),
            "mean_weight": self.mean_weight,
            "left_out": self.left_out,
            "first": self.first,
        }


class _Opened(NamedTuple):
    """A response as the model reads it."""

    key: str
    trace: Trace
    rollout: Rollout


def credited_rows(
    lvlm: Lvlm,
    responses: Sequence[StoredResponse],
    credit: Credit,
    report: CreditReport,
    progress: Progress = silent,
    any_model: bool = True,
) -> Iterator[WeightRow]:
    """Rows in the order of the responses. A response that cannot be used is left out and counted in the report; it is
    an error if none can be used.

    Args:
        lvlm: the policy.
        responses: from `find_responses`.
        credit: how tokens are weighted.
        report: counts what happens.
        progress: receives the number of responses that are done.
        any_model: also credit traces that were made with another model whose prompts have the same tokens.
    """
    for start in range(0, len(responses), RESPONSES_AT_ONCE):
        progress(start, len(responses), "Crediting")
        few = responses[start : start + RESPONSES_AT_ONCE]
        opened = [one for stored in few if (one := _open(lvlm, stored, report, any_model))]
        for one, found in zip(opened, _assign(lvlm, credit, opened, report), strict=True):
            if found is not None:
                row = weight_row(one.key, lvlm.name, credit, one.trace, found)
                report.count(row)
                yield row
    progress(len(responses), len(responses))
    if not report.rows:
        raise InputError(f"no response could be used: {'; '.join(report.describe()[:_NAMED])}")


def weight_row(key: str, model: str, credit: Credit, trace: Trace, found: TokenCredit) -> WeightRow:
    """The row of one response."""
    return WeightRow(
        key=key,
        model=model,
        probed=bool(trace.probed),
        source=credit.source,
        rule=credit.rule,
        share=credit.share,
        boost=credit.boost,
        seed=credit.seed,
        status=found.status,
        prompt_ids=list(trace.ids[: trace.prompt_length]),
        response_ids=list(trace.ids[trace.prompt_length :]),
        tokens=token_texts(trace),
        weights=found.weights.tolist(),
        scores=[None if np.isnan(score) else float(score) for score in found.scores],
        image_share=found.image_share,
    )


def token_texts(trace: Trace) -> list[str]:
    """The text of each response token. Of tokens that share a character, the first one has it."""
    texts, end = [], trace.offsets[trace.prompt_length - 1].stop
    for start, stop in trace.offsets[trace.prompt_length :]:
        texts.append(trace.text[max(start, end) : stop])
        end = max(end, stop)
    return texts


def _open(lvlm: Lvlm, stored: StoredResponse, report: CreditReport, any_model: bool) -> _Opened | None:
    try:
        trace = stored.open(lvlm)
        if trace.model != lvlm.name and not any_model:
            raise InputError(f"it was made with {trace.model}; choose one model for all with --model")
        return _Opened(stored.key, trace, from_trace(lvlm, trace))
    except VTraceError as error:
        report.leave_out(str(error), stored.key)
        return None


def _assign(
    lvlm: Lvlm, credit: Credit, opened: Sequence[_Opened], report: CreditReport
) -> Sequence[TokenCredit | None]:
    """Credit of all; if the model fails on them together, of each alone."""
    try:
        with running("credit"):
            return credit.assign(lvlm, [one.rollout for one in opened])
    except VTraceError as error:
        if len(opened) > 1:
            return [found for one in opened for found in _assign(lvlm, credit, [one], report)]
        report.leave_out(str(error), opened[0].key)
        return [None]
