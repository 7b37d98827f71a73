"""Batches of trees; all answers are worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.graph.batching.ego_batches import (
    EgoHop,
    EgoTrees,
    count_empty_places,
    ego_batch,
    ego_batch_spec,
    ego_trees_of_batch,
    is_ego_batch,
)

BUYS = EgoHop(feature="hop_0", relation="buys", node_set="item", fan_out=2)
BOUGHT = EgoHop(feature="hop_1", relation="buys_reverse", node_set="user", fan_out=2)
TREES = EgoTrees(seed_node_set="user", hops=(BUYS, BOUGHT))


def graph(**context: Any) -> tfx_gnn.GraphTensor:
    """Two examples: u0 buys i0 and i1, which u0 and u1 buy; u2 buys nothing."""
    features = {
        "hop_0": tf.constant([[0, 1], [-1, -1]], tf.int64),
        "hop_1": tf.constant([[1, 0, 1, -1], [-1] * 4], tf.int64),
        "day": tf.constant([5, 6]),
        **context,
    }
    readout = tfx_gnn.Adjacency.from_indices(("user", [0, 2]), ("_readout", [0, 1]))
    return tfx_gnn.GraphTensor.from_pieces(
        context=tfx_gnn.Context.from_fields(sizes=[1, 1], features=features),
        node_sets={
            "user": tfx_gnn.NodeSet.from_fields(
                sizes=[2, 1], features={"age": [30.0, 40.0, 50.0], "#id": tf.constant(["u0", "u1", "u2"])}
            ),
            "item": tfx_gnn.NodeSet.from_fields(sizes=[2, 0], features={"price": [[1, 2], [3, 4]]}),
            "_readout": tfx_gnn.NodeSet.from_fields(sizes=[1, 1], features={"label": [7, 8]}),
        },
        edge_sets={"_readout/seed": tfx_gnn.EdgeSet.from_fields(sizes=[1, 1], adjacency=readout)},
    )


def test_levels_of_one_node_set_follow_each_other_in_each_example() -> None:
    dense, is_real = ego_batch(graph(), TREES)

    assert dense.node_sets["user"]["age"].numpy().tolist() == [30, 40, 30, 40, 0, 50, 0, 0, 0, 0]
    assert dense.node_sets["user"]["#id"].numpy().tolist() == [b"u0", b"u1", b"u0", b"u1", b"", b"u2", *[b""] * 4]
    assert dense.node_sets["item"]["price"].numpy().tolist() == [[1, 2], [3, 4], [0, 0], [0, 0]]
    assert dense.node_sets["user"].sizes.numpy().tolist() == [5, 5]
    assert dense.node_sets["item"].sizes.numpy().tolist() == [2, 2]
    assert is_real.numpy().tolist() == [True, True]


def test_masks_say_where_nodes_are() -> None:
    dense, _ = ego_batch(graph(), TREES)

    assert dense.context["hop_0"].numpy().tolist() == [[True, True], [False, False]]
    assert dense.context["hop_1"].numpy().tolist() == [[[True, True], [True, False]], [[False, False], [False, False]]]
    assert dense.context["day"].numpy().tolist() == [5, 6]


def test_empty_places_are_counted_by_example() -> None:
    dense, _ = ego_batch(graph(), TREES, batch_size=3)

    assert count_empty_places(dense).numpy().tolist() == [1, 6, 6]


def test_edges_lead_from_children_to_parents() -> None:
    dense, _ = ego_batch(graph(), TREES)
    ends = {
        name: (edge_set.adjacency.source.numpy().tolist(), edge_set.adjacency.target.numpy().tolist())
        for name, edge_set in dense.edge_sets.items()
    }

    assert ends == {
        "hop_0/buys": ([0, 1, 2, 3], [0, 0, 5, 5]),
        "hop_1/buys_reverse": ([1, 2, 3, 4, 6, 7, 8, 9], [0, 0, 1, 1, 2, 2, 3, 3]),
        "_readout/seed": ([0, 5], [0, 1]),
    }
    tfx_gnn.assert_constraints(dense)


def test_missing_examples_are_padding_of_the_same_size() -> None:
    dense, is_real = ego_batch(graph(), TREES, batch_size=3)

    assert is_real.numpy().tolist() == [True, True, False]
    assert dense.node_sets["user"]["age"].numpy().tolist()[10:] == [0.0] * 5
    assert dense.node_sets["_readout"]["label"].numpy().tolist() == [7, 8, 0]
    assert dense.context["day"].numpy().tolist() == [5, 6, 0]
    assert not dense.context["hop_1"].numpy()[2].any()
    sizes = TREES.sizes(3)
    assert {name: node_set.spec.total_size for name, node_set in dense.node_sets.items()} == sizes.total_num_nodes
    assert {name: edge_set.spec.total_size for name, edge_set in dense.edge_sets.items()} == sizes.total_num_edges


def test_more_examples_than_the_batch_holds_are_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="`batch_size` must be at least the number of examples"):
        ego_batch(graph(), TREES, batch_size=1)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_positions_that_were_not_shifted_are_refused(wrap: Any) -> None:
    # The second example has user 2 alone, which is its node 0.
    with pytest.raises(tf.errors.InvalidArgumentError, match="nodes of the same example in `hop_1`; got others"):
        wrap(lambda: ego_batch(graph(hop_1=tf.constant([[1, 0, 1, -1], [0] * 4], tf.int64)), TREES)[0])()


def test_form_is_found_again_in_the_batch_and_in_its_spec() -> None:
    dense, _ = ego_batch(graph(), TREES, batch_size=3)
    spec = ego_batch_spec(graph().spec, TREES)

    assert ego_trees_of_batch(dense.spec) == TREES
    assert ego_trees_of_batch(spec) == TREES
    assert spec.is_compatible_with(dense)


def test_fan_outs_of_one_are_in_the_order_of_hops() -> None:
    hops = tuple(EgoHop(feature=f"hop_{i}", relation="r", node_set="user", fan_out=1) for i in range(12))
    hop_features = {hop.feature: tf.constant([[0], [2]], tf.int64) for hop in hops}
    dense, _ = ego_batch(graph(**hop_features), EgoTrees(seed_node_set="user", hops=hops))

    assert [hop.feature for hop in ego_trees_of_batch(dense.spec).hops] == [hop.feature for hop in hops]


@pytest.mark.parametrize(
    ("trees", "message"),
    [
        (EgoTrees(seed_node_set="shop", hops=(BUYS,)), r"must have the node sets .* got none named \['shop'\]"),
        (EgoTrees(seed_node_set="user", hops=(BUYS, BUYS)), "must have 4 positions in context feature 'hop_0'"),
    ],
)
def test_other_graphs_are_refused(trees: EgoTrees, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ego_batch(graph(), trees)


def test_ragged_features_are_refused() -> None:
    words = tf.ragged.constant([["a"], ["b", "c"]])

    with pytest.raises(ValueError, match=r"fixed shape for batching 'ego'; got ragged features \['context.words'\]"):
        ego_batch(graph(words=words), TREES)


def test_spec_of_other_graphs_is_refused() -> None:
    with pytest.raises(ValueError, match="must be that of a batch of ego graphs"):
        ego_trees_of_batch(graph().spec)


def test_feature_named_as_the_beginning_of_an_edge_set_is_no_mask() -> None:
    knows = tfx_gnn.EdgeSet.from_fields(
        sizes=[1], adjacency=tfx_gnn.Adjacency.from_indices(("user", [0]), ("user", [1]))
    )
    users = tfx_gnn.GraphTensor.from_pieces(
        context=tfx_gnn.Context.from_fields(features={"user": tf.constant([[3, 4]])}),
        node_sets={"user": tfx_gnn.NodeSet.from_fields(sizes=[2])},
        edge_sets={"user/knows": knows},
    )

    assert not is_ego_batch(users.spec)
    assert is_ego_batch(ego_batch(graph(), TREES)[0].spec)
