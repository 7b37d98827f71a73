"""The verb `batches`: padded batches computed once and kept on disk."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.quiet_start import quiet_first_compilation


def batches(
    *,
    transformed_examples_dir: arguments.TransformedExamples,
    transformed_graph_schema_dir: arguments.TransformedGraphSchema,
    size_constraints_dir: Annotated[str, arguments.folder("Padding budgets: the output of `sizes learn`.")],
    precomputed_batches_dir: Annotated[str, arguments.folder("Where to write the batches.")],
    num_epochs: Annotated[
        int, typer.Option(help="Passes over the split to store, each in another order and batched anew.")
    ] = 1,
    split: Annotated[str, typer.Option(help="Split to read.")] = "train",
    batching: Annotated[
        str, typer.Option(help="How graphs are batched: 'packed', 'fit_or_skip' or 'tight'.")
    ] = "packed",
    batch_size: Annotated[
        int, typer.Option(help="Batch size whose budget is taken; 0 for the one that was learned first.")
    ] = 0,
    success_ratio: Annotated[
        float, typer.Option(help="Share of random batches that fit, of the fit-or-skip budget to take.")
    ] = 0.99,
    shuffle_buffer_size: Annotated[int, typer.Option(help="Graphs in the shuffle buffer.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the order of graphs.")] = 0,
) -> None:
    """Store shuffled epochs of padded batches, which a training reads many times faster than it makes them."""
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
