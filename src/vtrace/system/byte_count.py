"""Amounts of memory and disk space, as people write them."""

from __future__ import annotations

import re

from ..errors import InputError

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B", re.IGNORECASE)


def parse_bytes(given: str | int) -> int:
    """Bytes from "4GB", "500 MB" or "4GiB"; a number is taken as bytes."""
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    found = _WRITTEN.fullmatch(given.strip()) if isinstance(given, str) else None
    amount = float(found[1]) * (1024 if found[3] else 1000) ** _POWERS[found[2].upper()] if found else 0
    if amount < 1:
        raise InputError(f"cannot read {given!r} as an amount of memory; write it as 4GB, 500MB or 4GiB")
    return int(amount)


def format_bytes(count: float) -> str:
    """Three digits and a decimal unit."""
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
