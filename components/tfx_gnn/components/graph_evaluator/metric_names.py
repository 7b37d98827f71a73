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


def is_share(metric: str) -> bool:
    """Returns whether a metric lies in [0, 1]."""
    return metric == CALIBRATION_ERROR or metric not in ERRORS | {R2}


def full_metric_name(task: str, metric: str) -> str:
    """Returns the name of a metric of one of several tasks; a task alone has no name."""
    return f"{task}.{metric}" if task else metric


def metric_of_full_name(name: str) -> str:
    """Strips the task's name from the name of a metric."""
    return name.rpartition(".")[2]
