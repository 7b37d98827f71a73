from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.graph.ops.homogeneous_graph import homogeneous
from tfx_gnn.models.message_passing import BothDirections
from tfx_gnn.models.relational_update import NeighborMean, relational_graph_update
from tfx_gnn.models.state_blocks import state_block


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_every_node_set_gets_a_state_of_the_given_width(library_graph, wrap):
    update = relational_graph_update(library_graph.spec, units=5, edge_feature="weight")

    updated = wrap(update)(library_graph)

    assert updated.node_sets["paper"]["hidden_state"].shape == (4, 5)
    assert updated.node_sets["author"]["hidden_state"].shape == (3, 5)
    assert "hidden_state" not in updated.node_sets["_readout"].features


def test_inputs_are_own_state_and_both_directions_of_each_relation(library_graph):
    update = relational_graph_update(library_graph.spec, units=5, edge_feature="weight")
    update(library_graph)

    kernels = {tuple(weight.shape) for weight in update.trainable_weights if "kernel" in weight.name}

    # Papers: state 2; cites from either end 2 + 1 + 1 each; authors 1 + 1. Authors: state 1; papers 2 + 1.
    assert kernels == {(2 + 2 * 4 + 2, 5), (1 + 3, 5)}


def test_other_node_sets_keep_their_state(library_graph):
    update = relational_graph_update(library_graph.spec, units=5, node_sets=["author"])

    updated = update(library_graph)

    assert updated.node_sets["author"]["hidden_state"].shape == (3, 5)
    np.testing.assert_array_equal(
        updated.node_sets["paper"]["hidden_state"], library_graph.node_sets["paper"]["hidden_state"]
    )


def test_state_depends_on_neighbours_and_on_nothing_else(library_graph):
    update = relational_graph_update(library_graph.spec, units=5)
    before = update(library_graph).node_sets["paper"]["hidden_state"].numpy()
    features = library_graph.node_sets["author"].get_features_dict()
    features["hidden_state"] = tf.constant([[1.0], [20.0], [30.0]])

    after = update(library_graph.replace_features(node_sets={"author": features})).node_sets["paper"]["hidden_state"]

    # Author 1 wrote paper 3; author 2 wrote nothing.
    np.testing.assert_array_equal(after[:3], before[:3])
    assert not np.allclose(after[3], before[3])


def test_update_is_a_layer_of_a_functional_model(library_graph):
    spec = library_graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)
    inputs = tf_keras.layers.Input(type_spec=spec)
    updated = relational_graph_update(spec, units=5)(inputs)
    model = tf_keras.Model(inputs, updated.node_sets["paper"]["hidden_state"])

    assert model(library_graph).shape == (4, 5)
    assert model.count_params() == (2 + 2 * 3 + 2) * 5 + 5 + 2 * 5 + (1 + 3) * 5 + 5 + 2 * 5


def test_dropout_acts_in_training_only(library_graph):
    update = relational_graph_update(library_graph.spec, units=50, dropout_rate=0.5)
    plain = update(library_graph).node_sets["paper"]["hidden_state"].numpy()

    dropped = update(library_graph, training=True).node_sets["paper"]["hidden_state"].numpy()

    np.testing.assert_array_equal(update(library_graph).node_sets["paper"]["hidden_state"], plain)
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], 2 * plain[kept], rtol=1e-6)
    assert 0 < kept.sum() < (plain != 0).sum()


def test_mixing_after_the_readout_gives_the_same_states(library_graph):
    whole = relational_graph_update(library_graph.spec, units=5, edge_feature="weight", node_sets=["paper"])
    gathered = relational_graph_update(library_graph.spec, units=None, edge_feature="weight", node_sets=["paper"])
    mixed = whole(library_graph).node_sets["paper"]["hidden_state"]
    block = state_block(5)
    state = gathered(library_graph).node_sets["paper"]["hidden_state"]
    block(state)
    block.set_weights(whole.get_weights())

    np.testing.assert_allclose(block(tf.gather(state, [0, 3])), tf.gather(mixed, [0, 3]), rtol=1e-5)
    assert not gathered.get_weights()


@pytest.mark.parametrize("node_sets", [["journal"], ["_readout"], []])
def test_node_sets_without_state_are_refused(library_graph, node_sets):
    with pytest.raises(ValueError, match=r"`node_sets` must name node sets among \['author', 'paper'\]; got"):
        relational_graph_update(library_graph.spec, units=5, node_sets=node_sets)


def test_states_without_width_are_refused(library_graph):
    with pytest.raises(ValueError, match="`units` must be at least 1; got 0"):
        relational_graph_update(library_graph.spec, units=0)


LOG2, LOG3 = math.log(2.0), math.log(3.0)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_targets_get_mean_state_and_number_of_their_sources(library_graph, wrap):
    layer = NeighborMean(TARGET)

    pooled = wrap(lambda graph: layer(graph, edge_set_name="cites"))(library_graph)

    expected = [[4.0, 6.0, LOG3], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [7.0, 0.0, LOG2]]
    np.testing.assert_allclose(pooled, expected, rtol=1e-6)


def test_sources_get_mean_state_of_their_targets(library_graph):
    pooled = NeighborMean(SOURCE)(library_graph, edge_set_name="writes")

    np.testing.assert_allclose(pooled, [[2.0, 3.0, LOG3], [7.0, 0.0, LOG2], [0.0, 0.0, 0.0]], rtol=1e-6)


def test_both_directions_stand_side_by_side(library_graph):
    layer = BothDirections(NeighborMean(SOURCE), NeighborMean(TARGET))

    to_source, to_target = layer(library_graph, edge_set_name="cites")

    np.testing.assert_allclose(to_source, [[0, 0, 0], [1, 2, LOG2], [1, 2, LOG2], [7, 0, LOG2]], rtol=1e-6)
    np.testing.assert_allclose(to_target[0], [4.0, 6.0, LOG3], rtol=1e-6)


def test_sorted_edges_give_the_same(library_graph):
    layer = NeighborMean(TARGET, edge_features=["weight"])

    np.testing.assert_allclose(
        layer(sort_edges(library_graph), edge_set_name="cites"), layer(library_graph, edge_set_name="cites"), rtol=1e-6
    )


def test_many_neighbours_are_counted_in_half_precision():
    graph = homogeneous(source=tf.range(1, 1001), target=tf.zeros(1000, tf.int32), node_features=tf.ones([1001, 1]))

    pooled = NeighborMean(TARGET, dtype="mixed_bfloat16")(graph, edge_set_name="edges")

    assert pooled.dtype == tf.bfloat16
    assert [float(value) for value in pooled[0]] == pytest.approx([1.0, math.log(1001)], rel=0.01)


def test_edge_features_are_averaged_beside_states(library_graph):
    pooled = NeighborMean(TARGET, edge_features=["weight"])(library_graph, edge_set_name="cites")

    np.testing.assert_allclose(pooled[0], [4.0, 6.0, 1.0, LOG3], rtol=1e-6)


def test_layer_is_made_again_from_its_config(library_graph):
    layer = NeighborMean(SOURCE, edge_features=["weight"], feature_name="hidden_state")

    again = NeighborMean.from_config(layer.get_config())

    np.testing.assert_array_equal(
        again(library_graph, edge_set_name="cites"), layer(library_graph, edge_set_name="cites")
    )
