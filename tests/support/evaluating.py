"""The small evaluation that several tests look at."""

from vtrace.faithfulness.plan import EvaluationPlan

PLAN = EvaluationPlan(("random", "attention"), ("response", "answer"), steps=3)
