import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph
from tfx_gnn.graph.graph_constants import CONTEXT, SOURCE, TARGET
from tfx_gnn.graph.ops.normalization import softmax, softmax_edges_per_node

# softmax([1, 2])
LOW, HIGH = 1 / (1 + math.e), math.e / (1 + math.e)


def test_edges_of_a_node_sum_to_one(run, graph):
    normalized = run(lambda graph: softmax(graph, TARGET, edge_set_name="ab", feature_name="w"), graph)
    same = run(lambda graph: softmax_edges_per_node(graph, "ab", TARGET, feature_name="w"), graph)

    np.testing.assert_allclose(normalized, [LOW, HIGH, 1.0], rtol=1e-6)
    np.testing.assert_allclose(same, normalized)


def test_nodes_of_a_component_sum_to_one(run, graph):
    normalized = run(lambda graph: softmax(graph, CONTEXT, node_set_name="a", feature_name="x"), graph)

    np.testing.assert_allclose(normalized, [LOW, HIGH, 1.0], rtol=1e-6)


def test_several_edge_sets_share_one_sum(run, graph):
    values = [tf.constant([0.0, 0.0, 0.0]), tf.constant([0.0])]

    normalized = run(lambda graph: softmax(graph, TARGET, edge_set_name=["ab", "late"], feature_value=values), graph)

    np.testing.assert_allclose(normalized[0], [0.5, 0.5, 0.5])
    np.testing.assert_allclose(normalized[1], [0.5])


def test_large_values_do_not_overflow(graph):
    normalized = softmax(graph, TARGET, edge_set_name="ab", feature_value=tf.constant([1e30, 1e30, -1e30]))

    np.testing.assert_allclose(normalized, [0.5, 0.5, 1.0])


def test_ragged_values_are_normalized_element_by_element(graph):
    values = tf.ragged.constant([[1.0, 2.0], [2.0, 1.0], [5.0]])

    normalized = softmax(graph, TARGET, edge_set_name="ab", feature_value=values)

    assert normalized.row_lengths().numpy().tolist() == [2, 2, 1]
    np.testing.assert_allclose(normalized.flat_values, [LOW, HIGH, HIGH, LOW, 1.0], rtol=1e-6)


def test_the_gradient_is_that_of_softmax(graph):
    values = tf.Variable([1.0, 2.0, 3.0])

    with tf.GradientTape() as tape:
        first = softmax(graph, TARGET, edge_set_name="ab", feature_value=values)[0]

    np.testing.assert_allclose(
        tf.convert_to_tensor(tape.gradient(first, values)), [LOW * HIGH, -LOW * HIGH, 0.0], rtol=1e-5
    )


@settings(max_examples=25)
@given(data=st.data(), feature=st.sampled_from(["scalar", "vector"]))
def test_agrees_with_the_oracle(oracle, graph_plans, feature, data):
    plan = data.draw(graph_plans())

    def results(library):
        graph = plan.build(library)
        return [
            library.softmax(graph, 0, edge_set_name="ab", feature_name=feature),
            *library.softmax(graph, 1, edge_set_name=["ba", "aa"], feature_name=feature),
            library.softmax(graph, "context", node_set_name="b", feature_name=feature),
        ]

    for ours, theirs in zip(results(tfx_gnn.graph), results(oracle), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize(
    ("tag", "arguments", "error", "message"),
    [
        (TARGET, {"edge_set_name": "ab"}, ValueError, r"softmax\(\) requires exactly one of feature_name"),
        (CONTEXT, {"feature_name": "x"}, ValueError, "exactly one of edge_set_name, node_set_name but got 0"),
        (TARGET, {"edge_set_name": ["ab", "ba"], "feature_name": "w"}, ValueError, "same endpoint"),
        (
            SOURCE,
            {"edge_set_name": "late", "feature_value": tf.constant([1])},
            tf.errors.InvalidArgumentError,
            "floating-point values",
        ),
    ],
)
def test_bad_arguments_are_refused(graph, tag, arguments, error, message):
    with pytest.raises(error, match=message):
        softmax(graph, tag, **arguments)
