"""Commands that prepare examples for training: `transform`, `sizes` and `batches`."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
from tfx_gnn.io.folded_help import FOLDED
from tfx_gnn.io.plain_console import PlainConsole
from tfx_gnn.io.quiet_libraries import quiet_first_compilation
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_access import TableAccess

if TYPE_CHECKING:
    from tfx_gnn.records.size_constraints_file import SizeConstraintsFile

sizes = typer.Typer(
    name="sizes",
    no_args_is_help=True,
    help="Learn padding budgets (size constraints) for batches of graphs, and see what padding costs.",
)
"""The command group `tfx-gnn sizes`."""

_TABLES, _SPANS = "Statistics from tables", "Statistics of several spans"
_TABLE_WIDTH = 132


@flags_of_options(GraphTransformOptions, leave_out=("rules", "access"), shown=("preprocessing_fn", "features"))
@flags_of_options(RowRules, into="rules", panel=_TABLES)
@flags_of_options(TableAccess, into="access", panel=_TABLES)
def transform(
    *,
    examples_dir: arguments.Examples,
    graph_schema_dir: arguments.GraphSchema,
    transform_graph_dir: Annotated[str, arguments.folder("Where to write the transform, for training and serving.")],
    transformed_examples_dir: Annotated[str, arguments.folder("Where to write the transformed examples.")],
    transformed_graph_schema_dir: Annotated[
        str, arguments.folder("Where to write the graph schema after the transform.")
    ],
    options: GraphTransformOptions,
    tables_dir: Annotated[
        str,
        typer.Option(
            "--tables",
            help="Folder of the tables that the examples were sampled from.",
            show_default=False,
            metavar="FOLDER",
            rich_help_panel=_TABLES,
        ),
    ] = "",
    rules: RowRules,
    access: TableAccess,
    earlier_examples_dirs: Annotated[
        list[str] | None,
        typer.Option(
            "--earlier-examples-dir",
            help="Raw graph tf.Examples of an earlier span to include in the statistics; repeat for several, in order.",
            show_default=False,
            metavar="FOLDER",
            rich_help_panel=_SPANS,
        ),
        FOLDED,
    ] = None,
    analyzer_cache_dir: Annotated[
        str,
        typer.Option(
            help="The --updated-analyzer-cache-dir of an earlier run: spans that it holds are not read again.",
            show_default=False,
            metavar="FOLDER",
            rich_help_panel=_SPANS,
        ),
        FOLDED,
    ] = "",
    updated_analyzer_cache_dir: Annotated[
        str,
        typer.Option(
            help="Where to write the statistics of these spans, for the next run.",
            show_default=False,
            metavar="FOLDER",
            rich_help_panel=_SPANS,
        ),
        FOLDED,
    ] = "",
    pre_transform_stats_dir: Annotated[
        str,
        typer.Option(
            help="Where to write statistics of the raw features, counting every item once.",
            show_default=False,
            metavar="FOLDER",
        ),
        FOLDED,
    ] = "",
    post_transform_stats_dir: Annotated[
        str,
        typer.Option(
            help="Where to write statistics of the transformed features, counting every item once.",
            show_default=False,
            metavar="FOLDER",
        ),
        FOLDED,
    ] = "",
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Transform features with full-pass statistics that count every node and edge once."""
    from tfx_gnn.components.graph_transform.stage import transform_graphs

    arguments.check_row_rules(rules)
    if access != TableAccess() and not tables_dir:
        raise ValueError(
            "`--schema-file`, `--allow-outside-files` and `--max-record-mib` must go with `--tables`, which they are "
            f"about; got {access.schema_file}, {access.allow_outside_files} and {access.max_record_mib} alone. Add "
            "--tables, or leave them out."
        )
    transform_graphs(
        examples_dir=examples_dir,
        graph_schema_dir=graph_schema_dir,
        transform_graph_dir=transform_graph_dir,
        transformed_examples_dir=transformed_examples_dir,
        transformed_graph_schema_dir=transformed_graph_schema_dir,
        options=dataclasses.replace(options, rules=rules, access=access),
        tables_dir=tables_dir,
        earlier_examples_dirs=tuple(earlier_examples_dirs or ()),
        analyzer_cache_dir=analyzer_cache_dir,
        updated_analyzer_cache_dir=updated_analyzer_cache_dir,
        pre_transform_stats_dir=pre_transform_stats_dir,
        post_transform_stats_dir=post_transform_stats_dir,
        beam_args=tuple(beam_args or ()),
    )
    more = {
        "pre_transform_stats": pre_transform_stats_dir,
        "post_transform_stats": post_transform_stats_dir,
        "updated_analyzer_cache": updated_analyzer_cache_dir,
    }
    arguments.say_written(
        transform_graph=transform_graph_dir,
        transformed_examples=transformed_examples_dir,
        transformed_graph_schema=transformed_graph_schema_dir,
        **{name: folder for name, folder in more.items() if folder},
    )


@sizes.command()
@flags_of_options(SizeConstraintLearnerOptions, shown=("batch_size", "success_ratio"))
def learn(
    *,
    transformed_examples_dir: arguments.TransformedExamples,
    transformed_graph_schema_dir: arguments.TransformedGraphSchema,
    size_constraints_dir: Annotated[str, arguments.folder("Where to write the padding budgets and their report.")],
    options: SizeConstraintLearnerOptions,
    transform_graph_dir: Annotated[
        str, arguments.folder("The transform that holds --class-vocabulary: an output of `transform`.")
    ] = "",
    beam_args: arguments.BeamArgs = None,
) -> None:
    """Learn the sizes to pad a batch of graphs to, in one pass over the sizes of all graphs."""
    from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints

    quiet_first_compilation()
    content = learn_size_constraints(
        examples_dir=transformed_examples_dir,
        graph_schema_dir=transformed_graph_schema_dir,
        size_constraints_dir=size_constraints_dir,
        transform_graph_dir=transform_graph_dir,
        options=options,
        beam_args=tuple(beam_args or ()),
    )
    _show_budgets(content)
    arguments.say_written(size_constraints=size_constraints_dir)


@sizes.command()
def report(
    size_constraints_dir: Annotated[
        str, typer.Argument(help="Padding budgets (size constraints): the output of `sizes learn`.", show_default=False)
    ],
    *,
    output: Annotated[
        str,
        typer.Option(
            help="Where to write the whole report as an HTML page; an existing file is replaced.",
            metavar="FILE",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Show what padding budgets cost and which graphs they skip."""
    import tensorflow as tf

    from tfx_gnn.components.size_constraint_learner.size_report import write_size_report
    from tfx_gnn.records.size_constraints_file import read_size_constraints
    from tfx_gnn.reports.report_page import REPORT_FILE

    content = read_size_constraints(size_constraints_dir)
    _show_budgets(content)
    page = os.path.join(size_constraints_dir, REPORT_FILE)
    if output:
        write_size_report(content, output)
        page = output
    if tf.io.gfile.exists(page):
        arguments.say_written(report=page)


def _show_budgets(content: SizeConstraintsFile) -> None:
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
    # Ten columns: on a narrower console, names and numbers would be cut off.
    PlainConsole(width=max(arguments.console.width, _TABLE_WIDTH)).print(shown, crop=False)
    for warning in content.warnings:
        arguments.console.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)


def batches(
    *,
    transformed_examples_dir: arguments.TransformedExamples,
    transformed_graph_schema_dir: arguments.TransformedGraphSchema,
    size_constraints_dir: arguments.SizeConstraints,
    precomputed_batches_dir: Annotated[str, arguments.folder("Where to write the batches.")],
    num_epochs: Annotated[
        int, typer.Option(help="Passes over the split to store, each shuffled and batched anew.")
    ] = 1,
    split: Annotated[str, typer.Option(help="Split to read.")] = "train",
    batching: Annotated[
        str, typer.Option(help="How graphs are batched: 'packed', 'fit_or_skip' or 'tight'.")
    ] = "packed",
    batch_size: Annotated[
        int, typer.Option(help="Batch size whose budget to use; 0 for the --batch-size of `sizes learn`.")
    ] = 0,
    success_ratio: Annotated[
        float, typer.Option(help="Success ratio of the fit-or-skip budget to use, one of those that were learned.")
    ] = 0.99,
    shuffle_buffer_size: Annotated[int, typer.Option(help="Graphs in the shuffle buffer.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the order of graphs.")] = 0,
) -> None:
    """Store shuffled epochs of padded batches, which training reads many times faster than it could make them."""
    from tfx_gnn.training.data.precomputed_batches import PrecomputedBatchesOptions, write_precomputed_batches

    quiet_first_compilation()
    manifest = write_precomputed_batches(
        transformed_examples_dir=transformed_examples_dir,
        transformed_graph_schema_dir=transformed_graph_schema_dir,
        size_constraints_dir=size_constraints_dir,
        precomputed_batches_dir=precomputed_batches_dir,
        options=PrecomputedBatchesOptions(
            num_epochs=num_epochs,
            split=split,
            batching=batching,
            batch_size=batch_size,
            success_ratio=success_ratio,
            shuffle_buffer_size=shuffle_buffer_size,
            seed=seed,
        ),
    )
    title = f"{batching} batches of split '{split}', {_as_mebibytes(manifest.num_bytes)} on disk"
    table = Table("epoch", "batches", "graphs", "in a batch", "graphs removed", "on disk", title=title)
    for column in table.columns:
        column.justify = "right"
    for number, epoch in enumerate(manifest.epochs):
        table.add_row(
            str(number),
            f"{epoch.num_batches:,}",
            f"{epoch.num_graphs:,}",
            f"{epoch.num_graphs / epoch.num_batches:.1f}",
            f"{epoch.num_removed_graphs:,}",
            _as_mebibytes(epoch.num_bytes),
        )
    arguments.console.print(table)
    arguments.say_written(precomputed_batches=precomputed_batches_dir)


def _as_mebibytes(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:,.1f} MiB"
