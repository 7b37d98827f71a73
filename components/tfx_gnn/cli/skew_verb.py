"""The verb `skew`: compares what the served model computes with what training computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.verdicts import end_with_blessing

if TYPE_CHECKING:
    from tfx_gnn.components.graph_skew_validator.comparison import FeatureSkew


def _renamed(outputs: Sequence[FeatureSkew]) -> list[FeatureSkew]:
    return [dataclasses.replace(output, key=f"{output.key} one by one") for output in outputs]


def skew(
    *,
    examples_dir: arguments.Examples,
    transformed_examples_dir: arguments.TransformedExamples,
    model_dir: arguments.Model,
    model_run_dir: Annotated[str, arguments.folder("Its model run: the other output of `train`.")],
    skew_dir: Annotated[str, arguments.folder("Where to write `skew.json`.")],
    infra_blessing_dir: Annotated[
        str, arguments.folder("Where to write `INFRA_BLESSED` or `INFRA_NOT_BLESSED`, and the reasons.")
    ],
    splits: arguments.Splits = None,
    max_examples: Annotated[int, typer.Option(help="Examples of each split at most.")] = 512,
    batch_size: Annotated[int, typer.Option(help="Examples of a batch.")] = 32,
    max_float_difference: Annotated[float, typer.Option(help="Allowed difference of floating point features.")] = 1e-6,
    max_rounding_difference: Annotated[
        float, typer.Option(help="Allowed difference of floating point features between batches.")
    ] = 1e-4,
    max_output_difference: Annotated[float, typer.Option(help="Allowed difference of answers.")] = 1e-4,
    refuses_nonfinite_answers: Annotated[
        bool,
        typer.Option(
            "--refuse-nonfinite-answers",
            help="Withhold the blessing if a finite value out of the domain, such as a negative count, gets NaN.",
        ),
    ] = False,
) -> None:
    """Compare what training saw with what the exported model gets, value by value, and bless it if they are equal.

    Exits with 1 if it is not blessed.
    """
    from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions
    from tfx_gnn.components.graph_skew_validator.stage import validate_skew

    report = validate_skew(
        examples_dir=examples_dir,
        transformed_examples_dir=transformed_examples_dir,
        model_dir=model_dir,
        model_run_dir=model_run_dir,
        skew_dir=skew_dir,
        infra_blessing_dir=infra_blessing_dir,
        options=GraphSkewValidatorOptions(
            splits=tuple(splits or ()),
            max_examples=max_examples,
            batch_size=batch_size,
            max_float_difference=max_float_difference,
            max_rounding_difference=max_rounding_difference,
            max_output_difference=max_output_difference,
            refuses_nonfinite_answers=refuses_nonfinite_answers,
        ),
    )
    counts = ", ".join(f"{number} of '{split}'" for split, number in report.num_examples.items())
    arguments.console.print(f"examples: {counts}", markup=False)
    table = Table("", "kind", "values", "differing", "largest difference")
    differing = [feature for feature in report.features if feature.num_differing]
    for row in (*differing, report.rounding, *report.outputs, *_renamed(report.one_by_one)):
        counted = (str(row.num_values), str(row.num_differing), f"{row.largest_difference:.3g}")
        table.add_row(escape(row.key), row.kind, *counted)
    equal = len(report.features) - len(differing)
    arguments.console.print(f"features and parts of the structure without any difference: {equal}", markup=False)
    arguments.console.print(table)
    for reason in report.reasons:
        arguments.console.print(reason, markup=False)
    arguments.say_written(skew=skew_dir, infra_blessing=infra_blessing_dir)
    end_with_blessing(blessed=report.blessed, objections=report.reasons)
