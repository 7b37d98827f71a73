import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph
from tfx_gnn.graph.graph_constants import CONTEXT, SOURCE, TARGET
from tfx_gnn.graph.ops.pooling import (
    get_registered_reduce_operation_names,
    node_degree,
    pool,
    pool_edges_to_context,
    pool_edges_to_node,
    pool_nodes_to_context,
)

REDUCE_TYPES = ["max", "max_no_inf", "mean", "min", "min_no_inf", "prod", "sum"]


def test_known_reductions_are_listed():
    assert sorted(get_registered_reduce_operation_names()) == REDUCE_TYPES


@pytest.mark.parametrize(
    ("reduce_type", "expected"),
    [
        ("sum", [3.0, 3.0]),
        ("mean", [1.5, 3.0]),
        ("prod", [2.0, 3.0]),
        ("max", [2.0, 3.0]),
        ("max_no_inf", [2.0, 3.0]),
        ("min", [1.0, 3.0]),
        ("min_no_inf", [1.0, 3.0]),
    ],
)
def test_edges_are_reduced_at_their_target(run, graph, reduce_type, expected):
    pooled = run(lambda graph: pool_edges_to_node(graph, "ab", TARGET, reduce_type, feature_name="w"), graph)

    assert pooled.numpy().tolist() == expected


@pytest.mark.parametrize(
    ("reduce_type", "without_edges"),
    [
        ("sum", 0.0),
        ("mean", 0.0),
        ("prod", 1.0),
        ("max", float(np.finfo(np.float32).min)),
        ("max_no_inf", 0.0),
        ("min", float(np.finfo(np.float32).max)),
        ("min_no_inf", 0.0),
    ],
)
def test_a_node_without_edges_gets_the_neutral_value(run, graph, reduce_type, without_edges):
    pooled = run(
        lambda graph: pool(graph, SOURCE, edge_set_name="late", reduce_type=reduce_type, feature_name="w"), graph
    )

    assert pooled.numpy().tolist() == [without_edges, without_edges, 7.0]


def test_no_inf_keeps_the_lowest_number_if_it_is_a_value(graph):
    lowest = tf.constant([tf.float32.min])

    pooled = pool(graph, SOURCE, edge_set_name="late", reduce_type="max_no_inf", feature_value=lowest)

    assert pooled.numpy().tolist() == [0.0, 0.0, tf.float32.min]


def test_several_edge_sets_count_as_one(run, graph):
    pooled = run(
        lambda graph: pool(graph, TARGET, edge_set_name=["ab", "late"], reduce_type="mean", feature_name="w"), graph
    )

    assert pooled.numpy().tolist() == [1.5, 5.0]


def test_nodes_and_edges_are_reduced_per_component(run, graph):
    nodes = run(lambda graph: pool_nodes_to_context(graph, "a", feature_name="x"), graph)
    edges = run(lambda graph: pool_edges_to_context(graph, "ab", "max", feature_name="w"), graph)
    both = run(lambda graph: pool(graph, CONTEXT, node_set_name=["a", "b"], reduce_type="sum", feature_name="x"), graph)

    assert nodes.numpy().tolist() == [3.0, 3.0]
    assert edges.numpy().tolist() == [2.0, 3.0]
    assert both.numpy().tolist() == [8.0, 9.0]


def test_reductions_are_concatenated_in_the_order_given(run, graph):
    values = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    pooled = run(
        lambda graph, values: pool(graph, TARGET, edge_set_name="ab", reduce_type="mean|sum", feature_value=values),
        graph,
        values,
    )

    assert pooled.numpy().tolist() == [[2.0, 3.0, 4.0, 6.0], [5.0, 6.0, 5.0, 6.0]]


def test_ragged_values_are_aligned_at_their_starts(run, graph):
    pooled = run(lambda graph: pool_nodes_to_context(graph, "a", "sum", feature_name="r"), graph)
    both = run(lambda graph: pool_nodes_to_context(graph, "a", "max_no_inf|sum", feature_name="r"), graph)

    assert pooled.to_list() == [[4.0, 2.0], []]
    assert both.to_list() == [[3.0, 2.0, 4.0, 2.0], []]


def test_ragged_values_of_several_sets_are_reduced(graph):
    values = tf.ragged.constant([[1.0, 2.0], [3.0, 4.0], [5.0]]), tf.ragged.constant([[6.0]])

    pooled = pool(graph, TARGET, edge_set_name=["ab", "late"], reduce_type="sum", feature_value=values)

    assert pooled.to_list() == [[4.0, 6.0], [11.0]]


def test_degree_counts_edges_in_the_index_dtype(run, graph):
    degrees = run(lambda graph: [node_degree(graph, "ab", TARGET), node_degree(graph, "late", SOURCE)], graph)

    assert [degree.numpy().tolist() for degree in degrees] == [[2, 1], [0, 0, 1]]
    assert {degree.dtype for degree in degrees} == {tf.int32}
    assert node_degree(graph.with_indices_dtype(tf.int64), "ab", TARGET).dtype == tf.int64


def test_a_graph_without_items_gives_empty_results():
    library = tfx_gnn.graph
    none = tf.zeros([0], tf.int32)
    empty = library.GraphTensor.from_pieces(
        node_sets={"a": library.NodeSet.from_fields(sizes=none, features={"x": tf.zeros([0, 2])})},
        edge_sets={
            "aa": library.EdgeSet.from_fields(
                sizes=none,
                features={"w": tf.zeros([0, 3])},
                adjacency=library.Adjacency.from_indices(("a", none), ("a", none)),
            )
        },
    )

    assert pool(empty, TARGET, edge_set_name="aa", reduce_type="mean", feature_name="w").shape == [0, 3]
    assert pool(empty, CONTEXT, node_set_name="a", reduce_type="max", feature_name="x").shape == [0, 2]


@pytest.mark.parametrize("reduce_type", REDUCE_TYPES)
def test_shapes_are_static_and_xla_accepts_them(graph, reduce_type):
    shapes = []

    @tf.function(input_signature=[graph.remove_features(node_sets={"a": ["id", "r"]}).spec], jit_compile=True)
    def compiled(graph):
        to_nodes = pool(graph, TARGET, edge_set_name="ab", reduce_type=reduce_type, feature_name="w")
        to_context = pool(graph, CONTEXT, node_set_name="a", reduce_type=reduce_type, feature_name="x")
        shapes.extend([to_nodes.shape.as_list(), to_context.shape.as_list()])
        return to_nodes, to_context

    to_nodes, to_context = compiled(graph.remove_features(node_sets={"a": ["id", "r"]}))

    assert shapes == [[2], [2]]
    assert to_nodes.numpy().tolist() == (
        pool(graph, TARGET, edge_set_name="ab", reduce_type=reduce_type, feature_name="w").numpy().tolist()
    )
    assert to_context.numpy().tolist() == (
        pool(graph, CONTEXT, node_set_name="a", reduce_type=reduce_type, feature_name="x").numpy().tolist()
    )


def test_the_gradient_of_a_mean_reaches_each_edge(graph):
    weights = tf.Variable([1.0, 2.0, 3.0])

    with tf.GradientTape() as tape:
        pooled = pool(graph, TARGET, edge_set_name="ab", reduce_type="mean", feature_value=weights)
        loss = tf.reduce_sum(pooled * [1.0, 10.0])

    assert tf.convert_to_tensor(tape.gradient(loss, weights)).numpy().tolist() == [0.5, 0.5, 10.0]


@settings(max_examples=30)
@given(
    data=st.data(),
    feature=st.sampled_from(["scalar", "vector", "count", "ragged"]),
    reduce_type=st.sampled_from(REDUCE_TYPES),
)
def test_agrees_with_the_oracle(oracle, plain, graph_plans, *, feature, reduce_type, data):
    plan = data.draw(graph_plans())

    def results(library):
        graph = plan.build(library)
        pooled = [
            library.pool_edges_to_node(graph, "ab", 1, reduce_type, feature_name=feature),
            library.pool_nodes_to_context(graph, "a", reduce_type, feature_name=feature),
            library.pool_edges_to_context(graph, "aa", reduce_type, feature_name=feature),
            library.pool(graph, 0, edge_set_name=["aa"], reduce_type=reduce_type, feature_name="vector"),
            library.node_degree(graph, "ba", 0),
        ]
        if feature != "ragged":
            pooled += [
                library.pool(graph, 1, edge_set_name=["aa", "ba"], reduce_type=reduce_type, feature_name=feature),
                library.pool(graph, "context", node_set_name=["b", "a"], reduce_type=reduce_type, feature_name=feature),
            ]
        if feature in ("vector", "ragged"):
            pooled.append(
                library.pool(graph, 1, edge_set_name="aa", reduce_type=f"{reduce_type}|max", feature_name=feature)
            )
        return plain(pooled)

    assert results(tfx_gnn.graph) == results(oracle)


@pytest.mark.parametrize(
    ("tag", "arguments", "error", "message"),
    [
        (TARGET, {"node_set_name": "a", "feature_name": "x"}, ValueError, "requires to pass edge_set_name, not"),
        (CONTEXT, {"feature_name": "x"}, ValueError, "exactly one of edge_set_name, node_set_name but got 0"),
        (TARGET, {"edge_set_name": [], "feature_name": "w"}, ValueError, "non-empty Sequence"),
        (TARGET, {"edge_set_name": "ab"}, ValueError, "exactly one of feature_name, feature_value; got none"),
        (TARGET, {"edge_set_name": ["ab"], "feature_value": tf.ones([3])}, ValueError, "if and only if"),
        (TARGET, {"edge_set_name": "ab", "feature_value": [tf.ones([3])]}, ValueError, "if and only if"),
        (
            TARGET,
            {"edge_set_name": ["ab", "late"], "feature_value": [tf.ones([3])]},
            ValueError,
            "same number of edge_set_names and feature_values but got 2 and 1",
        ),
        (
            CONTEXT,
            {"edge_set_name": ["ab", "ab"], "feature_value": [tf.ones([3, 2]), tf.ones([3, 1])]},
            ValueError,
            r"incompatible feature shapes: edge set 'ab' has feature shape \[2\], edge set 'ab' .* \[1\]",
        ),
        (TARGET, {"edge_set_name": ["ab", "ba"], "feature_name": "w"}, ValueError, "same endpoint"),
        (
            TARGET,
            {"edge_set_name": "ab", "feature_value": tf.ones([2])},
            tf.errors.InvalidArgumentError,
            "one value per item",
        ),
        (
            TARGET,
            {"edge_set_name": "ab", "feature_value": tf.constant(["p"] * 3)},
            tf.errors.InvalidArgumentError,
            "got string",
        ),
        (TARGET, {"edge_set_name": "ab", "feature_name": "w", "reduce_type": "median"}, KeyError, "'median'"),
        (TARGET, {"edge_set_name": "ab", "feature_name": "w", "reduce_type": "sum|"}, KeyError, "got ''"),
        (TARGET, {"edge_set_name": "ab", "feature_name": "w", "reduce_type": ""}, ValueError, "one or more"),
        (TARGET, {"edge_set_name": "ab", "feature_name": "w", "reduce_type": "sum|max"}, ValueError, "rank >= 2"),
        ("nodes", {"edge_set_name": "ab", "feature_name": "w"}, ValueError, "got tag nodes"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(graph, tag, arguments, error, message):
    with pytest.raises(error, match=message):
        pool(graph, tag, **{"reduce_type": "sum", **arguments})


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda graph: pool_edges_to_node(graph, ["ab"], TARGET, feature_name="w"), "edge_set_name"),
        (lambda graph: pool_nodes_to_context(graph, ["a"], feature_name="x"), "node_set_name"),
        (lambda graph: pool_edges_to_context(graph, ["ab"], feature_name="w"), "edge_set_name"),
    ],
)
def test_several_sets_are_for_pool_alone(graph, call, argument):
    with pytest.raises(TypeError, match=f"{argument} to be a string, got"):
        call(graph)


def test_degree_to_the_context_is_refused(graph):
    with pytest.raises(ValueError, match="Node set tag must be integer"):
        node_degree(graph, "ab", CONTEXT)


def test_a_batch_of_graphs_is_refused(graph):
    batch = tf.data.Dataset.from_tensors(graph).batch(1).get_single_element()

    for call in (
        lambda: pool(batch, TARGET, edge_set_name="ab", reduce_type="sum", feature_name="w"),
        lambda: pool_edges_to_node(batch, "ab", TARGET, feature_name="w"),
        lambda: pool_nodes_to_context(batch, "a", feature_name="x"),
        lambda: node_degree(batch, "ab", TARGET),
    ):
        with pytest.raises(ValueError, match="requires a scalar GraphTensor"):
            call()
