"""`HeteroBatchGraph`: merging subgraphs of several types, and taking them apart."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graphlearn.attribute_decoder import Decoder
from tfx_gnn.graphlearn.data.data import Data
from tfx_gnn.graphlearn.data.hetero_batch_graph import HeteroBatchGraph
from tfx_gnn.graphlearn.data.sub_graph import HeteroSubGraph

BUY, BACK = ("u", "u-i", "i"), ("i", "u-i_reverse", "u")
SPECS = {"u": Decoder(attr_types=["float"]).feature_spec}
EDGE_SPECS = {BUY: Decoder(attr_types=["float", "float"])}


def _graph(num_users, num_items, buy, back):
    buy, back = (np.array(index, np.int64).reshape(2, -1) for index in (buy, back))
    return HeteroSubGraph(
        {BUY: buy, BACK: back},
        {
            "u": Data(ids=np.arange(num_users), floats=np.ones([num_users, 1], np.float32)),
            "i": Data(ids=np.arange(num_items) + 50),
        },
        {BUY: Data(weights=np.arange(buy.shape[1], dtype=np.float32))},
        ranks=np.arange(num_items),
    )


def _graphs():
    return [
        _graph(2, 3, [[0, 0, 1], [0, 1, 2]], [[0, 2], [0, 1]]),
        _graph(0, 1, [[], []], [[], []]),
        _graph(1, 2, [[0, 0], [0, 1]], [[1], [0]]),
    ]


def _batch():
    return HeteroBatchGraph.from_graphs(_graphs(), ["ranks"], node_schema_dict=SPECS, edge_schema_dict=EDGE_SPECS)


def test_sources_are_shifted_by_source_nodes_and_targets_by_target_nodes():
    batch = _batch()

    assert batch.edge_index_dict[BUY].tolist() == [[0, 0, 1, 2, 2], [0, 1, 2, 4, 5]]
    assert batch.edge_index_dict[BACK].tolist() == [[0, 2, 5], [0, 1, 2]]
    assert {key: offsets.tolist() for key, offsets in batch.graph_node_offsets_dict.items()} == {
        "u": [0, 2, 2],
        "i": [0, 3, 4],
    }
    assert batch.graph_edge_offsets_dict[BUY].tolist() == [0, 3, 3]
    assert batch.num_graphs == 3
    assert (batch.num_nodes("u"), batch.num_nodes("i"), batch.num_edges(BUY), batch.num_edges(BACK)) == (3, 6, 5, 3)
    assert batch.edges_dict[BUY].weights.tolist() == [0, 1, 2, 0, 1]
    assert BACK not in batch.edges_dict
    assert (batch.node_types, batch.edge_types) == (["u", "i"], [BUY, BACK])
    assert batch.edge_schema_dict[BUY].dimension == 2


def test_taking_a_batch_apart_gives_the_subgraphs_back():
    for one, other in zip(_graphs(), _batch().to_graphs(), strict=True):
        assert one.keys == other.keys
        for key in (BUY, BACK):
            np.testing.assert_array_equal(one.edge_index_dict[key], other.edge_index_dict[key])
        for name in ("u", "i"):
            np.testing.assert_array_equal(one.nodes_dict[name].ids, other.nodes_dict[name].ids)
        np.testing.assert_array_equal(one.edges_dict[BUY].weights, other.edges_dict[BUY].weights)
        np.testing.assert_array_equal(one["ranks"], other["ranks"])


def test_from_tensors_is_the_inverse_of_flatten():
    batch = _batch()

    flat = batch.flatten()
    again = HeteroBatchGraph.from_tensors(flat, batch.spec)

    assert [np.shape(array) for array in flat] == [
        (2, 5),
        (2, 3),
        *[(3, 1), (3,), (3,)],
        *[(6,), (3,)],
        *[(5,), (3,)],
        (3,),
        *[(6,), (3,)],
    ]
    assert again.spec == batch.spec
    assert all(one is other for one, other in zip(again.flatten(), flat, strict=True))


def test_it_is_a_value_of_functions_and_datasets_and_a_graph_tensor():
    @tf.function
    def counted(batch):
        return batch, batch.num_graphs, batch.num_nodes("i"), batch.num_edges(BACK), batch.graph

    dataset = tf.data.Dataset.from_generator(
        lambda: iter([_batch(), HeteroBatchGraph.from_tensors(_batch().flatten(), _batch().spec)]),
        output_signature=_batch().spec.relax(),
    )
    for batch, num_graphs, num_items, num_back, graph in dataset.map(counted):
        assert [int(num_graphs), int(num_items), int(num_back)] == [3, 6, 3]
        assert graph.node_sets["i"].sizes.numpy().tolist() == [3, 1, 2]
        assert graph.edge_sets["u-i_reverse"].adjacency.target.numpy().tolist() == [0, 1, 2]
        assert graph.edge_sets["u-i"]["weights"].numpy().tolist() == [0, 1, 2, 0, 1]
        assert graph.context["ranks"].to_list() == [[0, 1, 2], [0], [0, 1]]
        assert batch.node_schema_dict["u"].dimension == 1
        assert batch.edge_schema_dict[BUY].dimension == 2
        assert len(batch.to_graphs()) == 3


def test_offsets_of_edges_follow_from_their_source_nodes():
    given = _batch()

    made = HeteroBatchGraph(given.edge_index_dict, given.node_data_dict, None, given.graph_node_offsets_dict)

    assert {key: offsets.tolist() for key, offsets in made.graph_edge_offsets_dict.items()} == {
        BUY: [0, 3, 3],
        BACK: [0, 2, 2],
    }


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HeteroBatchGraph.from_graphs([]), "must hold at least one subgraph"),
        (
            lambda: HeteroBatchGraph.from_graphs([_graphs()[0], HeteroSubGraph({}, {"u": np.arange(1)})]),
            "`nodes_dict` must have the same types in all graphs",
        ),
        (
            lambda: HeteroBatchGraph.from_graphs([_graph(1, 1, [[0], [1]], [[], []])]),
            r"`edge_index_dict\[\('u', 'u-i', 'i'\)\]` must hold positions of nodes of the same graph; got \[0, 1\]",
        ),
        (
            lambda: HeteroBatchGraph.from_graphs(_graphs(), node_schema_dict={"x": SPECS["u"]}),
            "`node_schema_dict` must have keys of `nodes_dict`",
        ),
        (
            lambda: HeteroBatchGraph.from_graphs(
                [
                    HeteroSubGraph(
                        {("u", "to", "i"): [[], []], ("i", "to", "u"): [[], []]}, {"u": np.arange(1), "i": np.arange(1)}
                    )
                ]
            ),
            "must have a different edge type in each key; got 'to'",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def _batch_of_two_types(**changed):
    parts = {
        "edge_index_dict": {("u", "buys", "i"): np.array([[0, 1], [0, 2]])},
        "nodes_dict": {"u": Data(ids=np.arange(2)), "i": Data(ids=np.arange(3))},
        "node_schema_dict": None,
        "graph_node_offsets_dict": {"u": np.array([0, 1]), "i": np.array([0, 2])},
    }
    return HeteroBatchGraph(**{**parts, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"edge_index_dict": {("u", "buys", "i"): np.array([[0], [2]])}}, r"nodes of the same graph, .* got \[0, 2\]"),
        ({"edge_index_dict": {("u", "buys", "x"): np.array([[0], [0]])}}, "node types of all edges; got none for 'x'"),
        ({"edges_dict": {("u", "buys", "i"): Data(ids=np.arange(3))}}, "one row per edge; got 3 for 2 edges"),
        (
            {"graph_node_offsets_dict": {"u": np.array([0, 1]), "i": np.array([0, 4])}},
            r"`graph_node_offsets_dict\['i'\]` must .* got \[0, 4\] for 3 rows",
        ),
        (
            {"edge_index_dict": {}, "graph_node_offsets_dict": {"u": np.array([0, 1]), "i": np.array([0])}},
            "one item for each graph, in all types; got {'u': 2, 'i': 1}",
        ),
        (
            {"edge_index_dict": {}, "nodes_dict": {}, "graph_node_offsets_dict": {}},
            "`nodes_dict` must have a node type; got none",
        ),
    ],
)
def test_parts_of_a_batch_that_no_graphs_have_are_refused(changed, message):
    assert _batch_of_two_types().graph_edge_offsets_dict["u", "buys", "i"].tolist() == [0, 1]
    with pytest.raises(ValueError, match=message):
        _batch_of_two_types(**changed)


def test_a_batch_is_a_subgraph_of_types_with_keys():
    click = ("user", "click", "item")
    one = HeteroSubGraph({click: [[0], [1]]}, {"user": Data(ids=np.arange(1)), "item": Data(ids=np.arange(2))})

    batch = HeteroBatchGraph.from_graphs([one, one])
    batch["age"] = np.array([3, 4])

    assert isinstance(batch, HeteroSubGraph)
    assert batch.keys == [
        *["edge_index_dict", "nodes_dict", "graph_node_offsets_dict", "graph_edge_offsets_dict", "age"]
    ]
    assert [graph.age.tolist() for graph in batch.to_graphs()] == [[3], [4]]
    assert one.keys == ["edge_index_dict", "nodes_dict"]
    assert "edges_dict" not in one
    with pytest.raises(TypeError, match="must hold HeteroSubGraph; got HeteroBatchGraph"):
        HeteroBatchGraph.from_graphs([batch])
