"""The same trace with another answer: teacher-forced after the same reasoning."""

from __future__ import annotations

from ..errors import InputError
from ..lvlm.model import Lvlm
from ..types import Example, Target, Trace
from .generate import Reply, retrace
from .prompt import check_length
from .spoken_text import spoken_text
from .user_text import check_user_text


def with_alternative(lvlm: Lvlm, trace: Trace, target: Target, text: str) -> Trace:
    """The trace whose response says `text` where it now says the target, one run of tokens; all else stays as it is."""
    first, last = target.positions[0], target.positions[-1]
    if last - first + 1 != len(target.positions):
        raise InputError(
            f"{target.name} is not one run of tokens, so nothing can be said in its place; use target answer"
        )
    ids = _alternative_ids(lvlm, trace, first, text)
    if ids == list(trace.ids[first : last + 1]):
        raise InputError(f"the alternative {text!r} is what the response says; give another one")
    reply = [*trace.ids[trace.prompt_length : first], *ids, *trace.ids[last + 1 :]]
    check_length(lvlm, trace.prompt_length + len(reply))
    example = Example(
        trace.images,
        trace.question,
        evidence_boxes=trace.evidence_boxes,
        evidence_words=trace.evidence_words,
        turns=trace.turns,
    )
    return retrace(lvlm, example, Reply(reply, "supplied"), trace.system)


def _alternative_ids(lvlm: Lvlm, trace: Trace, first: int, text: str) -> list[int]:
    """Tokens of the alternative, read behind the text before it, with the blanks of what it replaces."""
    text = spoken_text(text)
    check_user_text(lvlm, text, "alternative")
    said = trace.text[slice(*trace.offsets[first])]
    blank = said[: len(said) - len(said.lstrip())]
    before = trace.text[trace.offsets[max(first - 4, trace.prompt_length)].start : trace.offsets[first].start]

    def tokens(part: str) -> list[int]:
        return lvlm.processor.tokenizer(part, add_special_tokens=False)["input_ids"]

    context, whole = tokens(before), tokens(before + blank + text)
    found = whole[len(context) :] if whole[: len(context)] == context else tokens(blank + text)
    if not found:
        raise InputError(f"the model has no tokens for the alternative {text!r}; give an answer such as 'red star'")
    return found
