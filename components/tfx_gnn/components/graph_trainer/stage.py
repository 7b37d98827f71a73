"""GraphTrainer: trains the user's model and exports it with the transform as one SavedModel."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping

import tensorflow as tf

from tfx_gnn.components.graph_trainer import output_folders as trainer_outputs
from tfx_gnn.components.graph_trainer.device_memory import memory_errors_explained
from tfx_gnn.components.graph_trainer.output_folders import OutputFolders, check_places, finished_outputs
from tfx_gnn.components.graph_trainer.tpu_readiness import check_training_for_tpu
from tfx_gnn.components.graph_trainer.training_run import SAVED_MODELS, Exporters, Training, errors_of_other_processes
from tfx_gnn.distribution.cluster import (
    ClusterRole,
    barrier,
    barrier_before_exit,
    cluster_role,
    is_true_on_any_worker,
    serve,
)
from tfx_gnn.distribution.options import PARAMETER_SERVER, TPU
from tfx_gnn.distribution.strategies import make_strategy
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.io.progress import say
from tfx_gnn.training.best_hyperparameters import with_best_hyperparameters
from tfx_gnn.training.checkpoints.checkpoints import locked_checkpoints, remove_checkpoints
from tfx_gnn.training.checkpoints.training_fingerprint import hash_fingerprint, training_fingerprint
from tfx_gnn.training.loop.determinism import seeded
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn.training.loop.summary import TrainingSummary, read_training_summary
from tfx_gnn.training.loop.trainer_inputs import TrainerFolders
from tfx_gnn.training.options import GraphTrainerOptions, check_warm_start

__all__ = ["GraphTrainerOptions", "train_graph_model"]


def train_graph_model(
    *,
    transformed_examples_dir: str,
    transform_graph_dir: str,
    graph_schema_dir: str,
    transformed_graph_schema_dir: str,
    size_constraints_dir: str = "",
    model_dir: str,
    model_run_dir: str,
    blessing_dir: str = "",
    precomputed_batches_dir: str = "",
    best_hyperparameters_dir: str = "",
    examples_dir: str = "",
    blessed_model_dir: str = "",
    options: GraphTrainerOptions,
    exporters: Exporters = SAVED_MODELS,
) -> TrainingSummary:
    """Trains the user's model and exports it together with the transform.

    If several processes take part, as given by `TF_CONFIG`, each of them calls this function with the same arguments.
    The chief writes the outputs. Workers and parameter servers of strategy "parameter_server" serve until they are
    killed.

    Args:
        transformed_examples_dir: output of GraphTransform, with labels.
        transform_graph_dir: the transform that made the examples.
        graph_schema_dir: folder with the `graph_schema.pbtxt` before the transform.
        transformed_graph_schema_dir: folder with the `graph_schema.pbtxt` after the transform.
        size_constraints_dir: padding budgets (TF-GNN's size constraints), learned from the same examples; empty for
            batching "ego", which has none.
        model_dir: absent or empty folder for the SavedModel, in `Format-Serving/`.
        model_run_dir: absent or empty folder for `logs/` (TensorBoard), `checkpoints/`,
            `training_reference/` (what training saw, for GraphSkewValidator), `training_summary.json`, `report.html`
            and `finished.json`, which marks the training as finished.
        blessing_dir: verdict of GraphExampleValidator on the raw examples, which must be a blessing; empty to
            train without one.
        precomputed_batches_dir: output of `write_precomputed_batches` for the training split and the budget in
            `options`: each epoch reads the next stored epoch instead of making batches. Empty to make batches.
        best_hyperparameters_dir: output of `tune_graph_model`, whose hyperparameters are added to those in
            `options`; hyperparameters in `options` take precedence. Empty to add none.
        examples_dir: raw examples, from which warm-up requests for TensorFlow Serving are made, without their
            labels; empty to write none.
        blessed_model_dir: what a warm start takes the weights from: output of LatestBlessedModelResolver, a trained
            model, a SavedModel or a push destination. Given if and only if `options.warm_start` is not "none".
        options: what to train, and how.
        exporters: classes that write the trained model; by default as SavedModels.

    Returns:
        A summary of the training.

    Raises:
        ValueError: if the examples are not blessed, inputs do not fit each other, a warm start finds another network,
            labels are missing, a class of the training split is unknown, the model's outputs do not fit the task, the
            strategy lacks something, a TPU would refuse the model, the loss is not finite, or the network has learned
            nothing for a reason that can be seen.
        ModuleNotFoundError: if the module of `model_fn` cannot be found.
        ConnectionError: if another process of the training is gone.
        tf.errors.ResourceExhaustedError: if a device runs out of memory, or a disk is full.
        BlockingIOError: if another process is writing the same outputs, or uses the same checkpoints.
        FileExistsError: if the outputs of another training exist. Outputs of this same training are returned at once.
        TrainingPreemptedError: if the process received SIGTERM: the same call resumes where it stopped.
        KeyboardInterrupt: if the process received SIGINT, such as by Ctrl-C, after saving a checkpoint to resume from.
    """
    options = with_best_hyperparameters(options, best_hyperparameters_dir)
    check_warm_start(options, is_given=bool(blessed_model_dir), argument="blessed_model_dir")
    role = cluster_role()
    if options.strategy.kind == PARAMETER_SERVER and role.serves:
        serve(role)
    places = {"model_dir": model_dir, "model_run_dir": model_run_dir, "checkpoint_dir": options.checkpoints.directory}
    if role.is_alone:
        check_places(**places)
    folders = TrainerFolders(
        transformed_examples_dir=transformed_examples_dir,
        transform_graph_dir=transform_graph_dir,
        graph_schema_dir=graph_schema_dir,
        transformed_graph_schema_dir=transformed_graph_schema_dir,
        size_constraints_dir=size_constraints_dir,
        blessing_dir=blessing_dir,
        precomputed_batches_dir=precomputed_batches_dir,
        examples_dir=examples_dir,
        blessed_model_dir=blessed_model_dir,
    )
    summary = (
        None
        if role.is_alone
        else _summary_of_ended(folders, options, role, model_dir=model_dir, model_run_dir=model_run_dir)
    )
    if summary is not None:
        return summary
    touches_tpu = options.strategy.kind == TPU
    if options.verifies_tpu and touches_tpu:
        _refuse_for_tpu(folders, options)
    # Before TensorFlow runs anything, except for TPUs: it sets up the connections to other machines.
    strategy = make_strategy(options.strategy)
    if role.is_chief and not role.is_alone:
        # Only once all processes are connected: an earlier error would leave the other processes waiting.
        check_places(**places)
    if options.verifies_tpu and not touches_tpu:
        _refuse_for_tpu(folders, options)
    return _train_unless_ended(
        folders, strategy, role, options, exporters, model_dir=model_dir, model_run_dir=model_run_dir
    )


def _summary_of_ended(
    folders: TrainerFolders, options: GraphTrainerOptions, role: ClusterRole, *, model_dir: str, model_run_dir: str
) -> TrainingSummary | None:
    """Finds out whether the training has ended, before this process waits for others that may have exited."""
    finished = finished_outputs(model_dir, model_run_dir)
    if finished is None:
        return None
    # The replica count is known only after connecting, so the recorded one is used.
    fingerprint = training_fingerprint(folders, options, num_replicas=int(finished.fingerprint["num_replicas"]))
    if finished.fingerprint != _with_end(fingerprint, options):
        return None
    if role.is_chief:
        _say_it_has_ended(model_dir)
        _remove_checkpoints(_checkpoint_folder(options, model_run_dir, fingerprint), options)
    return read_training_summary(model_run_dir)


def _train_unless_ended(
    folders: TrainerFolders,
    strategy: tf.distribute.Strategy,
    role: ClusterRole,
    options: GraphTrainerOptions,
    exporters: Exporters,
    *,
    model_dir: str,
    model_run_dir: str,
) -> TrainingSummary:
    """Trains, unless the outputs show that the training has ended; all processes must call it together."""
    with OutputFolders(model_dir, model_run_dir, is_chief=role.is_chief) as outputs:
        training = Training(folders, strategy, role, options, exporters)
        fingerprint = training_fingerprint(folders, options, num_replicas=strategy.num_replicas_in_sync)
        checkpoint_dir = _checkpoint_folder(options, model_run_dir, fingerprint)
        if role.is_chief and not has_locks(checkpoint_dir):
            say(f"There are no locks in {checkpoint_dir!r}: start one training at a time there.")
        with locked_checkpoints(checkpoint_dir) if role.is_chief else contextlib.nullcontext():
            whole_fingerprint = _with_end(fingerprint, options)
            with errors_of_other_processes(role):
                # Only the chief knows: it may just have completed an interrupted commit.
                has_ended = is_true_on_any_worker(strategy, is_true_here=outputs.complete(whole_fingerprint))
            if has_ended:
                summary = read_training_summary(model_run_dir)
                if role.is_chief:
                    _say_it_has_ended(model_dir)
            else:
                with (
                    memory_errors_explained(),
                    libraries_traced_as_written(),
                    outputs.written(whole_fingerprint) as (model_partial, run_partial),
                    seeded(options.training_seed, deterministic=options.execution.deterministic),
                ):
                    summary = training.run(model_partial, run_partial, checkpoint_dir, fingerprint)
                # A worker must not end while the chief still exports: a restarted chief would wait for it.
                with errors_of_other_processes(role):
                    barrier(strategy)
            barrier_before_exit(strategy)
            if role.is_chief:
                _remove_checkpoints(checkpoint_dir, options)
    return summary


def _say_it_has_ended(model_dir: str) -> None:
    say(f"This training has ended: its model is in {model_dir!r}. Nothing is left to do.")


def _with_end(fingerprint: Mapping[str, str], options: GraphTrainerOptions) -> dict[str, str]:
    return {**fingerprint, "options.num_epochs": str(options.num_epochs)}


def _checkpoint_folder(options: GraphTrainerOptions, model_run_dir: str, fingerprint: Mapping[str, str]) -> str:
    return trainer_outputs.checkpoint_folder(
        options.checkpoints.directory, model_run_dir, hash_fingerprint(fingerprint)
    )


def _remove_checkpoints(checkpoint_dir: str, options: GraphTrainerOptions) -> None:
    keeps_folder = bool(options.checkpoints.directory)
    if keeps_folder:
        remove_checkpoints(checkpoint_dir)
    folder = os.path.join(checkpoint_dir, trainer_outputs.LOGS_DIR) if keeps_folder else checkpoint_dir
    if tf.io.gfile.exists(folder):
        tf.io.gfile.rmtree(folder)


def _refuse_for_tpu(folders: TrainerFolders, options: GraphTrainerOptions) -> None:
    # The number of cores that share a global batch is unknown until the TPU is set up; the check needs no batch size.
    options = dataclasses.replace(options, batching=dataclasses.replace(options.batching, batch_size=0))
    readiness = check_training_for_tpu(folders, options)
    readiness.raise_if_not_ready(options.model_fn)
