"""Public data sets as tables of a graph, built from local files or from packages.

Needs pyarrow (`pip install "tfx-gnn[beam]"`).
"""
