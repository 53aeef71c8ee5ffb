"""The small evaluation that several tests look at."""

from vtrace.faithfulness.run import Plan

PLAN = Plan(("random", "attention"), ("response", "answer"), steps=3)
