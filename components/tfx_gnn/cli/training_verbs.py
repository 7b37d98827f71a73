"""Commands that train: `tune`, `train`, and `report`, which renders the report page of either again."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.components.graph_tuner.options import GraphTunerOptions
from tfx_gnn.distribution.options import STRATEGIES_OF_ONE_PROCESS
from tfx_gnn.io.folded_help import FOLDED
from tfx_gnn.io.plain_console import PlainConsole
from tfx_gnn.io.quiet_libraries import quiet_first_compilation
from tfx_gnn.training.options import GraphTrainerOptions

if TYPE_CHECKING:
    from tfx_gnn.components.graph_tuner.trials import TuningSummary

_SHOWN_TRIALS = 10


@flags_of_options(
    GraphTunerOptions,
    leave_out=("trainer", "search_space"),
    as_values=True,
    shown=("num_trials",),
)
def tune(
    *,
    transformed_examples_dir: arguments.TransformedExamples,
    transform_graph_dir: arguments.TransformGraph,
    graph_schema_dir: arguments.GraphSchema,
    transformed_graph_schema_dir: arguments.TransformedGraphSchema,
    model_fn: arguments.ModelFn,
    search_space: Annotated[
        str,
        typer.Option(
            help="Values to search, by hyperparameter: "
            '\'{"units": {"kind": "choice", "values": [32, 64]}}\'. Other kinds: '
            '\'{"kind": "float", "low": 1e-4, "high": 0.1, "log": true}\'; "int" has low, high and step.',
            metavar="JSON",
            show_default=False,
        ),
    ],
    best_hyperparameters_dir: Annotated[
        str, arguments.folder("Where to write the best values, all trials and their report.")
    ],
    size_constraints_dir: arguments.OptionalSizeConstraints = "",
    task: arguments.TaskKind = "node_classification",
    label_feature: arguments.LabelFeature = "",
    class_vocabulary: arguments.ClassVocabulary = "",
    task_json: Annotated[
        str,
        typer.Option(
            help="A task with all of its fields, as for `train`, instead of --task, --label-feature and "
            "--class-vocabulary.",
            show_default=False,
        ),
        FOLDED,
    ] = "",
    trainer_json: Annotated[
        str,
        typer.Option(
            help="More fields of GraphTrainerOptions for each trial: "
            '\'{"batching": {"batch_size": 64}, "early_stopping_patience": 3}\'.',
            metavar="JSON",
        ),
        FOLDED,
    ] = "{}",
    num_epochs: Annotated[int, typer.Option(help="Epochs per trial.")] = 10,
    options: dict[str, Any],
) -> None:
    """Search for the model's best hyperparameters in short training runs."""
    from tfx_gnn.components.graph_tuner.search_space import SearchRange
    from tfx_gnn.components.graph_tuner.stage import tune_graph_model
    from tfx_gnn.io import options_json

    further = arguments.read_object("--trainer-json", trainer_json)
    named = GraphTrainerOptions(
        model_fn=model_fn,
        task=arguments.read_task(task, task_json, label_feature=label_feature, class_vocabulary=class_vocabulary),
        num_epochs=num_epochs,
    )
    repeated = sorted(further.keys() & {"model_fn", "task", "num_epochs"})
    if repeated:
        raise ValueError(
            f"`--trainer-json` must not hold fields that have their own option; got {repeated}. Remove them from it."
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
            **options,
        ),
    )
    _show_trials(summary)
    arguments.say_written(best_hyperparameters=best_hyperparameters_dir)


def _show_trials(summary: TuningSummary) -> None:
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
    PlainConsole(width=max(arguments.console.width, 100)).print(shown, crop=False)


@flags_of_options(
    GraphTrainerOptions,
    leave_out=("task",),
    as_values=True,
    shown=("num_epochs", "batch_size", "hyperparameters"),
)
def train(
    *,
    transformed_examples_dir: arguments.TransformedExamples,
    transform_graph_dir: arguments.TransformGraph,
    graph_schema_dir: arguments.GraphSchema,
    transformed_graph_schema_dir: arguments.TransformedGraphSchema,
    model_dir: Annotated[str, arguments.folder("Where to write the model.")],
    model_run_dir: Annotated[str, arguments.folder("Where to write logs, checkpoints and the summary.")],
    size_constraints_dir: arguments.OptionalSizeConstraints = "",
    task: arguments.TaskKind = "node_classification",
    label_feature: arguments.LabelFeature = "",
    class_vocabulary: arguments.ClassVocabulary = "",
    task_json: Annotated[
        str,
        typer.Option(
            help="A task with all of its fields, instead of --task, --label-feature and --class-vocabulary: "
            '\'{"kind": "node_regression", "label_feature": "age", "loss": "mae"}\'.',
            show_default=False,
        ),
        FOLDED,
    ] = "",
    precomputed_batches_dir: Annotated[
        str,
        typer.Option(
            help="Precomputed batches of the training split: the output of `batches`.",
            show_default=False,
            metavar="FOLDER",
        ),
        FOLDED,
    ] = "",
    best_hyperparameters_dir: Annotated[
        str,
        typer.Option(
            help="Hyperparameters found by a search: the output of `tune`. Values in --hyperparameters take "
            "precedence.",
            show_default=False,
            metavar="FOLDER",
        ),
        FOLDED,
    ] = "",
    examples_dir: Annotated[
        str,
        typer.Option(
            help="Raw examples to make warm-up requests for TensorFlow Serving from. A model that was already exported "
            "without them is not exported again: write to other folders, or let `push` add the requests.",
            show_default=False,
            metavar="FOLDER",
        ),
        FOLDED,
    ] = "",
    blessed_model_dir: Annotated[
        str,
        typer.Option(
            help="The model whose weights --warm-start takes: a push destination, whose newest version is meant, a "
            "trained model or a SavedModel.",
            show_default=False,
            metavar="FOLDER",
        ),
        FOLDED,
    ] = "",
    options: dict[str, Any],
) -> None:
    """Train the model and export it together with the transform."""
    from tfx_gnn.components.graph_trainer.stage import train_graph_model
    from tfx_gnn.training.loop.training_loop import TrainingPreemptedError

    predicted = arguments.read_task(task, task_json, label_feature=label_feature, class_vocabulary=class_vocabulary)
    # With several processes, connections to other machines must be set up before TensorFlow starts.
    if options["strategy"] in STRATEGIES_OF_ONE_PROCESS:
        quiet_first_compilation()
    try:
        train_graph_model(
            transformed_examples_dir=transformed_examples_dir,
            transform_graph_dir=transform_graph_dir,
            graph_schema_dir=graph_schema_dir,
            transformed_graph_schema_dir=transformed_graph_schema_dir,
            size_constraints_dir=size_constraints_dir,
            model_dir=model_dir,
            model_run_dir=model_run_dir,
            precomputed_batches_dir=precomputed_batches_dir,
            best_hyperparameters_dir=best_hyperparameters_dir,
            examples_dir=examples_dir,
            blessed_model_dir=blessed_model_dir,
            options=GraphTrainerOptions.from_flat({**options, "task": predicted}),
        )
    except TrainingPreemptedError as stopped:
        # Exit code 0, so that the scheduler that preempted the machine counts no failure; the next start resumes.
        arguments.console.print(f"{stopped} Run the same command again: it resumes there.", markup=False)
        return
    arguments.say_written(model=model_dir, model_run=model_run_dir)


def report(
    folder: Annotated[
        str,
        typer.Argument(help="A model run from `train`, or the output of `tune`.", show_default=False),
    ],
    *,
    output: Annotated[
        str,
        typer.Option(
            help="Where to write the page, if not into that folder; an existing file is replaced.",
            metavar="FILE",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Write the report of a training or a search again, and print its path."""
    import tensorflow as tf

    from tfx_gnn.components.graph_trainer.training_report import training_notes, write_training_report
    from tfx_gnn.components.graph_tuner.trials import TRIALS_FILE, read_tuning_summary
    from tfx_gnn.components.graph_tuner.tuning_report import write_tuning_report
    from tfx_gnn.reports.report_page import REPORT_FILE
    from tfx_gnn.training.loop.summary import read_training_summary

    page = output or os.path.join(folder, REPORT_FILE)
    if tf.io.gfile.exists(os.path.join(folder, TRIALS_FILE)):
        write_tuning_report(read_tuning_summary(folder), page)
    else:
        summary = read_training_summary(folder)
        write_training_report(summary, page)
        for note in training_notes(summary):
            arguments.console.print(note, markup=False, soft_wrap=True)
    arguments.say_written(report=page)
