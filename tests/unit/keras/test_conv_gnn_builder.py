import numpy as np
import pytest
import tf_keras

import tfx_gnn
from tfx_gnn.keras import ConvGNNBuilder
from tfx_gnn.keras.layers import GraphUpdate, NextStateFromConcat, NodeSetUpdate, SimpleConv

SOURCE, TARGET = tfx_gnn.SOURCE, tfx_gnn.TARGET


class Recorded:
    """A builder, and what its factories were called with."""

    def __init__(self, **options):
        self.convolutions = []
        self.next_states = []
        self.builder = ConvGNNBuilder(self._convolution, self._next_state, **options)

    def _convolution(self, edge_set_name, **arguments):
        self.convolutions.append((edge_set_name, arguments))
        return SimpleConv(tf_keras.layers.Dense(2), **arguments)

    def _next_state(self, node_set_name):
        self.next_states.append(node_set_name)
        return NextStateFromConcat(tf_keras.layers.Dense(4))


def test_every_receiver_is_updated(graph):
    made = Recorded(receiver_tag=TARGET)

    updated = made.builder.Convolve()(graph)

    assert made.convolutions == [("ab", {"receiver_tag": TARGET})]
    assert made.next_states == ["b"]
    assert updated.node_sets["b"]["hidden_state"].shape == [2, 4]
    assert updated.node_sets["a"]["hidden_state"].shape == [3, 2]


def test_the_other_end_may_receive(graph):
    made = Recorded(receiver_tag=SOURCE)

    assert made.builder.Convolve(name="round")(graph).node_sets["a"]["hidden_state"].shape == [3, 4]
    assert made.builder.Convolve(name="round").name == "round"


def test_without_a_tag_the_target_receives_and_the_factory_is_not_told(graph):
    made = Recorded()

    made.builder.Convolve()(graph)

    assert made.convolutions == [("ab", {})]
    assert made.next_states == ["b"]


def test_a_selection_of_node_sets_is_updated(graph):
    made = Recorded(receiver_tag=TARGET)

    made.builder.Convolve(["b", "b"])(graph)
    unchanged = made.builder.Convolve(set())(graph)

    assert made.next_states == ["b"]
    assert unchanged.spec == graph.spec


@pytest.mark.parametrize("node_set", ["a", "zz"])
def test_others_cannot_be_updated(graph, node_set):
    node_sets = {"b", node_set}

    with pytest.raises(ValueError, match=rf"not receive inputs from any edge set; got \['{node_set}'\]"):
        Recorded(receiver_tag=TARGET).builder.Convolve(node_sets)(graph)


def test_auxiliary_sets_cannot_be_updated():
    with pytest.raises(ValueError, match="aux node set '_readout'"):
        Recorded(receiver_tag=TARGET).builder.Convolve({"_readout"})


def test_ordinary_edges_to_an_auxiliary_set_are_refused(graph):
    named_wrong = tfx_gnn.GraphTensor.from_pieces(
        node_sets=graph.node_sets, edge_sets={"seed": graph.edge_sets["_readout/seed"]}
    )

    with pytest.raises(
        ValueError, match=r"'_readout' is auxiliary but the incident edge set 'seed' \(at tag 1\) is not"
    ):
        Recorded(receiver_tag=TARGET).builder.Convolve()(named_wrong)


def test_the_context_cannot_receive(graph):
    with pytest.raises(ValueError, match="`receiver_tag` must be the integer tag"):
        Recorded(receiver_tag=tfx_gnn.CONTEXT).builder.Convolve()(graph)


def test_updates_may_come_from_factories(graph):
    calls = []

    def node_set_update(node_set_name, edge_set_inputs, next_state):
        calls.append((node_set_name, list(edge_set_inputs)))
        return NodeSetUpdate(edge_set_inputs, next_state)

    def graph_update(deferred_init_callback, name):
        calls.append(name)
        return GraphUpdate(deferred_init_callback=deferred_init_callback, name=name)

    made = Recorded(receiver_tag=TARGET, node_set_update_factory=node_set_update, graph_update_factory=graph_update)
    made.builder.Convolve(name="round")(graph)

    assert calls == ["round", ("b", ["ab"])]


def test_layers_are_made_in_the_order_of_the_oracle(oracle, make_graph):
    def order(library):
        calls = []

        def convolution(edge_set_name, **tag):
            calls.append(("convolution", edge_set_name, tag))
            return library.keras.layers.SimpleConv(tf_keras.layers.Dense(2), **tag)

        def next_state(node_set_name):
            calls.append(("next state", node_set_name))
            return library.keras.layers.NextStateFromConcat(tf_keras.layers.Dense(2))

        graph = make_graph(library)
        edges = graph.edge_sets["ab"]
        back = library.Adjacency.from_indices(("b", edges.adjacency.target), ("a", edges.adjacency.source))
        graph = library.GraphTensor.from_pieces(
            context=graph.context,
            node_sets=graph.node_sets,
            edge_sets={
                "ab": edges,
                "ba": library.EdgeSet.from_fields(sizes=edges.sizes, adjacency=back),
                "again": edges,
            },
        )
        library.keras.ConvGNNBuilder(convolution, next_state, receiver_tag=TARGET).Convolve()(graph)
        return calls

    assert order(tfx_gnn) == order(oracle)


def test_each_round_has_weights_of_its_own(graph, spec, again):
    builder = Recorded(receiver_tag=TARGET).builder
    inputs = tf_keras.Input(type_spec=spec)
    outputs = builder.Convolve()(builder.Convolve()(inputs)).node_sets["b"]["hidden_state"]
    model = tf_keras.Model(inputs, outputs)

    assert len(model.weights) == 8
    np.testing.assert_array_equal(again(model)(graph), model(graph))
