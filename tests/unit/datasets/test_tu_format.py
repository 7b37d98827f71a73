from __future__ import annotations

import pytest

from tfx_gnn.datasets.tu_format import read_labelled_graphs

# Two graphs: 1 - 2 -> 3 with a self loop at 3, and the lone node 4; the third graph has no node.
FILES = {
    "X_A.txt": "1, 2\n2,1\n2, 3\n3, 3\n",
    "X_graph_indicator.txt": "1\n1\n1\n2\n",
    "X_graph_labels.txt": "1\n-1\n1\n",
    "X_node_labels.txt": "0\n2\n0\n1\n",
    "X_edge_labels.txt": "5\n5\n6\n7\n",
}


def _read(**changes: str):
    files = FILES | {f"X_{name}.txt": text for name, text in changes.items()}
    return read_labelled_graphs(lambda name: files[name].encode(), "X")


def test_graphs_nodes_and_edges_are_read():
    graphs = _read()

    assert graphs.graph_labels.tolist() == [1, -1, 1]
    assert graphs.node_graphs.tolist() == [0, 0, 0, 1]
    assert graphs.node_positions.tolist() == [0, 1, 2, 0]
    assert graphs.node_labels.tolist() == [0, 2, 0, 1]
    assert graphs.sources.tolist() == [0, 1, 1, 2]
    assert graphs.targets.tolist() == [1, 0, 2, 2]
    assert graphs.edge_labels.tolist() == [5, 5, 6, 7]


def test_graphs_without_edges_are_read():
    graphs = _read(A="", edge_labels="")

    assert (len(graphs.sources), len(graphs.edge_labels)) == (0, 0)
    assert graphs.node_positions.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": "1, x\n"}, r"`X_A.txt` must hold integers; got '1, x' in line 1"),
        ({"A": "1, 2\n\n"}, r"`X_A.txt` must hold integers; got '' in line 2"),
        ({"A": "1, 2\n1\n2, 3\n3, 3\n"}, r"`X_A.txt` must have 2 numbers a line; got 1 in line 2"),
        ({"A": "1, 2\n2, 0\n2, 3\n3, 3\n"}, r"`X_A.txt` must name nodes from 1 to 4; got 0 in line 2"),
        ({"A": "5, 2\n2, 1\n2, 3\n3, 3\n"}, r"`X_A.txt` must name nodes from 1 to 4; got 5 in line 1"),
        ({"A": "1, 2\n2, 1\n2, 4\n3, 3\n"}, r"must lead .* same graph; got \[2, 4\] in line 3, of graphs 1 and 2"),
        ({"edge_labels": "5\n"}, r"`X_edge_labels.txt` must have one line for each edge; got 1 for 4"),
        ({"node_labels": "5\n"}, r"`X_node_labels.txt` must have one line for each node; got 1 for 4"),
        ({"graph_indicator": "1\n1\n4\n4\n"}, r"`X_graph_indicator.txt` must name graphs from 1 to 3; got 4 in line 3"),
        ({"graph_indicator": "1\n2\n1\n2\n"}, r"must keep the nodes of a graph together; got graph 1 in line 3"),
        ({"graph_labels": "é\n"}, r"`X_graph_labels.txt` must hold integers"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        _read(**changes)
