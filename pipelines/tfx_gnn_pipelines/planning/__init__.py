"""The plan of a pipeline: what it will cost, before it is paid."""
