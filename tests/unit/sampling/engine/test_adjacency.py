import numpy as np

from tfx_gnn.sampling.engine.edge_choice import build_adjacency


def test_edges_are_grouped_by_start_in_the_order_of_their_hashes():
    adjacency = build_adjacency(np.array([2, 0, 2, 2]), np.array([7, 8, 9, 6]), 4)

    # The hashes of rows 0, 2 and 3 begin with e2, 97 and 1d (hexadecimal).
    assert adjacency.offsets.tolist() == [0, 1, 1, 4, 4]
    assert adjacency.edge_rows.tolist() == [1, 3, 2, 0]
    assert adjacency.neighbors.tolist() == [8, 6, 9, 7]
    assert adjacency.degrees.tolist() == [1, 0, 3, 0]


def test_the_order_in_which_edges_are_read_does_not_matter():
    columns = {"times": np.array([5, 6, 7, 8]), "ranks": np.array([0, 1, 2, 3]), "weights": np.array([1.0, 2, 3, 4])}
    starts, ends, rows = np.array([1, 0, 1, 1]), np.array([5, 6, 7, 8]), np.array([10, 11, 13, 19])
    order = np.array([3, 1, 0, 2])

    one = build_adjacency(starts, ends, 2, edge_rows=rows, **columns)
    other = build_adjacency(
        starts[order],
        ends[order],
        2,
        edge_rows=rows[order],
        **{name: values[order] for name, values in columns.items()},
    )

    for name in ("offsets", "edge_rows", "neighbors", *columns):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    assert sorted(zip(one.edge_rows.tolist(), one.times.tolist(), one.weights.tolist(), strict=True)) == [
        (10, 5, 1.0),
        (11, 6, 2.0),
        (13, 7, 3.0),
        (19, 8, 4.0),
    ]


def test_a_graph_without_edges_has_nodes_without_edges():
    adjacency = build_adjacency(np.zeros(0, np.int64), np.zeros(0, np.int64), 2)

    assert adjacency.offsets.tolist() == [0, 0, 0]
    assert adjacency.neighbors.tolist() == []
