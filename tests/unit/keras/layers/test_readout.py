import numpy as np
import pytest
import tf_keras

from tfx_gnn.keras.layers import Readout, ReadoutFirstNode


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
