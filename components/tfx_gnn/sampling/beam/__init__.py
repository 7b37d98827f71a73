"""Sampling on Apache Beam, with the same results as in memory."""
