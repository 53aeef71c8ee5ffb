"""Rows that could not be used: one bad row never stops a run, and every reason is counted."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class RowsLeftOut:
    """How many rows were left out, and why."""

    left_out: dict[str, int] = field(default_factory=dict)  # by reason
    first: dict[str, str] = field(default_factory=dict)  # the first row of each reason

    def leave_out(self, reason: str, key: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1
        self.first.setdefault(reason, key)

    def describe(self) -> list[str]:
        """One line per reason, the most frequent one first."""
        ranked = sorted(self.left_out.items(), key=lambda pair: -pair[1])
        return [f"{count} left out, {reason} (first: {self.first[reason]})" for reason, count in ranked]
