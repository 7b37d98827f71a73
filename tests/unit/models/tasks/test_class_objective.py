from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.models.tasks import GraphClassification, LabelSummary, NodeClassification

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
            r"label of node set '_readout'; got 'hue', where there",
        ),
        (
            GraphClassification(label_feature="hue", num_classes=2),
            r"of the context; got 'hue', where there are \['energy'",
        ),
        (
            NodeClassification(label_feature="price", num_classes=2),
            "class index, int64 with one value a readout; got float",
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
