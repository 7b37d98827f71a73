"""Builds a graph index on Beam: the files of a build in memory, by workers that hold parts of the tables."""
