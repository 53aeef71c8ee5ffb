"""Fonts for figures in any script: where the usual font has no character, any installed font that has it is used."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.font_manager import FontEntry, findfont, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font

USUAL = "DejaVu Sans"  # comes with matplotlib
# Looked into first, because there may be hundreds of others.
_FAMILIAR = (
    "Noto Sans CJK", "Source Han Sans", "PingFang", "Hiragino", "Apple SD Gothic", "Microsoft YaHei", "Yu Gothic",
    "Malgun", "WenQuanYi", "Noto Emoji", "Segoe UI Emoji", "Symbola", "Noto Sans", "Arial Unicode", "Unifont",
)  # fmt: skip
_PLACEHOLDERS = "Last Resort"  # has a box for every character; comes with matplotlib
_NAMED = 5  # characters without a font that a note lists
_INVISIBLE = {"\u200d", "\ufe0e", "\ufe0f"}  # they only join or choose the characters around them

# Many of these fonts have one weight only, and a title in it is not worth a line on the terminal.
logging.getLogger("matplotlib.font_manager").addFilter(lambda record: "Failed to find font weight" not in record.msg)


class ChosenFonts(NamedTuple):
    """Families in the order in which they are tried, and the characters that none of them has."""

    families: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def note(self) -> str:
        """What is not drawn, and what to do; empty if everything is."""
        if not self.missing:
            return ""
        named = ", ".join(f"U+{ord(letter):04X}" for letter in self.missing[:_NAMED])
        more = f" and {len(self.missing) - _NAMED} more" if len(self.missing) > _NAMED else ""
        return f"no installed font has {named}{more}, drawn as boxes; install one, such as Noto Sans CJK or Noto Emoji"


def fonts_for(text: str) -> ChosenFonts:
    """The usual font, and others for characters that it lacks."""
    lacking = {letter for letter in set(text) - _INVISIBLE if ord(letter) not in _characters(findfont(USUAL))}
    lacking = {letter for letter in lacking if unicodedata.category(letter)[0] not in "CZ"}
    families = [USUAL]
    if lacking:
        _list_new_fonts()
    for entry in _candidates() if lacking else ():
        if found := {letter for letter in lacking if ord(letter) in _characters(entry.fname)}:
            families.append(entry.name)
            lacking -= found
        if not lacking:
            break
    return ChosenFonts(tuple(dict.fromkeys(families)), tuple(sorted(lacking)))


def pdf_font_type(families: Iterable[str]) -> int:
    """42, in which text stays text; 3 if a font has PostScript outlines, which a PDF cannot hold as 42. In 3,
    characters that have no name in their font, as some emoji, are not drawn."""
    wanted = set(families)
    files = {entry.fname for entry in fontManager.ttflist if entry.name in wanted}
    return 3 if any(map(_has_postscript_outlines, files)) else 42


def _has_postscript_outlines(path: str) -> bool:
    with open(path, "rb") as file:
        head = file.read(16)
        if head.startswith(b"ttcf"):  # a collection: its first font
            file.seek(int.from_bytes(head[12:], "big"))
            head = file.read(4)
    return head.startswith(b"OTTO")


@contextmanager
def drawn_in(texts: Iterable[str]) -> Iterator[ChosenFonts]:
    """Texts that are created inside use fonts for these characters."""
    chosen = fonts_for("".join(texts))
    with rc_context({"font.family": list(chosen.families)}):
        yield chosen


@cache
def _list_new_fonts() -> None:
    """matplotlib lists the fonts of a system once and for all: those that were installed later are added here."""
    known = {entry.fname for entry in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - known):
        with suppress(OSError, RuntimeError, ValueError):  # a file that is no font, or one that cannot be read
            fontManager.addfont(path)


def _candidates() -> list[FontEntry]:
    """Upright fonts, the familiar ones first."""

    def place(entry: FontEntry) -> tuple[int, str]:
        ranks = [rank for rank, name in enumerate(_FAMILIAR) if entry.name.startswith(name)]
        return (ranks or [len(_FAMILIAR)])[0], entry.name

    drawing = [entry for entry in fontManager.ttflist if not entry.name.startswith(_PLACEHOLDERS)]
    return sorted((entry for entry in drawing if entry.style == "normal"), key=place)


@cache
def _characters(path: str) -> frozenset[int]:
    """What a font can draw. Nothing, if it cannot be opened or has only bitmaps, as coloured emoji do."""
    try:
        font = FT2Font(path)
        return frozenset(font.get_charmap()) if font.scalable else frozenset()
    except (OSError, RuntimeError):
        return frozenset()
