"""`BatchGraph`: merging subgraphs, taking them apart, and the same as a GraphTensor."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sized

import numpy as np
import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.graphlearn.attribute_decoder import Decoder
from tfx_gnn.graphlearn.data.batch_graph import BatchGraph
from tfx_gnn.graphlearn.data.data import Data
from tfx_gnn.graphlearn.data.sub_graph import SubGraph

SPEC = Decoder(attr_types=["float"]).feature_spec


def _sub_graph(edge_index, ids, **further):
    ids = np.array(ids, np.int64)
    edge_index = np.array(edge_index, np.int64).reshape(2, -1)
    return SubGraph(
        edge_index,
        Data(ids=ids, floats=(ids[:, np.newaxis] / 2).astype(np.float32), labels=(ids % 2).astype(np.int32)),
        Data(weights=np.arange(edge_index.shape[1], dtype=np.float32)),
        **{key: np.array(value, np.int64) for key, value in further.items()},
    )


def _graphs():
    """Graphs of 3, 0 and 2 nodes, with 2, 0 and 1 edges, of which the last may be empty, too."""
    return [
        _sub_graph([[0, 1], [1, 2]], [10, 20, 31], struct_label=[0, 1, 2], pairs=[7, 8]),
        _sub_graph([[], []], [], struct_label=[], pairs=[]),
        _sub_graph([[0], [1]], [10, 41], struct_label=[0, 1], pairs=[9]),
    ]


def _same(one, other):
    assert one.keys == other.keys
    np.testing.assert_array_equal(one.edge_index, other.edge_index)
    for part in ("nodes", "edges"):
        assert one[part].keys == other[part].keys
        for key in one[part].keys:
            np.testing.assert_array_equal(one[part][key], other[part][key])
    for key in ("struct_label", "pairs"):
        np.testing.assert_array_equal(one[key], other[key])


def _batch(graphs=None):
    return BatchGraph.from_graphs(graphs or _graphs(), ["struct_label", "pairs"], node_schema=("user", SPEC))


def test_graphs_of_3_and_2_nodes_with_2_and_1_edges():
    first, _, last = _graphs()

    batch = BatchGraph.from_graphs([first, last], ["struct_label"])

    assert batch.graph_node_offsets.tolist() == [0, 3]
    assert batch.graph_edge_offsets.tolist() == [0, 2]
    assert batch.edge_index.tolist() == [[0, 1, 3], [1, 2, 4]]
    assert (batch.edge_index.dtype, batch.graph_node_offsets.dtype) == (np.int32, np.int64)
    assert batch.nodes.ids.tolist() == [10, 20, 31, 10, 41]
    assert batch.edges.weights.tolist() == [0, 1, 0]
    assert batch["struct_label"].tolist() == [0, 1, 2, 0, 1]
    assert (batch.num_graphs, batch.num_nodes, batch.num_edges) == (2, 5, 3)
    assert batch.additional_keys == ["struct_label"]


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2], [0, 2, 1], [1, 1, 1], [1]])
def test_taking_a_batch_apart_gives_the_subgraphs_back(order):
    graphs = [_graphs()[position] for position in order]

    batch = _batch(graphs)
    again = batch.to_graphs()

    assert batch.num_graphs == len(order)
    assert len(again) == len(order)
    for one, other in zip(graphs, again, strict=True):
        _same(one, other)


def test_from_tensors_is_the_inverse_of_flatten():
    batch = _batch()

    flat = batch.flatten()
    again = BatchGraph.from_tensors(flat, batch.spec)

    assert [np.asarray(array).tolist() for array in flat] == [
        [[0, 1, 3], [1, 2, 4]],
        [[5.0], [10.0], [15.5], [5.0], [20.5]],
        [0, 0, 1, 0, 1],
        [10, 20, 31, 10, 41],
        [0, 3, 3],
        [0.0, 1.0, 0.0],
        [0, 2, 2],
        [0, 1, 2, 0, 1],
        [7, 8, 9],
        [0, 3, 3],
        [0, 2, 2],
    ]
    assert again.spec == batch.spec
    assert all(one is other for one, other in zip(again.flatten(), flat, strict=True))
    assert again.node_schema[0] == "user"
    with pytest.raises(ValueError, match="got 3 tensors, and more are needed"):
        BatchGraph.from_tensors(flat[:3], batch.spec)
    with pytest.raises(ValueError, match="got 12 tensors, and 11 are needed"):
        BatchGraph.from_tensors([*flat, flat[0]], batch.spec)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_as_a_graph_tensor_each_subgraph_is_a_component(wrap):
    graph = wrap(lambda batch: batch.graph)(_batch())

    assert graph.node_sets["user"].sizes.numpy().tolist() == [3, 0, 2]
    assert graph.edge_sets["edges"].sizes.numpy().tolist() == [2, 0, 1]
    assert graph.edge_sets["edges"].adjacency.source.numpy().tolist() == [0, 1, 3]
    assert graph.edge_sets["edges"]["weights"].numpy().tolist() == [0, 1, 0]
    assert graph.context["pairs"].to_list() == [[7, 8], [], [9]]
    parts = tfx_gnn.split_components(graph)
    assert [part.node_sets["user"]["ids"].numpy().tolist() for part in parts] == [[10, 20, 31], [], [10, 41]]


def test_counts_are_right_in_datasets_and_functions():
    first, _, last = _graphs()
    batches = [_batch([first, last]), _batch([last]), _batch()]

    @tf.function
    def counted(batch):
        return (
            batch,
            batch.num_graphs,
            batch.num_nodes,
            batch.num_edges,
            tfx_gnn.component_ids(batch.graph, node_set_name="user"),
        )

    dataset = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=batches[0].spec.relax())
    results = list(dataset.map(counted))

    assert [[int(count) for count in result[1:4]] for result in results] == [[2, 5, 3], [1, 2, 1], [3, 5, 3]]
    assert results[2][4].numpy().tolist() == [0, 0, 0, 2, 2]
    for one, other in zip(results[0][0].to_graphs(), [first, last], strict=True):
        _same(one, other)


def test_offsets_of_edges_follow_from_their_source_nodes():
    given = _batch()

    made = BatchGraph(given.edge_index, given.node_data, None, given.graph_node_offsets)
    traced = tf.function(
        lambda edge_index, ids, offsets: BatchGraph(edge_index, Data(ids=ids), None, offsets).graph_edge_offsets
    )(given.edge_index, given.nodes.ids, given.graph_node_offsets)

    assert made.graph_edge_offsets.tolist() == [0, 2, 2]
    assert traced.numpy().tolist() == [0, 2, 2]


def test_a_function_cannot_take_a_batch_apart_in_python():
    with pytest.raises(ValueError, match=r"`to_graphs` needs known values.*unmerge_components\(batch.graph\)"):
        tf.function(lambda batch: batch.to_graphs()[0].edge_index)(_batch())


def _without_edges():
    return SubGraph([[], []], Data(ids=np.arange(1), floats=np.zeros([1, 1], np.float32), labels=np.zeros(1, np.int32)))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: BatchGraph.from_graphs([]), ValueError, "must hold at least one subgraph"),
        (lambda: BatchGraph.from_graphs(_graphs()[0]), TypeError, "`graphs` must be a list of SubGraph"),
        (lambda: BatchGraph.from_graphs([1]), TypeError, "got int in place 0"),
        (lambda: BatchGraph.from_graphs(_graphs(), ["depth"]), ValueError, "got 'depth', which graph 0 lacks"),
        (
            lambda: BatchGraph.from_graphs([_sub_graph([[0], [1]], [1, 2]), _sub_graph([[0], [2]], [1, 2])]),
            ValueError,
            r"`edge_index` must hold positions of nodes of the same graph; got \[0, 2\] in graph 1",
        ),
        (
            lambda: BatchGraph.from_graphs([SubGraph([[], []], Data(ids=np.arange(1))), _without_edges()]),
            ValueError,
            r"`nodes` must have the same arrays in all graphs; got \['ids'\] in graph 0",
        ),
        (
            lambda: BatchGraph.from_graphs([_graphs()[0], _without_edges()]),
            ValueError,
            "`edges` must be given in all graphs or in none; got none in graph 1",
        ),
        (
            lambda: BatchGraph.from_graphs([SubGraph([[], []], Data(ids=np.arange(2), labels=np.arange(3)))]),
            ValueError,
            "got 3 in 'labels' and 2 in 'ids' of graph 0",
        ),
        (
            lambda: BatchGraph.from_graphs(
                [SubGraph([[], []], Data(ids=np.arange(2))), SubGraph([[], []], Data(ids=np.array(["a"])))]
            ),
            ValueError,
            "`nodes.ids` must have one dtype and shape",
        ),
        (
            lambda: BatchGraph.from_graphs([SubGraph([[0], [0]], Data(ids=np.arange(1)), Data(ids=np.arange(2)))]),
            ValueError,
            "`edges` must have one row per edge; got 2 for 1 edges in graph 0",
        ),
        (
            lambda: BatchGraph(np.zeros([2, 0], int), np.zeros([3, 1]), None, [0], depth=np.zeros([2])),
            TypeError,
            r"`additional_keys` must name the further arrays; got \[\]",
        ),
        (
            lambda: BatchGraph(
                np.zeros([2, 0], int), np.zeros([3, 1]), None, np.array([0]), None, None, None, ["y"], y=np.zeros([2])
            ),
            ValueError,
            "`y` must have one row per node; got 2 for 3 nodes",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


TWO_AND_ONE = {"nodes": Data(ids=np.arange(3)), "node_schema": None, "graph_node_offsets": np.array([0, 2])}


@pytest.mark.parametrize("wrap", [np.asarray, tf.constant], ids=["array", "tensor"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"edge_index": [[2, 0], [2, 1]]}, "edges of the first graph first"),
        ({"edge_index": [[0, 1], [1, 2]]}, r"positions of nodes of the same graph, .* got \[1, 2\] in column 1"),
        ({"edge_index": [[0], [9]]}, r"positions of nodes of the same graph, .* got \[0, 9\] in column 0"),
        ({"edge_index": [[0], [-1]]}, r"positions of nodes of the same graph, .* got \[0, -1\] in column 0"),
        ({"edge_index": [[0], [1]], "graph_node_offsets": [0, 5]}, r"`graph_node_offsets` must .* got \[0, 5\] for 3"),
        ({"edge_index": [[0], [1]], "graph_node_offsets": [1, 2]}, "`graph_node_offsets` must begin with 0"),
        ({"edge_index": [[0], [1]], "graph_edge_offsets": [0, 2]}, r"`graph_edge_offsets` must .* got \[0, 2\] for 1"),
    ],
)
def test_parts_of_a_batch_that_no_graphs_have_are_refused(given, message, wrap):
    arrays = {key: wrap(np.array(value)) for key, value in given.items()}

    with pytest.raises(ValueError, match=message):
        BatchGraph(**{**TWO_AND_ONE, **arrays})


def test_edges_in_another_order_are_refused_in_a_traced_function():
    @tf.function(input_signature=[tf.TensorSpec([2, None], tf.int32)])
    def starts(edge_index):
        return BatchGraph(edge_index, **TWO_AND_ONE).graph_edge_offsets

    assert starts([[0, 2], [1, 2]]).numpy().tolist() == [0, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="edges of the first graph first"):
        starts([[2, 0], [2, 1]])


def test_offsets_of_traced_nodes_may_be_known():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def sizes(ids):
        graph = BatchGraph(np.array([[0], [1]]), Data(ids=ids), None, np.array([0, 2]), None, None, np.array([0, 1]))
        return graph.graph.node_sets["nodes"].sizes

    assert sizes(tf.range(3, dtype=tf.int64)).numpy().tolist() == [2, 1]


def test_attributes_of_other_edges_are_refused():
    with pytest.raises(ValueError, match="`edges` must have one row per edge; got 3 for 1 edges"):
        BatchGraph(np.array([[0], [1]]), **TWO_AND_ONE, edges=Data(ids=np.arange(3)))


def test_a_position_is_no_name():
    with pytest.raises(
        TypeError, match=r"must be the name of an array; got 0\. A batch has single graphs in to_graphs"
    ):
        BatchGraph.from_graphs(_graphs())[0]


def test_a_batch_is_a_subgraph_whose_additional_arrays_are_set_later():
    graphs = [SubGraph([[0, 1], [1, 2]], Data(ids=np.arange(3))), SubGraph([[0], [1]], Data(ids=np.arange(2)))]
    whole = BatchGraph.from_graphs(graphs)

    batch = BatchGraph(
        whole.edge_index, whole.nodes, None, whole.graph_node_offsets, additional_keys=["depth", "label", "absent"]
    )
    batch["label"] = np.array([1, 0])
    batch["depth"] = [3, 2, 1, 2, 1]
    batch["extra"] = tf.range(5)

    assert isinstance(batch, SubGraph)
    assert batch.additional_keys == ["depth", "label", "absent", "extra"]
    assert batch.keys == [
        *["edge_index", "nodes", "graph_node_offsets", "graph_edge_offsets"],
        *["depth", "label", "extra"],
    ]
    assert (batch["absent"], "absent" in batch, "depth" in batch, "nodes" in batch) == (None, False, True, True)
    assert batch.depth.tolist() == [3, 2, 1, 2, 1]
    assert [one.label.tolist() for one in batch.to_graphs()] == [[1], [0]]
    again = tf.function(lambda value: value)(batch)
    assert [one.depth.tolist() for one in again.to_graphs()] == [[3, 2, 1], [2, 1]]
    assert again.additional_keys == batch.additional_keys
    assert BatchGraph.from_tensors(batch.flatten(), batch.spec)["label"].tolist() == [1, 0]
    with pytest.raises(ValueError, match="`rows` must have one row per node; got 4 for 5 nodes"):
        batch["rows"] = np.zeros([4])
    with pytest.raises(ValueError, match="`rows` must be an array with rows; got the scalar"):
        batch["rows"] = 3
    twin = copy.copy(batch)
    twin["only"] = np.zeros([5])
    assert "only" not in batch.additional_keys
    with pytest.raises(ValueError, match="must be free names; got 'nodes'"):
        batch["nodes"] = whole.nodes
    with pytest.raises(AttributeError, match="`unknown` must be an attribute"):
        _ = batch.unknown
    with pytest.raises(TypeError, match="must hold SubGraph; got BatchGraph"):
        BatchGraph.from_graphs([batch])


def test_a_replaced_array_keeps_the_rows_of_its_graphs():
    graphs = [
        SubGraph([[0], [0]], Data(ids=np.arange(1)), hops=np.arange(3)),
        SubGraph([[0], [0]], Data(ids=np.arange(1)), hops=np.arange(1)),
    ]
    batch = BatchGraph.from_graphs(graphs, ["hops"])

    batch["hops"] = batch["hops"] * 2

    assert [one.hops.tolist() for one in batch.to_graphs()] == [[0, 2, 4], [0]]


def test_graphs_are_no_sequences():
    graph = SubGraph([[0], [1]], Data(ids=np.arange(2)))

    for one in (graph, graph.nodes, BatchGraph.from_graphs([graph])):
        assert not isinstance(one, (Iterable, Sized))
        assert bool(one)
        with pytest.raises(TypeError, match="must be the name of an array; got 0"):
            list(one)
    assert "ids" in graph.nodes
    assert "labels" not in graph.nodes
