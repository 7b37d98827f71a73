from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.models import model_fns as ready
from tfx_gnn.models.tasks import GraphRegression, LinkPrediction, MultiTask, NodeClassification, NodeRegression, Task
from tfx_gnn.training.export.unsafe_operations import UNSAFE_OPERATIONS

MODELS = ("gcn", "graph_sage", "gat_v2", "mpnn", "gin", "rgcn", "hgt")
CLASSES = NodeClassification(label_feature="label", num_classes=3)
FEATURES = {"embeddings": {"paper.venue": {"rows": 5}}}


@pytest.fixture(scope="module")
def graph():
    """Raw features of three subgraphs: numbers, a category, features of edges; authors have none."""

    def edges(source, target, sizes, features):
        return EdgeSet.from_fields(sizes=sizes, features=features, adjacency=Adjacency.from_indices(source, target))

    return GraphTensor.from_pieces(
        context=Context.from_fields(features={"energy": tf.constant([1.0, 2.0, 4.0])}),
        node_sets={
            "paper": NodeSet.from_fields(
                sizes=[2, 1, 2],
                features={
                    "numbers": tf.constant([[1.0, 2.0], [0.5, 0.0], [3.0, 1.0], [2.0, 2.0], [0.0, 1.0]]),
                    "venue": tf.constant([0, 4, 2, -1, 3], tf.int64),
                },
            ),
            "author": NodeSet.from_fields(sizes=[1, 1, 1], features={"age": tf.constant([0.1, 0.2, 0.3])}),
            "_readout": NodeSet.from_fields(sizes=[1, 1, 1], features={}),
        },
        edge_sets={
            "cites": edges(("paper", [0, 3]), ("paper", [1, 4]), [1, 0, 1], {"year": tf.constant([0.0, 1.0])}),
            "writes": edges(("author", [0, 1, 2]), ("paper", [0, 2, 3]), [1, 1, 1], {}),
            "_readout/seed": edges(("paper", [0, 2, 4]), ("_readout", [0, 1, 2]), [1, 1, 1], {}),
            "_readout/source": edges(("paper", [0, 2, 4]), ("_readout", [0, 1, 2]), [1, 1, 1], {}),
            "_readout/target": edges(("paper", [1, 2, 3]), ("_readout", [0, 1, 2]), [1, 1, 1], {}),
        },
    )


def _model(name, graph, task: Task = CLASSES, **hyperparameters: Any):
    features = {**FEATURES, **hyperparameters.pop("features", {})}
    arguments = {"units": 8, "num_layers": 1, "features": features, **hyperparameters}
    return getattr(ready, name)(graph.spec, objective=task.objective(), hyperparameters=arguments)


@pytest.mark.parametrize("name", [*MODELS, "ego_sage", "ego_gat", "ego_gin"])
def test_model_fn_is_pickled_by_its_name(name):
    model_fn = getattr(ready, name)

    assert pickle.loads(pickle.dumps(model_fn)) is model_fn


@pytest.mark.parametrize("name", MODELS)
def test_model_encodes_all_features_and_every_weight_learns(graph, name):
    model = _model(name, graph, num_layers=2, learning_rate=0.5)

    with tf.GradientTape() as tape:
        logits = model(graph)
        loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits([0, 1, 2], logits))
    gradients = dict(
        zip(
            (weight.name for weight in model.trainable_weights),
            tape.gradient(loss, model.trainable_weights),
            strict=True,
        )
    )

    assert logits.shape == (3, 3)
    assert logits.dtype == tf.float32
    assert [weight for weight, gradient in gradients.items() if gradient is None] == []
    assert all(isinstance(gradient, tf.Tensor) and np.isfinite(gradient).all() for gradient in gradients.values())


@pytest.mark.parametrize("name", MODELS)
def test_model_traces_to_no_operation_that_is_unsafe_under_concurrent_calls(graph, name):
    model = _model(name, graph, **({"normalization": "layer"} if name in ("gin", "graph_sage") else {}))

    traced = tf.function(lambda graph: model(graph, training=False)).get_concrete_function(graph.spec)

    definition = traced.graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    operations = {node.op for node in nodes}
    assert "MatMul" in operations
    assert not operations & {*UNSAFE_OPERATIONS}


@pytest.mark.parametrize("name", ["graph_sage", "hgt"])
def test_model_can_be_cut_behind_the_embeddings(graph, name):
    model = _model(name, graph)

    embeddings = tf_keras.Model(model.inputs, model.get_layer("embeddings").output)(graph)

    assert embeddings.shape == (3, 8)
    assert embeddings.dtype == tf.float32


@pytest.mark.parametrize(
    ("task", "shape"),
    [
        (NodeRegression(label_feature="price"), (3, 1)),
        (GraphRegression(label_feature="energy"), (3, 1)),
        (LinkPrediction(), (3,)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_model_ends_with_the_layers_of_the_task(graph, task, shape):
    assert _model("graph_sage", graph, task)(graph).shape == shape


def test_several_tasks_share_a_network(graph):
    task = MultiTask(tasks={"topic": CLASSES, "energy": GraphRegression(label_feature="energy")})

    output = _model("gcn", graph, task)(graph)

    assert {name: tuple(value.shape) for name, value in output.items()} == {"topic": (3, 3), "energy": (3, 1)}


@pytest.mark.parametrize(
    ("task", "states_are_left_out"),
    [
        (CLASSES, True),
        (NodeRegression(label_feature="price", pooling="max"), False),
        (GraphRegression(label_feature="energy"), False),
        (MultiTask(tasks={"topic": CLASSES, "energy": GraphRegression(label_feature="energy")}), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_last_states_that_no_task_reads_are_left_out(graph, task, states_are_left_out):
    # Of the five papers three are seeds.
    seeds = {name: graph.edge_sets[name] for name in ("cites", "writes", "_readout/seed")}
    graph = GraphTensor.from_pieces(context=graph.context, node_sets=graph.node_sets, edge_sets=seeds)
    model, whole = (_model("mpnn", graph, task, **options) for options in ({}, {"read_nodes_only": False}))
    whole.set_weights(model.get_weights())
    updated = model.get_layer("mpnn").get_output_at(0)

    states = tf_keras.Model(model.inputs, updated.node_sets["paper"]["hidden_state"])(graph).numpy()

    tf.nest.map_structure(np.testing.assert_allclose, model(graph), whole(graph))
    assert (not states[[1, 3]].any()) == states_are_left_out


def test_edges_are_encoded_where_the_network_uses_them(graph):
    named = {"edge_feature": "hidden_state", "features": {"encode_edges": True}}
    variants: list[dict[str, Any]] = [{}, named, {"edge_feature": None}]

    encoded, one, none = (_model("mpnn", graph, **options) for options in variants)

    assert encoded.count_params() == one.count_params() > none.count_params()


def test_hyperparameters_reach_the_network(graph):
    small, large = (_model("graph_sage", graph, num_layers=layers).count_params() for layers in (1, 3))

    assert small < large


@pytest.mark.parametrize("name", ["graph_sage", "mpnn", "gat_v2"])
def test_training_along_sorted_edges_gives_the_same_gradients(graph, name):
    tf_keras.utils.set_random_seed(1)
    model = _model(name, graph, dropout_rate=0.0)
    plain = _model(name, graph, dropout_rate=0.0, sort_edges=False)
    plain.set_weights(model.get_weights())

    def gradients(model):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(graph, training=True) ** 2)
        return tape.gradient(loss, model.trainable_weights)

    for gradient, expected in zip(gradients(model), gradients(plain), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


def test_l2_is_the_sum_of_squares_of_all_matrices(graph):
    model = _model("gcn", graph, l2=0.5)

    squares = [np.sum(weight.numpy() ** 2) for weight in model.trainable_weights if weight.shape.rank == 2]
    assert len(squares) < len(model.trainable_weights)
    assert [float(loss) for loss in model.losses] == pytest.approx([0.5 * sum(squares)])
    assert _model("gcn", graph).losses == []


def test_input_is_dropped_in_training_only_and_scaled(graph):
    # Without any other dropout. Half of the values are dropped and the others doubled, so on average nothing changes.
    model = _model("gcn", graph, dropout_rate=0.0, input_dropout_rate=0.5)
    plain = _model("gcn", graph, dropout_rate=0.0)
    plain.set_weights([weight for weight in model.get_weights() if weight.dtype == np.float32])

    trained = [model(graph, training=True).numpy() for _ in range(2)]

    np.testing.assert_allclose(model(graph), plain(graph), rtol=1e-6)
    assert not np.allclose(trained[0], trained[1])
    np.testing.assert_array_equal(plain(graph, training=True), plain(graph))


def test_unknown_hyperparameters_are_refused(graph):
    with pytest.raises(ValueError, match=r"`hyperparameters` must be arguments of gcn\(\), .*; got \['num_heads'\]"):
        _model("gcn", graph, num_heads=2)


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        ({"units": "16"}, r"must have the types that gcn\(\) .*; got .*'units': '16'"),
        ({"l2": -1}, "`hyperparameters` must have a number of at least 0 as 'l2'; got -1"),
        ({"l2": "0.1"}, "as 'l2'; got '0.1'"),
        (
            {"input_dropout_rate": 0.5, "features": {"input_dropout_rate": 0.1}},
            "must have 'input_dropout_rate' once; got 0.5, and 0.1 in 'features'",
        ),
        ({"input_dropout_rate": 1.0}, r"`input_dropout_rate` must be in \[0, 1\); got 1.0"),
        ({"features": {"numerics": []}}, "unexpected keyword argument 'numerics'"),
    ],
)
def test_hyperparameters_of_other_kinds_are_refused(graph, hyperparameters, message):
    with pytest.raises(ValueError, match=message):
        _model("gcn", graph, **hyperparameters)


def test_features_that_cannot_be_encoded_are_refused(graph):
    with pytest.raises(ValueError, match="venue"):
        ready.gcn(graph.spec, objective=CLASSES.objective())
