"""One question: its frozen response is explained, and verified if that is planned."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ..attribution.result import Attribution
from ..benchmarks.benchmark import Benchmark
from ..errors import VTraceError, running
from ..faithfulness.item import ChangedExampleError, freeze_item
from ..faithfulness.measurement import AnsweredItem
from ..faithfulness.rows import LeftOutRow
from ..faithfulness.verify import verify
from ..lvlm.model import Lvlm
from ..methods.vtrace import attribute
from ..system.error_log import record_bug
from ..types import Trace
from ..viewer.page import page
from .facts import explanation_row, given_regions
from .plan import ExplanationPlan
from .rows import ExplainedItem

FOLDER = "items"  # of the viewer files, in the folder of the explanations
_LONGEST_NAME = 60  # characters of a key that are part of a file name


def explain_answered(
    lvlm: Lvlm, benchmark: Benchmark, plan: ExplanationPlan, item: AnsweredItem, folder: Path | None = None
) -> ExplainedItem | LeftOutRow:
    """The explanation, or why there is none. The traceback of a bug goes to a log in the folder."""
    try:
        found = freeze_item(lvlm, benchmark, plan.responses, item.number, item.frozen)
        with running("the explanation"):
            attribution = _explain(lvlm, found.trace, plan, benchmark.blur)
        row = explanation_row(found, attribution, page_name(item.number, item.key))
        return ExplainedItem(row, page([attribution], item.key))
    except ChangedExampleError:
        raise
    except VTraceError as error:
        return LeftOutRow(item=item.key, reason=str(error))
    except Exception as error:  # a bug of ours on one item must not stop the run
        return LeftOutRow(item=item.key, reason=record_bug(error, folder, f"item {item.key}"))


def _explain(lvlm: Lvlm, trace: Trace, plan: ExplanationPlan, blur: float) -> Attribution:
    target = "response" if plan.target == "answer" and trace.answer is None else plan.target
    found = attribute(lvlm, trace, target, memory=plan.memory, **vars(plan.options))
    found = replace(found, regions=given_regions(trace))
    return found if plan.passes is None else verify(lvlm, found, passes=plan.passes, blur=blur)


def page_name(number: int, key: str) -> str:
    """The viewer file of an item, relative to the folder. Numbers keep names apart whatever the keys contain."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", key).strip("-")[:_LONGEST_NAME]
    return f"{FOLDER}/{'-'.join(filter(None, (f'{number:05d}', readable)))}.html"
