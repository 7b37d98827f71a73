"""GraphEvaluator: what is the exported model worth on raw examples, and may it be pushed?"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import schema as graph_schema_io
from tfx_gnn.models.tasks import Task
from tfx_gnn.serving.signature import MODEL_ARTIFACT_FOLDER
from tfx_gnn.serving.versions import resolve_saved_model
from tfx_gnn.stages.evaluation import judgement
from tfx_gnn.stages.evaluation.evaluation_pipeline import EvaluationSums, gather_sums
from tfx_gnn.stages.evaluation.evaluation_report import GraphEvaluation
from tfx_gnn.stages.evaluation.known_links import KnownLinks
from tfx_gnn.stages.evaluation.measures import Measure, RankingMeasure
from tfx_gnn.stages.evaluation.slices import check_slice_keys, check_slices_are_of_seeds
from tfx_gnn.stages.evaluation.task_measures import label_measure, measures_of
from tfx_gnn.stages.evaluation.thresholds import checked_thresholds
from tfx_gnn.stages.examples_folder import graph_schema_path
from tfx_gnn.stages.files.atomic_folder import atomic_folders
from tfx_gnn.stages.files.blessing import Judged, write_blessing
from tfx_gnn.stages.files.fingerprint import fingerprint_folders

METRICS_FILE = "metrics.json"

_SUMS_FILE = "sums.json"
_CLASSIFICATION = "classification"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphEvaluatorOptions:
    """What to measure, and what a model must reach to be blessed.

    A model must always be better than the baseline: in accuracy than the majority class, in RMSE than the mean, in
    MRR (or, without false pairs beside the true ones, ROC AUC) than a random order.

    Attributes:
        label_feature: feature of node set `_readout` with the true class, string or integer. It stands for
            a classification of nodes; give `task` for anything else.
        task: what the model was trained for, as the trainer has it.
        split: split to evaluate.
        baseline_split: split whose most frequent class the majority baseline always
            predicts, or whose mean; a baseline may not look at the labels that it is scored on.
        min_accuracy_over_majority: accuracy of a classification must be greater than the baseline's by
            more than this; at least 0.
        min_accuracy: accuracy must be at least this, in [0, 1].
        min_macro_f1: macro-F1 must be at least this, in [0, 1].
        max_examples_without_label: examples of the two splits that may lack a label;
            with more of them the evaluation fails.
        thresholds: bounds on any metrics: for each a number, which is the least value or, of an error, the
            largest, or a dict with some of "min", "max" and "gain", the advantage over the baseline that it must
            exceed, such as {"rmse": {"max": 1.3}}. Where there are several tasks, names are "<task>.<metric>".
        slices: features by which examples are also measured apart: "context/<feature>",
            "nodes/<set>.<feature>" for the seed's own value (the source's, of a link), "nodes/<set>.#size" or
            "edges/<set>.#size". Strings or integers.
        num_slices: of each of these features, so many of the largest and so many of the smallest slices are
            reported; at least 1. All are judged.
        slice_thresholds: bounds that every slice must keep, in the form of `thresholds`.
        min_slice_examples: labelled examples that a slice must have to be judged, at least 1.
        known_links: for link prediction, path of a table of true links of all splits, with columns "source" and
            "target". Candidates that are labelled false and stand there are left out of rankings, which are
            "filtered" then, and of areas under curves; they are counted. The ids are compared as text, so the
            model must answer them. A pipeline's cache sees the path alone: give changed links another one.
        known_link_features: further columns of that table, and features of `_readout` in the examples, that tell
            links of the same ends apart, such as the relation.
    """

    label_feature: str = ""
    task: Task | None = None
    split: str = "test"
    baseline_split: str = "train"
    min_accuracy_over_majority: float = 0.0
    min_accuracy: float = 0.0
    min_macro_f1: float = 0.0
    max_examples_without_label: int = 0
    thresholds: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    slices: tuple[str, ...] = ()
    num_slices: int = 10
    slice_thresholds: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    min_slice_examples: int = 1
    known_links: str = ""
    known_link_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.label_feature) == (self.task is not None):
            raise ValueError(
                "`label_feature` must not be empty unless `task` is given, and not both; got "
                f"label_feature={self.label_feature!r}, task={self.task!r}. Name a feature of the examples, or give "
                "the task."
            )
        for name in ("split", "baseline_split"):
            if not getattr(self, name):
                raise ValueError(f"`{name}` must not be empty; got ''. Name a split of the examples.")
        for name in ("min_accuracy_over_majority", "min_accuracy", "min_macro_f1"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"`{name}` must lie in [0, 1]; got {getattr(self, name)}. Give a share, not percent.")
        for name, least in (("max_examples_without_label", 0), ("num_slices", 1), ("min_slice_examples", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}; got {getattr(self, name)}. Give a count.")
        check_slice_keys(self.slices)
        self._check_thresholds()
        self._check_known_links()

    def _check_thresholds(self) -> None:
        measures = self.measures()
        if not any(measure.kind == _CLASSIFICATION for measure in measures.values()):
            for name in ("min_accuracy_over_majority", "min_accuracy", "min_macro_f1"):
                if getattr(self, name):
                    raise ValueError(
                        f"`{name}` must be 0 where nothing is classified; got {getattr(self, name)}. Bound the metrics "
                        "of the task by `thresholds`."
                    )
        names = [_full_name(task, metric) for task, measure in measures.items() for metric in measure.metrics]
        for option in ("thresholds", "slice_thresholds"):
            object.__setattr__(self, option, checked_thresholds(option, getattr(self, option), names))

    def _check_known_links(self) -> None:
        object.__setattr__(self, "known_link_features", tuple(self.known_link_features))
        if self.known_link_features and not self.known_links:
            raise ValueError(
                f"`known_link_features` must be columns of `known_links`; got {self.known_link_features} without a "
                "table. Name it."
            )
        if self.known_links and not any(isinstance(measure, RankingMeasure) for measure in self.measures().values()):
            raise ValueError(
                f"`known_links` must be empty where no links are predicted; got {self.known_links!r}. Leave it out."
            )

    def measures(self) -> dict[str, Measure]:
        """Tells how each task is measured.

        Returns:
            Measures by name of the task, which is "" for a single one.
        """
        return {"": label_measure(self.label_feature)} if self.task is None else measures_of(self.task)


def evaluate_graph_model(
    *,
    examples_dir: str,
    model_dir: str,
    evaluation_dir: str,
    blessing_dir: str,
    options: GraphEvaluatorOptions,
    beam_args: Sequence[str] = (),
) -> GraphEvaluation:
    """Runs the exported model over the raw examples of a split and blesses it if it is good enough.

    What is measured is what will be served: serialized examples go in, as from a
    client. Sums are gathered by Apache Beam, on as many machines as it is given.

    Args:
        examples_dir: raw examples, with labels.
        model_dir: trained model, with `Format-Serving/`.
        evaluation_dir: absent or empty folder for `metrics.json`.
        blessing_dir: absent or empty folder for `BLESSED` or `NOT_BLESSED`, and `reasons.json`.
        options: what to measure and to require.
        beam_args: command-line arguments of Apache Beam.

    Returns:
        What was found, as in the files.

    Raises:
        ValueError: if a split is missing or has no labelled example, too many
            examples lack a label, or a slice is of no feature of the seeds.
        FileNotFoundError: if `model_dir` holds no SavedModel.
    """
    saved_model_dir = resolve_saved_model(os.path.join(model_dir, MODEL_ARTIFACT_FOLDER))
    schema_path = graph_schema_path(examples_dir)
    if options.slices and tf.io.gfile.exists(schema_path):
        check_slices_are_of_seeds(options.slices, graph_schema_io.read_schema(schema_path))
    measures = options.measures()
    with atomic_folders({"evaluation_dir": evaluation_dir, "blessing_dir": blessing_dir}) as (
        evaluation_partial,
        blessing_partial,
    ):
        sums = gather_sums(
            examples_dir=examples_dir,
            saved_model_dir=saved_model_dir,
            split=options.split,
            baseline_split=options.baseline_split,
            measures=measures,
            slices=options.slices,
            known_links=KnownLinks(path=options.known_links, features=options.known_link_features)
            if options.known_links
            else None,
            scratch_file=os.path.join(evaluation_partial, _SUMS_FILE),
            beam_args=beam_args,
        )
        evaluation = _judge(sums, measures, examples_dir, options)
        with tf.io.gfile.GFile(os.path.join(evaluation_partial, METRICS_FILE), "w") as file:
            file.write(json.dumps(evaluation.report(), indent=2, allow_nan=False) + "\n")
        # Who asks why a blessing is withheld has no use for the bounds that were kept.
        reasons = evaluation.reasons if evaluation.blessed else evaluation.objections
        write_blessing(
            blessing_partial,
            blessed=evaluation.blessed,
            reasons=reasons,
            judged=Judged(kind="model", fingerprint=fingerprint_folders([saved_model_dir])),
        )
    return evaluation


def _judge(
    sums: EvaluationSums, measures: Mapping[str, Measure], examples_dir: str, options: GraphEvaluatorOptions
) -> GraphEvaluation:
    tasks, verdicts = {}, []
    for name, measure in measures.items():
        _check_labels(sums, name, measure, examples_dir, options)
        slices = judgement.evaluated_slices(measure, sums, name, options.baseline_split)
        tasks[name] = judgement.evaluate_task(
            measure, sums, name, baseline_split=options.baseline_split, slices=slices, num_slices=options.num_slices
        )
        verdicts += judgement.verdicts_of_task(
            measure,
            tasks[name],
            name,
            thresholds=_thresholds_of(name, measure, options),
            slices=slices,
            slice_thresholds=_of_task(options.slice_thresholds, name, measure),
            min_slice_examples=options.min_slice_examples,
        )
    return GraphEvaluation(
        split=options.split,
        tasks=tasks,
        blessed=all(verdict.passed for verdict in verdicts),
        reasons=tuple(verdict.sentence for verdict in verdicts),
        objections=tuple(verdict.sentence for verdict in verdicts if not verdict.passed),
    )


def _check_labels(
    sums: EvaluationSums, task: str, measure: Measure, examples_dir: str, options: GraphEvaluatorOptions
) -> None:
    without_label = judgement.num_without_label(sums, task)
    if without_label > options.max_examples_without_label:
        path = graph_schema_path(examples_dir)
        known = measure.labels_of(graph_schema_io.read_schema(path)) if tf.io.gfile.exists(path) else []
        is_known = not known or measure.label_name in known
        remedy = "Label them" if is_known else f"Features there are {known}: name one of them"
        raise ValueError(
            f"`examples_dir` must have a label {measure.label_name!r} on every example but "
            f"{options.max_examples_without_label}; got {without_label} without one in splits {options.split!r} and "
            f"{options.baseline_split!r} of {examples_dir!r}. {remedy}, or raise `max_examples_without_label`."
        )
    parts = {options.split: sums.evaluated.get((task, "", ""))}
    if measure.needs_baseline_split:
        parts[options.baseline_split] = sums.baselines.get(task)
    for split, part in parts.items():
        if part is None or not part.num_examples:
            raise ValueError(
                f"`examples_dir` must hold labelled examples of split {split!r}; got none in {examples_dir!r}. "
                "Choose another split or make the examples again."
            )


def _thresholds_of(task: str, measure: Measure, options: GraphEvaluatorOptions) -> dict[str, dict[str, float]]:
    """Bounds of one task, with those that have options of their own."""
    bounds: dict[str, dict[str, float]] = {}
    if measure.kind == _CLASSIFICATION:
        bounds["accuracy"] = {"gain": options.min_accuracy_over_majority}
        for name, least in (("accuracy", options.min_accuracy), ("macro_f1", options.min_macro_f1)):
            if least > 0.0:
                bounds[name] = {**bounds.get(name, {}), "min": least}
    for name, of_metric in _of_task(options.thresholds, task, measure).items():
        bounds[name] = {**bounds.get(name, {}), **of_metric}
    return bounds


def _of_task(thresholds: Mapping[str, Any], task: str, measure: Measure) -> dict[str, dict[str, float]]:
    by_name = {_full_name(task, metric): metric for metric in measure.metrics}
    return {by_name[name]: bounds for name, bounds in thresholds.items() if name in by_name}


def _full_name(task: str, metric: str) -> str:
    return f"{task}.{metric}" if task else metric
