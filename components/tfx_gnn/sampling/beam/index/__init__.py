"""The graph index: files that sampling on Beam reads by node."""
