from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.models.tasks import GraphClassification, GraphRegression, LabelSummary, NodeClassification, NodeRegression

COLOR = NodeClassification(label_feature="color", class_vocabulary="colors")
KIND = GraphClassification(label_feature="kind", num_classes=3)
REAL = tf.constant([True, True, True])


def _vocabulary(name):
    if name != "colors":
        raise ValueError(f"no file {name}")
    return [b"red", b"green", b"blue"]


def test_classes_are_named_by_the_vocabulary_or_by_their_numbers():
    colors, kinds = COLOR.objective(_vocabulary), KIND.objective()

    assert colors.class_names == (b"red", b"green", b"blue")
    assert kinds.class_names == (b"0", b"1", b"2")
    assert colors.num_classes == kinds.num_classes == 3
    assert dict(colors.parts) == {"": colors}


def test_label_is_split_off_and_unknown_classes_do_not_count(seeds):
    objective = COLOR.objective(_vocabulary)

    graph, labels = objective.split_off_labels(seeds)

    assert sorted(graph.node_sets["_readout"].features) == ["price"]
    assert labels.numpy().tolist() == [2, -1, 0]
    assert objective.counts(labels, graph, tf.constant([True, True, False])).numpy().tolist() == [True, False, False]
    assert objective.safe_labels(labels).numpy().tolist() == [2, 0, 0]
    assert objective.weights(labels).numpy().tolist() == [1.0, 1.0, 1.0]


def test_label_of_a_graph_is_split_off_its_context(seeds):
    objective = KIND.objective()

    graph, labels = objective.split_off_labels(seeds)

    assert sorted(graph.context.features) == ["energy"]
    assert labels.numpy().tolist() == [1, 5, 0]
    assert objective.counts(labels, graph, REAL).numpy().tolist() == [True, False, True]
    assert sorted(objective.without_labels(seeds.spec).context_spec.features_spec) == ["energy"]


def test_specs_lose_the_label_or_all_but_the_label(seeds):
    objective = COLOR.objective(_vocabulary)

    without = objective.without_labels(seeds.spec)
    only = objective.labels_only(seeds.spec)

    assert sorted(without.node_sets_spec["_readout"].features_spec) == ["price"]
    assert objective.without_labels(without) == without
    assert sorted(only.node_sets_spec) == ["_readout"]
    assert sorted(only.node_sets_spec["_readout"].features_spec) == ["color"]
    assert not only.edge_sets_spec
    assert not only.context_spec.features_spec


def test_balanced_weights_follow_from_counts():
    """12 labels of two classes that occur: 12 / (2 * 9) and 12 / (2 * 3)."""
    task = NodeClassification(label_feature="color", class_vocabulary="colors", class_weights="balanced")
    summary = LabelSummary(num_labels=12, num_counted=12, class_counts=(9, 0, 3))

    weights = task.objective(_vocabulary, summary).weights(tf.constant([0, 2, 2, -1], tf.int64))

    np.testing.assert_allclose(weights, [2 / 3, 2.0, 2.0, 2 / 3])
    with pytest.raises(ValueError, match="`summary` must be given where class weights are to be balanced"):
        task.objective(_vocabulary).weights(tf.constant([0], tf.int64))


def test_weights_by_name_hold_for_the_classes_that_are_named():
    task = NodeClassification(label_feature="color", class_vocabulary="colors", class_weights={"blue": 5.0})

    weights = task.objective(_vocabulary).weights(tf.constant([0, 2], tf.int64))

    assert weights.numpy().tolist() == [1.0, 5.0]


def test_answers_are_names_and_probabilities(seeds):
    outputs = COLOR.objective(_vocabulary).served_outputs(tf.constant([[0.0, 0.0, np.log(2.0)]]), seeds)

    assert sorted(outputs) == ["label", "logits", "probabilities", "score"]
    assert outputs["label"].numpy().tolist() == [b"blue"]
    np.testing.assert_allclose(outputs["probabilities"], [[0.25, 0.25, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(outputs["score"], [0.5], rtol=1e-6)


def test_graph_that_has_no_class_index_is_refused(seeds):
    for task, message in (
        (
            NodeClassification(label_feature="hue", num_classes=2),
            r"label of node set '_readout'; got 'hue', but found",
        ),
        (
            GraphClassification(label_feature="hue", num_classes=2),
            r"of the context; got 'hue', but found \['energy'",
        ),
        (
            NodeClassification(label_feature="price", num_classes=2),
            "class index, int64 with one value per readout; got float",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            task.objective().check_spec(seeds.spec)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (COLOR.objective, "`vocabulary` must be given to name the classes of class_vocabulary='colors'"),
        (
            lambda: NodeClassification(label_feature="color", class_vocabulary="hues").objective(_vocabulary),
            "got class_vocabulary='hues', which the transform lacks.*Cause: no file hues",
        ),
        (
            lambda: NodeClassification(
                label_feature="color", class_vocabulary="colors", class_weights={"pink": 2.0}
            ).objective(_vocabulary),
            r"must name classes among \['red', 'green', 'blue'\]; got \['pink'\]",
        ),
    ],
    ids=["no vocabulary", "another vocabulary", "class weights"],
)
def test_names_that_are_unknown_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("output", "got"),
    [
        (tf.zeros([3, 2]), r"shape \[3, 2\]"),
        (tf.zeros([2, 3]), r"shape \[2, 3\]"),
        (tf.zeros([3]), r"shape \[3\]"),
        (tf.zeros([3, 3], tf.int32), "dtype int32"),
        ({"logits": tf.zeros([3, 3])}, "<class 'dict'>"),
    ],
    ids=["classes", "rows", "rank", "dtype", "dict"],
)
def test_output_that_is_no_logits_is_refused(seeds, output, got):
    message = rf"shape \[num_readouts, num_classes\], \[3, 3\] for this batch; got {got}"
    with pytest.raises(ValueError, match=message):
        COLOR.objective(_vocabulary).check_output(output, seeds)
    COLOR.objective(_vocabulary).check_output(tf.zeros([3, 3]), seeds)


def test_budget_must_have_one_readout_a_component(seeds):
    objective = COLOR.objective(_vocabulary)
    good = SizeConstraints(4, {"item": 9, "_readout": 4}, {"_readout/seed": 4}, {"_readout": 1})

    objective.check_budget(good, seeds.spec)
    KIND.objective().check_budget(good._replace(min_nodes_per_component=()), seeds.spec)

    for bad, got in (
        (good._replace(total_num_edges={"_readout/seed": 3}), "'_readout/seed': 3} for 4 components, at least 1"),
        (good._replace(total_num_nodes={"item": 9, "_readout": 5}), "'_readout': 5"),
        (good._replace(min_nodes_per_component=()), "for 4 components, at least 0 nodes each"),
    ):
        with pytest.raises(ValueError, match=got):
            objective.check_budget(bad, seeds.spec)


ENERGY = GraphRegression(label_feature="energy", num_outputs=2, standardize=True)
SUMMARY = LabelSummary(num_labels=6, num_counted=3, mean=(3.0, 10.0), std=(2.0, 0.0))
LAST_PADDED = tf.constant([True, True, False])


def test_missing_numbers_do_not_count_and_become_zero(seeds):
    objective = GraphRegression(label_feature="energy", num_outputs=2).objective()

    graph, labels = objective.split_off_labels(seeds)

    assert sorted(graph.context.features) == ["kind"]
    counts = objective.counts(labels, graph, LAST_PADDED)
    assert counts.numpy().tolist() == [[True, False], [True, True], [False, False]]
    assert objective.safe_labels(labels).numpy().tolist() == [[2.0, 0.0], [4.0, 10.0], [0.0, 0.0]]
    assert objective.weights(labels).shape == [3, 2]


def test_numbers_that_stand_for_missing_ones_do_not_count(seeds):
    """10 would be one standard deviation more than the mean, not a label."""
    task = GraphRegression(label_feature="energy", num_outputs=2, standardize=True, missing_values=(10, -1))
    objective = task.objective(summary=LabelSummary(num_labels=6, num_counted=2, mean=(3.0, 9.0), std=(1.0, 1.0)))

    graph, labels = objective.split_off_labels(seeds)

    assert objective.counts(labels, graph, LAST_PADDED).numpy().tolist() == [
        [True, False],
        [True, False],
        [False, False],
    ]
    with pytest.raises(ValueError, match=r"`missing_values` must be finite numbers; got \(nan,\)"):
        NodeRegression(label_feature="price", missing_values=(float("nan"),))


def test_one_number_a_seed_is_one_column(seeds):
    objective = NodeRegression(label_feature="price").objective()

    graph, labels = objective.split_off_labels(seeds)

    assert labels.shape == [3, 1]
    assert objective.counts(labels, graph, LAST_PADDED).numpy().tolist() == [[True], [True], [False]]


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
        (GraphRegression(label_feature="energy"), r"with 1 values per readout; got float32 of shape \[3, 2\]"),
        (GraphRegression(label_feature="energy", num_outputs=3), "with 3 values per readout; got float32"),
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
