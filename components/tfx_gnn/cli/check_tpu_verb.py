"""The command `check-tpu`: reports what would keep a model from training on a TPU."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.io.folded_help import FOLDED
from tfx_gnn.io.quiet_libraries import quiet_first_compilation
from tfx_gnn.training.options import GraphTrainerOptions

if TYPE_CHECKING:
    from tfx_gnn.components.graph_trainer.tpu_readiness import BatchTensor, TpuMemory, TpuReadiness
    from tfx_gnn.tpu_check.problem import TpuProblem


_OPTIONS = (
    "model_fn", "train_split", "eval_split", "batching", "batch_size", "success_ratio", "precision", "hyperparameters",
)  # fmt: skip
"""What decides what a core's step is."""


@flags_of_options(GraphTrainerOptions, only=_OPTIONS, as_values=True, shown=("batch_size", "hyperparameters"))
def check_tpu(
    *,
    transformed_examples_dir: arguments.TransformedExamples,
    transform_graph_dir: arguments.TransformGraph,
    graph_schema_dir: arguments.GraphSchema,
    transformed_graph_schema_dir: arguments.TransformedGraphSchema,
    size_constraints_dir: arguments.OptionalSizeConstraints = "",
    task: Annotated[str, typer.Option(help="What to predict, as for `train`.")] = "node_classification",
    label_feature: Annotated[str, typer.Option(help="Label feature, as for `train`.", show_default=False)] = "",
    class_vocabulary: Annotated[
        str, typer.Option(help="Vocabulary of the classes, as for `train`.", show_default=False)
    ] = "",
    task_json: Annotated[
        str,
        typer.Option(
            help="A task with all of its fields, instead of --task, --label-feature and --class-vocabulary.",
            show_default=False,
        ),
        FOLDED,
    ] = "",
    options: dict[str, Any],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Find what would keep a model from training on a TPU; needs no TPU.

    Exits with 1 if it finds something.
    """
    from tfx_gnn.components.graph_trainer.tpu_readiness import check_training_for_tpu
    from tfx_gnn.training.loop.trainer_inputs import TrainerFolders

    quiet_first_compilation()
    predicted = arguments.read_task(task, task_json, label_feature=label_feature, class_vocabulary=class_vocabulary)
    readiness = check_training_for_tpu(
        TrainerFolders(
            transformed_examples_dir=transformed_examples_dir,
            transform_graph_dir=transform_graph_dir,
            graph_schema_dir=graph_schema_dir,
            transformed_graph_schema_dir=transformed_graph_schema_dir,
            size_constraints_dir=size_constraints_dir,
        ),
        GraphTrainerOptions.from_flat({**options, "task": predicted}),
    )
    if as_json:
        typer.echo(json.dumps(_readiness_json(readiness), indent=2))
        if not readiness.is_ready:
            raise typer.Exit(arguments.REFUSED_EXIT_CODE)
        return
    _show_readiness(readiness, options["model_fn"])
    blocking = [f"{problem.op} in {problem.layer}" for problem in readiness.problems if problem.blocks]
    number = f"{len(blocking)} {'problem' if len(blocking) == 1 else 'problems'}"
    arguments.end_with_verdict(
        passed=readiness.is_ready,
        verdict="ready for a TPU" if readiness.is_ready else f"NOT ready for a TPU: {number}",
        reasons=list(dict.fromkeys(blocking)),
    )


def _readiness_json(readiness: TpuReadiness) -> dict[str, Any]:
    memory = readiness.memory
    return {
        "ready": readiness.is_ready,
        "problems": [
            {**dataclasses.asdict(problem), "reason": problem.reason, "blocks": problem.blocks}
            for problem in readiness.problems
        ],
        "memory": {
            **dataclasses.asdict(memory),
            "batch": [{**dataclasses.asdict(one), "fits_tiles": one.fits_tiles} for one in memory.batch],
            "batch_bytes": memory.batch_bytes,
            "total": memory.total,
        },
    }


def _show_readiness(readiness: TpuReadiness, model_fn: str) -> None:
    console = arguments.console
    if readiness.problems:
        table = Table("operation", "where", "why", "what to do", title=f"'{model_fn}' on a TPU", show_lines=True)
        for problem in readiness.problems:
            table.add_row(*_cells_of_problem(problem))
        console.print(table)
    console.print(_memory_table(readiness.memory))
    uneven = [tensor for tensor in readiness.memory.batch if not tensor.fits_tiles]
    if uneven:
        console.print(f"rows that are filled up to a multiple of 8: {_listed(uneven)}", markup=False)


def _cells_of_problem(problem: TpuProblem) -> tuple[str, str, str, str]:
    where = f"{problem.layer}\n{problem.where}" if problem.where else problem.layer
    return f"{problem.op}\n{problem.tensor}", where, problem.reason, problem.fix


def _memory_table(memory: TpuMemory) -> Table:
    table = Table("memory of one core, at most", "MiB", title="without activations, which the step adds")
    table.columns[1].justify = "right"
    parts = (
        ("two batches, in tiles of 8 x 128", 2 * memory.batch_bytes),
        ("weights", memory.parameters),
        ("gradients", memory.gradients),
        ("optimizer", memory.optimizer),
        ("together", memory.total),
    )
    for name, num_bytes in parts:
        table.add_row(name, f"{num_bytes / 2**20:,.2f}")
    return table


def _listed(tensors: list[BatchTensor]) -> str:
    return ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in tensors)
