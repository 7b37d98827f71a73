"""What every whole network promises, whatever its convolution."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.batching.padding import pad_to_total_sizes
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet, NodeSet
from tfx_gnn.keras.layers.readout import StructuredReadout
from tfx_gnn.models.networks.gat_v2 import gat_v2
from tfx_gnn.models.networks.gcn import gcn
from tfx_gnn.models.networks.gin import gin
from tfx_gnn.models.networks.graph_sage import graph_sage
from tfx_gnn.models.networks.hgt import hgt
from tfx_gnn.models.networks.mpnn import mpnn
from tfx_gnn.models.networks.rgcn import rgcn

WIDTH = 6
NETWORKS = {
    "gcn": (gcn, {"edge_weight_feature_name": "weight", "residual": True}),
    "sage_mean": (graph_sage, {}),
    "sage_pool": (graph_sage, {"aggregator": "pool", "normalization": "layer"}),
    "gat_v2": (gat_v2, {"num_heads": 2, "edge_feature": "weight", "residual": True}),
    "gat_v2_mean": (gat_v2, {"num_heads": 3, "heads_merge_type": "mean", "normalization": "none"}),
    "mpnn": (mpnn, {"edge_feature": "weight", "message_units": [5, 4]}),
    "mpnn_edges": (mpnn, {"edge_feature": "weight", "update_edges": True, "reduce_type": "max"}),
    "gin": (gin, {"learn_epsilon": True, "residual": True}),
    "gin_plain": (gin, {"epsilon": 0.5, "hidden_units": 5, "normalization": "none"}),
    "gine": (gin, {"edge_feature": "weight", "normalization": "layer"}),
    "rgcn": (rgcn, {"num_bases": 2}),
    "rgcn_blocks": (rgcn, {"num_blocks": 2, "residual": True}),
    "rgcn_kinds": (rgcn, {"relation_feature": "kind", "num_relations": 2}),
    "hgt": (hgt, {"num_heads": 2}),
}
each_network = pytest.mark.parametrize("kind", NETWORKS)
# One of each convolution, with the options that bring operations of their own.
COMPILED = ("gcn", "sage_pool", "gat_v2", "mpnn_edges", "gine", "rgcn_blocks", "rgcn_kinds", "hgt")


def _network(kind, graph, *, num_layers=2, **options):
    make, own = NETWORKS[kind]
    return make(graph.spec, units=4, num_layers=num_layers, **{**own, **options})


def _graph(*, sizes=(7, 5), num_edges=(9, 8), order=None, edge_order=None):
    """Papers that cite each other and authors who write them; the last two papers have no edges.

    Args:
        order: permutation of papers; edge_order: of citations.
    """
    random = np.random.default_rng(5)
    papers, authors = sizes
    order = np.arange(papers) if order is None else order
    edge_order = np.arange(num_edges[0]) if edge_order is None else edge_order
    place = np.argsort(order)
    states = {
        "paper": random.standard_normal([papers, WIDTH])[order],
        "author": random.standard_normal([authors, WIDTH]),
    }
    ends = {
        "cites": [random.integers(0, papers - 2, num_edges[0])[edge_order] for _ in range(2)],
        "writes": [random.integers(0, authors, num_edges[1]), random.integers(0, papers - 2, num_edges[1])],
    }
    weights = {
        "cites": random.uniform(0.5, 2.0, [num_edges[0], 1])[edge_order],
        "writes": random.uniform(0.5, 2.0, [num_edges[1], 1]),
    }
    kinds = {
        "cites": random.integers(0, 2, num_edges[0])[edge_order],
        "writes": random.integers(0, 2, num_edges[1]),
    }

    def edge_set(name, source_name):
        source, target = ends[name]
        source = place[source] if source_name == "paper" else source
        return EdgeSet.from_fields(
            sizes=[len(source)],
            features={"weight": tf.constant(weights[name], tf.float32), "kind": tf.constant(kinds[name])},
            adjacency=Adjacency.from_indices(
                (source_name, tf.constant(source, tf.int32)), ("paper", tf.constant(place[target], tf.int32))
            ),
        )

    return GraphTensor.from_pieces(
        node_sets={
            **{
                name: NodeSet.from_fields(sizes=[len(state)], features={"hidden_state": tf.constant(state, tf.float32)})
                for name, state in states.items()
            },
            "_readout": NodeSet.from_fields(sizes=[1], features={}),
        },
        edge_sets={
            "cites": edge_set("cites", "paper"),
            "writes": edge_set("writes", "author"),
            "_readout/seed": EdgeSet.from_fields(
                sizes=[1], features={}, adjacency=Adjacency.from_indices(("paper", [0]), ("_readout", [0]))
            ),
        },
    )


def _with_links(graph, read):
    """Reads pairs of an author and a paper instead of a paper."""
    number = len(read["paper"])
    ends = {
        f"_readout/{key}": EdgeSet.from_fields(
            sizes=[number],
            features={},
            adjacency=Adjacency.from_indices((name, read[name]), ("_readout", range(number))),
        )
        for key, name in (("source", "author"), ("target", "paper"))
    }
    edge_sets = {name: graph.edge_sets[name] for name in ("cites", "writes")}
    readout = NodeSet.from_fields(sizes=[number], features={})
    return GraphTensor.from_pieces(
        node_sets={**graph.node_sets, "_readout": readout},
        edge_sets={**edge_sets, **ends},
    )


def _states(graph, name="paper"):
    return graph.node_sets[name]["hidden_state"].numpy()


@functools.cache
def _built(kind):
    """A graph, a network of two layers that no test changes, and what it makes of the graph."""
    graph = _graph()
    network = _network(kind, graph)
    return graph, network, network(graph)


@each_network
def test_states_have_static_shapes_and_auxiliary_sets_take_no_part(kind):
    graph, network, updated = _built(kind)

    traced = tf.function(network).get_concrete_function(graph)

    assert traced.structured_outputs.node_sets["paper"]["hidden_state"].shape == (7, 4)
    assert _states(updated).shape == (7, 4)
    assert _states(updated, "author").shape == (5, 4)
    assert dict(updated.node_sets["_readout"].features) == {}


@each_network
def test_order_of_nodes_and_edges_does_not_matter(kind):
    random = np.random.default_rng(1)
    order, edge_order = random.permutation(7), random.permutation(9)
    graph, network, updated = _built(kind)
    expected = _states(updated)

    np.testing.assert_allclose(_states(network(_graph(order=order))), expected[order], rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(_states(network(_graph(edge_order=edge_order))), expected, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(_states(network(sort_edges(graph))), expected, rtol=2e-4, atol=1e-5)


@each_network
def test_padding_changes_no_row_and_no_gradient(kind):
    graph, network, _ = _built(kind)
    sizes = SizeConstraints(
        2, {"paper": 16, "author": 9, "_readout": 2}, {"cites": 30, "writes": 20, "_readout/seed": 2}
    )
    padded, _ = pad_to_total_sizes(graph, sizes)

    def result(graph):
        with tf.GradientTape() as tape:
            updated = network(graph)
            seven = updated.node_sets["paper"]["hidden_state"][:7]
            loss = tf.reduce_sum(seven**2) + tf.reduce_sum(updated.node_sets["author"]["hidden_state"][:5] ** 2)
        return seven.numpy(), tape.gradient(loss, network.trainable_weights)

    (expected, gradients), (states, of_padded) = result(graph), result(padded)

    np.testing.assert_allclose(states, expected, rtol=2e-4, atol=1e-5)
    for weight, gradient, other in zip(network.trainable_weights, gradients, of_padded, strict=True):
        assert gradient is not None, f"{weight.name} does nothing"
        assert np.isfinite(gradient).all(), weight.name
        np.testing.assert_allclose(other, gradient, rtol=2e-3, atol=1e-4, err_msg=weight.name)


@each_network
def test_a_graph_without_any_edge_has_finite_states_and_gradients(kind):
    graph = _graph(num_edges=(0, 0))
    network = _network(kind, graph, num_layers=1)

    with tf.GradientTape() as tape:
        states = network(graph).node_sets["paper"]["hidden_state"]
        loss = tf.reduce_sum(states)
    gradients = tape.gradient(loss, network.trainable_weights)

    assert np.isfinite(states).all()
    assert all(np.isfinite(tf.convert_to_tensor(gradient)).all() for gradient in gradients if gradient is not None)


def test_every_convolution_is_among_those_that_are_compiled():
    assert {NETWORKS[kind][0] for kind in COMPILED} == {make for make, _ in NETWORKS.values()}


@pytest.mark.parametrize("kind", COMPILED)
def test_compiled_by_xla_a_step_gives_the_same(kind):
    graph = sort_edges(_graph())
    network = _network(kind, graph, num_layers=1)
    network(graph)

    def step(graph):
        with tf.GradientTape() as tape:
            states = network(graph).node_sets["paper"]["hidden_state"]
            loss = tf.reduce_sum(states**2)
        kernel = next(weight for weight in network.trainable_weights if weight.shape.rank > 1)
        gradient = tape.gradient(loss, kernel, unconnected_gradients="zero")
        return states, gradient

    for compiled, eager in zip(tf.function(step, jit_compile=True)(graph), step(graph), strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-3, atol=1e-5)


@each_network
def test_only_what_is_read_out_is_computed(kind):
    graph, whole, expected = _built(kind)
    economical = _network(kind, graph, readout_node_sets=["paper"])

    updated = economical(graph)

    assert economical.count_params() < whole.count_params()
    assert _states(updated).shape == _states(expected).shape
    # The state that the last layer hears.
    assert _states(updated, "author").shape == (5, 4)


@each_network
def test_nodes_that_are_read_have_the_states_and_gradients_of_the_whole_network(kind):
    # Some are read by several readouts.
    read = {"paper": [5, 0, 5], "author": [1, 1, 3]}
    graph = _with_links(_graph(), read)
    _, whole, _ = _built(kind)
    economical = _network(kind, graph, read_nodes_only=True)
    economical(graph)
    economical.set_weights(whole.get_weights())

    def states_and_gradients(network):
        with tf.GradientTape() as tape:
            updated = network(graph)
            ends = [StructuredReadout(key)(updated) for key in ("source", "target")]
            loss = tf.reduce_sum(ends[0] ** 2 * ends[1])
        return updated, tape.gradient(loss, network.trainable_weights, unconnected_gradients="zero")

    (expected, expected_gradients), (updated, gradients) = (states_and_gradients(each) for each in (whole, economical))

    for name, nodes in read.items():
        states = _states(updated, name)
        np.testing.assert_allclose(states[nodes], _states(expected, name)[nodes], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(np.delete(states, nodes, axis=0), 0.0)
    for weight, gradient, other in zip(whole.trainable_weights, gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(gradient), tf.convert_to_tensor(other), rtol=1e-3, atol=1e-5, err_msg=weight.name
        )


def test_only_node_sets_that_are_read_can_be_asked_for():
    with pytest.raises(
        ValueError, match=r'by edge sets "_readout/..." .*; got \[\'author\'\], and .* in \[\'paper\'\]'
    ):
        _network("gcn", _graph(), read_nodes_only=True, readout_node_sets=["author"])


@each_network
def test_one_direction_alone_can_be_heard(kind):
    graph = _graph()
    network = _network(kind, graph, receiver_tags=[TARGET], num_layers=1)
    before = _states(network(graph), "author")
    features = {"hidden_state": graph.node_sets["paper"]["hidden_state"] + 1.0}

    after = _states(network(graph.replace_features(node_sets={"paper": features})), "author")

    # Authors are sources only.
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(("kind", "num_layers"), [*((kind, 1) for kind in NETWORKS), ("sage_mean", 2)])
def test_model_is_made_again_from_its_config(kind, num_layers):
    graph = _graph()
    inputs = tf_keras.layers.Input(type_spec=graph.spec)
    outputs = _network(kind, graph, num_layers=num_layers)(inputs).node_sets["paper"]["hidden_state"]
    model = tf_keras.Model(inputs, outputs)

    again = tf_keras.Model.from_config(model.get_config())
    again.set_weights(model.get_weights())

    np.testing.assert_array_equal(again(graph), model(graph))


@each_network
def test_half_precision_is_close(kind):
    graph, network, updated = _built(kind)
    expected = _states(updated)
    tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        half = _network(kind, graph)
        half(graph)
    finally:
        tf_keras.mixed_precision.set_global_policy("float32")
    half.set_weights(network.get_weights())

    states = half(graph).node_sets["paper"]["hidden_state"]

    assert states.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(states, tf.float32), expected, rtol=0.1, atol=0.1)


def test_a_layer_updates_what_the_layers_behind_it_need():
    graph = _graph()
    network = _network("sage_mean", graph, num_layers=3, receiver_tags=[SOURCE], readout_node_sets=["author"])
    network(graph)

    # Authors hear of papers, papers of papers; whom nobody hears of in the end is not computed.
    updated = [
        sorted(name for name in ("author", "paper") if name in layer._node_set_updates) for layer in network.layers
    ]
    assert updated == [["author", "paper"], ["author", "paper"], ["author"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "`num_layers` must be at least 1; got 0"),
        ({"receiver_tags": []}, "`receiver_tags` must hold SOURCE or TARGET or both"),
        ({"readout_node_sets": ["_readout"]}, r"`readout_node_sets` must name node sets among \['author', 'paper'\]"),
        ({"edge_feature": "wait"}, "`edge_feature` must be a feature of some edge set; got 'wait'"),
        ({"num_heads": 3}, "`num_heads` must divide `units`"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        _network("gat_v2", _graph(), **options)


def test_relation_feature_and_number_go_together():
    with pytest.raises(ValueError, match="`relation_feature` and `num_relations` must go together"):
        _network("rgcn_kinds", _graph(), num_relations=0)
