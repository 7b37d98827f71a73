"""What a finished run found and where it is: plain values, which are read once and can be kept."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfx_gnn.components.graph_evaluator.metric_names import ERRORS, ROC_AUC, shown_metric
from tfx_gnn.io.json_shapes import Shape, read_shaped_json

if TYPE_CHECKING:
    from tfx_gnn_pipelines.config import PipelineConfig
    from tfx_gnn_pipelines.lineage import ArtifactRecord, ComponentRun

CACHED = "cached"

_ANOMALIES: dict[str, Shape] = {"anomalies": [{"severity": str, "split": str, "about": str, "description": str}]}
_CONSTANT_ANSWERS = {
    "majority_baseline": ("accuracy", "the answer {class!r} alone"),
    "mean_baseline": ("rmse", "the mean label alone"),
    "random_baseline": ("mrr", "a random order"),
}
"""By baseline: the metric in which a model must be better, and the baseline in words."""
_TELLS_APART = 0.6


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """What one component did.

    Attributes:
        component: its id.
        state: "complete" or "cached".
        outputs: folders by output name.
    """

    component: str
    state: str
    outputs: dict[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """The outcome of a run in which every component succeeded.

    Attributes:
        pipeline: name of the pipeline.
        root: its root.
        steps: the components, in the order in which they ran.
        metrics: the evaluation.
        pushed_model: folder of the version that was pushed, by this run or the one whose push is reused; empty if the
            model was not good enough.
        objections: why the model was not blessed.
        warnings: what steps found wrong and did not refuse, with what to do about it, the most severe first.
        places: paths of outputs, by what they are called in a summary.
        logs_dir: folder of TensorBoard's logs.
        examples_dir: folder of the examples that were evaluated.
        skew: one line about training and serving.
        skew_file: the report of that.
        search: one line about the best hyperparameters; empty without a search.
        search_report: the report of that; empty without a search.
    """

    pipeline: str
    root: str
    steps: tuple[StepOutcome, ...]
    metrics: dict[str, Any]
    pushed_model: str
    objections: tuple[str, ...]
    warnings: tuple[str, ...]
    places: dict[str, str]
    logs_dir: str
    examples_dir: str
    skew: str
    skew_file: str
    search: str
    search_report: str

    @property
    def is_pushed(self) -> bool:
        """Whether the model was pushed and the pushed version still exists."""
        return bool(self.pushed_model) and os.path.isdir(self.pushed_model)

    def as_cached(self) -> RunOutcome:
        """Returns the outcome of the same run again, in which every component was cached."""
        return dataclasses.replace(self, steps=tuple(dataclasses.replace(step, state=CACHED) for step in self.steps))


def read_outcome(config: PipelineConfig, runs: Sequence[ComponentRun]) -> RunOutcome:
    """Reads the outcome of a run from the outputs of its components, all of which succeeded."""
    # An outcome that was kept is shown without these and TensorFlow, which takes seconds to import.
    from tfx_gnn.components.graph_evaluator.stage import METRICS_FILE
    from tfx_gnn.components.graph_skew_validator.report import SKEW_FILE, read_skew_report
    from tfx_gnn.records import graph_schema_path
    from tfx_gnn.records.blessing import INFRA_PREFIX
    from tfx_gnn.records.examples_folder import split_dir
    from tfx_gnn.records.size_constraints_file import SIZE_CONSTRAINTS_FILE
    from tfx_gnn.reports.report_page import REPORT_FILE
    from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER

    outputs = {run.component: run.outputs for run in runs}
    metrics_file = os.path.join(outputs["GraphEvaluator"]["evaluation"].uri, METRICS_FILE)
    budgets_dir = outputs["SizeConstraintLearner"]["size_constraints"].uri
    skew_dir = outputs["GraphSkewValidator"]["skew"].uri
    skew = read_skew_report(skew_dir)
    num_by_id = sum(skew.served_by_id.num_asked.values()) if skew.served_by_id else 0
    by_id = f", {num_by_id} of them by id through a server" if num_by_id else ""
    search, search_report = _search(outputs)
    verdicts = {"": outputs["GraphEvaluator"]["blessing"].uri}
    verdicts[INFRA_PREFIX] = outputs["GraphSkewValidator"]["infra_blessing"].uri
    pushed_model = str(outputs["GraphPusher"]["pushed_model"].properties.get("pushed_destination", ""))
    metrics = read_shaped_json(metrics_file, {})
    return RunOutcome(
        pipeline=config.pipeline_name,
        root=config.root,
        steps=tuple(
            StepOutcome(
                component=run.component,
                state=run.state,
                outputs={name: artifact.uri for name, artifact in run.outputs.items()},
            )
            for run in runs
        ),
        metrics=metrics,
        pushed_model=pushed_model,
        objections=() if pushed_model else _objections(verdicts),
        warnings=(
            *_useless_model(metrics),
            *_training_warnings(outputs["GraphTrainer"]["model_run"].uri),
            *_anomalies(outputs),
            *(f"GraphEvaluator: {warning}" for warning in metrics.get("warnings", [])),
            *_budget_warnings(budgets_dir),
        ),
        places={
            "graph schema": graph_schema_path(outputs["GraphSchemaGen"]["graph_schema"].uri),
            "budgets": os.path.join(budgets_dir, SIZE_CONSTRAINTS_FILE),
            "budget report": os.path.join(budgets_dir, REPORT_FILE),
            "model": os.path.join(outputs["GraphTrainer"]["model"].uri, MODEL_ARTIFACT_FOLDER),
            "metrics": metrics_file,
            **_answers(outputs),
            "lineage": config.metadata_path,
        },
        logs_dir=os.path.join(outputs["GraphTrainer"]["model_run"].uri, "logs"),
        examples_dir=split_dir(outputs["SubgraphExampleGen"]["examples"].uri, config.graph_evaluator.split),
        skew=f"largest difference {skew.largest_difference:g} in {skew.num_compared} examples{by_id}",
        skew_file=os.path.join(skew_dir, SKEW_FILE),
        search=search,
        search_report=search_report,
    )


def tasks_of(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the evaluation of each task by its name, which is "" for a single task."""
    tasks: Mapping[str, Any] = metrics.get("tasks", {"": metrics})
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
                yield (
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


def _training_warnings(model_run_dir: str) -> Iterator[str]:
    from tfx_gnn.training.loop.summary import SUMMARY_FILE

    summary = read_shaped_json(os.path.join(model_run_dir, SUMMARY_FILE), {"warnings?": [str]})
    yield from (f"GraphTrainer: {warning}" for warning in summary.get("warnings", []))


def _anomalies(outputs: Mapping[str, Mapping[str, ArtifactRecord]]) -> Iterator[str]:
    from tfx_gnn.components.graph_example_validator.checks import READABLE_FILE

    anomalies_file = os.path.join(outputs["GraphExampleValidator"]["anomalies"].uri, READABLE_FILE)
    found = read_shaped_json(anomalies_file, _ANOMALIES)["anomalies"]
    for anomaly in sorted(found, key=lambda one: one["severity"] != "error"):
        about = f", {anomaly['about']}" if anomaly["about"] else ""
        yield f"GraphExampleValidator, split {anomaly['split']!r}{about}: {anomaly['description']}"


def _budget_warnings(budgets_dir: str) -> Iterator[str]:
    from tfx_gnn.records.size_constraints_file import SIZE_CONSTRAINTS_FILE

    for warning in read_shaped_json(os.path.join(budgets_dir, SIZE_CONSTRAINTS_FILE), {"warnings": [str]})["warnings"]:
        yield f"SizeConstraintLearner: {warning}"


def _answers(outputs: Mapping[str, Mapping[str, ArtifactRecord]]) -> dict[str, str]:
    """The folders of answers in bulk that the pipeline has, if the model was asked."""
    inferrers = {"answers": "GraphBulkInferrer", "layerwise": "GraphLayerwiseInferrer"}
    found = {name: outputs[step]["inference"] for name, step in inferrers.items() if step in outputs}
    return {name: record.uri for name, record in found.items() if record.properties.get("blessed")}


def _search(outputs: Mapping[str, Mapping[str, ArtifactRecord]]) -> tuple[str, str]:
    from tfx_gnn.reports.report_page import REPORT_FILE
    from tfx_gnn.training.best_hyperparameters import BEST_HYPERPARAMETERS_FILE

    if "GraphTuner" not in outputs:
        return "", ""
    folder = outputs["GraphTuner"]["best_hyperparameters"].uri
    best = read_shaped_json(os.path.join(folder, BEST_HYPERPARAMETERS_FILE), {})
    return ", ".join(f"{name}={value}" for name, value in best.items()), os.path.join(folder, REPORT_FILE)


def _objections(verdicts: Mapping[str, str]) -> tuple[str, ...]:
    from tfx_gnn.records.blessing import is_blessed, read_reasons

    withheld = [folder for prefix, folder in verdicts.items() if not is_blessed(folder, prefix=prefix)]
    return tuple(reason for folder in withheld for reason in read_reasons(folder))
