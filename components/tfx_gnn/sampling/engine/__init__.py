"""Sampling in memory, block by block; Beam's rounds use the same parts."""
