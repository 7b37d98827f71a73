"""Which models have layers that can be computed one after the other for a whole graph."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import GraphUpdate, NextStateFromConcat, NodeSetUpdate, SimpleConv, StructuredReadout
from tfx_gnn.models import model_fns
from tfx_gnn.models.tasks import GraphClassification, NodeClassification
from tfx_gnn.serving.layerwise_model import ReadRelation
from tfx_gnn.training.export.layer_functions import layer_functions
from tfx_gnn.training.export.model_layers import find_layers

GRAPH = tfx_gnn.GraphTensor.from_pieces(
    context=tfx_gnn.Context.from_fields(features={}, sizes=tf.constant([1])),
    node_sets={
        "n": tfx_gnn.NodeSet.from_fields(sizes=tf.constant([3]), features={"x": tf.ones([3, 4])}),
        "_readout": tfx_gnn.NodeSet.from_fields(sizes=tf.constant([1]), features={}),
    },
    edge_sets={
        "e": tfx_gnn.EdgeSet.from_fields(
            sizes=tf.constant([2]),
            features={"w": tf.ones([2])},
            adjacency=tfx_gnn.Adjacency.from_indices(("n", tf.constant([0, 1])), ("n", tf.constant([1, 2]))),
        ),
        "_readout/seed": tfx_gnn.EdgeSet.from_fields(
            sizes=tf.constant([1]),
            adjacency=tfx_gnn.Adjacency.from_indices(("n", tf.constant([0])), ("_readout", tf.constant([0]))),
        ),
    },
)
SPEC = GRAPH.spec.relax(num_components=True, num_nodes=True, num_edges=True)
OBJECTIVE = NodeClassification(label_feature="y", num_classes=3).objective()


def model_of(network: str, *, objective: Any = OBJECTIVE, **hyperparameters: Any) -> tf_keras.Model:
    arguments = {"units": 4, "num_layers": 1, **hyperparameters}
    return getattr(model_fns, network)(SPEC, objective=objective, hyperparameters=arguments)


def test_relations_are_those_of_the_convolutions():
    found = find_layers(model_of("gat_v2", num_layers=2, receiver_tags=[tfx_gnn.TARGET]), OBJECTIVE)
    weighted = find_layers(
        model_of(
            "gcn",
            degree_normalization="in",
            edge_weight_feature_name="w",
            features={"encode_edges": False},
        ),
        OBJECTIVE,
    )

    to_target = ReadRelation(edge_set="e", receiver_tag=tfx_gnn.TARGET, sender="n", features=("hidden_state",))
    assert [dict(of_layer) for of_layer in found.relations] == [{"n": (to_target,)}] * 2
    assert [way.receiver_tag for way in weighted.relations[0]["n"]] == [tfx_gnn.SOURCE, tfx_gnn.TARGET]
    assert {way.features for way in weighted.relations[0]["n"]} == {("w",)}
    assert found.seed_set == "n"
    assert found.combine is None


def test_half_precision_is_written_down():
    policy = tf_keras.mixed_precision.global_policy()

    def plan():
        found = find_layers(model_of("gcn", degree_normalization="in"), OBJECTIVE)
        # These are not called before the functions are.
        return layer_functions(found, encoder_inputs=lambda _: GRAPH, served_outputs=lambda *_: {})[1]

    try:
        tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
        half = plan()
    finally:
        tf_keras.mixed_precision.set_global_policy(policy)

    assert half.is_half_precision
    assert not plan().is_half_precision


@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        ("gcn", {}, "unless `degree_normalization` is one of .*; got 'in_out'"),
        ("gcn", {"degree_normalization": "in_in"}, "unless `degree_normalization` is one of .*; got 'in_in'"),
        ("gin", {}, "unless `normalization` is not 'graph'"),
        ("mpnn", {"update_edges": True}, "unless layers update nodes alone"),
    ],
)
def test_networks_that_read_more_than_a_node_and_its_edges_are_refused(network, options, message):
    with pytest.raises(ValueError, match=f"`layerwise_inference` must be False {message}"):
        find_layers(model_of(network, **options), OBJECTIVE)


def test_tasks_that_read_more_than_the_seed_are_refused():
    for objective in (
        NodeClassification(label_feature="y", num_classes=3, pooling="mean").objective(),
        GraphClassification(label_feature="y", num_classes=3).objective(),
    ):
        with pytest.raises(ValueError, match="unless every task reads the state of the seed alone; got "):
            find_layers(model_of("graph_sage", objective=objective), objective)


def test_heads_that_read_more_than_the_seed_are_refused():
    graph = inputs = tf_keras.layers.Input(type_spec=SPEC)
    whole = model_of("graph_sage")
    for layer in whole.layers[1:]:
        graph = layer(graph)
        if isinstance(layer, tf_keras.Sequential):
            break
    pooled = tfx_gnn.keras.layers.Pool(tfx_gnn.CONTEXT, "mean", node_set_name="n")(graph)
    both = tf_keras.layers.Concatenate()([StructuredReadout("seed")(graph), pooled])

    with pytest.raises(ValueError, match="unless the states of seeds alone lead to predictions"):
        find_layers(tf_keras.Model(inputs, tf_keras.layers.Dense(3)(both)), OBJECTIVE)


def test_own_layers_are_refused_unless_their_convolutions_have_edges_alone():
    def model(*layers: Any) -> tf_keras.Model:
        graph = inputs = tf_keras.layers.Input(type_spec=SPEC)

        def state(node_set: Any, *, node_set_name: str) -> dict[str, Any]:
            return {"hidden_state": node_set["x"], "first": node_set["x"][:, 0]} if node_set_name == "n" else {}

        graph = tfx_gnn.keras.layers.MapFeatures(node_sets_fn=state)(graph)
        for layer in layers:
            graph = layer(graph)
        return tf_keras.Model(inputs, tf_keras.layers.Dense(3)(StructuredReadout("seed")(graph)))

    def update(**inputs: Any) -> GraphUpdate:
        return GraphUpdate(
            node_sets={"n": NodeSetUpdate(inputs, NextStateFromConcat(tf_keras.layers.Dense(4)))},
        )

    class Mine(tf_keras.layers.Layer):
        def call(self, graph: Any, *, edge_set_name: str = "") -> Any:
            return graph.node_sets["n"]["hidden_state"] if edge_set_name else graph

    def local() -> SimpleConv:
        return SimpleConv(tf_keras.layers.Dense(2), receiver_tag=tfx_gnn.TARGET)

    found = find_layers(model(update(e=local()), tf_keras.Sequential([update(e=local())])), OBJECTIVE)
    assert [of_layer["n"][0].edge_set for of_layer in found.relations] == ["e", "e"]
    with pytest.raises(ValueError, match="unless convolutions are known to be local; got Mine"):
        find_layers(model(update(e=Mine())), OBJECTIVE)
    with pytest.raises(ValueError, match="unless every layer is a graph update of this library; got Mine"):
        find_layers(model(tf_keras.Sequential([update(e=local()), Mine()])), OBJECTIVE)
    for layers in ([Mine()], [update(e=local()), Mine(), update(e=local())]):
        with pytest.raises(ValueError, match="unless graph updates of this library follow each other"):
            find_layers(model(*layers), OBJECTIVE)
    for layer in (tfx_gnn.keras.layers.AddSelfLoops("e"), Mine()):
        message = rf"unless FeatureEncoder or MapFeatures alone .*; got \['{type(layer).__name__}'\] before the first"
        with pytest.raises(ValueError, match=message):
            find_layers(model(layer, update(e=local())), OBJECTIVE)
    with pytest.raises(ValueError, match="unless a functional model reads the states of seeds in one layer"):
        find_layers(tf_keras.Sequential([tf_keras.layers.Dense(3)]), OBJECTIVE)
