"""Commands for trained models: `evaluate`, `skew`, `push`, `infer` and `predict`."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.components.graph_bulk_inferrer.options import GraphBulkInferrerOptions
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_pusher.options import GraphPusherOptions
from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions
from tfx_gnn.io.progress import progress

if TYPE_CHECKING:
    from tfx_gnn.components.graph_evaluator.evaluation_report import TaskEvaluation
    from tfx_gnn.components.graph_skew_validator.comparison import FeatureSkew

_SHOWN_CANDIDATES = 3
_LEAST_WIDTH_OF_NAMES = 14
"""Columns of the terminal that "always 0" and the like keep beside many metrics."""


@flags_of_options(
    GraphEvaluatorOptions,
    leave_out=("task",),
    as_values=True,
    shown=("label_feature", "split", "min_accuracy", "thresholds", "slices"),
)
def evaluate(
    *,
    examples_dir: arguments.Examples,
    model_dir: arguments.Model,
    evaluation_dir: Annotated[str, arguments.folder("Where to write `metrics.json`.")],
    blessing_dir: Annotated[str, arguments.folder("Where to write `BLESSED` or `NOT_BLESSED`, and the reasons.")],
    task_json: Annotated[
        str,
        typer.Option(
            help="The task that the model was trained for, instead of --label-feature: "
            '\'{"kind": "graph_regression", "label_feature": "weight"}\'.',
            show_default=False,
        ),
    ] = "",
    blessed_model_dir: Annotated[
        str,
        typer.Option(
            help="Latest blessed model, which this one must not be worse than: a push destination, whose newest "
            "version is used, or a model. If not given, absolute bounds decide alone.",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = "",
    options: dict[str, Any],
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Measure the exported model on raw examples, and bless it if it is good enough.

    Exits with 1 if it is not blessed.
    """
    from tfx_gnn.components.graph_evaluator.stage import evaluate_graph_model

    evaluation = evaluate_graph_model(
        examples_dir=examples_dir,
        model_dir=model_dir,
        evaluation_dir=evaluation_dir,
        blessing_dir=blessing_dir,
        blessed_model_dir=blessed_model_dir,
        options=GraphEvaluatorOptions(task=arguments.read_task("", task_json) if task_json else None, **options),
        beam_args=tuple(beam_args or ()),
    )
    for name, task in evaluation.tasks.items():
        of_task = f" with a label of task '{name}'" if name else ""
        arguments.console.print(
            _table_of_metrics(task, f"{task.num_examples} examples of split '{options['split']}'{of_task}")
        )
        if task.trees is not None:
            arguments.console.print(task.trees.meaning or f"no trees: {task.trees.reason}", markup=False)
    for reason in evaluation.reasons:
        arguments.console.print(reason, markup=False)
    for warning in evaluation.warnings:
        arguments.console.print(f"Warning: {warning}", markup=False)
    arguments.say_written(evaluation=evaluation_dir, blessing=blessing_dir)
    arguments.end_with_blessing(blessed=evaluation.blessed, objections=evaluation.objections)


def _table_of_metrics(task: TaskEvaluation, title: str) -> Table:
    """Tabulates the metrics of the model, the baseline and the slices, one per row."""
    from tfx_gnn.records.metric_names import shown_metric

    metrics = task.quality.metrics
    table = Table(Column(min_width=_LEAST_WIDTH_OF_NAMES), "examples", *map(shown_metric, metrics), title=title)

    def add(name: str, num_examples: int, values: Mapping[str, float]) -> None:
        shown = (f"{values[key]:.4f}" if key in values else "" for key in metrics)
        table.add_row(name, str(num_examples), *shown)

    majority = task.quality.report.get("majority_baseline")
    add("model", task.num_examples, metrics)
    if task.change is not None:
        add("latest blessed model", task.num_examples, task.change.quality.metrics)
    add(f"always '{majority['class']}'" if majority else task.baseline_name, task.num_examples, task.quality.baseline)
    if task.trees is not None and not task.trees.reason:
        add("trees without the graph", task.trees.num_examples, task.trees.trees)
    for one_slice in task.slices:
        add(f"{one_slice.feature} = {one_slice.value}", one_slice.num_examples, one_slice.quality.metrics)
    return table


@flags_of_options(
    GraphSkewValidatorOptions,
    leave_out=("asks_server",),
    names={"refuses_nonfinite_answers": "--refuse-nonfinite-answers"},
    shown=("split", "max_examples"),
)
def skew(
    *,
    examples_dir: arguments.Examples,
    transformed_examples_dir: arguments.TransformedExamples,
    model_dir: arguments.Model,
    model_run_dir: Annotated[str, arguments.folder("Model run of that model: the other output of `train`.")],
    skew_dir: Annotated[str, arguments.folder("Where to write `skew.json`.")],
    infra_blessing_dir: Annotated[
        str, arguments.folder("Where to write `INFRA_BLESSED` or `INFRA_NOT_BLESSED`, and the reasons.")
    ],
    graph_index_dir: Annotated[
        str,
        arguments.folder(
            "A graph index of the same tables, the output of `index`: a server is then asked about some of the "
            "examples by the ids of their seeds, and must sample and answer what training saw."
        ),
    ] = "",
    options: GraphSkewValidatorOptions,
) -> None:
    """Compare, value by value, what training saw with what the exported model gets, and bless the model if they match.

    Exits with 1 if it is not blessed.
    """
    from tfx_gnn.components.graph_skew_validator.stage import validate_skew

    report = validate_skew(
        examples_dir=examples_dir,
        transformed_examples_dir=transformed_examples_dir,
        model_dir=model_dir,
        model_run_dir=model_run_dir,
        skew_dir=skew_dir,
        infra_blessing_dir=infra_blessing_dir,
        graph_index_dir=graph_index_dir,
        options=options,
    )
    counts = ", ".join(f"{number} of '{split}'" for split, number in report.num_examples.items())
    arguments.console.print(f"examples: {counts}", markup=False)
    table = Table("", "kind", "values", "differing", "largest difference")
    differing = [feature for feature in report.features if feature.num_differing]
    by_id = report.served_by_id
    outputs = (*report.outputs, *_renamed(report.one_by_one, "one by one"))
    outputs += tuple(_renamed(by_id.outputs, "by id")) if by_id else ()
    for row in (*differing, report.rounding, *outputs):
        counted = (str(row.num_values), str(row.num_differing), f"{row.largest_difference:.3g}")
        table.add_row(row.key, row.kind, *counted)
    equal = len(report.features) - len(differing)
    arguments.console.print(f"features and parts of the structure without any difference: {equal}", markup=False)
    arguments.console.print(table)
    if by_id is not None and not report.blessed:
        arguments.console.print(by_id.text(), markup=False)
    for reason in report.reasons:
        arguments.console.print(reason, markup=False)
    arguments.say_written(skew=skew_dir, infra_blessing=infra_blessing_dir)
    arguments.end_with_blessing(blessed=report.blessed, objections=report.reasons)


def _renamed(outputs: Sequence[FeatureSkew], way: str) -> list[FeatureSkew]:
    return [dataclasses.replace(output, key=f"{output.key} {way}") for output in outputs]


@flags_of_options(
    GraphPusherOptions,
    names={"refuses_nonfinite_answers": "--refuse-nonfinite-answers"},
    shown=("num_verification_requests",),
)
def push(
    *,
    model_dir: arguments.Model,
    blessing_dir: Annotated[str, arguments.folder("Blessing of the model: an output of `evaluate`.")],
    examples_dir: arguments.Examples,
    push_destination: Annotated[str, arguments.folder("Folder or URI that a server watches for version folders.")],
    pushed_model_dir: Annotated[str, arguments.folder("Where to write the record `pushed_version.json`.")],
    infra_blessing_dir: arguments.InfraBlessing = "",
    options: GraphPusherOptions,
) -> None:
    """Make a blessed model the next version in a serving folder, after its copy has answered real requests.

    Exits with 1 if it is not pushed because a blessing is withheld.
    """
    from tfx_gnn.components.graph_pusher.stage import push_graph_model

    pushed = push_graph_model(
        model_dir=model_dir,
        blessing_dir=blessing_dir,
        examples_dir=examples_dir,
        push_destination=push_destination,
        pushed_model_dir=pushed_model_dir,
        infra_blessing_dir=infra_blessing_dir,
        options=options,
    )
    arguments.say_written(pushed_model=pushed_model_dir)
    # That an earlier version has this model, which is worth knowing although nothing is wrong.
    note = pushed.reason.partition("; ")[2]
    verdict = f"pushed version {pushed.version}: {pushed.path}" + (f" ({note})" if note else "")
    arguments.end_with_verdict(
        passed=pushed.pushed,
        verdict=verdict if pushed.pushed else "NOT pushed",
        reasons=(pushed.reason, *(f"warning: {warning}" for warning in pushed.warnings)),
    )


@flags_of_options(GraphBulkInferrerOptions, names={"outputs": "--output"}, shown=("splits", "outputs", "file_format"))
def infer(
    *,
    examples_dir: arguments.Examples,
    model_dir: Annotated[
        str, arguments.folder("A push destination (its newest version is used), a trained model, or a SavedModel.")
    ],
    inference_dir: Annotated[str, arguments.folder("Where to write the tables, by split, and `inference.json`.")],
    blessing_dir: arguments.AskedBlessing = "",
    infra_blessing_dir: arguments.InfraBlessing = "",
    options: GraphBulkInferrerOptions,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Write what a model answers to every example, as Parquet, CSV or TFRecord with the original ids.

    An interrupted run goes on where it stopped. `sample --every-node` makes examples of all nodes. Exits with 1 if a
    blessing is withheld.
    """
    from tfx_gnn.components.graph_bulk_inferrer.stage import infer_in_bulk

    found = infer_in_bulk(
        examples_dir=examples_dir,
        model_dir=model_dir,
        inference_dir=inference_dir,
        blessing_dir=blessing_dir,
        infra_blessing_dir=infra_blessing_dir,
        options=options,
        beam_args=tuple(beam_args or ()),
    )
    for split, number in found.num_examples.items():
        refused, without = found.num_refused[split], found.num_without_pairs[split]
        more = (f", {refused:,} refused" if refused else "") + (f", {without:,} without pairs" if without else "")
        arguments.console.print(
            f"split '{split}': {number:,} examples{more}, {found.num_rows[split]:,} rows", markup=False, highlight=False
        )
    if found.num_nonfinite:
        arguments.console.print(f"Warning: {found.num_nonfinite:,} values are NaN or infinite.", markup=False)
    arguments.say_written(inference=inference_dir)
    if not found.blessed:
        arguments.end_with_verdict(passed=False, verdict="NOT asked", reasons=found.reasons)


def predict(
    *,
    model_dir: Annotated[
        str, arguments.folder("A push destination (its newest version is used), a trained model, or a SavedModel.")
    ],
    examples: Annotated[
        str,
        typer.Option(
            help="Raw graph tf.Examples: a TFRecord file, or the folder of a split such as examples/Split-test.",
            show_default=False,
            metavar="PATH",
        ),
    ],
    limit: Annotated[int, typer.Option(help="Examples to predict; 0 for all.", min=0)] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, not a table.")] = False,
) -> None:
    """Predict examples with a model; needs only TensorFlow."""
    from tfx_gnn.serving.prediction import ServingModel, read_records
    from tfx_gnn.serving.versions import resolve_saved_model

    saved_model_dir = resolve_saved_model(model_dir)
    records = itertools.islice(read_records(examples), limit or None)
    first = next(records, None)
    if first is None:
        raise ValueError(
            f"`examples` must hold at least one example; got none in {examples!r}. Choose another split or file, or "
            "make the examples again."
        )
    answers = ServingModel(saved_model_dir).answers(itertools.chain([first], records))
    if as_json:
        # A bar would break the lines where both are on one terminal.
        with contextlib.nullcontext(int) if sys.stdout.isatty() else progress("predicting", unit="examples") as advance:
            for answer in answers:
                typer.echo(json.dumps(answer, ensure_ascii=False))
                advance(1)
        return
    with progress("predicting", unit="examples") as advance:
        rows = []
        for answer in answers:
            rows.append(_cells_of_answer(answer))
            advance()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(*columns, caption=f"answered by {saved_model_dir}", caption_justify="left")
    for row in rows:
        table.add_row(*(row.get(name, "") for name in columns))
    arguments.console.print(table)


def _cells_of_answer(answer: Mapping[str, Any]) -> dict[str, str]:
    """Formats one response as texts by column."""
    cells: dict[str, str] = {}
    for name, value in answer.items():
        if isinstance(value, dict):
            cells |= {f"{name} {column}": text for column, text in _cells_of_answer(value).items()}
        elif name == "candidates":
            best = value[:_SHOWN_CANDIDATES]
            cells["source"] = str(best[0].get("source_id", ""))
            cells["best targets"] = ", ".join(f"{pair.get('target_id', '')} ({pair['score']:.4f})" for pair in best)
            cells["candidates"] = str(len(value))
        elif isinstance(value, list):
            cells[name] = ", ".join(f"{number:.6g}" for number in value)
        else:
            cells[name] = f"{value:.4f}" if isinstance(value, float) else str(value)
    return cells
