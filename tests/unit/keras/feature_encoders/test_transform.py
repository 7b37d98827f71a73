"""`transform`: the attributes of data objects become tensors, and all else is kept."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graphlearn import (
    BatchGraph,
    Data,
    Decoder,
    EgoGraph,
    HeteroBatchGraph,
    HeteroSubGraph,
    SubGraph,
)
from tfx_gnn.keras.feature_encoders import FeatureHandlers

USER = Decoder(attr_types=["float", ("int", 100), ("string", 50, True)], attr_dims=[None, 4, 8])
ITEM = Decoder(attr_types=["float", "int"])
BUY = ("user", "buy", "item")


def _users(num):
    return Data(
        ids=np.arange(num),
        ints=np.arange(num)[:, np.newaxis],
        floats=np.arange(num, dtype=np.float32)[:, np.newaxis] / 2,
        strings=np.array([["a,b"]] * num, object).reshape(num, 1),
        labels=np.arange(num) % 2,
        weights=np.full([num], 0.5, np.float32),
    )


def _items(num):
    return Data(
        ids=np.arange(num) + 50,
        ints=np.arange(num)[:, np.newaxis],
        floats=np.ones([num, 1], np.float32),
        mask=np.ones([num], bool),
    )


def _ego():
    return EgoGraph(
        _users(2),
        [_items(4), _users(12)],
        [("user", USER), ("item", ITEM), ("user", USER)],
        [2, 3],
        [Data(floats=np.ones([4, 1], np.float32)), Data(floats=np.ones([12, 1], np.float32))],
        [("buy", Decoder(attr_types=["float"]))] * 2,
    )


def _sub_graph(num):
    return SubGraph([[0], [num - 1]], _users(num), Data(floats=np.ones([1, 1], np.float32)), depth=np.array([num]))


def _batch():
    schema = ("buy", Decoder(attr_types=["float"]))
    return BatchGraph.from_graphs(
        [_sub_graph(3), _sub_graph(2)], ["depth"], node_schema=("user", USER), edge_schema=schema
    )


def _hetero():
    graph = HeteroSubGraph({BUY: [[0], [1]]}, {"user": _users(1), "item": _items(2)}, {BUY: Data(weights=np.ones(1))})
    return HeteroBatchGraph.from_graphs([graph, graph], node_schema_dict={"user": USER, "item": ITEM})


def test_every_hop_and_edge_hop_is_encoded_by_its_own_schema_and_labels_and_weights_stay():
    handlers = FeatureHandlers()

    graph = handlers.transform(_ego())

    assert graph.src.shape == [2, 13]
    assert [graph.hop_node(hop).shape.as_list() for hop in range(2)] == [[4, 2], [12, 13]]
    assert [graph.hop_edge(hop).shape.as_list() for hop in range(2)] == [[4, 1], [12, 1]]
    assert graph.node_schema is None
    assert graph.edge_schema == ()
    assert graph.nbr_nums.tolist() == [2, 3]
    assert graph.labels.tolist() == [0, 1]
    assert graph.weights.tolist() == [0.5, 0.5]
    assert graph.levels[2].labels.tolist() == [row % 2 for row in range(12)]
    assert graph.hop_mask(0).tolist() == [True] * 4
    assert graph.batch_size == 2
    # Users as seeds and two hops away share tables: user 1 is row 1 of both.
    np.testing.assert_array_equal(graph.src[1], graph.hop_node(1)[1])
    assert sorted(handlers.handlers) == ["edges.buy", "item", "user"]
    assert graph.to_graph_tensor().node_sets["hop_1"]["hidden_state"].shape == [12, 13]


def test_a_batch_keeps_its_form_and_its_counts():
    batch = FeatureHandlers().transform(_batch())

    assert batch.nodes.shape == [5, 13]
    assert batch.edges.shape == [2, 1]
    assert (batch.num_graphs, batch.num_nodes, batch.num_edges) == (2, 5, 2)
    assert batch.edge_index.tolist() == [[0, 3], [2, 4]]
    assert batch.graph_node_offsets.tolist() == [0, 3]
    assert batch.labels.tolist() == [0, 1, 0, 0, 1]
    assert batch.weights.tolist() == [0.5] * 5
    assert batch["depth"].tolist() == [3, 2]
    assert (batch.node_schema[0], batch.edge_schema[0]) == (_batch().node_schema[0], _batch().edge_schema[0])
    assert FeatureHandlers().transform(batch) is batch
    assert batch.transform() is batch
    assert batch.graph.node_sets["user"]["hidden_state"].shape == [5, 13]
    assert [graph.nodes["encoded"].shape for graph in batch.to_graphs()] == [(3, 13), (2, 13)]


def test_a_heterogeneous_batch_is_encoded_by_type():
    batch = FeatureHandlers().transform(_hetero())

    assert {name: nodes.shape.as_list() for name, nodes in batch.nodes_dict.items()} == {
        "user": [2, 13],
        "item": [4, 2],
    }
    assert batch.edges_dict[BUY].weights.tolist() == [1, 1]
    assert (batch.num_graphs, batch.num_nodes("item"), batch.num_edges(BUY)) == (2, 4, 2)
    assert batch.node_data_dict["user"].labels.tolist() == [0, 0]
    assert list(batch.node_schema_dict) == ["user", "item"]
    assert FeatureHandlers().transform(batch) is batch


@pytest.mark.parametrize("make", [_ego, _batch, _hetero])
def test_a_second_transform_changes_nothing(make):
    handlers = FeatureHandlers()

    once = handlers.transform(make())

    assert handlers.transform(once) is once
    assert once.transform() is once


@pytest.mark.parametrize("make", [_ego, _batch, _hetero])
def test_the_graph_uses_the_handlers_of_the_enclosing_model(make):
    handlers = FeatureHandlers()

    with handlers.in_use():
        graph = make().transform()
    again = handlers.transform(make())

    assert len(handlers.handlers) >= 1
    for one, other in zip(tf.nest.flatten(graph._components()), tf.nest.flatten(again._components()), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(RuntimeError, match=r"inside of `with handlers.in_use\(\):`"):
        make().transform()


def test_the_function_comes_first():
    def drop_floats(graph):
        zeros = [
            Data(ints=level.int_attrs, strings=level.string_attrs, floats=np.zeros_like(level.float_attrs))
            for level in graph.levels
        ]
        return EgoGraph(zeros[0], zeros[1:], graph.node_schema, graph.nbr_nums)

    graph = FeatureHandlers().transform(_ego(), drop_floats)

    assert graph.src[:, 0].numpy().tolist() == [0, 0]
    assert graph.hop_node(0).numpy()[:, 0].tolist() == [0] * 4
    with pytest.raises(TypeError, match="`transform_func` must return the graph, of class EgoGraph; got NoneType"):
        FeatureHandlers().transform(_ego(), lambda _: None)
    with pytest.raises(TypeError, match="`graph` must be an EgoGraph, BatchGraph or HeteroBatchGraph; got Data"):
        FeatureHandlers().transform(_users(2))


def test_without_a_schema_the_graph_stays_as_it_is():
    graph = EgoGraph(_users(2), [_items(4)], None, [2])

    assert FeatureHandlers().transform(graph) is graph
    assert graph.transform() is graph


def test_types_without_attributes_are_encoded_as_nothing():
    graph = EgoGraph(Data(ids=np.arange(2)), [_items(4)], [("user", Decoder()), ("item", ITEM)], [2])

    assert FeatureHandlers().transform(graph).src.shape == [2, 0]


@tf_keras.utils.register_keras_serializable(package="test_transform")
class _Model(tf_keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.handlers = FeatureHandlers()
        self.dense = tf_keras.layers.Dense(1)

    def call(self, graph):
        with self.handlers.in_use():
            graph = graph.transform()
        neighbors = tf.reshape(graph.hop_node(0), [-1, 2, 2])
        return self.dense(tf.concat([graph.src, tf.reduce_mean(neighbors, axis=1)], axis=1))


@pytest.mark.filterwarnings("ignore:Encoding a StructuredValue with type tfx_gnn")  # TensorFlow, of registered specs
def test_a_model_with_transform_inside_trains_and_is_saved(tmp_path):
    tf_keras.utils.set_random_seed(1)
    model = _Model()
    spec = _ego().spec.relax()
    labels = tf.constant([[0.0], [1.0]])

    @tf.function(input_signature=[spec], autograph=False)
    def step(graph):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(graph) - labels) ** 2)
        for variable, gradient in zip(
            model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
        ):
            variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
        return loss

    model(_ego())
    losses = [float(step(_ego())) for _ in range(5)]
    expected = model(_ego())
    model.save_weights(str(tmp_path / "weights.h5"))
    again = _Model()
    again(_ego())
    again.load_weights(str(tmp_path / "weights.h5"))
    module = tf.Module()
    module.model_variables = model.variables
    module.serve = tf.function(model.call, input_signature=[spec], autograph=False)
    tf.saved_model.save(module, str(tmp_path / "model"))
    served = tf.saved_model.load(str(tmp_path / "model"))

    assert losses[-1] < losses[0]
    # Tables of users' categories and texts, and the dense layer: what seeds and hops share is there once.
    assert len(model.trainable_variables) == 4
    np.testing.assert_allclose(again(_ego()), expected, rtol=1e-6)
    np.testing.assert_allclose(served.serve(_ego()), expected, rtol=1e-6)
    config = model.handlers.get_config()
    assert sorted(FeatureHandlers.from_config(config).handlers) == ["edges.buy", "item", "user"]


@pytest.mark.parametrize("make", [_ego, _batch, _hetero])
def test_it_is_traced_once_for_batches_of_all_sizes(make):
    handlers = FeatureHandlers()
    handlers.transform(make())
    traces = []

    @tf.function(input_signature=[make().spec.relax()])
    def transformed(graph):
        traces.append(graph)
        return handlers.transform(graph)

    graph = transformed(make())

    assert len(traces) == 1
    eager = handlers.transform(make())
    for one, other in zip(tf.nest.flatten(graph._components()), tf.nest.flatten(eager._components()), strict=True):
        np.testing.assert_array_equal(one, other)
