"""The ready inducers."""

from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.graphlearn.data.data import Data
from tfx_gnn.graphlearn.data.inducers import (
    EdgeCNInducer,
    EdgeInducer,
    HeteroEdgeInducer,
    SubGraphInducer,
    SubGraphProcessor,
)

TYPES = [("u", "u-i", "i"), ("i", "u-i_reverse", "u")]


def _nodes(ids, counts=None):
    ids = np.array(ids, np.int64)
    data = Data(
        ids=ids,
        ints=ids[..., np.newaxis] * 10,
        floats=ids[..., np.newaxis] / 2,
        strings=np.array([f"s{number}" for number in ids.ravel()], object).reshape(*ids.shape, 1),
    )
    if counts is not None:
        data["offsets"] = np.array(counts)
    return data


def _values():
    """Edge 10 -> 20; neighbors of 10 are 1 and 2, that of 20 is 2."""
    return {
        "pos_src": _nodes([10]),
        "src_hop1": _nodes([1, 2], [2]),
        "pos_dst": _nodes([20]),
        "dst_hop1": _nodes([2], [1]),
    }


def test_an_edge_gets_its_ends_and_their_neighbors():
    graphs, negative = EdgeInducer().induce_func(_values())

    (graph,) = graphs
    assert negative is None
    assert graph.nodes.ids.tolist() == [10, 20, 1, 2, 2]
    assert graph.edge_index.tolist() == [[0, 2, 0, 3, 1, 4], [2, 0, 3, 0, 4, 1]]
    assert (graph.num_nodes, graph.num_edges) == (5, 6)
    assert graph.nodes.int_attrs.tolist() == [[100], [200], [10], [20], [20]]
    assert graph.nodes.string_attrs.tolist() == [["s10"], ["s20"], ["s1"], ["s2"], ["s2"]]


def test_common_neighbors_are_labeled():
    graphs, _ = EdgeCNInducer().induce_func(_values())

    assert graphs[0]["struct_label"].tolist() == [0, 0, 2, 1, 1]
    assert graphs[0].edge_index.tolist() == [[0, 2, 0, 3, 1, 4], [2, 0, 3, 0, 4, 1]]


def test_each_negative_target_of_a_source_gets_a_subgraph():
    values = {
        **_values(),
        "pos_src": _nodes([10, 11]),
        "src_hop1": _nodes([1, 2, 3], [2, 1]),
        "pos_dst": _nodes([20, 21]),
        "dst_hop1": _nodes([2], [1, 0]),
        "neg_dst": _nodes([[30, 31], [32, 33]]),
        "neg_hop1": _nodes([3, 5], [0, 0, 1, 1]),
    }

    graphs, negative = EdgeCNInducer(use_neg=True).induce_func(values)

    assert [graph.nodes.ids.tolist() for graph in graphs] == [[10, 20, 1, 2, 2], [11, 21, 3]]
    assert [graph.nodes.ids.tolist() for graph in negative] == [
        [10, 30, 1, 2],
        [10, 31, 1, 2],
        [11, 32, 3, 3],
        [11, 33, 3, 5],
    ]
    assert [graph["struct_label"].tolist() for graph in negative[2:]] == [[0, 0, 1, 1], [0, 0, 2, 2]]


def test_an_edge_whose_ends_have_no_neighbors_has_two_nodes_and_no_edges():
    values = {
        "pos_src": _nodes([10]),
        "src_hop1": _nodes([], [0]),
        "pos_dst": _nodes([20]),
        "dst_hop1": _nodes([], [0]),
    }

    graphs, _ = EdgeCNInducer().induce_func(values)

    assert (graphs[0].num_nodes, graphs[0].num_edges) == (2, 0)
    assert graphs[0]["struct_label"].tolist() == [0, 0]


def test_edges_between_two_types_make_heterogeneous_subgraphs():
    values = {**_values(), "dst_hop1": _nodes([7], [1])}

    graphs, _ = HeteroEdgeInducer(edge_types=TYPES).induce_func(values)

    (graph,) = graphs
    assert graph.nodes_dict["u"].ids.tolist() == [10, 7]
    assert graph.nodes_dict["i"].ids.tolist() == [20, 1, 2]
    assert graph.edge_index_dict[TYPES[0]].tolist() == [[0, 0, 0], [0, 1, 2]]
    assert graph.edge_index_dict[TYPES[1]].tolist() == [[0, 0], [0, 1]]
    assert graph.nodes_dict["i"].string_attrs.tolist() == [["s20"], ["s1"], ["s2"]]
    assert graph.nodes_dict["i"].float_attrs.tolist() == [[10.0], [0.5], [1.0]]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"src_hop1": _nodes([[1, 2]])}, ValueError, "`src_hop1` must hold all neighbors"),
        ({"src_hop1": _nodes([1, 2], [1, 1])}, ValueError, "got those of 2 nodes for 1"),
        ({"pos_dst": None}, KeyError, "must have the alias 'pos_dst'"),
    ],
)
def test_values_of_another_query_are_refused(change, error, message):
    values = {key: value for key, value in {**_values(), **change}.items() if value is not None}

    with pytest.raises(error, match=message):
        EdgeInducer().induce_func(values)


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="`edge_types` must be an edge type between two node types and its reverse"):
        HeteroEdgeInducer(edge_types=[("u", "u-u", "u"), ("u", "u-u", "u")])
    with pytest.raises(NotImplementedError, match="`induce_func` must be written for SubGraphInducer"):
        SubGraphInducer().induce_func({})
    with pytest.raises(NotImplementedError, match="`process_func` must be written"):
        SubGraphProcessor().process_func(None)
