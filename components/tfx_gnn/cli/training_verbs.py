"""Commands that train: `tune`, `train`, and `report`, which renders the report page of either again."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.io.plain_console import PlainConsole
from tfx_gnn.io.quiet_libraries import quiet_first_compilation

if TYPE_CHECKING:
    from tfx_gnn.components.graph_tuner.trials import TuningSummary

_SHOWN_TRIALS = 10


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
            '\'{"learning_rate": {"kind": "float", "low": 1e-4, "high": 0.1, "log": true}, '
            '"units": {"kind": "choice", "values": [32, 64]}}\'. Kind "int" has low, high and step.',
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
    ] = "",
    trainer_json: Annotated[
        str,
        typer.Option(
            help="More fields of GraphTrainerOptions for each trial: "
            '\'{"batching": {"batch_size": 64}, "early_stopping_patience": 3}\'.',
            metavar="JSON",
        ),
    ] = "{}",
    num_epochs: Annotated[int, typer.Option(help="Epochs per trial.")] = 10,
    num_trials: Annotated[
        int, typer.Option(help="Number of trials; a grid search ends earlier if every combination has been tried.")
    ] = 20,
    objective: Annotated[str, typer.Option(help="Loss or metric to optimize, such as 'val_accuracy'.")] = "val_loss",
    direction: Annotated[
        str, typer.Option(help="Direction of the objective: 'minimize', 'maximize' or 'auto'.")
    ] = "auto",
    sampler: Annotated[str, typer.Option(help="How hyperparameters are chosen: 'tpe', 'random' or 'grid'.")] = "tpe",
    pruner: Annotated[
        str, typer.Option(help="How weak trials are ended early: 'none', 'median' or 'hyperband'.")
    ] = "none",
    num_startup_trials: Annotated[
        int,
        typer.Option(help="First trials, which 'tpe' chooses at random and which 'median' waits for before it prunes."),
    ] = 5,
    max_failed_trials: Annotated[int, typer.Option(help="Failed trials to tolerate; one more ends the search.")] = 0,
    search_seed: Annotated[int, typer.Option(help="Seed of the choice of hyperparameters.")] = 0,
    search_dir: Annotated[
        str,
        typer.Option(
            help="Folder of finished trials, from which a restarted search resumes; by default a hidden folder next to "
            "the output.",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = "",
) -> None:
    """Search for the model's best hyperparameters in short training runs."""
    from tfx_gnn.components.graph_tuner.options import GraphTunerOptions
    from tfx_gnn.components.graph_tuner.search_space import SearchRange
    from tfx_gnn.components.graph_tuner.stage import tune_graph_model
    from tfx_gnn.io import options_json
    from tfx_gnn.training.options import GraphTrainerOptions

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


def train(
    *,
    transformed_examples_dir: arguments.TransformedExamples,
    transform_graph_dir: arguments.TransformGraph,
    graph_schema_dir: arguments.GraphSchema,
    transformed_graph_schema_dir: arguments.TransformedGraphSchema,
    model_fn: arguments.ModelFn,
    model_dir: Annotated[str, arguments.folder("Where to write the model for serving.")],
    model_run_dir: Annotated[str, arguments.folder("Where to write TensorBoard logs, checkpoints and the summary.")],
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
    ] = "",
    precomputed_batches_dir: Annotated[
        str,
        typer.Option(
            help="Precomputed batches of the training split: the output of `batches`.",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = "",
    best_hyperparameters_dir: Annotated[
        str,
        typer.Option(
            help="Hyperparameters found by a search: the output of `tune`. Values in --hyperparameters take "
            "precedence.",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = "",
    examples_dir: Annotated[
        str,
        typer.Option(
            help="Raw examples to make warm-up requests for TensorFlow Serving from. A model that was already exported "
            "without them is not exported again: write to other folders, or let `push` add the requests.",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = "",
    num_epochs: Annotated[int, typer.Option(help="Passes over the training split.")] = 10,
    train_split: Annotated[str, typer.Option(help="Split to train on.")] = "train",
    eval_split: Annotated[str, typer.Option(help="Split to evaluate after every epoch.")] = "val",
    batching: Annotated[
        str, typer.Option(help="Batches of the training split: 'packed', 'fit_or_skip', 'tight' or 'ego'.")
    ] = "packed",
    batch_size: Annotated[
        int,
        typer.Option(
            help="Graphs in a step, over all replicas together. 0, except with 'ego': each replica uses the "
            "--batch-size of `sizes learn`."
        ),
    ] = 0,
    success_ratio: Annotated[
        float, typer.Option(help="Success ratio of the fit-or-skip budget to use, one of those that were learned.")
    ] = 0.99,
    shuffle_buffer_size: Annotated[int, typer.Option(help="Graphs in the shuffle buffer; 1 for no shuffling.")] = (
        10_000
    ),
    training_seed: Annotated[int, typer.Option(help="Seed of weights, dropout and the order of examples.")] = 0,
    early_stopping_patience: Annotated[
        int, typer.Option(help="Epochs without a lower validation loss before training stops; 0: no early stopping.")
    ] = 0,
    strategy: Annotated[
        str,
        typer.Option(
            help="Where training runs: 'default', 'one_device', 'mirrored', 'multi_worker_mirrored', "
            "'parameter_server' or 'tpu'. With several processes, run this command in each, with its own TF_CONFIG."
        ),
    ] = "default",
    devices: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            help="Device for 'one_device' or 'mirrored', such as GPU:0; repeat for several.",
            show_default=False,
        ),
    ] = None,
    tpu: Annotated[str, typer.Option(help="Name of the TPU, or 'local'.", show_default=False)] = "",
    num_parameter_partitions: Annotated[
        int,
        typer.Option(
            help="Maximum number of partitions of a large table under 'parameter_server'; 0: one per parameter server."
        ),
    ] = 0,
    sharding: Annotated[
        str, typer.Option(help="How files are divided among processes: 'auto', 'file', 'data' or 'off'.")
    ] = "auto",
    class_sampling: Annotated[
        str,
        typer.Option(
            help="How many times a training example comes in an epoch: 'balanced' makes all classes equally frequent; "
            "or mean numbers by class: '{\"fraud\": 5}'. By default, once.",
            show_default=False,
        ),
    ] = "",
    precision: Annotated[
        str, typer.Option(help="Precision of the layers' computation: 'float32' or 'mixed_bfloat16'.")
    ] = "float32",
    steps_per_execution: Annotated[int, typer.Option(help="Steps to run in one call to TensorFlow.")] = 1,
    jit_compile: Annotated[bool, typer.Option(help="Compile the step with XLA; on one replica only.")] = False,
    deterministic: Annotated[
        bool, typer.Option(help="Make the same seed give the same weights, bit for bit, on one device.")
    ] = False,
    hyperparameters: arguments.Hyperparameters = "{}",
    checkpoint_every_steps: Annotated[
        int, typer.Option(help="Steps between checkpoints; 0: one after every epoch.")
    ] = 0,
    checkpoint_dir: Annotated[
        str,
        typer.Option(
            help="Folder of checkpoints, from which a restarted training resumes; by default a hidden folder next to "
            "the model run.",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = "",
    raw_tensor_signature: Annotated[
        bool, typer.Option(help="Export a further signature, `tensors`, that takes raw graphs as plain tensors.")
    ] = False,
    allow_unsafe_operations: Annotated[
        bool,
        typer.Option(
            help="Export the model even if it has operations that abort a multi-threaded server, such as "
            "FusedBatchNormV3."
        ),
    ] = False,
    verify_tpu: Annotated[
        str,
        typer.Option(
            help="When to check the model, before training, for what a TPU cannot do: 'auto' (under strategy 'tpu'), "
            "'always' or 'never'."
        ),
    ] = "auto",
) -> None:
    """Train the model and export it together with the transform."""
    from tfx_gnn.components.graph_trainer.stage import train_graph_model
    from tfx_gnn.distribution.options import STRATEGIES_OF_ONE_PROCESS, StrategyOptions
    from tfx_gnn.training.loop.training_loop import TrainingPreemptedError
    from tfx_gnn.training.options import (
        BatchingOptions,
        CheckpointOptions,
        ExecutionOptions,
        ExportOptions,
        GraphTrainerOptions,
    )

    # With several processes, connections to other machines must be set up before TensorFlow starts.
    if strategy in STRATEGIES_OF_ONE_PROCESS:
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
            options=GraphTrainerOptions(
                model_fn=model_fn,
                task=arguments.read_task(
                    task, task_json, label_feature=label_feature, class_vocabulary=class_vocabulary
                ),
                num_epochs=num_epochs,
                train_split=train_split,
                eval_split=eval_split,
                training_seed=training_seed,
                early_stopping_patience=early_stopping_patience,
                hyperparameters=arguments.read_object("--hyperparameters", hyperparameters),
                batching=BatchingOptions(
                    kind=batching,
                    batch_size=batch_size,
                    success_ratio=success_ratio,
                    shuffle_buffer_size=shuffle_buffer_size,
                    sharding=sharding,
                    class_sampling=(
                        arguments.read_object("--class-sampling", class_sampling)
                        if class_sampling.lstrip().startswith("{")
                        else class_sampling
                    ),
                ),
                execution=ExecutionOptions(
                    precision=precision,
                    steps_per_execution=steps_per_execution,
                    jit_compile=jit_compile,
                    deterministic=deterministic,
                ),
                strategy=StrategyOptions(
                    kind=strategy,
                    devices=tuple(devices or ()),
                    tpu=tpu,
                    num_parameter_partitions=num_parameter_partitions,
                ),
                checkpoints=CheckpointOptions(every_steps=checkpoint_every_steps, directory=checkpoint_dir),
                export=ExportOptions(
                    raw_tensor_signature=raw_tensor_signature, allow_unsafe_operations=allow_unsafe_operations
                ),
                verify_tpu=verify_tpu,
            ),
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
