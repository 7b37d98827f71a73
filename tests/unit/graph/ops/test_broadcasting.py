import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph
from tfx_gnn.graph.graph_constants import CONTEXT, SOURCE, TARGET
from tfx_gnn.graph.ops.broadcasting import (
    broadcast,
    broadcast_context_to_edges,
    broadcast_context_to_nodes,
    broadcast_node_to_edges,
)


def test_an_edge_gets_the_value_of_its_node(run, graph):
    def both_ends(graph):
        return [
            broadcast_node_to_edges(graph, "ab", SOURCE, feature_name="x"),
            broadcast_node_to_edges(graph, "ab", TARGET, feature_name="x"),
        ]

    sources, targets = run(both_ends, graph)

    assert sources.numpy().tolist() == [1.0, 2.0, 3.0]
    assert targets.numpy().tolist() == [5.0, 5.0, 6.0]


def test_ragged_values_and_strings_are_broadcast(run, graph):
    ragged = run(lambda graph: broadcast_node_to_edges(graph, "late", SOURCE, feature_name="r"), graph)
    strings = run(lambda graph: broadcast_node_to_edges(graph, "late", SOURCE, feature_name="id"), graph)

    assert ragged.to_list() == [[]]
    assert strings.numpy().tolist() == [b"r"]


def test_a_value_may_come_from_outside_the_graph(run, graph):
    value = tf.constant([[1], [2], [3]])

    edges = run(lambda graph, value: broadcast_node_to_edges(graph, "ab", SOURCE, feature_value=value), graph, value)

    assert edges.numpy().tolist() == [[1], [2], [3]]


def test_items_get_the_value_of_their_component(run, graph):
    nodes = run(lambda graph: broadcast_context_to_nodes(graph, "a", feature_name="c"), graph)
    edges = run(lambda graph: broadcast_context_to_edges(graph, "late", feature_name="c"), graph)

    assert nodes.numpy().tolist() == [10.0, 10.0, 20.0]
    assert edges.numpy().tolist() == [20.0]


def test_a_sequence_of_names_gives_a_list(run, graph):
    edges = run(lambda graph: broadcast(graph, SOURCE, edge_set_name=["ab", "late"], feature_name="x"), graph)
    nodes = run(lambda graph: broadcast(graph, CONTEXT, node_set_name=["a", "b"], feature_name="c"), graph)
    single = run(lambda graph: broadcast(graph, CONTEXT, edge_set_name="late", feature_name="c"), graph)

    assert [values.numpy().tolist() for values in edges] == [[1.0, 2.0, 3.0], [3.0]]
    assert [values.numpy().tolist() for values in nodes] == [[10.0, 10.0, 20.0], [10.0, 20.0]]
    assert single.numpy().tolist() == [20.0]


def test_static_sizes_stay_static(graph):
    shapes = []

    @tf.function(input_signature=[graph.spec])
    def trace(graph):
        shapes.append(broadcast_node_to_edges(graph, "ab", SOURCE, feature_name="x").shape.as_list())
        shapes.append(broadcast_context_to_nodes(graph, "a", feature_name="c").shape.as_list())
        return 0

    trace(graph)

    assert shapes == [[3], [3]]


@settings(max_examples=25)
@given(data=st.data(), feature=st.sampled_from(["scalar", "vector", "count", "name", "ragged"]))
def test_agrees_with_the_oracle(oracle, plain, graph_plans, feature, data):
    plan = data.draw(graph_plans())

    def results(library):
        graph = plan.build(library)
        return plain(
            [
                library.broadcast_node_to_edges(graph, "ab", 0, feature_name=feature),
                library.broadcast(graph, 1, edge_set_name=["ba", "aa"], feature_name=feature),
                library.broadcast_context_to_nodes(graph, "b", feature_name=feature),
                library.broadcast_context_to_edges(graph, "aa", feature_name=feature),
            ]
        )

    assert results(tfx_gnn.graph) == results(oracle)


@pytest.mark.parametrize(
    ("tag", "arguments", "message"),
    [
        (SOURCE, {"node_set_name": "a", "feature_name": "x"}, "requires to pass edge_set_name, not node_set_name"),
        (SOURCE, {"feature_name": "x"}, "requires to pass edge_set_name"),
        (CONTEXT, {"feature_name": "c"}, "exactly one of edge_set_name, node_set_name but got 0"),
        (CONTEXT, {"feature_name": "c", "node_set_name": "a", "edge_set_name": "ab"}, "but got 2"),
        (CONTEXT, {"feature_name": "c", "node_set_name": []}, "node_set_name to be a non-empty Sequence"),
        (SOURCE, {"edge_set_name": "ab"}, "exactly one of feature_name, feature_value; got none"),
        (SOURCE, {"edge_set_name": "ab", "feature_name": "x", "feature_value": [1]}, "got both"),
        ("nodes", {"edge_set_name": "ab", "feature_name": "x"}, "got tag nodes but requires"),
        (
            SOURCE,
            {"edge_set_name": ["ab", "ba"], "feature_name": "x"},
            r"same endpoint for all named edge sets but got node sets \['a', 'b'\]",
        ),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(graph, tag, arguments, message):
    with pytest.raises(ValueError, match=message):
        broadcast(graph, tag, **arguments)


def test_a_batch_of_graphs_is_refused(graph):
    batch = tf.data.Dataset.from_tensors(graph).batch(1).get_single_element()

    with pytest.raises(ValueError, match=r"broadcast_node_to_edges\(\) requires a scalar GraphTensor"):
        broadcast_node_to_edges(batch, "ab", SOURCE, feature_name="x")
    with pytest.raises(ValueError, match=r"broadcast_context_to_nodes\(\) requires a scalar GraphTensor"):
        broadcast_context_to_nodes(batch, "a", feature_name="c")


def test_an_unknown_feature_is_named(graph):
    with pytest.raises(KeyError, match="nope"):
        broadcast_node_to_edges(graph, "ab", SOURCE, feature_name="nope")
