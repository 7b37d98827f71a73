"""Sizes of graphs, the padding budgets learned from them, and the report."""
