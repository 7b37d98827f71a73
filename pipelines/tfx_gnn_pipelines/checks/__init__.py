"""Checks a pipeline in seconds, before anything runs: names, tables, splits, transform, model and thresholds."""
