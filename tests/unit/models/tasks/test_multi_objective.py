from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.models.tasks import GraphRegression, LabelSummary, MultiTask, NodeClassification, NodeRegression

COLOR = NodeClassification(label_feature="color", num_classes=3, class_weights="balanced")
PRICE = NodeRegression(label_feature="price", standardize=True)
ENERGY = GraphRegression(label_feature="energy", num_outputs=2)
TASK = MultiTask(tasks={"color": COLOR, "price": PRICE, "energy": ENERGY}, loss_weights={"price": 0.25})
SUMMARY = {
    "color": LabelSummary(num_labels=3, num_counted=2, class_counts=(1, 0, 3)),
    "price": LabelSummary(num_labels=3, num_counted=2, mean=(2.0,), std=(0.5,)),
    "energy": LabelSummary(num_labels=6, num_counted=3, mean=(3.0, 10.0), std=(1.0, 0.0)),
}


def test_everything_is_a_dict_by_the_names_of_the_tasks(seeds):
    objective = TASK.objective(summary=SUMMARY)
    objective.check_spec(seeds.spec)

    graph, labels = objective.split_off_labels(seeds)

    assert not graph.node_sets["_readout"].features
    assert sorted(graph.context.features) == ["kind"]
    assert {name: label.shape.as_list() for name, label in labels.items()} == {
        "color": [3],
        "energy": [3, 2],
        "price": [3, 1],
    }
    assert labels["price"].numpy()[:2].tolist() == [[-2.0], [2.0]]
    counts = objective.counts(labels, graph, tf.constant([True, True, False]))
    assert {name: count.numpy().tolist() for name, count in counts.items()} == {
        "color": [True, False, False],
        "energy": [[True, False], [True, True], [False, False]],
        "price": [[True], [True], [False]],
    }
    assert objective.weights(labels)["color"].numpy().tolist() == pytest.approx([2 / 3, 2.0, 2.0])
    assert sorted(objective.safe_labels(labels)) == sorted(objective.loss()) == sorted(objective.weighted_metrics())
    assert objective.compile_arguments()["loss_weights"] == {"color": 1.0, "energy": 1.0, "price": 0.25}
    assert sorted(objective.parts) == ["color", "energy", "price"]


def test_specs_lose_all_labels_or_keep_nothing_else(seeds):
    objective = TASK.objective(summary=SUMMARY)

    without, only = objective.without_labels(seeds.spec), objective.labels_only(seeds.spec)

    assert not without.node_sets_spec["_readout"].features_spec
    assert sorted(without.context_spec.features_spec) == ["kind"]
    assert sorted(only.context_spec.features_spec) == ["energy"]
    assert sorted(only.node_sets_spec["_readout"].features_spec) == ["color", "price"]


def test_answers_bear_the_names_of_their_tasks(seeds):
    output = {"color": tf.zeros([3, 3]), "price": tf.zeros([3, 1]), "energy": tf.ones([3, 2])}
    objective = TASK.objective(summary=SUMMARY)
    objective.check_output(output, seeds)

    answers = objective.served_outputs(output, seeds)

    assert sorted(answers) == [
        "color/label",
        "color/logits",
        "color/probabilities",
        "color/score",
        "energy/prediction",
        "price/prediction",
    ]
    assert answers["price/prediction"].numpy().tolist() == [[2.0]] * 3


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (tf.zeros([3, 3]), r"dict of outputs by task name, \['color', 'energy', 'price'\]; got <class"),
        ({"color": tf.zeros([3, 3])}, r"got \['color'\]"),
        (
            {"color": tf.zeros([3, 2]), "price": tf.zeros([3, 1]), "energy": tf.ones([3, 2])},
            r"\[num_readouts, num_classes\], \[3, 3\] for this batch; got shape \[3, 2\]",
        ),
    ],
    ids=["tensor", "too few", "shape"],
)
def test_output_that_lacks_a_task_is_refused(seeds, output, message):
    with pytest.raises(ValueError, match=message):
        TASK.objective().check_output(output, seeds)


def test_budget_must_do_for_every_task(seeds):
    budget = SizeConstraints(4, {"item": 9, "_readout": 5}, {"_readout/seed": 5}, {"_readout": 1})

    with pytest.raises(ValueError, match="one '_readout' node per component"):
        TASK.objective().check_budget(budget, seeds.spec)
