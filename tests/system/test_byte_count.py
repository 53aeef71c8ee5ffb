"""Amounts of memory as people write them."""

from __future__ import annotations

import pytest

from vtrace.errors import InputError
from vtrace.system.byte_count import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("4GB", 4_000_000_000),
        ("4GiB", 4 * 2**30),
        ("500MB", 500_000_000),
        (" 1.5 gb ", 1_500_000_000),
        ("64kib", 65_536),
        ("2TB", 2 * 10**12),
        ("10B", 10),
        (4096, 4096),
    ],
)
def test_amounts_are_read(given, expected):
    assert parse_bytes(given) == expected


@pytest.mark.parametrize("given", ["", "lots", "4", "4G", "-4GB", "0GB", "GB", "nanGB", 0, -5, True, 1.5])
def test_anything_else_is_one_line_that_says_how(given):
    with pytest.raises(InputError, match=r"^cannot read .* as an amount of memory; write it as 4GB, 500MB or 4GiB$"):
        parse_bytes(given)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 B"), (999, "999 B"), (2_060_000_000, "2.06 GB"), (999_900, "1 MB"), (123_456_789_000, "123 GB")],
)
def test_amounts_are_written_with_three_digits(count, expected):
    assert format_bytes(count) == expected
