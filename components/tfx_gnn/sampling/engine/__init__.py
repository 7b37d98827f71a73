"""Sampling in memory, in blocks of seeds; Beam's rounds use its parts."""
