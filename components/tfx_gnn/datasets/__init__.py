"""Public data as tables of a graph, built from files that are at hand or come from a package registry.

Needs pyarrow (`pip install "tfx-gnn[beam]"`).
"""
