"""How a model is asked, unless a user says otherwise."""

from __future__ import annotations

# The prompt under which reasoning traces are generated (the paper's, Evaluation Details).
SYSTEM_PROMPT = "Look at the image carefully and reason step by step, then end with a line 'Final answer: <answer>'."
MAX_NEW_TOKENS = 2048  # of a response
GENERATED_TOGETHER = 16  # responses of one batch
