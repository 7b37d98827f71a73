import numpy as np
import pytest
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import (
    AddReadoutFromFirstNode,
    Broadcast,
    Pool,
    Readout,
    ReadoutFirstNode,
    ReadoutNamed,
    ReadoutNamedIntoFeature,
    StructuredReadout,
    StructuredReadoutIntoFeature,
)


def test_a_feature_is_read_from_each_place(graph):
    readout = Readout(feature_name="hidden_state")

    assert readout(graph, node_set_name="a") is graph.node_sets["a"]["hidden_state"]
    assert readout(graph, edge_set_name="ab") is graph.edge_sets["ab"]["hidden_state"]
    assert readout(graph, from_context=True) is graph.context["hidden_state"]


def test_the_hidden_state_is_the_default(graph, batch):
    assert Readout(node_set_name="a")(graph).shape == [3, 2]
    assert Readout(node_set_name="a")(batch).shape == [1, 3, 2]
    assert Readout(node_set_name="a")(graph, feature_name="x").shape == [3, 1]


def test_arguments_may_be_repeated_alike(graph):
    assert Readout(node_set_name="a", feature_name="x")(graph, node_set_name="a", feature_name="x").shape == [3, 1]


@pytest.mark.parametrize(
    ("at_init", "at_call", "message"),
    [
        (
            {"node_set_name": "a"},
            {"node_set_name": "b"},
            "initialized with node_set_name='a' but called with node_set_name='b'",
        ),
        (
            {"node_set_name": "a"},
            {"edge_set_name": "ab"},
            "initialized with node_set_name='a' but called with edge_set_name",
        ),
        (
            {"feature_name": "x"},
            {"feature_name": "y"},
            "initialized with feature_name=x but called with feature_name=y",
        ),
        ({}, {}, "requires one of edge_set_name, node_set_name or from_context"),
        (
            {},
            {"node_set_name": "a", "from_context": True},
            "at most one of edge_set_name, node_set_name and from_context",
        ),
    ],
)
def test_contradictions_are_refused(graph, at_init, at_call, message):
    with pytest.raises(ValueError, match=message):
        Readout(**at_init)(graph, **at_call)


def test_two_places_are_refused_at_once():
    with pytest.raises(ValueError, match="was passed edge_set_name='ab', node_set_name='a'"):
        Readout(node_set_name="a", edge_set_name="ab")


def test_unknown_names_are_refused(graph):
    with pytest.raises(KeyError, match="nope"):
        Readout(node_set_name="nope")(graph)
    with pytest.raises(KeyError, match="nope"):
        Readout(node_set_name="a", feature_name="nope")(graph)


def test_properties_tell_the_arguments():
    assert Readout(node_set_name="a", feature_name="x").location == {"node_set_name": "a"}
    assert Readout(node_set_name="a", feature_name="x").feature_name == "x"
    assert Readout().location == {}
    assert ReadoutFirstNode(node_set_name="a").location == {"node_set_name": "a"}
    assert ReadoutFirstNode().location == {}
    assert ReadoutFirstNode().feature_name is None


def test_the_first_node_of_each_component_is_read(graph):
    assert ReadoutFirstNode(node_set_name="a")(graph).numpy().tolist() == [[0.0, 1.0], [4.0, 5.0]]
    assert ReadoutFirstNode()(graph, node_set_name="a", feature_name="x").numpy().tolist() == [[1.0], [3.0]]


def test_the_first_node_needs_one_node_set(graph):
    with pytest.raises(
        ValueError, match="ReadoutFirstNode layer requires node_set_name to be set at init or call time"
    ):
        ReadoutFirstNode()(graph)
    with pytest.raises(ValueError, match="initialized with node_set_name=a but called with node_set_name=b"):
        ReadoutFirstNode(node_set_name="a")(graph, node_set_name="b")


@pytest.mark.parametrize(
    "layer",
    [
        Readout(node_set_name="a", feature_name="x"),
        Readout(edge_set_name="ab"),
        Readout(from_context=True),
        ReadoutFirstNode(node_set_name="a", feature_name="x"),
    ],
)
def test_a_model_is_made_again(graph, spec, again, layer):
    inputs = tf_keras.Input(type_spec=spec)
    model = tf_keras.Model(inputs, layer(inputs))

    np.testing.assert_array_equal(again(model)(graph), layer(graph))


SEEDS = [[2.0, 3.0], [4.0, 5.0]]


def test_seeds_are_read(graph):
    assert StructuredReadout("seed")(graph).numpy().tolist() == SEEDS
    assert StructuredReadout()(graph, key="seed").numpy().tolist() == SEEDS
    assert StructuredReadout("seed", feature_name="x", validate=False)(graph, key="seed").numpy().tolist() == [
        [2.0],
        [3.0],
    ]


def test_older_names_are_the_same_layers():
    assert ReadoutNamed is StructuredReadout
    assert ReadoutNamedIntoFeature is StructuredReadoutIntoFeature


def test_seeds_are_stored_on_the_readout_nodes(graph):
    stored = StructuredReadoutIntoFeature("seed", feature_name="x", new_feature_name="y", remove_input_feature=True)(
        graph
    )

    assert stored.node_sets["_readout"]["y"].numpy().tolist() == [[2.0], [3.0]]
    assert set(stored.node_sets["a"].features) == {"hidden_state"}


def test_a_stored_feature_is_only_replaced_on_demand(graph):
    with pytest.raises(ValueError, match="Output feature 'label' already exists"):
        StructuredReadoutIntoFeature("seed", feature_name="x", new_feature_name="label")(graph)
    replaced = StructuredReadoutIntoFeature("seed", feature_name="x", new_feature_name="label", overwrite=True)(graph)

    assert replaced.node_sets["_readout"]["label"].numpy().tolist() == [[2.0], [3.0]]


def test_a_structure_to_first_nodes_is_added(graph):
    with_root = AddReadoutFromFirstNode("root", node_set_name="a")(graph)

    assert StructuredReadout("root", feature_name="x")(with_root).numpy().tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize("layer", [StructuredReadout, StructuredReadoutIntoFeature])
def test_exactly_one_key_is_needed(graph, layer):
    options = {"feature_name": "x"}

    with pytest.raises(
        ValueError, match=f"{layer.__name__} layer requires a readout key to be set at init or call time"
    ):
        layer(**options)(graph)
    with pytest.raises(ValueError, match="initialized with key=seed but called with key=other"):
        layer("seed", **options)(graph, key="other")


def test_a_model_with_a_readout_structure_is_made_again(graph, spec, again):
    inputs = tf_keras.Input(type_spec=spec)
    with_root = AddReadoutFromFirstNode("root", node_set_name="a")(inputs)
    stored = StructuredReadoutIntoFeature("root", feature_name="x")(with_root)
    model = tf_keras.Model(inputs, [StructuredReadout("seed")(stored), stored.node_sets["_readout"]["x"]])

    seeds, roots = again(model)(graph)

    np.testing.assert_array_equal(seeds, SEEDS)
    np.testing.assert_array_equal(roots, [[1.0], [3.0]])


@pytest.mark.parametrize(
    "layer",
    [
        StructuredReadout("seed"),
        StructuredReadoutIntoFeature("seed", feature_name="x"),
        AddReadoutFromFirstNode("root", node_set_name="a"),
        ReadoutFirstNode(node_set_name="a"),
        Broadcast(tfx_gnn.CONTEXT, node_set_name="a"),
        Pool(tfx_gnn.CONTEXT, "sum", node_set_name="a"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_batch_of_graphs_is_refused(batch, layer):
    with pytest.raises(ValueError, match=f"{type(layer).__name__} requires a scalar GraphTensor"):
        layer(batch)
