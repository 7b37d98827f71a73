"""Tables of nodes and edges: what a graph is before anything is sampled from it.

Needs pyarrow (`pip install "tfx-gnn[beam]"`).
"""
