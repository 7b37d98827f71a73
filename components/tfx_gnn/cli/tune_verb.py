"""The verb `tune`: searches hyperparameters by short trainings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.model_options import read_object, read_task
from tfx_gnn.cli.quiet_start import quiet_first_compilation

if TYPE_CHECKING:
    from tfx_gnn.components.graph_tuner.trials import TuningSummary

_SHOWN_TRIALS = 10


def tune(
    *,
    transformed_examples_dir: arguments.TransformedExamples,
    transform_graph_dir: Annotated[str, arguments.folder("The transform: an output of `transform`.")],
    graph_schema_dir: arguments.GraphSchema,
    transformed_graph_schema_dir: arguments.TransformedGraphSchema,
    size_constraints_dir: Annotated[str, arguments.folder("Padding budgets: the output of `sizes learn`.")],
    model_fn: Annotated[
        str, typer.Option(help="Your function that builds the model, as 'package.module:function'.", show_default=False)
    ],
    search_space: Annotated[
        str,
        typer.Option(
            help='Values by hyperparameter: \'{"learning_rate": {"kind": "float", "low": 1e-4, "high": 0.1, "log": '
            'true}, "units": {"kind": "choice", "values": [32, 64]}}\'. Kind "int" has low, high and step.',
            metavar="JSON",
            show_default=False,
        ),
    ],
    best_hyperparameters_dir: Annotated[
        str, arguments.folder("Where to write the best values, all trials and their report.")
    ],
    task: arguments.TaskKind = "node_classification",
    label_feature: arguments.LabelFeature = "",
    class_vocabulary: arguments.ClassVocabulary = "",
    task_json: Annotated[
        str,
        typer.Option(
            help="In place of these three, a task with all of its fields, as for `train`.", show_default=False
        ),
    ] = "",
    trainer_json: Annotated[
        str,
        typer.Option(
            help="Further fields of GraphTrainerOptions for each trial: "
            '\'{"batching": {"batch_size": 64}, "early_stopping_patience": 3}\'.',
            metavar="JSON",
        ),
    ] = "{}",
    num_epochs: Annotated[int, typer.Option(help="Epochs of a trial.")] = 10,
    num_trials: Annotated[int, typer.Option(help="Trials; a grid ends when all of it was tried.")] = 20,
    objective: Annotated[str, typer.Option(help="Loss or metric that is compared, such as 'val_accuracy'.")] = (
        "val_loss"
    ),
    direction: Annotated[str, typer.Option(help="'minimize', 'maximize' or 'auto'.")] = "auto",
    sampler: Annotated[str, typer.Option(help="What chooses values: 'tpe', 'random' or 'grid'.")] = "tpe",
    pruner: Annotated[str, typer.Option(help="What ends trials early: 'none', 'median' or 'hyperband'.")] = "none",
    num_startup_trials: Annotated[int, typer.Option(help="Trials at random before others are compared with them.")] = 5,
    max_failed_trials: Annotated[int, typer.Option(help="Trials that may fail.")] = 0,
    search_seed: Annotated[int, typer.Option(help="Seed of the choice of values.")] = 0,
    search_dir: Annotated[
        str,
        typer.Option(
            help="Folder of finished trials that a restarted search goes on from; a hidden one beside the output if "
            "not given.",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = "",
) -> None:
    """Search the hyperparameters of the model by short trainings."""
    from tfx_gnn.components.graph_tuner.options import GraphTunerOptions
    from tfx_gnn.components.graph_tuner.search_space import SearchRange
    from tfx_gnn.components.graph_tuner.stage import tune_graph_model
    from tfx_gnn.io import options_json
    from tfx_gnn.training.options import GraphTrainerOptions

    further = read_object("--trainer-json", trainer_json)
    named = GraphTrainerOptions(
        model_fn=model_fn,
        task=read_task(task, task_json, label_feature=label_feature, class_vocabulary=class_vocabulary),
        num_epochs=num_epochs,
    )
    repeated = sorted(further.keys() & {"model_fn", "task", "num_epochs"})
    if repeated:
        raise ValueError(
            f"`--trainer-json` must not name what has an option of its own; got {repeated}. Take them out of it."
        )
    trainer = options_json.from_json(
        json.dumps({**json.loads(options_json.to_json(named)), **further}),
        GraphTrainerOptions,
        name="--trainer-json",
    )
    quiet_first_compilation()
    summary = tune_graph_model(
        transformed_examples_dir=transformed_examples_dir,
        transform_graph_dir=transform_graph_dir,
        graph_schema_dir=graph_schema_dir,
        transformed_graph_schema_dir=transformed_graph_schema_dir,
        size_constraints_dir=size_constraints_dir,
        best_hyperparameters_dir=best_hyperparameters_dir,
        options=GraphTunerOptions(
            trainer=trainer,
            search_space=options_json.from_json(search_space, dict[str, SearchRange], name="--search-space"),
            num_trials=num_trials,
            objective=objective,
            direction=direction,
            sampler=sampler,
            pruner=pruner,
            num_startup_trials=num_startup_trials,
            max_failed_trials=max_failed_trials,
            search_seed=search_seed,
            search_dir=search_dir,
        ),
    )
    _show(summary)
    arguments.say_written(best_hyperparameters=best_hyperparameters_dir)


def _show(summary: TuningSummary) -> None:
    from tfx_gnn.components.graph_tuner.tuning_report import value_text
    from tfx_gnn.reports.number_texts import as_duration, as_figure

    names = sorted(summary.search_space)
    shown = Table("trial", summary.objective, *names, "epochs", "time", title=f"Best of {len(summary.trials)} trials")
    for column in shown.columns:
        column.justify = "right"
    for trial in summary.best_first()[:_SHOWN_TRIALS]:
        shown.add_row(
            str(trial.number),
            trial.state if trial.value is None else as_figure(trial.value),
            *(value_text(trial.hyperparameters[name]) for name in names),
            str(len(trial.epochs)),
            as_duration(trial.seconds),
        )
    Console(highlight=False, markup=False, width=max(arguments.console.width, 100)).print(shown, crop=False)
