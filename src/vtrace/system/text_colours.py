"""Colours of text in every figure."""

from __future__ import annotations

INK = "#1f1a24"  # of text that is read first
FAINT = "#746c7b"  # of labels and notes
WARNING = "#8a3a00"  # of what should be known before a figure is relied on
