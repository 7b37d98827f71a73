"""`SubGraph` and `HeteroSubGraph`."""

from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.graphlearn.data.data import Data
from tfx_gnn.graphlearn.data.sub_graph import HeteroSubGraph, SubGraph

CLICK = ("user", "click", "item")


def test_a_subgraph_counts_its_nodes_and_edges():
    nodes = Data(ids=np.array([10, 20, 30]))

    graph = SubGraph(np.array([[0, 1], [1, 2]]), nodes, struct_label=np.array([0, 0, 1]))
    graph["depth"] = np.array([2])

    assert (graph.num_nodes, graph.num_edges) == (3, 2)
    assert graph.nodes is graph["nodes"] is nodes
    assert graph.edges is None
    assert graph["struct_label"].tolist() == [0, 0, 1]
    assert graph["unknown"] is None
    assert graph.keys == ["edge_index", "nodes", "struct_label", "depth"]


def test_a_subgraph_counts_its_nodes_after_their_ids_are_gone():
    graph = SubGraph([[], []], Data(floats=np.zeros([4, 2])))

    assert (graph.num_nodes, graph.num_edges) == (4, 0)


def test_a_heterogeneous_subgraph_counts_by_type():
    graph = HeteroSubGraph(
        {CLICK: np.array([[0, 1, 2], [2, 3, 4]])},
        {"user": Data(ids=np.arange(3)), "item": np.arange(5)},
        {CLICK: Data(weights=np.ones([3]))},
    )

    assert graph.num_edges(CLICK) == 3
    assert [graph.num_nodes(name) for name in graph.node_types] == [3, 5]
    assert graph.node_types == ["user", "item"]
    assert graph.edge_types == [CLICK]
    assert graph.keys == ["edge_index_dict", "nodes_dict", "edges_dict"]
    assert graph.nodes_dict["item"].ids.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: SubGraph([[0], [0]], {"ids": [1]}), TypeError, "`nodes` must be a Data; got dict"),
        (lambda: SubGraph([[0.5], [0]], Data(ids=np.arange(1))), ValueError, "`edge_index` must hold integers"),
        (lambda: SubGraph([0, 1], Data(ids=np.arange(2))), ValueError, r"of shape \[2, num_edges\]"),
        (lambda: SubGraph([[], []], Data(), nodes_=1, num_nodes=2), ValueError, "`num_nodes` must be a free name"),
        (lambda: HeteroSubGraph({"click": [[0], [0]]}, {}), ValueError, "got 'click'"),
        (lambda: HeteroSubGraph({CLICK: [[0], [0]]}, {"user": np.arange(1)}), ValueError, "got none for 'item'"),
        (
            lambda: HeteroSubGraph({}, {"user": np.arange(1)}, {CLICK: Data()}),
            ValueError,
            "`edges_dict` must have keys of `edge_index_dict`",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
