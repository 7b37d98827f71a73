import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph
from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.graph.ops.neighbors import pool_neighbors_to_node, pool_neighbors_to_node_feature


def test_neighbors_are_pooled(run, graph):
    pooled = run(lambda graph: pool_neighbors_to_node(graph, "ab", TARGET, reduce_type="sum", feature_name="x"), graph)
    backward = run(
        lambda graph: pool_neighbors_to_node(graph, "ab", SOURCE, reduce_type="sum", feature_name="x"), graph
    )

    assert pooled.numpy().tolist() == [3.0, 3.0]
    assert backward.numpy().tolist() == [5.0, 5.0, 6.0]


def test_several_edge_sets_count_as_one(run, graph):
    pooled = run(
        lambda graph: pool_neighbors_to_node(graph, ["ab", "late"], TARGET, reduce_type="mean", feature_name="x"), graph
    )

    assert pooled.numpy().tolist() == [1.5, 3.0]


def test_both_ends_may_be_the_same(graph):
    pooled = pool_neighbors_to_node(graph, "ab", TARGET, from_tag=TARGET, reduce_type="sum", feature_name="x")

    assert pooled.numpy().tolist() == [10.0, 6.0]


def test_the_result_becomes_a_feature(run, graph):
    stored = run(
        lambda graph: pool_neighbors_to_node_feature(
            graph, "ab", TARGET, reduce_type="max", feature_name="x", to_feature_name="y"
        ),
        graph,
    )
    replaced = pool_neighbors_to_node_feature(graph, ["ab"], TARGET, reduce_type="max", feature_name="x")

    assert stored.node_sets["b"]["y"].numpy().tolist() == [2.0, 3.0]
    assert stored.node_sets["b"]["x"].numpy().tolist() == [5.0, 6.0]
    assert replaced.node_sets["b"]["x"].numpy().tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("edge_sets", "arguments", "message"),
    [
        (["ab", "ba"], {"feature_name": "x"}, r"same from_tag=0 node set, got \['a', 'b'\]"),
        ("ab", {}, "exactly one of feature_name, feature_value"),
        ("ab", {"feature_name": "x", "to_tag": "context"}, r"Expected tag .* got: context"),
    ],
)
def test_bad_arguments_are_refused(graph, edge_sets, arguments, message):
    to_tag = arguments.pop("to_tag", TARGET)
    with pytest.raises(ValueError, match=message):
        pool_neighbors_to_node(graph, edge_sets, to_tag, reduce_type="sum", **arguments)


def test_edge_sets_must_meet_at_the_receiver(graph):
    library = tfx_gnn.graph
    loops = library.EdgeSet.from_fields(
        sizes=[1, 0], adjacency=library.Adjacency.from_indices(("a", tf.constant([0])), ("a", tf.constant([0])))
    )
    other_ends = library.GraphTensor.from_pieces(
        node_sets=graph.node_sets, edge_sets={"ab": graph.edge_sets["ab"], "aa": loops}
    )

    with pytest.raises(ValueError, match="same to_tag=1 node set"):
        pool_neighbors_to_node(other_ends, ["ab", "aa"], TARGET, from_tag=SOURCE, reduce_type="sum", feature_name="x")


@settings(max_examples=15)
@given(data=st.data(), feature=st.sampled_from(["scalar", "vector", "ragged"]))
def test_agrees_with_the_oracle(oracle, plain, graph_plans, feature, data):
    plan = data.draw(graph_plans())

    def results(library):
        graph = plan.build(library)
        return plain(
            [
                library.pool_neighbors_to_node(graph, "ab", 1, reduce_type="max_no_inf", feature_name=feature),
                library.pool_neighbors_to_node_feature(graph, "aa", 0, reduce_type="sum", feature_name=feature),
            ]
        )

    assert results(tfx_gnn.graph) == results(oracle)
