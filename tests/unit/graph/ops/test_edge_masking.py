import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph as lib
from tfx_gnn.graph.ops.edge_edits import mask_edges


def test_masked_edges_move_to_a_set_of_their_own(run, graph):
    masked = run(lambda graph, mask: mask_edges(graph, "ab", mask, "taken"), graph, tf.constant([True, False, True]))

    kept, taken = masked.edge_sets["ab"], masked.edge_sets["taken"]
    assert kept.sizes.numpy().tolist() == [1, 1]
    assert kept.adjacency.source.numpy().tolist() == [0, 2]
    assert kept["w"].numpy().tolist() == [1.0, 3.0]
    assert taken.sizes.numpy().tolist() == [1, 0]
    assert taken.adjacency.target.numpy().tolist() == [0]
    assert taken["w"].numpy().tolist() == [2.0]


def test_masked_edges_are_dropped_without_a_name(graph):
    masked = mask_edges(graph, "ab", tf.constant([False, False, False]))

    assert set(masked.edge_sets) == set(graph.edge_sets)
    assert masked.edge_sets["ab"].sizes.numpy().tolist() == [0, 0]


def test_hyperedges_are_masked(graph):
    hyper = lib.GraphTensor.from_pieces(
        node_sets={"a": lib.NodeSet.from_fields(sizes=[2])},
        edge_sets={
            "e": lib.EdgeSet.from_fields(
                sizes=[2], adjacency=lib.HyperAdjacency.from_indices({tag: ("a", [0, 1]) for tag in range(3)})
            )
        },
    )

    adjacency = mask_edges(hyper, "e", tf.constant([False, True])).edge_sets["e"].adjacency

    assert [adjacency[tag].numpy().tolist() for tag in range(3)] == [[1], [1], [1]]


@settings(max_examples=15)
@given(data=st.data())
def test_agrees_with_the_oracle(oracle, plain, graph_plans, data):
    plan = data.draw(graph_plans())
    num_edges = sum(plan.edge_sizes["ab"])
    mask = tf.constant(data.draw(st.lists(st.booleans(), min_size=num_edges, max_size=num_edges)), tf.bool, [num_edges])

    def results(library):
        return plain(library.mask_edges(plan.build(library), "ab", mask, "taken"))

    assert results(lib) == results(oracle)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nope", [True]), "edge_set_name: nope exists as an edge-set"),
        (("ab", [True] * 3, "late"), "late is not an existing edge-set"),
    ],
)
def test_bad_arguments_are_refused(graph, arguments, message):
    with pytest.raises(ValueError, match=message):
        mask_edges(graph, *arguments)


def test_masks_of_another_dtype_are_refused(graph):
    with pytest.raises(tf.errors.InvalidArgumentError, match="`boolean_edge_mask` must be bool; got int32"):
        mask_edges(graph, "ab", [1, 0, 1])


@pytest.mark.parametrize("mask", [[True, False], [[True, False, True]]])
def test_masks_of_another_shape_are_refused(run, graph, mask):
    with pytest.raises(tf.errors.InvalidArgumentError, match="boolean_edge_mask should have the same shape"):
        run(lambda graph: mask_edges(graph, "ab", tf.constant(mask)).edge_sets["ab"].sizes, graph)
