from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.models.tasks import GraphRegression, LabelSummary, NodeRegression

ENERGY = GraphRegression(label_feature="energy", num_outputs=2, standardize=True)
SUMMARY = LabelSummary(num_labels=6, num_counted=3, mean=(3.0, 10.0), std=(2.0, 0.0))
REAL = tf.constant([True, True, False])


def test_missing_numbers_do_not_count_and_become_zero(seeds):
    objective = GraphRegression(label_feature="energy", num_outputs=2).objective()

    graph, labels = objective.split_off_labels(seeds)

    assert sorted(graph.context.features) == ["kind"]
    counts = objective.counts(labels, graph, REAL)
    assert counts.numpy().tolist() == [[True, False], [True, True], [False, False]]
    assert objective.safe_labels(labels).numpy().tolist() == [[2.0, 0.0], [4.0, 10.0], [0.0, 0.0]]
    assert objective.weights(labels).shape == [3, 2]


def test_numbers_that_stand_for_missing_ones_do_not_count(seeds):
    """10 would be one standard deviation more than the mean, not a label."""
    task = GraphRegression(label_feature="energy", num_outputs=2, standardize=True, missing_values=(10, -1))
    objective = task.objective(summary=LabelSummary(num_labels=6, num_counted=2, mean=(3.0, 9.0), std=(1.0, 1.0)))

    graph, labels = objective.split_off_labels(seeds)

    assert objective.counts(labels, graph, REAL).numpy().tolist() == [[True, False], [True, False], [False, False]]
    with pytest.raises(ValueError, match=r"`missing_values` must be finite numbers; got \(nan,\)"):
        NodeRegression(label_feature="price", missing_values=(float("nan"),))


def test_one_number_a_seed_is_one_column(seeds):
    objective = NodeRegression(label_feature="price").objective()

    graph, labels = objective.split_off_labels(seeds)

    assert labels.shape == [3, 1]
    assert objective.counts(labels, graph, REAL).numpy().tolist() == [[True], [True], [False]]


def test_standardised_labels_come_back_in_their_own_unit(seeds):
    """The second number never changes, so only its mean is taken off."""
    objective = ENERGY.objective(summary=SUMMARY)

    _, labels = objective.split_off_labels(seeds)

    np.testing.assert_allclose(labels, [[-0.5, np.nan], [0.5, 0.0], [np.nan, np.nan]])
    answers = objective.served_outputs(labels, seeds)["prediction"]
    np.testing.assert_allclose(answers, seeds.context["energy"])


def test_metrics_are_in_the_own_unit_of_standardised_labels():
    """Off by one standard deviation of 2 in the first number; the second is right."""
    mae, rmse, r2 = ENERGY.objective(summary=SUMMARY).weighted_metrics()
    for metric in (mae, rmse, r2):
        metric.update_state([[0.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])

    assert [float(mae.result()), float(rmse.result())] == [1.0, 1.0]
    assert float(r2.result()) == pytest.approx((-3.0 + 1.0) / 2)


def test_labels_that_the_transform_scaled_are_scaled_back(seeds):
    objective = NodeRegression(label_feature="price", mean=(100.0,), std=(10.0,)).objective()

    _, labels = objective.split_off_labels(seeds)

    assert labels.numpy()[:2].tolist() == [[1.0], [3.0]]
    assert objective.served_outputs(labels[:2], seeds)["prediction"].numpy().tolist() == [[110.0], [130.0]]


def test_a_first_look_needs_no_summary_and_training_does(seeds):
    _, labels = ENERGY.objective().split_off_labels(seeds)

    assert labels.numpy()[1].tolist() == [4.0, 10.0]
    with pytest.raises(ValueError, match="`summary` must be given where labels are to be standardised"):
        ENERGY.objective().weights(labels)


@pytest.mark.parametrize(
    ("task", "got"),
    [
        (GraphRegression(label_feature="energy"), r"with 1 values a readout; got float32 of shape \[3, 2\]"),
        (GraphRegression(label_feature="energy", num_outputs=3), "with 3 values a readout; got float32"),
        (GraphRegression(label_feature="kind"), "got int64 of shape"),
        (NodeRegression(label_feature="mass"), "of node set '_readout'; got 'mass'"),
    ],
    ids=["one", "three", "integer", "missing"],
)
def test_label_that_is_not_as_many_numbers_is_refused(seeds, task, got):
    with pytest.raises(ValueError, match=got):
        task.objective().check_spec(seeds.spec)


def test_output_must_have_a_column_a_number(seeds):
    with pytest.raises(ValueError, match=r"\[num_readouts, num_outputs\], \[3, 2\] for this batch; got shape \[3, 1\]"):
        ENERGY.objective().check_output(tf.zeros([3, 1]), seeds)
