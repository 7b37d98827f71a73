from __future__ import annotations

import pytest

from tfx_gnn.reports.evaluation_figures import (
    OTHER_CLASSES,
    calibration_words,
    confusion_matrix,
    metric_rows,
    residual_words,
    training_remarks,
    trees_rows,
    trees_words,
    wider_residual_bins,
)

_TRIPLES = [
    {"true": "a", "predicted": "a", "count": 1},
    {"true": "b", "predicted": "b", "count": 3},
    {"true": "b", "predicted": "a", "count": 2},
    {"true": "c", "predicted": "d", "count": 1},
]


def test_the_largest_class_comes_first_and_shares_are_of_the_true_class():
    matrix = confusion_matrix(_TRIPLES)

    assert matrix.names == ("b", "a", "c", "d")
    assert matrix.cells == ((0, 0, 3, 0.6), (0, 1, 2, 0.4), (1, 1, 1, 1.0), (2, 3, 1, 1.0))
    assert matrix.largest == (("b", "a", 2, 0.4), ("c", "d", 1, 1.0))


def test_classes_beyond_the_limit_become_one_and_no_example_is_lost():
    matrix = confusion_matrix(_TRIPLES, max_classes=2)

    assert matrix.names == ("b", OTHER_CLASSES)
    assert matrix.cells == ((0, 0, 3, 0.6), (0, 1, 2, 0.4), (1, 1, 2, 1.0))


def test_metrics_stand_beside_the_baselines_and_counts_are_no_metrics():
    rows = metric_rows({"num_examples": 4, "blessed": True, "rmse": 0.5, "r2": 1, "mean_baseline": {"rmse": 1.5}})

    assert [(row.name, row.value, row.baseline) for row in rows] == [("rmse", 0.5, 1.5), ("r2", 1.0, None)]


def test_what_the_graph_adds_to_trees_is_put_into_words_and_rows():
    task = {
        "trees_baseline": {
            "meaning": "trees on 'user' alone reach accuracy 0.5",
            "num_training_rows": 1000,
            "num_examples": 200,
            "confidence": 0.95,
            "model": {"accuracy": 0.75, "macro_f1": 0.5},
            "trees": {"accuracy": 0.5},
            "intervals": {"accuracy": {"lower": 0.125, "upper": 0.375}},
        }
    }

    words, (row,) = trees_words(task), trees_rows(task)

    assert words == (
        "Trees on 'user' alone reach accuracy 0.5; on 1,000 training and 200 evaluated examples, 95% interval."
    )
    assert (row.name, row.value, row.baseline, row.interval) == ("accuracy", 0.75, 0.5, (0.125, 0.375))


def test_a_task_without_trees_says_why_or_nothing():
    assert trees_words({"trees_baseline": {"reason": "few"}}) == "There are no trees to compare with: few."
    assert not trees_rows({"trees_baseline": {"reason": "few"}})
    assert not trees_words({})


@pytest.mark.parametrize(
    ("confidence", "words"),
    [(0.9, "overconfident by 0.150"), (0.5, "underconfident by 0.250"), (0.76, "agree within 0.02")],
)
def test_calibration_is_put_into_words(confidence, words):
    bins = [{"num_examples": 4, "mean_confidence": confidence, "accuracy": 0.75}]

    assert words in calibration_words({"bins": bins})


def test_labels_below_the_predictions_are_counted():
    bins = [{"low": -0.5, "high": -0.25, "num_examples": 1}, {"low": 0.0, "high": 0.25, "num_examples": 3}]

    assert residual_words(bins).startswith("Of 4 examples, the label is below the prediction in 25.0%")


def _epochs(train, validation):
    return [{"loss": one, "val_loss": other} for one, other in zip(train, validation, strict=True)]


@pytest.mark.parametrize(
    ("train", "validation", "words"),
    [
        ([2, 1, 0.5], [2, 1.25, 1.75], "Overfitting after epoch 2: the validation loss rose from 1.25 to 1.75"),
        ([2, 1, 0.5], [2, 1.5, 1.2], "still falling"),
        ([2, 1, 0.5], [2, 1.2, 1.201], "hardly changed at the end: it was lowest in epoch 2"),
        ([2, 1, 1.5], [2, 1.2, 1.9], "hardly changed"),
        ([2, 1, 0.5], [float("nan"), 1.5, "nan"], ""),
        ([], [], ""),
    ],
)
def test_overfitting_is_told_from_a_training_that_ended_early(train, validation, words):
    remarks = training_remarks(_epochs(train, validation), 1)

    assert words in remarks[0] if words else not remarks


@pytest.mark.parametrize(
    ("exported_epoch", "stopped_early", "words"),
    [
        (2, True, "The weights of epoch 2 were exported, so the model does not suffer"),
        (3, False, "Early stopping (early_stopping_patience) exports the best epoch"),
        (1, True, "Dropout, weight decay or more data may help."),
    ],
)
def test_early_stopping_is_advised_only_to_who_lacks_it(exported_epoch, stopped_early, words):
    epochs = _epochs([2, 1, 0.5], [2, 1.25, 1.75])

    remark = training_remarks(epochs, exported_epoch, stopped_early=stopped_early)[0]

    assert words in remark
    assert ("early_stopping_patience" in remark) == (exported_epoch == 3)


def test_a_wide_gap_between_training_and_validation_is_named():
    (remark,) = training_remarks([{"accuracy": 0.95, "val_accuracy": 0.7}], 1)

    assert "accuracy is 0.950 in training and 0.700 in validation" in remark
    assert not training_remarks([{"accuracy": 0.75, "val_accuracy": 0.7}], 1)


def test_residuals_of_few_examples_are_drawn_in_few_bins():
    bins = [{"low": low, "high": low + 2.0, "num_examples": 1} for low in (-26.0, -2.0, 0.0, 2.0, 38.0)]

    wider = wider_residual_bins(bins)

    assert wider == [
        {"low": -32.0, "high": -24.0, "num_examples": 1},
        {"low": -8.0, "high": 0.0, "num_examples": 1},
        {"low": 0.0, "high": 8.0, "num_examples": 2},
        {"low": 32.0, "high": 40.0, "num_examples": 1},
    ]
    assert wider_residual_bins(bins[1:4]) == bins[1:4]
