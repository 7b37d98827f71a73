"""GraphEvaluator: metrics of the exported model on raw examples, by slice, and its blessing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

from tfx_gnn.components.graph_evaluator.change_report import LatestBlessedModel, read_latest_blessed_model
from tfx_gnn.components.graph_evaluator.column_pipeline import ColumnReader
from tfx_gnn.components.graph_evaluator.evaluation_pipeline import gather_sums
from tfx_gnn.components.graph_evaluator.evaluation_report import (
    GraphEvaluation,
    TaskEvaluation,
    count_without_label,
    evaluate_intervals,
    evaluate_slices,
    evaluate_task,
    with_intervals,
)
from tfx_gnn.components.graph_evaluator.example_identity import ExampleIdentity
from tfx_gnn.components.graph_evaluator.kept_predictions import KeptPredictions, predictions_file, write_predictions
from tfx_gnn.components.graph_evaluator.measures import EvaluationSums, Measure
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.ranking import KnownLinks
from tfx_gnn.components.graph_evaluator.slices import check_slices_are_of_seeds, make_slicings
from tfx_gnn.components.graph_evaluator.task_measures import task_measures
from tfx_gnn.components.graph_evaluator.tfma_files import write_tfma_files
from tfx_gnn.components.graph_evaluator.thresholds import (
    Verdict,
    check_task_changes,
    check_task_thresholds,
    check_thresholds_on_data,
    count_undecided_slices,
    metrics_of_task,
)
from tfx_gnn.components.graph_evaluator.trees_comparison import (
    TreesPlan,
    compare_with_trees,
    plan_trees,
)
from tfx_gnn.components.graph_evaluator.trees_thresholds import check_task_trees, warn_of_trees
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.io.atomic_folder import atomic_folders
from tfx_gnn.records.blessing import BlessingSubject, write_blessing
from tfx_gnn.records.examples_folder import graph_schema_path
from tfx_gnn.serving.model_fingerprint import fingerprint_model
from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER
from tfx_gnn.serving.versions import resolve_saved_model

METRICS_FILE = "metrics.json"

_SUMS_FILE = "sums.json"


def evaluate_graph_model(
    *,
    examples_dir: str,
    model_dir: str,
    evaluation_dir: str,
    blessing_dir: str,
    blessed_model_dir: str = "",
    options: GraphEvaluatorOptions,
    beam_args: Sequence[str] = (),
) -> GraphEvaluation:
    """Runs the exported model on the raw examples of a split and blesses it if it is good enough.

    The evaluation measures what will be served: the model gets serialized examples, as from a client; so does the
    latest blessed model, if any. Apache Beam gathers the sums, on as many machines as it is given.

    Args:
        examples_dir: raw examples, with labels.
        model_dir: trained model, with `Format-Serving/`.
        evaluation_dir: absent or empty folder for `metrics.json`, for the answers by example that are kept, and for the
            files that TensorFlow Model Analysis loads.
        blessing_dir: absent or empty folder for `BLESSED` or `NOT_BLESSED`, and `reasons.json`.
        blessed_model_dir: the latest blessed model: output of LatestBlessedModelResolver, a trained model, a SavedModel
            or a push destination; empty: absolute bounds decide alone.
        options: what to measure, and what a blessing requires.
        beam_args: command-line arguments of Apache Beam.

    Returns:
        What was found, as in the files.

    Raises:
        ValueError: if a split is missing or has no labelled example, too many
            examples lack a label, a slice is not by a feature of the seeds, or a
            threshold is on a metric that has the same value for every model; or if the latest blessed model is of
            another task, or cannot answer the examples.
        FileNotFoundError: if `model_dir` holds no SavedModel, or `blessed_model_dir` neither one nor the record that no
            model has been blessed yet.
    """
    saved_model_dir = resolve_saved_model(os.path.join(model_dir, MODEL_ARTIFACT_FOLDER))
    blessed = read_latest_blessed_model(blessed_model_dir, saved_model_dir) if blessed_model_dir else None
    schema_path = graph_schema_path(examples_dir)
    schema = graph_schema_io.read_schema(schema_path) if tf.io.gfile.exists(schema_path) else None
    if schema is not None:
        check_slices_are_of_seeds(options.slices, schema)
    slicings = make_slicings(options.slices, options.slice_edges, schema, options.slice_quantiles)
    measures = task_measures(options)
    trees = plan_trees(measures, schema, options)
    identity = ExampleIdentity.of(schema, {measure.label_key for measure in measures.values()})
    with atomic_folders({"evaluation_dir": evaluation_dir, "blessing_dir": blessing_dir}) as (
        evaluation_partial,
        blessing_partial,
    ):
        sums = gather_sums(
            examples_dir=examples_dir,
            saved_model_dir=saved_model_dir,
            blessed_model_dir=blessed.saved_model_dir if blessed is not None else "",
            split=options.split,
            baseline_split=options.baseline_split,
            measures=measures,
            slices=slicings,
            known_links=KnownLinks(path=options.known_links, features=options.known_link_features)
            if options.known_links
            else None,
            num_replicas=options.bootstrap_replicas if options.baseline_confidence else 0,
            columns=_column_reader(trees, measures),
            identity=identity,
            scratch_file=os.path.join(evaluation_partial, _SUMS_FILE),
            beam_args=beam_args,
        )
        evaluation, verdicts = _evaluate(sums, options, examples_dir, blessed, trees, identified_by=identity.kind)
        with tf.io.gfile.GFile(os.path.join(evaluation_partial, METRICS_FILE), "w") as file:
            file.write(json.dumps(evaluation.report(), indent=2, allow_nan=False) + "\n")
        for name, task in evaluation.tasks.items():
            if task.predictions is not None:
                with tf.io.gfile.GFile(os.path.join(evaluation_partial, predictions_file(name)), "wb") as file:
                    file.write(write_predictions(task.predictions))
        write_tfma_files(
            evaluation_partial,
            evaluation,
            verdicts,
            options=options,
            examples_dir=examples_dir,
            model_dir=saved_model_dir,
        )
        # If the model is refused, only the missed thresholds are listed.
        reasons = evaluation.reasons if evaluation.blessed else evaluation.objections
        write_blessing(
            blessing_partial,
            blessed=evaluation.blessed,
            reasons=reasons,
            subject=BlessingSubject(kind="model", fingerprint=fingerprint_model(saved_model_dir)),
        )
    return evaluation


def _evaluate(
    sums: EvaluationSums,
    options: GraphEvaluatorOptions,
    examples_dir: str,
    blessed: LatestBlessedModel | None,
    trees: TreesPlan | None,
    *,
    identified_by: str,
) -> tuple[GraphEvaluation, list[Verdict]]:
    tasks: dict[str, TaskEvaluation] = {}
    verdicts: list[Verdict] = []
    warnings: list[str] = []
    for name, measure in task_measures(options).items():
        _check_labels(sums, name, measure, examples_dir, options)
        slices = evaluate_slices(measure, sums, name, options.baseline_split)
        intervals = evaluate_intervals(measure, sums, name, slices, options)
        slices = with_intervals(slices, intervals, metrics_of_task(options.max_slice_intervals, name, measure.metrics))
        tasks[name] = evaluate_task(
            measure,
            sums,
            name,
            baseline_split=options.baseline_split,
            slices=slices,
            intervals=intervals.get(("", "")),
            num_slices=options.num_slices,
            split=options.split,
            confidence=options.baseline_confidence,
            num_replicas=options.bootstrap_replicas,
            trees=compare_with_trees(trees, name, measure, sums, options) if trees is not None else None,
            predictions=KeptPredictions(
                kind=measure.kind,
                split=options.split,
                identified_by=identified_by,
                num_examples=sums.evaluated[name, "", ""].num_examples,
                setting=measure.setting,
                sample=sums.kept[name],
            ),
        )
        warnings += warn_of_trees(name, tasks[name], has_edges=trees is not None and trees.has_edges)
        warnings += check_thresholds_on_data(name, measure, tasks[name], options)
        warnings += count_undecided_slices(name, slices, options)
        verdicts += check_task_thresholds(name, measure, tasks[name], slices=slices, options=options)
        verdicts += check_task_changes(name, measure, tasks[name], slices=slices, options=options)
        verdicts += check_task_trees(name, measure, tasks[name], options)
    evaluation = GraphEvaluation(
        split=options.split,
        tasks=tasks,
        blessed=all(verdict.passed for verdict in verdicts),
        reasons=tuple(verdict.sentence for verdict in verdicts),
        objections=tuple(verdict.sentence for verdict in verdicts if not verdict.passed),
        warnings=tuple(warnings),
        latest_blessed_model=blessed,
    )
    return evaluation, verdicts


def _column_reader(plan: TreesPlan | None, measures: Mapping[str, Measure]) -> ColumnReader | None:
    if plan is None or plan.columns is None or not plan.tasks:
        return None
    return ColumnReader(columns=plan.columns, measures={name: measures[name] for name in plan.tasks})


def _check_labels(
    sums: EvaluationSums, task: str, measure: Measure, examples_dir: str, options: GraphEvaluatorOptions
) -> None:
    without_label = count_without_label(sums, task)
    if without_label > options.max_examples_without_label:
        path = graph_schema_path(examples_dir)
        known = measure.labels_of(graph_schema_io.read_schema(path)) if tf.io.gfile.exists(path) else []
        is_known = not known or measure.label_name in known
        remedy = "Label them" if is_known else f"Available features are {known}: name one of them"
        raise ValueError(
            f"`examples_dir` must have a label {measure.label_name!r} on all but "
            f"{options.max_examples_without_label} examples; got {without_label} without one in splits "
            f"{options.split!r} and {options.baseline_split!r} of {examples_dir!r}. {remedy}, or raise "
            "`max_examples_without_label`."
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
