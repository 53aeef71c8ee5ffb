"""Numbers as people and models write them: fractions, percentages, LaTeX, units.

The grammar is written by hand because the libraries that read such text (sympy and what builds on it) evaluate it:
they may execute code, or never finish on text written by a model. Here length and powers are bounded, and values exact.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

_LONGEST = 200  # characters of a number; longer texts are prose
LONGEST_ANSWER = 4000  # characters that are looked at: some patterns take time that grows with the square of the length
_LARGEST_EXPONENT = 64
_MOST_BITS = 1000  # of an exact power; nested powers such as ((9^64)^64)^64 would take minutes and gigabytes

_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d{1,2})?|\.\d+"
_TOKEN = re.compile(rf"\s*({_NUMBER}|pi|sqrt|frac|[-+*/^(){{}}])")
_LONE_NUMBER = re.compile(rf"(?<![\w.(])[-+]?(?:{_NUMBER})(?:/\d+)?(?![\w.]*\w|\))")
_ALGEBRA = re.compile(r"[*^=+\\{}\[\]]|-\s|[^a-zA-Z\d]/|/[^a-zA-Z\d]|[a-zA-Z]/\d")
_WRITTEN_AS = (
    (r"\\[dtc]frac", "frac"),
    (r"\\(frac|sqrt|pi)\b", r" \1"),
    (r"√", " sqrt"),
    (r"π", " pi"),
    (r"\\(times|cdot)\b|×|·", "*"),
    (r"\\div\b|÷", "/"),
    (r"\\left|\\right|\\[,;:!]", ""),
    (r"\^?\s*\{?\s*(?:\\circ|\\degree)\s*\}?|°|\\?%|\\?\$|€|£", " "),
    (r"\u2013", "-"),
    (r"(?<=\d),(?=\d{3}(?!\d))", ""),  # 1,234
    (r"\b(\d+)\s+(\d+)\s*/\s*(\d+)", r"(\1+\2/\3)"),  # 2 1/2
    (r"\b(\d+)\s*frac\s*\{(\d+)\}\s*\{(\d+)\}", r"(\1+\2/\3)"),
)
_SYMBOLS = "mm|cm|dm|km|m|in|ft|kg|mg|g|ms|s|min|h|ml|l|Hz|kW|W|V|A|N|J|Pa|K|C|F"
_UNIT = re.compile(
    rf"(?<=[\d)}}])(?:\s*(?:{_SYMBOLS})|\s+[a-zA-Z]{{2,}}(?: [a-z]+)?)(?:\s*\^?\{{?[23]\}}?)?(?:\s*/\s*[a-zA-Z]+)?\s*$"
)


@dataclass(frozen=True)
class Quantity:
    """A value, exact where possible, and the decimal places it was written with."""

    value: Fraction | float
    places: int | None = None  # None unless written as one decimal number


def read_quantity(text: str) -> Quantity | None:
    """The number that a text consists of, entirely or after "=", with or without a unit."""
    text = plain_numbers(text[:LONGEST_ANSWER])
    behind = re.split(r"[=≈]|\bapproximately\b|\babout\b", text)[-1]
    for candidate in (text, behind, _UNIT.sub("", behind)):
        if found := parse_quantity(candidate):
            return found
    return None


def find_quantity(text: str) -> Quantity | None:
    """The number that a text consists of, or else the only number in it."""
    if whole := read_quantity(text):
        return whole
    text = plain_numbers(text[:LONGEST_ANSWER])
    lone = {match.group() for match in _LONE_NUMBER.finditer(text)}
    return parse_quantity(lone.pop()) if len(lone) == 1 and not _ALGEBRA.search(text) else None


def plain_signs(text: str) -> str:
    """Wide letters and ligatures as plain ones; 10² becomes 10^2, not 102, and 2½ becomes 2 1/2, not 21/2."""
    text = re.sub(r"[⁰¹²³⁴-⁹]+", lambda raised: "^" + unicodedata.normalize("NFKC", raised.group()), text)
    text = re.sub(r"(?<=\d)(?=[¼-¾⅐-⅞])", " ", text)
    return unicodedata.normalize("NFKC", text).replace("\u2044", "/").replace("\u2212", "-")


def plain_numbers(text: str) -> str:
    """Symbols and LaTeX commands in the spelling of the grammar, without unit symbols such as % and $."""
    text = " ".join(plain_signs(text).split())  # patterns with several \s* in a row would try every division of a blank
    for pattern, spelling in _WRITTEN_AS:
        text = re.sub(pattern, spelling, text)
    return text.strip()


def parse_quantity(text: str) -> Quantity | None:
    """A number, fraction, root, power or multiple of π, or None if the text is anything else."""
    if not text or len(text) > _LONGEST:
        return None
    tokens, end = [], 0
    while match := _TOKEN.match(text, end):
        tokens.append(match[1])
        end = match.end()
    if text[end:].strip() or not tokens:
        return None
    try:
        value, rest = _sum(tokens)
    except (ValueError, ZeroDivisionError, OverflowError, IndexError, RecursionError):
        return None
    if rest or (isinstance(value, float) and not math.isfinite(value)):
        return None
    written = re.fullmatch(r"[-+]?\d*(?:\.(\d+))?", text.strip())
    return Quantity(value, len(written[1] or "") if written else None)


def same_quantity(found: Quantity, gold: Quantity, decimals: int | None = None) -> bool:
    """Equal, or equal to this many decimals, or one is a root or a multiple of π and the other is it rounded.

    A rounded number has to have at least two decimal places, so that 0 does not count as 0.5 rounded.
    """
    difference = abs(Fraction(found.value) - Fraction(gold.value))
    if decimals is not None:
        return difference <= _half_a_unit(decimals)
    if isinstance(found.value, Fraction) and isinstance(gold.value, Fraction):
        return difference == 0
    places = found.places if isinstance(gold.value, float) else gold.places
    if places is not None and places >= 2:
        return difference <= _half_a_unit(places)
    return difference <= Fraction(1, 10**9) * max(Fraction(1), abs(Fraction(gold.value)))


def _half_a_unit(places: int) -> Fraction:
    """Half a unit of the last decimal place, plus a small margin because roots are not exact."""
    return Fraction(1, 2 * 10**places) + Fraction(1, 10**12)


class _Parsed(NamedTuple):
    """The value that a rule of the grammar parsed, and the remaining tokens."""

    value: Fraction | float
    rest: list[str]


def _sum(tokens: list[str]) -> _Parsed:
    value, tokens = _product(tokens)
    while tokens and tokens[0] in "+-":
        other, rest = _product(tokens[1:])
        value, tokens = (value + other if tokens[0] == "+" else value - other), rest
    return _Parsed(value, tokens)


def _product(tokens: list[str]) -> _Parsed:
    value, tokens = _signed(tokens)
    while tokens and (tokens[0] in "*/" or _can_follow(tokens[0])):
        other, rest = _signed(tokens[1:]) if tokens[0] in "*/" else _power(tokens)
        value, tokens = (value / other if tokens[0] == "/" else value * other), rest
    return _Parsed(value, tokens)


def _can_follow(token: str) -> bool:
    """Products without a sign: 2π, 3√2, 2(3+1). Two adjacent numbers are not a product."""
    return token in ("pi", "sqrt", "(", "frac")


def _signed(tokens: list[str]) -> _Parsed:
    if tokens[0] in "+-":
        value, rest = _signed(tokens[1:])
        return _Parsed(-value if tokens[0] == "-" else value, rest)
    return _power(tokens)


def _power(tokens: list[str]) -> _Parsed:
    base, tokens = _atom(tokens)
    if tokens and tokens[0] == "^":
        exponent, tokens = _signed(tokens[1:])
        if abs(float(exponent)) > _LARGEST_EXPONENT:
            raise OverflowError
        whole = isinstance(exponent, Fraction) and exponent.denominator == 1
        if whole and isinstance(base, Fraction):
            longest = max(base.numerator.bit_length(), base.denominator.bit_length())
            if longest * abs(int(exponent)) > _MOST_BITS:
                raise OverflowError
            return _Parsed(base ** int(exponent), tokens)
        if base < 0:
            raise ValueError
        return _Parsed(float(base) ** float(exponent), tokens)
    return _Parsed(base, tokens)


def _atom(tokens: list[str]) -> _Parsed:
    first, rest = tokens[0], tokens[1:]
    if first == "pi":
        return _Parsed(math.pi, rest)
    if first == "sqrt":
        value, rest = _atom(rest)
        root = math.sqrt(value)
        return _Parsed(Fraction(int(root)) if root.is_integer() and isinstance(value, Fraction) else root, rest)
    if first == "frac":
        above, rest = _atom(rest)
        below, rest = _atom(rest)
        return _Parsed(above / below, rest)
    if first in "({":
        value, rest = _sum(rest)
        if rest[0] != (")" if first == "(" else "}"):
            raise ValueError
        return _Parsed(value, rest[1:])
    return _Parsed(Fraction(first), rest)
