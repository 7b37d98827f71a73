"""Verbs around a model: train, push, predict."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Annotated

import typer
from rich.table import Table

from tfx_gnn.cli import arguments


def train(
    *,
    transformed_examples_dir: arguments.TransformedExamples,
    transform_graph_dir: Annotated[str, arguments.folder("The transform: an output of `transform`.")],
    graph_schema_dir: arguments.GraphSchema,
    transformed_graph_schema_dir: arguments.TransformedGraphSchema,
    size_constraints_dir: Annotated[str, arguments.folder("Padding budgets: the output of `sizes learn`.")],
    model_fn: Annotated[
        str,
        typer.Option(
            help="Your function that builds and compiles the model, as 'package.module:function'.", show_default=False
        ),
    ],
    label_feature: Annotated[
        str, typer.Option(help="Label feature of node set `_readout`, a class index.", show_default=False)
    ],
    class_vocabulary: Annotated[
        str, typer.Option(help="`vocab_filename` of the vocabulary that made the index.", show_default=False)
    ],
    model_dir: Annotated[str, arguments.folder("Where to write the model that serves.")],
    model_run_dir: Annotated[str, arguments.folder("Where to write TensorBoard logs, checkpoints and the summary.")],
    ready_batches_dir: Annotated[
        str,
        typer.Option(
            help="Ready-made batches of the training split: an output of `batches`.",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = "",
    num_epochs: Annotated[int, typer.Option(help="Passes over the training split.")] = 10,
    train_split: Annotated[str, typer.Option(help="Split to train on.")] = "train",
    eval_split: Annotated[str, typer.Option(help="Split to watch after every epoch.")] = "val",
    batching: Annotated[
        str, typer.Option(help="Batches of the training split: 'packed', 'fit_or_skip' or 'tight'.")
    ] = "packed",
    batch_size: Annotated[int, typer.Option(help="Which of the learned budgets; 0 for the learner's own.")] = 0,
    success_ratio: Annotated[float, typer.Option(help="Which of the learned fit-or-skip budgets.")] = 0.99,
    shuffle_buffer_size: Annotated[int, typer.Option(help="Graphs in the shuffle buffer.")] = 10_000,
    training_seed: Annotated[int, typer.Option(help="Seed of weights, dropout and order.")] = 0,
    early_stopping_patience: Annotated[
        int, typer.Option(help="Epochs without a lower validation loss before training stops; 0 never stops.")
    ] = 0,
) -> None:
    """Train the model and export it together with the transform."""
    from tfx_gnn.models.tasks import NodeClassification
    from tfx_gnn.stages.graph_trainer import GraphTrainerOptions, train_graph_model

    train_graph_model(
        transformed_examples_dir=transformed_examples_dir,
        transform_graph_dir=transform_graph_dir,
        graph_schema_dir=graph_schema_dir,
        transformed_graph_schema_dir=transformed_graph_schema_dir,
        size_constraints_dir=size_constraints_dir,
        model_dir=model_dir,
        model_run_dir=model_run_dir,
        ready_batches_dir=ready_batches_dir,
        options=GraphTrainerOptions(
            model_fn=model_fn,
            task=NodeClassification(label_feature=label_feature, class_vocabulary=class_vocabulary),
            num_epochs=num_epochs,
            train_split=train_split,
            eval_split=eval_split,
            batching=batching,
            batch_size=batch_size,
            success_ratio=success_ratio,
            shuffle_buffer_size=shuffle_buffer_size,
            training_seed=training_seed,
            early_stopping_patience=early_stopping_patience,
        ),
    )
    arguments.say_written(model=model_dir, model_run=model_run_dir)


def push(
    *,
    model_dir: arguments.Model,
    blessing_dir: Annotated[str, arguments.folder("Blessing of the model: an output of `evaluate`.")],
    examples_dir: arguments.Examples,
    push_destination: Annotated[str, arguments.folder("Folder of version folders that a server watches.")],
    pushed_model_dir: Annotated[str, arguments.folder("Where to write the record `pushed_version.json`.")],
    infra_blessing_dir: Annotated[
        str,
        typer.Option(
            help="Blessing of `skew`; without it, serving is not asked for.", show_default=False, metavar="FOLDER"
        ),
    ] = "",
    num_verification_requests: Annotated[int, typer.Option(help="Real examples that the copy must answer first.")] = 8,
) -> None:
    """Make a blessed model the next version of a serving folder, after its copy answered real requests."""
    from tfx_gnn.stages.graph_pusher import GraphPusherOptions, push_graph_model

    pushed = push_graph_model(
        model_dir=model_dir,
        blessing_dir=blessing_dir,
        examples_dir=examples_dir,
        push_destination=push_destination,
        pushed_model_dir=pushed_model_dir,
        infra_blessing_dir=infra_blessing_dir,
        options=GraphPusherOptions(num_verification_requests=num_verification_requests),
    )
    if pushed.pushed:
        arguments.console.print(f"pushed version {pushed.version}: {pushed.path}", style="green", markup=False)
    else:
        arguments.console.print(f"NOT pushed: {pushed.reason}", style="yellow", markup=False)
    arguments.say_written(pushed_model=pushed_model_dir)


def predict(
    *,
    model_dir: Annotated[
        str, arguments.folder("A push destination (its newest version answers), a trained model, or a SavedModel.")
    ],
    examples: Annotated[
        str,
        typer.Option(
            help="Raw graph tf.Examples: a TFRecord file, or the folder of a split such as examples/Split-test.",
            show_default=False,
            metavar="PATH",
        ),
    ],
    limit: Annotated[int, typer.Option(help="Examples to answer; 0 for all.", min=0)] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line instead of a table.")] = False,
) -> None:
    """Ask a model for the class of examples; TensorFlow is all that this needs."""
    from tfx_gnn.serving.prediction import ServingModel, read_records
    from tfx_gnn.serving.versions import resolve_saved_model

    saved_model_dir = resolve_saved_model(model_dir)
    model = ServingModel(saved_model_dir)
    predictions = model.classify(itertools.islice(read_records(examples), limit or None))
    if as_json:
        for prediction in predictions:
            typer.echo(json.dumps(dataclasses.asdict(prediction), ensure_ascii=False))
        return
    table = Table("id", "label", "score", caption=f"answered by {saved_model_dir}", caption_justify="left")
    for prediction in predictions:
        table.add_row(str(prediction.id), prediction.label, f"{prediction.score:.4f}")
    arguments.console.print(table)
