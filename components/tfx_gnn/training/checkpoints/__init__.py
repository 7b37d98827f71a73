"""Checkpoints, resumption, preemption and the guard against NaN."""
