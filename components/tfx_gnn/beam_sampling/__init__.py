"""Sampling on Apache Beam: a graph index on disk, and the rounds that look things up in it."""
