"""Verbs of `tfx-gnn sizes`: learn padding budgets, and show what was learned."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.io.quiet_libraries import quiet_first_compilation

if TYPE_CHECKING:
    from tfx_gnn.records.size_constraints_file import SizeConstraintsFile

sizes = typer.Typer(no_args_is_help=True, help="Learn how large batches of graphs are padded, and see what it costs.")
"""The group of verbs."""

_TABLE_WIDTH = 132


@sizes.command()
def learn(
    *,
    transformed_examples_dir: arguments.TransformedExamples,
    transformed_graph_schema_dir: arguments.TransformedGraphSchema,
    size_constraints_dir: Annotated[str, arguments.folder("Where to write the padding budgets and their report.")],
    batch_size: Annotated[int, typer.Option(help="Graphs in a batch.")] = 32,
    extra_batch_sizes: Annotated[
        list[int] | None,
        typer.Option(
            "--extra-batch-size", help="A further batch size to learn for; repeat for several.", show_default=False
        ),
    ] = None,
    success_ratios: Annotated[
        list[float] | None,
        typer.Option(
            "--success-ratio",
            help="Share of random batches that shall fit a fit-or-skip budget; repeat for several budgets.",
            show_default="0.99",
        ),
    ] = None,
    splits: arguments.Splits = None,
    train_split: Annotated[str, typer.Option(help="Split that is trained on.")] = "train",
    window: Annotated[int, typer.Option(help="Graphs that packing looks at in advance.")] = 128,
    label_feature: Annotated[
        str,
        typer.Option(help="Label feature of node set `_readout`, to tell what each class loses.", show_default=False),
    ] = "",
    class_vocabulary: Annotated[
        str, typer.Option(help="`vocab_filename` of the vocabulary that names the classes.", show_default=False)
    ] = "",
    transform_graph_dir: Annotated[
        str, arguments.folder("The transform that holds this vocabulary: an output of `transform`.")
    ] = "",
    warn_slice_loss: Annotated[
        float, typer.Option(help="Share of a class or degree bucket above which its loss is warned of.")
    ] = 0.05,
    max_slice_loss: Annotated[
        float, typer.Option(help="Share of a class or degree bucket above which its loss is refused.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the random batches that budgets are measured on.")] = 0,
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Learn how large a batch of graphs must be padded, in one pass over the sizes."""
    from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
    from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints

    quiet_first_compilation()
    content = learn_size_constraints(
        examples_dir=transformed_examples_dir,
        graph_schema_dir=transformed_graph_schema_dir,
        size_constraints_dir=size_constraints_dir,
        transform_graph_dir=transform_graph_dir,
        options=SizeConstraintLearnerOptions(
            batch_size=batch_size,
            extra_batch_sizes=tuple(extra_batch_sizes or ()),
            success_ratios=tuple(success_ratios or (0.99,)),
            splits=tuple(splits or ()),
            train_split=train_split,
            window=window,
            label_feature=label_feature,
            class_vocabulary=class_vocabulary,
            warn_slice_loss=warn_slice_loss,
            max_slice_loss=max_slice_loss,
            seed=seed,
        ),
        beam_args=tuple(beam_args or ()),
    )
    _show(content)
    arguments.say_written(size_constraints=size_constraints_dir)


@sizes.command()
def report(
    size_constraints_dir: Annotated[
        str, typer.Argument(help="Padding budgets: the output of `sizes learn`.", show_default=False)
    ],
    *,
    output: Annotated[
        str,
        typer.Option(
            help="Where to write the whole report as an HTML page; a file that is there is replaced.",
            metavar="FILE",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Show what padding budgets cost and what they skip."""
    import tensorflow as tf

    from tfx_gnn.components.size_constraint_learner.size_report import write_size_report
    from tfx_gnn.records.size_constraints_file import read_size_constraints
    from tfx_gnn.reports.report_page import REPORT_FILE

    content = read_size_constraints(size_constraints_dir)
    _show(content)
    page = os.path.join(size_constraints_dir, REPORT_FILE)
    if output:
        write_size_report(content, output)
        page = output
    if tf.io.gfile.exists(page):
        arguments.say_written(report=page)


def _show(content: SizeConstraintsFile) -> None:
    from tfx_gnn.components.size_constraint_learner.size_report import padded_work, sorted_budgets
    from tfx_gnn.records.size_constraints_file import FIT_OR_SKIP
    from tfx_gnn.reports.number_texts import as_amount, as_bytes, as_count, as_percent

    shown = Table(
        "budget", "components", "nodes", "edges", "full", "graphs", "work for a graph", "fits: asked", "measured",
        "memory", title="Padding budgets for a batch",
    )  # fmt: skip
    for column in shown.columns[1:]:
        column.justify = "right"
    for budget in sorted_budgets(content):
        skips = budget.kind == FIT_OR_SKIP
        shown.add_row(
            budget.name,
            as_count(budget.total_num_components),
            as_count(sum(budget.total_num_nodes.values())),
            as_count(sum(budget.total_num_edges.values())),
            as_percent(budget.fill),
            as_amount(budget.graphs_per_batch),
            as_amount(padded_work(budget)),
            as_percent(budget.success_ratio, 2) if skips else "all",
            as_percent(budget.achieved_success_ratio, 2) if skips else "all",
            as_bytes(budget.bytes_per_batch),
        )
    # Ten columns; where lines are shorter, cut names and numbers would tell nothing.
    Console(highlight=False, width=max(arguments.console.width, _TABLE_WIDTH)).print(shown, crop=False)
    for warning in content.warnings:
        arguments.console.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
