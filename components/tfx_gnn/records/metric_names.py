"""Names of metrics: how messages spell them, and which of them are better when smaller."""

from __future__ import annotations

CALIBRATION_ERROR = "expected_calibration_error"
"""An error that has an upper bound, 1, and is not compared with the baseline, which has no confidence."""

ERRORS = frozenset({"rmse", "mae", CALIBRATION_ERROR})
"""Metrics that are better when smaller; all but `CALIBRATION_ERROR` have no upper bound."""

ROC_AUC = "roc_auc"
"""Area under the curve of true by false positive rate, of pairs or of two classes."""

R2 = "r2"
"""The metric that has an upper bound, 1, but no lower one; all others except errors lie in [0, 1]."""

_SHOWN = {
    "macro_f1": "macro-F1",
    "balanced_accuracy": "balanced accuracy",
    CALIBRATION_ERROR: "expected calibration error",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R2",
    "mrr": "MRR",
    "hits_at_1": "hits@1",
    "hits_at_3": "hits@3",
    "hits_at_10": "hits@10",
    ROC_AUC: "ROC AUC",
    "average_precision": "average precision",
}


def shown_metric(name: str) -> str:
    """Returns the usual spelling of a metric's name, for messages."""
    return _SHOWN.get(name, name)


_MEANINGS = {
    "accuracy": "Share of the examples whose answer is right.",
    "macro_f1": "Mean of the classes' F1, in which rare classes count as much as frequent ones.",
    "balanced_accuracy": "Mean of the classes' recall: the share of each class that is found.",
    CALIBRATION_ERROR: "Mean distance between how sure the model is and how often it is right; 0 is best.",
    "rmse": "Root of the mean squared error, in the unit of the label; 0 is best.",
    "mae": "Mean absolute error, in the unit of the label; 0 is best.",
    R2: "Share of the label's variance that the answers explain; the mean label alone has 0, and 1 is best.",
    "mrr": "Mean reciprocal rank: 1 if the true target always ranks first, 1/2 if second.",
    "hits_at_1": "Share of the pairs whose true target ranks first.",
    "hits_at_3": "Share of the pairs whose true target is among the first 3.",
    "hits_at_10": "Share of the pairs whose true target is among the first 10.",
    ROC_AUC: "Probability that a true case scores above a false one; chance has 0.5, and 1 is best.",
    "average_precision": "Mean precision over all cuts of the ranking; chance has the share of true cases.",
    "loss": "What training minimizes; 0 is best.",
}


def metric_meaning(name: str) -> str:
    """Returns what a metric measures, in a sentence; empty for one that is not known here."""
    return _MEANINGS.get(name, "")


def is_share(metric: str) -> bool:
    """Returns whether a metric lies in [0, 1]."""
    return metric == CALIBRATION_ERROR or metric not in ERRORS | {R2}


def full_metric_name(task: str, metric: str) -> str:
    """Returns the name of a metric of one of several tasks; a task alone has no name."""
    return f"{task}.{metric}" if task else metric


def metric_of_full_name(name: str) -> str:
    """Strips the task's name from the name of a metric."""
    return name.rpartition(".")[2]
