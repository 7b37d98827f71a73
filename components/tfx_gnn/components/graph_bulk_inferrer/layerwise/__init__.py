"""Inference layer by layer: each state is computed once for a whole graph."""
