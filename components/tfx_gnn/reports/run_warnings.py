"""What the steps of a run found wrong and did not refuse, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfx_gnn.records.metric_names import ERRORS, ROC_AUC, shown_metric
from tfx_gnn.records.warning_kinds import NO_BETTER_THAN_CONSTANT

_CONSTANT_ANSWERS = {
    "majority_baseline": ("accuracy", "the answer {class!r} alone"),
    "mean_baseline": ("rmse", "the mean label alone"),
    "random_baseline": ("mrr", "a random order"),
}
"""By baseline: the metric in which a model must be better, and the baseline in words."""
_TELLS_APART = 0.6


def run_warnings(files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Lists the warnings of all steps, the most severe first.

    Args:
        files: contents of "evaluation", "training", "anomalies" and "budgets", as in `RunContents.files`; what a run
            did not reach is absent or empty.
    """
    evaluation = files.get("evaluation", {})
    return [
        *_useless_model(evaluation),
        *(f"GraphTrainer: {warning}" for warning in files.get("training", {}).get("warnings", ())),
        *_anomalies(files.get("anomalies", {})),
        *(f"GraphEvaluator: {warning}" for warning in evaluation.get("warnings", ())),
        *(f"SizeConstraintLearner: {warning}" for warning in files.get("budgets", {}).get("warnings", ())),
    ]


def tasks_of(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the evaluation of each task by its name, which is "" for a single task; empty without an evaluation."""
    tasks: Mapping[str, Any] = metrics.get("tasks", {"": metrics} if metrics else {})
    return tasks


def _useless_model(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Warns where a model does no better than an answer that is the same for everybody."""
    for name, task in tasks_of(metrics).items():
        for kind, (metric, words) in _CONSTANT_ANSWERS.items():
            baseline = task.get(kind, {})
            # The metric that the evaluator was asked to compare, if it did.
            metric = task.get("baseline_comparison", {}).get("metric", metric)
            if metric not in task or metric not in baseline:
                continue
            value, of_baseline = task[metric], baseline[metric]
            if (value >= of_baseline) if metric in ERRORS else (value <= of_baseline):
                yield NO_BETTER_THAN_CONSTANT.mark(
                    f"GraphEvaluator{f', task {name!r}' if name else ''}: the model's {shown_metric(metric)} of "
                    f"{value:.3f} is no better than that of {words.format(**baseline)}, {of_baseline:.3f}: "
                    f"{_why_useless(task)}"
                )


def _why_useless(task: Mapping[str, Any]) -> str:
    area = task.get("trees_baseline", {}).get("model", {}).get(ROC_AUC, 0.5)
    if area > _TELLS_APART:
        return (
            f"its ROC AUC of {area:.3f} says that it tells classes apart, but it hardly ever answers the rarer one. "
            "Weigh the classes, or use the probabilities and let `main_metric: roc_auc` of GraphEvaluator decide."
        )
    return (
        "it has learned nothing of use. Look at the loss by epoch, at features without a sane scale, and at whether "
        "anything in the tables tells the label."
    )


def _anomalies(anomalies: Mapping[str, Any]) -> Iterator[str]:
    for anomaly in sorted(anomalies.get("anomalies", ()), key=lambda one: one["severity"] != "error"):
        about = f", {anomaly['about']}" if anomaly["about"] else ""
        # The name of the check says the kind.
        yield f"GraphExampleValidator, split {anomaly['split']!r}{about}: {anomaly['description']} [{anomaly['check']}]"
