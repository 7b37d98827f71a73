"""`EgoGraph`: levels, masks, and the same as a GraphTensor."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graphlearn.attribute_decoder import Decoder
from tfx_gnn.graphlearn.data.data import Data
from tfx_gnn.graphlearn.data.ego_graph import EgoGraph

SPEC = Decoder(attr_types=["float"]).feature_spec
MASK = np.array([True, True, False, True, True, True])


def _graph(**kwargs):
    return EgoGraph(
        Data(ids=np.array([1, 2]), floats=np.ones([2, 1], np.float32), labels=np.array([0, 1])),
        [
            Data(ids=np.arange(6), floats=np.ones([6, 1], np.float32), mask=MASK),
            Data(ids=np.arange(24), floats=np.ones([24, 1], np.float32)),
        ],
        [("user", SPEC), ("item", SPEC), ("user", SPEC)],
        [3, 4],
        **kwargs,
    )


def test_two_seeds_with_fan_outs_of_three_and_four_have_2_6_and_24_rows():
    graph = _graph(nbr_edges=[Data(weights=np.ones([6])), Data(weights=np.ones([24]))])

    assert graph.src.num_items == graph.batch_size == 2
    assert [graph.hop_node(hop).num_items for hop in range(2)] == [6, 24]
    assert [graph.hop_edge(hop).num_items for hop in range(2)] == [6, 24]
    assert graph.nbr_nums.tolist() == [3, 4]
    assert [name for name, _ in graph.node_schema] == ["user", "item", "user"]
    assert graph.labels.tolist() == [0, 1]


def test_neighbors_of_a_masked_node_are_masked():
    assert _graph().hop_mask(0).tolist() == MASK.tolist()
    assert _graph().hop_mask(1).tolist() == np.repeat(MASK, 4).tolist()
    assert EgoGraph(np.zeros([2, 3]), [np.zeros([4, 3])], None, [2]).hop_mask(0).tolist() == [True] * 4


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_as_a_graph_tensor_each_seed_is_a_component_and_edges_lead_to_the_hop_before(wrap):
    graph = wrap(lambda ego: ego.to_graph_tensor())(_graph())

    sizes = {name: node_set.sizes.numpy().tolist() for name, node_set in graph.node_sets.items()}
    assert sizes == {"seed": [1, 1], "hop_0": [3, 3], "hop_1": [12, 12], "_readout": [1, 1]}
    ends = {name: edge_set.adjacency for name, edge_set in graph.edge_sets.items()}
    assert ends["hop_0/neighbor"].source.numpy().tolist() == list(range(6))
    assert ends["hop_0/neighbor"].target.numpy().tolist() == [0, 0, 0, 1, 1, 1]
    assert ends["hop_1/neighbor"].target.numpy().tolist() == [row // 4 for row in range(24)]
    assert ends["hop_1/neighbor"].target_name == "hop_0"
    assert ends["_readout/seed"].source.numpy().tolist() == [0, 1]
    assert graph.context["hop_1"].numpy().tolist() == np.repeat(MASK, 4).reshape(2, 3, 4).tolist()
    assert graph.node_sets["_readout"]["labels"].numpy().tolist() == [0, 1]
    assert "labels" not in graph.node_sets["seed"].features


def test_it_is_a_value_of_functions_and_datasets():
    traces = []

    @tf.function
    def ids(graph):
        traces.append(graph)
        return graph, graph.hop_node(1).ids, graph.hop_mask(1)

    dataset = tf.data.Dataset.from_generator(lambda: iter([_graph()] * 2), output_signature=_graph().spec.relax())
    (graph, found, mask), _ = dataset.map(ids)
    ids(graph)
    ids(_graph())
    ids(_graph())

    assert found.numpy().tolist() == list(range(24))
    assert mask.numpy().tolist() == np.repeat(MASK, 4).tolist()
    assert [(name, spec.dimension) for name, spec in graph.node_schema] == [("user", 1), ("item", 1), ("user", 1)]
    assert graph.nbr_nums.tolist() == [3, 4]
    assert len(traces) <= 3


def test_a_wrong_number_of_schemas_is_an_assertion_error_and_a_value_error():
    for error in (AssertionError, ValueError):
        with pytest.raises(error, match="`node_schema` must have one item for the source and one for each hop; got 1"):
            EgoGraph(Data(ids=np.arange(2)), [Data(ids=np.arange(6))], [("user", SPEC)], [3])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: _graph().hop_edge(0), ValueError, "No edge data."),
        (lambda: _graph().hop_node(2), ValueError, "`i` must be a hop from 0 to 1; got 2"),
        (lambda: _graph().hop_mask(-1), ValueError, "got -1"),
        (lambda: EgoGraph(Data(ids=np.arange(2)), [], None, [3]), ValueError, "`nbr_nodes` must have one item"),
        (
            lambda: EgoGraph(Data(ids=np.arange(2)), [Data(ids=np.arange(5))], None, [3]),
            ValueError,
            r"`nbr_nodes\[0\]` must have 6 rows, 3 for each of the seeds; got 5",
        ),
        (lambda: EgoGraph(np.arange(2), [], None, []), ValueError, r"`src` must have shape \[num_items, dimension\]"),
        (lambda: EgoGraph({"ids": [1]}, [], None, []), TypeError, "`src` must be a Data or a tensor; got dict"),
        (lambda: EgoGraph(Data(ids=np.arange(2)), [], None, [0]), ValueError, "at least 1; got"),
        (lambda: EgoGraph(Data(ids=np.arange(2)), [], [("u", 3)], []), TypeError, "must have a FeatureSpec"),
    ],
)
def test_parts_that_do_not_fit_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_graph_without_hops_is_its_seeds():
    graph = EgoGraph(Data(ids=np.arange(2)), [], None, [])

    assert sorted(graph.to_graph_tensor().node_sets) == ["_readout", "seed"]
    assert graph.transform() is graph


def test_further_arrays_are_attributes_that_travel_with_the_graph():
    graph = EgoGraph(
        Data(ids=np.arange(2)), [Data(ids=np.arange(6))], None, [3], [], [], pair=[4, 5], time=tf.constant([1.0, 2.0])
    )
    graph["depth"] = np.array([7, 8])

    again = tf.function(lambda value: value)(graph)

    assert (graph.pair.tolist(), graph["depth"].tolist(), graph["absent"]) == ([4, 5], [7, 8], None)
    assert (again.pair.numpy().tolist(), again.time.numpy().tolist()) == ([4, 5], [1, 2])
    assert graph.replace(graph.levels, ()).pair.tolist() == [4, 5]
    assert next(iter(tf.data.Dataset.from_tensors(graph))).depth.numpy().tolist() == [7, 8]
    with pytest.raises(ValueError, match="`src` must be a free name"):
        graph["src"] = [1]
    with pytest.raises(AttributeError, match="`absent` must be an attribute or a further array"):
        _ = graph.absent
    with pytest.raises(TypeError, match="must be the name of an array"):
        list(graph)
