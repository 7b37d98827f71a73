import numpy as np

from tfx_gnn.sampling.adjacency import build_adjacency


def test_edges_are_grouped_by_start_in_the_order_of_the_table():
    adjacency = build_adjacency(np.array([2, 0, 2, 2]), np.array([7, 8, 9, 7]), 4)

    assert adjacency.offsets.tolist() == [0, 1, 1, 4, 4]
    assert adjacency.edge_rows.tolist() == [1, 0, 2, 3]
    assert adjacency.neighbors.tolist() == [8, 7, 9, 7]


def test_a_graph_without_edges_has_nodes_without_edges():
    adjacency = build_adjacency(np.zeros(0, np.int64), np.zeros(0, np.int64), 2)

    assert adjacency.offsets.tolist() == [0, 0, 0]
    assert adjacency.neighbors.tolist() == []
