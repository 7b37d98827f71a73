from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.models.tasks import LinkPrediction

LINKS = LinkPrediction()
BY_RELATION = LinkPrediction(scoring="distmult", relation_feature="relation", num_relations=2)
REAL = tf.constant([True, True, True])


def test_labels_tell_the_candidates_of_examples_apart(pairs):
    graph, labels = LINKS.objective().split_off_labels(pairs)

    assert labels.numpy().tolist() == [[0, 0], [1, 0], [0, 0], [1, 3], [1, 4], [-1, 4]]
    assert sorted(graph.node_sets["_readout"].features) == ["relation"]


@pytest.mark.parametrize(
    ("loss", "expected"),
    [("sigmoid", [True, True, True, False, True, False]), ("softmax", [False, True, False, False, True, False])],
)
def test_candidates_that_take_part_count_and_for_softmax_true_ones(pairs, loss, expected):
    """The second example is not real."""
    objective = LinkPrediction(loss=loss).objective()
    graph, labels = objective.split_off_labels(pairs)

    counts = objective.counts(labels, graph, tf.constant([True, False, True]))

    assert counts.numpy().tolist() == expected
    assert objective.weights(labels).numpy().tolist() == [1.0] * 6


def test_number_of_candidates_is_static_where_that_of_nodes_is(pairs):
    objective = LINKS.objective()

    @tf.function(input_signature=[pairs.spec])
    def label(graph):
        rest, labels = objective.split_off_labels(graph)
        counts = objective.counts(labels, rest, REAL)
        assert labels.shape == [6, 2]
        assert counts.shape == [6]
        return counts

    assert label(pairs).shape == [6]


def test_scores_are_answered_by_example(pairs):
    outputs = LINKS.objective().served_outputs(tf.range(6.0), pairs)

    minus = -np.inf
    assert outputs["scores"].numpy().tolist() == [[0.0, 1.0, 2.0], [3.0, minus, minus], [4.0, 5.0, minus]]
    assert outputs["num_candidates"].numpy().tolist() == [3, 1, 2]


def test_dot_is_the_inner_product_of_both_ends(pairs):
    """Sources are the first nodes of each example, in turn; the target is its last node."""
    scores = LinkPrediction(projects_states=False).objective().output_layers()(pairs).numpy()

    states = pairs.node_sets["item"]["hidden_state"].numpy()
    ends = [(0, 1), (1, 1), (0, 1), (2, 5), (6, 8), (7, 8)]
    np.testing.assert_allclose(scores, [states[s] @ states[t] for s, t in ends], rtol=1e-5)


def test_ends_are_projected_each_by_a_map_of_its_own(pairs):
    layers = LINKS.objective().output_layers()
    before = layers(pairs).numpy()
    bias, source, target = sorted(layers.trainable_variables, key=lambda variable: variable.shape.rank)
    source.assign(tf.eye(4))
    target.assign(2.0 * tf.eye(4))
    bias.assign(3.0)

    scores = layers(pairs).numpy()

    plain = LinkPrediction(projects_states=False).objective().output_layers()(pairs).numpy()
    np.testing.assert_allclose(scores, 2.0 * plain + 3.0, rtol=1e-5)
    assert not np.allclose(before, scores)


def test_distmult_weighs_by_the_relation_of_each_candidate(pairs):
    layers = BY_RELATION.objective().output_layers()
    before = layers(pairs).numpy()
    [relations] = [variable for variable in layers.trainable_variables if variable.shape == [2, 4]]
    relations.assign(tf.stack([relations[0], tf.zeros([4])]))

    scores = layers(pairs).numpy()

    np.testing.assert_array_equal(scores[:3], before[:3])
    np.testing.assert_array_equal(scores[3:], [0.0, 0.0, 0.0])
    assert np.all(before != 0.0)
    assert BY_RELATION.objective().input_features == ("relation",)
    assert LINKS.objective().input_features == ()


def test_half_precision_states_are_scored_in_full(pairs):
    states = tf.cast(pairs.node_sets["item"]["hidden_state"], tf.bfloat16)
    graph = pairs.replace_features(node_sets={"item": {"hidden_state": states}})

    for task in (LINKS, BY_RELATION, LinkPrediction(scoring="hadamard", hidden_units=(2,))):
        assert task.objective().output_layers()(graph).dtype == tf.float32


def test_graph_without_candidates_is_refused(pairs, seeds):
    BY_RELATION.objective().check_spec(pairs.spec)

    for task, graph, message in (
        (LINKS, seeds, "label of node set '_readout'; got 'label'"),
        (LinkPrediction(label_feature="price"), seeds, "int64 features with one value per candidate; got float32"),
        (LinkPrediction(label_feature="color"), seeds, r"got no edge sets \['_readout/source', '_readout/target'\]"),
        (
            LinkPrediction(scoring="distmult", relation_feature="kind", num_relations=2),
            pairs,
            "label of node set '_readout'; got 'kind'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            task.objective().check_spec(graph.spec)


def test_budget_must_tie_every_candidate(pairs):
    edges = {"_readout/source": 8, "_readout/target": 8}
    good = SizeConstraints(4, {"item": 9, "_readout": 8}, edges, {"_readout": 1})

    LINKS.objective().check_budget(good, pairs.spec)

    for bad in (
        good._replace(total_num_edges={**edges, "_readout/target": 7}),
        good._replace(total_num_edges={"_readout/source": 8}),
    ):
        with pytest.raises(ValueError, match="as many edges to '_readout' as nodes; got"):
            LINKS.objective().check_budget(bad, pairs.spec)


def test_softmax_needs_several_candidates_in_an_example(pairs):
    edges = {"_readout/source": 4, "_readout/target": 4}
    single = SizeConstraints(4, {"item": 9, "_readout": 4}, edges, {"_readout": 1})

    LINKS.objective().check_budget(single, pairs.spec)

    with pytest.raises(ValueError, match="`loss` must be 'sigmoid' where each example has a single candidate"):
        LinkPrediction(loss="softmax").objective().check_budget(single, pairs.spec)


def test_output_must_have_a_score_a_candidate(pairs):
    with pytest.raises(ValueError, match=r"shape \[num_readouts\], \[6\] for this batch; got shape \[6, 1\]"):
        LINKS.objective().check_output(tf.zeros([6, 1]), pairs)


def test_states_of_different_widths_are_refused(pairs):
    layers = LINKS.objective().output_layers()

    with pytest.raises(ValueError, match=r"must have states of one width; got shapes \(6, 3\) and \(6, 4\)"):
        layers.head((tf.zeros([6, 3]), tf.zeros([6, 4])))
