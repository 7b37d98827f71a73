"""The partitioned graph: files that sampling on Beam reads by node."""
