"""Types of options that several methods have."""

from __future__ import annotations

from typing import Annotated, Literal

Sign = Literal["positive", "absolute", "signed"]  # what to do with scores that count against the target
Backward = Literal["sum", "tokens"]  # one backward pass for the whole target, or one for each of its tokens
Count = Annotated[int, 1]  # at least one
