"""The verb `evaluate`: metrics of a model, by slice, and a blessing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.model_options import read_task
from tfx_gnn.cli.verdicts import end_with_blessing

if TYPE_CHECKING:
    from tfx_gnn.components.graph_evaluator.evaluation_report import TaskEvaluation


def evaluate(
    *,
    examples_dir: arguments.Examples,
    model_dir: arguments.Model,
    evaluation_dir: Annotated[str, arguments.folder("Where to write `metrics.json`.")],
    blessing_dir: Annotated[str, arguments.folder("Where to write `BLESSED` or `NOT_BLESSED`, and the reasons.")],
    label_feature: Annotated[
        str,
        typer.Option(
            help="Label feature of node set `_readout` in the raw examples, for a classification of nodes.",
            show_default=False,
        ),
    ] = "",
    task_json: Annotated[
        str,
        typer.Option(
            help="In place of it, what the model was trained for: "
            '\'{"kind": "graph_regression", "label_feature": "weight"}\'.',
            show_default=False,
        ),
    ] = "",
    split: Annotated[str, typer.Option(help="Split to evaluate.")] = "test",
    baseline_split: Annotated[str, typer.Option(help="Split that the majority class or mean is taken from.")] = "train",
    min_accuracy_over_majority: Annotated[
        float, typer.Option(help="Accuracy must exceed the majority's by more.")
    ] = 0.0,
    min_accuracy: Annotated[float, typer.Option(help="Accuracy must be at least this, in [0, 1].")] = 0.0,
    min_macro_f1: Annotated[float, typer.Option(help="Macro-F1 must be at least this, in [0, 1].")] = 0.0,
    max_examples_without_label: Annotated[int, typer.Option(help="Fail if more examples lack a label.")] = 0,
    thresholds: Annotated[
        str, typer.Option(help='Bounds on metrics: \'{"mrr": 0.3, "rmse": {"max": 1.3}}\'.', metavar="JSON")
    ] = "{}",
    slices: Annotated[
        list[str] | None,
        typer.Option(
            "--slice",
            help="Feature to measure by, such as 'nodes/paper.venue' of the seed; repeat for several.",
            show_default=False,
        ),
    ] = None,
    num_slices: Annotated[
        int, typer.Option(help="Largest and smallest slices of each feature that are reported.")
    ] = 10,
    slice_thresholds: Annotated[str, typer.Option(help="Bounds that every slice must keep.", metavar="JSON")] = "{}",
    min_slice_examples: Annotated[
        int, typer.Option(help="Labelled examples that a slice must have for thresholds to apply.")
    ] = 1,
    known_links: Annotated[
        str,
        typer.Option(
            help="Table of true links of all splits, 'source' and 'target': candidates that stand there, but are "
            "labelled false, are left out of ranks.",
            show_default=False,
            metavar="FILE",
        ),
    ] = "",
    known_link_features: Annotated[
        list[str] | None,
        typer.Option(
            "--known-link-feature",
            help="Column of that table, and feature of `_readout`, that tells links of the same ends apart; repeat for "
            "several.",
            show_default=False,
        ),
    ] = None,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Measure the exported model on raw examples, and bless it if it is good enough.

    Exits with 1 if it is not blessed.
    """
    from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
    from tfx_gnn.components.graph_evaluator.stage import evaluate_graph_model

    evaluation = evaluate_graph_model(
        examples_dir=examples_dir,
        model_dir=model_dir,
        evaluation_dir=evaluation_dir,
        blessing_dir=blessing_dir,
        options=GraphEvaluatorOptions(
            label_feature=label_feature,
            task=read_task("", task_json) if task_json else None,
            split=split,
            baseline_split=baseline_split,
            min_accuracy_over_majority=min_accuracy_over_majority,
            min_accuracy=min_accuracy,
            min_macro_f1=min_macro_f1,
            max_examples_without_label=max_examples_without_label,
            thresholds=_bounds("thresholds", thresholds),
            slices=tuple(slices or ()),
            num_slices=num_slices,
            slice_thresholds=_bounds("slice_thresholds", slice_thresholds),
            min_slice_examples=min_slice_examples,
            known_links=known_links,
            known_link_features=tuple(known_link_features or ()),
        ),
        beam_args=tuple(beam_args or ()),
    )
    for name, task in evaluation.tasks.items():
        of_task = f" with a label of task '{name}'" if name else ""
        arguments.console.print(_table(task, f"{task.num_examples} examples of split '{split}'{of_task}"))
    for reason in evaluation.reasons:
        arguments.console.print(reason, markup=False)
    arguments.say_written(evaluation=evaluation_dir, blessing=blessing_dir)
    end_with_blessing(blessed=evaluation.blessed, objections=evaluation.objections)


def _bounds(name: str, text: str) -> dict[str, Any]:
    from tfx_gnn.io.text_files import parse_json

    try:
        bounds = parse_json(text)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must be JSON; got {text!r}. Write for example '{{\"accuracy\": 0.7}}'. Cause: {error}."
        ) from error
    if not isinstance(bounds, dict):
        raise ValueError(f"`{name}` must be a JSON object; got {text!r}. Write '{{\"accuracy\": 0.7}}'.")
    return bounds


def _table(task: TaskEvaluation, title: str) -> Table:
    """Metrics of the model, the baseline and the slices, a row each."""
    from tfx_gnn.components.graph_evaluator.thresholds import shown_metric

    metrics = task.quality.metrics
    table = Table("", "examples", *map(shown_metric, metrics), title=title)

    def add(name: str, num_examples: int, values: Mapping[str, float]) -> None:
        shown = (f"{values[key]:.4f}" if key in values else "" for key in metrics)
        table.add_row(escape(name), str(num_examples), *shown)

    majority = task.quality.report.get("majority_baseline")
    add("model", task.num_examples, metrics)
    add(f"always '{majority['class']}'" if majority else task.baseline_name, task.num_examples, task.quality.baseline)
    for one_slice in task.slices:
        add(f"{one_slice.feature} = {one_slice.value}", one_slice.num_examples, one_slice.quality.metrics)
    return table
