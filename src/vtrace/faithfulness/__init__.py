"""Measures faithfulness: perturbation curves, evidence metrics, resumable runs, tables."""
