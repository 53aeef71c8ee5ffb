"""The prompt under which reasoning traces are generated (the paper's, Evaluation Details)."""

SYSTEM_PROMPT = "Look at the image carefully and reason step by step, then end with a line 'Final answer: <answer>'."
