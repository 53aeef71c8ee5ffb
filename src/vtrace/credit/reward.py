"""A reward for GRPO: 1.0 if the final answer is correct, else 0.0, graded as evaluations are.

With TRL:  GRPOTrainer(reward_funcs=final_answer_reward, …)
With verl: reward.custom_reward_function.path=pkg://vtrace.credit.reward  (the function is compute_score)

Only the line after the last "Final answer:" counts, so a response without one gets 0.0. So does an answer that names
two options, and one that only a judge could decide. Neither trainer nor PyTorch is imported.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ..benchmarks.grading import grade
from ..errors import InputError, first_line
from ..tracing.spans import find_answer
from ..types import Example, Gold, Span
from .gold import gold_from_json, infer_gold

_SPECIAL = re.compile(r"<\|[^|<>]*\|>")  # such as <|im_end|>, if a trainer decodes special tokens too


def grade_response(response: object, gold: Gold) -> float:
    """The reward of one response, given as text or as chat messages. Anything else gets 0.0, and never an error."""
    text = _SPECIAL.sub("", _text_of(response))
    span = find_answer(text, Span(0, len(text))).answer
    if span is None:
        return 0.0
    try:
        return float(grade(Example((), "", gold=gold), text[slice(*span)]) == "correct")
    except Exception as error:  # a bug in the grader, which should cost one reward and not a training run
        warnings.warn(f"an answer could not be graded and gets no reward: {first_line(error)}", stacklevel=2)
        return 0.0


def final_answer_reward(
    prompts: Sequence[object],
    completions: Sequence[object],
    answer: Sequence[object],
    gold: Sequence[object] | None = None,
    **columns: object,
) -> list[float]:
    """TRL's signature: one reward per completion.

    `answer` and `gold` are the columns that `vtrace.credit.mixture` writes. Without `gold`, how to grade is inferred
    from the question and the answer.
    """
    golds = gold if gold is not None else [None] * len(completions)
    rows = zip(prompts, completions, answer, golds, strict=True)
    return [_reward(response, known, _question_of(prompt), right) for prompt, response, right, known in rows]


def compute_score(
    data_source: str,
    solution_str: object,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    **settings: object,
) -> float:
    """verl's signature: the reward of one response. The gold is in `extra_info`, or inferred as for TRL."""
    known = extra_info or {}
    return _reward(solution_str, known.get("gold"), known.get("question"), ground_truth)


def _reward(response: object, known: object, question: object, answer: object) -> float:
    gold = _gold_of(known, question, answer)
    if gold is None:
        warnings.warn(
            f"the answer {str(answer)[:40]!r} cannot be graded, so its responses get no reward; "
            "convert the rows with python -m vtrace.credit.mixture, which leaves such rows out",
            stacklevel=3,
        )
        return 0.0
    return grade_response(response, gold)


def _gold_of(known: object, question: object, answer: object) -> Gold | None:
    if isinstance(known, str):
        try:
            return gold_from_json(known)
        except InputError:
            pass  # a column of that name with other contents
    if answer is None:
        return None
    return infer_gold(question if isinstance(question, str) else "", str(answer), formulas=True)


def _text_of(response: object) -> str:
    """The text of a response: as it is, or that of the last message of the assistant."""
    if isinstance(response, str):
        return response
    messages = [response] if isinstance(response, Mapping) else response
    if not isinstance(messages, Sequence):
        return ""
    said = [m for m in messages if isinstance(m, Mapping) and m.get("role", "assistant") == "assistant"]
    return _text_of_content(said[-1].get("content")) if said else ""


def _question_of(prompt: object) -> str:
    """The text of the last message of the user, which may list the options."""
    messages = prompt if isinstance(prompt, Sequence) and not isinstance(prompt, str) else ()
    asked = [m for m in messages if isinstance(m, Mapping) and m.get("role") == "user"]
    return _text_of_content(asked[-1].get("content")) if asked else prompt if isinstance(prompt, str) else ""


def _text_of_content(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "".join(text for text in texts if isinstance(text, str))
