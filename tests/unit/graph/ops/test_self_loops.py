import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tfx_gnn.graph as lib
from tfx_gnn.graph.ops.edge_edits import add_self_loops


def make_graph():
    """Components of 2 and 1 nodes, with edges 0-1 | 2-2."""
    return lib.GraphTensor.from_pieces(
        node_sets={"a": lib.NodeSet.from_fields(sizes=[2, 1])},
        edge_sets={
            "aa": lib.EdgeSet.from_fields(
                sizes=[1, 1],
                features={"w": tf.constant([1.0, 2.0]), "k": tf.constant([True, True]), "s": tf.constant(["p", "q"])},
                adjacency=lib.Adjacency.from_indices(("a", [0, 2]), ("a", [1, 2])),
            )
        },
    )


def test_loops_follow_the_edges_of_each_component(run):
    edge_set = run(lambda graph: add_self_loops(graph, "aa"), make_graph()).edge_sets["aa"]

    assert edge_set.sizes.numpy().tolist() == [3, 2]
    assert edge_set.adjacency.source.numpy().tolist() == [0, 0, 1, 2, 2]
    assert edge_set.adjacency.target.numpy().tolist() == [1, 0, 1, 2, 2]
    assert edge_set["w"].numpy().tolist() == [1.0, 0.0, 0.0, 2.0, 0.0]
    assert edge_set["k"].numpy().tolist() == [True, False, False, True, False]
    assert edge_set["s"].numpy().tolist() == [b"p", b"", b"", b"q", b""]


def test_a_graph_without_nodes_gets_no_loops():
    none = tf.zeros([0], tf.int32)
    empty = lib.GraphTensor.from_pieces(
        node_sets={"a": lib.NodeSet.from_fields(sizes=[0])},
        edge_sets={
            "aa": lib.EdgeSet.from_fields(sizes=[0], adjacency=lib.Adjacency.from_indices(("a", none), ("a", none)))
        },
    )

    assert add_self_loops(empty, "aa").edge_sets["aa"].adjacency.source.numpy().tolist() == []


def test_xla_accepts_loops_at_static_sizes():
    graph = make_graph().remove_features(edge_sets={"aa": ["s"]})
    graph = graph.replace_features(node_sets={"a": {"x": tf.zeros([3])}})

    @tf.function(jit_compile=True, input_signature=[graph.spec])
    def compiled(graph):
        return add_self_loops(graph, "aa").edge_sets["aa"].adjacency.source

    assert compiled(graph).numpy().tolist() == [0, 0, 1, 2, 2]


@settings(max_examples=15)
@given(data=st.data())
def test_agrees_with_the_oracle(oracle, plain, graph_plans, data):
    plan = data.draw(graph_plans(min_components=1, min_nodes=1))
    assume(sum(plan.edge_sizes["aa"]))  # The oracle cannot extend an empty edge set.

    def results(library):
        # The oracle cannot extend ragged features.
        graph = plan.build(library).remove_features(edge_sets={"aa": ["ragged"]})
        return plain(library.add_self_loops(graph, "aa"))

    assert results(lib) == results(oracle)


def test_ragged_features_of_loops_are_empty():
    graph = make_graph().replace_features(edge_sets={"aa": {"r": tf.ragged.constant([[1], [2, 3]])}})

    assert add_self_loops(graph, "aa").edge_sets["aa"]["r"].to_list() == [[1], [], [], [2, 3], []]


def test_loops_need_one_node_set(graph):
    with pytest.raises(ValueError, match='Edge set "ab" must connect source and target nodes from the same node set'):
        add_self_loops(graph, "ab")


def test_a_batch_of_graphs_is_refused():
    batch = tf.data.Dataset.from_tensors(make_graph()).batch(1).get_single_element()

    with pytest.raises(ValueError, match="requires a scalar GraphTensor"):
        add_self_loops(batch, "aa")
