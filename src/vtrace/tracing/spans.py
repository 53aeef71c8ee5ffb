"""Text and tokens: character offsets, words, sentences, and where the answer is. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..types import Kind, Span, Trace, Word

ANSWER_MARK = re.compile(r"final answer[\s*_]*(?:is\s*)?[:：]", re.IGNORECASE)
_INCOMPLETE = "\ufffd"  # shown for an incomplete character
_WORD = re.compile(
    r"<\|[^|<>]*\|>"  # special tokens
    r"|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"  # scripts without spaces: one character, one word
    r"|[^\W_]+(?:['’_.,:/-][^\W_]+)*"  # words, numbers such as 3.5, hyphenated and clitic forms
    r"|\S"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]*]*\s+|(?<=[。！？])|\n+")
_COMPLETE = re.compile(r"[.!?。！？][\"'”’)\]*]*$")
_MARKDOWN = " \t\r\n*_`"
_DISPLAY = re.compile(r"^(?:\\\[|\$\$)\s*\n\s*")  # a formula on separate lines


class Detokenised(NamedTuple):
    """The text of a token sequence, and each token's characters in it."""

    text: str
    offsets: list[Span]


class WordRun(NamedTuple):
    """A word, its first position, and one past its last."""

    text: str
    start: int
    stop: int


class WordPiece(NamedTuple):
    """A word as it is shown, with the whitespace around it."""

    word: Word
    before: str
    text: str
    after: str


class ReasoningAndAnswer(NamedTuple):
    """Where the reasoning is in a response, and where the answer is, if it has one."""

    reasoning: Span
    answer: Span | None


def detokenise(decode: Callable[[list[int]], str], ids: Sequence[int]) -> Detokenised:
    """Decode a token sequence token by token.

    Tokens are decoded after a few earlier ones, because some tokenizers drop a leading space at the
    start of a text. A character split over several tokens belongs to all of them.
    """
    text, done = "", 0
    spans: list[Span] = []
    while done < len(ids):
        context = list(ids[max(0, done - 4) : done])
        before = decode(context) if context else ""
        for stop in range(done + 1, min(done + 9, len(ids)) + 1):  # a character has at most four bytes
            piece = decode(context + list(ids[done:stop]))[len(before) :]
            if not piece.endswith(_INCOMPLETE):
                break
        else:
            stop = done + 1
            piece = decode([*context, ids[done]])[len(before) :]
        spans += [Span(len(text), len(text) + len(piece))] * (stop - done)
        text += piece
        done = stop
    return Detokenised(text, spans)


def overlapping(offsets: Sequence[Span], span: Span, start: int = 0, stop: int | None = None) -> list[int]:
    """Positions in [start, stop) whose characters overlap the span."""
    stop = len(offsets) if stop is None else stop
    return [p for p in range(start, stop) if offsets[p][0] < span[1] and offsets[p][1] > span[0]]


def covering(text: str, offsets: Sequence[Span], span: Span, start: int = 0) -> list[int]:
    """The same from `start` on, without tokens at either end that overlap only in whitespace, such as the space token
    before a digit."""

    def blank(position: int) -> bool:
        low, high = offsets[position]
        return not text[max(low, span.start) : min(high, span.stop)].strip()

    found = overlapping(offsets, span, start)
    while found and blank(found[0]):
        found.pop(0)
    while found and blank(found[-1]):
        found.pop()
    return found


def word_runs(text: str, offsets: Sequence[Span], start: int, stop: int) -> list[WordRun]:
    """Split positions [start, stop) into words.

    A token belongs to the word that contains its first visible character; blank tokens join the
    next word, or the last one.
    """
    low, high = offsets[start][0], offsets[stop - 1][1]
    words = [match.span() for match in _WORD.finditer(text, low, high)]
    starts = [span[0] for span in words]
    owner, current = [], 0
    for position in range(start, stop):
        first, last = offsets[position]
        visible = first + len(text[first:last]) - len(text[first:last].lstrip())
        while current + 1 < len(words) and starts[current + 1] <= visible:
            current += 1
        blank = visible >= last
        owner.append(current + 1 if blank and current + 1 < len(words) and words[current][1] <= first else current)
    firsts = [p for p in range(start, stop) if p == start or owner[p - start - 1] != owner[p - start]]
    return [
        WordRun(text[offsets[a].start : offsets[b - 1].stop].strip(), a, b)
        for a, b in zip(firsts, [*firsts[1:], stop], strict=True)
    ]


def shown_words(trace: Trace, kind: Kind) -> list[Word]:
    """The words of one kind in order, without the end token."""
    end = trace.response_span.stop
    return [word for word in trace.words if word.kind == kind and trace.offsets[word.start].start < end]


def word_pieces(trace: Trace, kind: Kind) -> Iterator[WordPiece]:
    """The shown words of one kind with the whitespace around them."""
    end = None
    for word in shown_words(trace, kind):
        low, high = trace.offsets[word.start][0], trace.offsets[word.stop - 1][1]
        gap = "\n" if end is not None and low > end else ""  # with another turn or a picture in between
        piece = trace.text[low if end is None else max(low, end) : high]
        end = high
        visible = piece.strip()
        lead = len(piece) - len(piece.lstrip())
        yield WordPiece(word, gap + piece[:lead], visible, piece[lead + len(visible) :])


def split_sentences(text: str, start: int) -> list[Span]:
    """Character spans of the sentences from `start` on, without surrounding blanks."""
    spans: list[Span] = []
    low = start
    for match in [*_SENTENCE_END.finditer(text, start), None]:
        high = match.start() if match else len(text)
        stripped = text[low:high].strip()
        if stripped:
            first = low + text[low:high].index(stripped)
            spans.append(Span(first, first + len(stripped)))
        low = match.end() if match else high
    return spans


def is_complete(sentence: str) -> bool:
    """Whether a sentence has the mark that ends it."""
    return bool(_COMPLETE.search(sentence))


def find_answer(text: str, response: Span, names: Sequence[str] = ()) -> ReasoningAndAnswer:
    """The answer is the line after the last "Final answer:" of the response; the reasoning is everything before it.

    Without such a line, the answer is whichever of the `names` the response has first.
    """
    start, stop = response
    marks = list(ANSWER_MARK.finditer(text, start, stop))
    if not marks:
        either = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
        named = either.search(text, start, stop) if names else None
        if named is None:
            return ReasoningAndAnswer(response, None)
        before = text[start : named.start()].rstrip(_MARKDOWN)
        return ReasoningAndAnswer(Span(start, start + len(before)), Span(*named.span()))
    mark = marks[-1]
    line = _DISPLAY.sub("", text[mark.end() : stop].lstrip(_MARKDOWN))
    low = stop - len(line)
    answer = line.splitlines()[0].rstrip(_MARKDOWN) if line else ""
    if len(answer) > 2 and answer[0] == answer[-1] == "$":  # a formula; a price keeps its sign
        low, answer = low + 1, answer[1:-1]
    reasoning = text[start : mark.start()].rstrip(_MARKDOWN + "#")
    return ReasoningAndAnswer(Span(start, start + len(reasoning)), Span(low, low + len(answer)) if answer else None)


def answer_tokens(decode: Callable[[list[int]], str], response: Sequence[int]) -> list[int]:
    """Indices of the answer's tokens in a response without its end token; none without an answer.

    Only the end of the response, from its last "Final answer:" on, is decoded token by token.
    """
    ids, size = list(response), 16
    while not ANSWER_MARK.search(decode(ids[-size:])):
        if size >= len(ids):
            return []
        size *= 2
    first = max(0, len(ids) - size - 8)  # the mark may have been cut in the middle of a character
    text, offsets = detokenise(decode, ids[first:])
    answer = find_answer(text, Span(0, len(text))).answer
    return [first + k for k in covering(text, offsets, answer)] if answer else []
