"""Faithfulness, measured: perturbation curves, evidence metrics, resumable runs, tables."""
