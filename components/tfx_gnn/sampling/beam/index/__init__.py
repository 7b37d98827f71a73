"""Tables as an index of files that a sampling job on Beam reads by node."""
