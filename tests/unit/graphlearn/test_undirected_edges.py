import numpy as np

from tfx_gnn.graphlearn.graph_source import add_reverse_edges


def test_each_pair_is_there_once_in_both_directions():
    given = [(1, 2), (2, 1), (1, 3), (2, 3), (3, 3), (1, 4)]

    sources, targets, rows = add_reverse_edges(*np.array(given).T)

    pairs = list(zip(sources.tolist(), targets.tolist(), strict=True))
    assert len(pairs) == 9
    assert pairs == sorted({*given, *((target, source) for source, target in given)})
    assert {pair: given[row] for pair, row in zip(pairs, rows.tolist(), strict=True)} == {
        pair: pair if pair in given else pair[::-1] for pair in pairs
    }


def test_a_graph_without_edges_has_none():
    empty = np.empty(0, np.int64)

    assert [array.tolist() for array in add_reverse_edges(empty, empty)] == [[], [], []]
