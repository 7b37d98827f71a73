"""GraphTrainer: transformed graphs and a user's model become one SavedModel that answers raw examples."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import time
from collections.abc import Mapping

import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.cluster import ClusterRole, cluster_role, serve
from tfx_gnn.distribution.strategies import PARAMETER_SERVER, TPU, make_strategy
from tfx_gnn.serving.signature import MODEL_ARTIFACT_FOLDER
from tfx_gnn.stages.files import options_json
from tfx_gnn.stages.files.process_lock import has_locks
from tfx_gnn.stages.report_pages.page_template import REPORT_FILE
from tfx_gnn.stages.training import input_pipeline, trainer_outputs
from tfx_gnn.stages.training.agreement import is_so_anywhere, leave_together, wait_for_all
from tfx_gnn.stages.training.callbacks import BestWeights
from tfx_gnn.stages.training.checkpoint_files import locked_checkpoints, num_checkpoint_bytes
from tfx_gnn.stages.training.checkpoints import create_training_variables, remove_checkpoints
from tfx_gnn.stages.training.determinism import seeded
from tfx_gnn.stages.training.fast_tracing import libraries_traced_as_written
from tfx_gnn.stages.training.input_scalars import InputScalars
from tfx_gnn.stages.training.output_checks import OutputSizes, check_outputs, check_places
from tfx_gnn.stages.training.output_folders import OutputFolders, finished_outputs
from tfx_gnn.stages.training.path_export import TRAINING_PATH_DIR, TrainingPath
from tfx_gnn.stages.training.preemption import StopSignal
from tfx_gnn.stages.training.progress import TrainingProgress, say
from tfx_gnn.stages.training.resumption import Resumption
from tfx_gnn.stages.training.served_model import ServedModel
from tfx_gnn.stages.training.summary import (
    TrainingSummary,
    layers_of,
    read_training_summary,
    write_training_summary,
)
from tfx_gnn.stages.training.tpu_readiness import check_training_for_tpu
from tfx_gnn.stages.training.trainer_inputs import (
    TrainerFolders,
)
from tfx_gnn.stages.training.trainer_options import GraphTrainerOptions
from tfx_gnn.stages.training.trainer_outputs import errors_of_other_processes
from tfx_gnn.stages.training.training_fingerprint import name_of, training_fingerprint
from tfx_gnn.stages.training.training_loop import TrainingPreemptedError, TrainingState, train
from tfx_gnn.stages.training.training_report import write_training_report
from tfx_gnn.stages.training.training_setup import TrainingSetup
from tfx_gnn.stages.transform.application import SavedGraphTransform
from tfx_gnn.stages.tuning.best_hyperparameters import with_best_hyperparameters

__all__ = ["GraphTrainerOptions", "train_graph_model"]


def train_graph_model(
    *,
    transformed_examples_dir: str,
    transform_graph_dir: str,
    graph_schema_dir: str,
    transformed_graph_schema_dir: str,
    size_constraints_dir: str,
    model_dir: str,
    model_run_dir: str,
    blessing_dir: str = "",
    ready_batches_dir: str = "",
    best_hyperparameters_dir: str = "",
    options: GraphTrainerOptions,
) -> TrainingSummary:
    """Trains the user's model and exports it together with the transform.

    Where several processes take part, by `TF_CONFIG`, each of them calls this with the same arguments. The chief
    writes the outputs. Workers and parameter servers of strategy "parameter_server" serve until they are killed.

    Args:
        transformed_examples_dir: output of GraphTransform, with labels.
        transform_graph_dir: the transform that made them.
        graph_schema_dir: folder of `graph_schema.pbtxt` before the transform.
        transformed_graph_schema_dir: folder of `graph_schema.pbtxt` after it.
        size_constraints_dir: padding budgets, learned from the same examples.
        model_dir: absent or empty folder for the SavedModel, in `Format-Serving/`.
        model_run_dir: absent or empty folder for `logs/` (TensorBoard), `checkpoints/`,
            `training_path/` (what training saw, for GraphSkewValidator), `training_summary.json`, `report.html`
            and `finished.json`, by which the same training knows that it has ended.
        blessing_dir: verdict of GraphExampleValidator on the raw examples, which must be a blessing; empty to
            train on whatever examples there are.
        ready_batches_dir: output of `write_ready_batches` for the training split and the budget of `options`:
            each epoch reads the next stored one instead of making batches. Empty to make them.
        best_hyperparameters_dir: output of `tune_graph_model`, whose hyperparameters are added to those of
            `options`; what these name already stays as it is. Empty to add none.
        options: what to train, and how.

    Returns:
        What was done.

    Raises:
        ValueError: if the examples are not blessed, inputs do not fit each other, labels are missing, a class
            of the training split is unknown, the model does not answer the task, the strategy lacks something,
            a TPU would refuse the model, or the loss is not finite.
        ModuleNotFoundError: if the module of `model_fn` cannot be found.
        ConnectionError: if another process that takes part is gone.
        BlockingIOError: if another process is writing the same outputs, or uses the same checkpoints.
        FileExistsError: if outputs of another training are there. Those of this very one end it at once.
        TrainingPreemptedError: if the process got SIGTERM: the same call goes on from where it was.
        KeyboardInterrupt: if it got SIGINT, as by Ctrl-C, after that was saved from which the same call goes on.
    """
    options = with_best_hyperparameters(options, best_hyperparameters_dir)
    role = cluster_role()
    if options.strategy == PARAMETER_SERVER and role.serves:
        serve(role)
    places = {"model_dir": model_dir, "model_run_dir": model_run_dir, "checkpoint_dir": options.checkpoint_dir}
    if role.is_alone:
        check_places(**places)
    folders = TrainerFolders(
        transformed_examples_dir=transformed_examples_dir,
        transform_graph_dir=transform_graph_dir,
        graph_schema_dir=graph_schema_dir,
        transformed_graph_schema_dir=transformed_graph_schema_dir,
        size_constraints_dir=size_constraints_dir,
        blessing_dir=blessing_dir,
        ready_batches_dir=ready_batches_dir,
    )
    summary = (
        None
        if role.is_alone
        else _summary_of_ended(folders, options, role, model_dir=model_dir, model_run_dir=model_run_dir)
    )
    if summary is not None:
        return summary
    touches_tpu = options.strategy == TPU
    if options.verifies_tpu and touches_tpu:
        _refuse_for_tpu(folders, options)
    # Before anything of TensorFlow runs, but for TPUs: it sets up the connections to other machines.
    strategy = make_strategy(options.strategy_options)
    if role.is_chief and not role.is_alone:
        # Others learn of an error here only once they are connected, and would wait for this process.
        check_places(**places)
    if options.verifies_tpu and not touches_tpu:
        _refuse_for_tpu(folders, options)
    return _train_unless_ended(folders, strategy, role, options, model_dir=model_dir, model_run_dir=model_run_dir)


def _summary_of_ended(
    folders: TrainerFolders, options: GraphTrainerOptions, role: ClusterRole, *, model_dir: str, model_run_dir: str
) -> TrainingSummary | None:
    """Finds that a training has ended, before this process waits for others that have ended well."""
    finished = finished_outputs(model_dir, model_run_dir)
    if finished is None:
        return None
    # How many replicas there are is known once they are connected: here the note is believed.
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
    *,
    model_dir: str,
    model_run_dir: str,
) -> TrainingSummary:
    """Trains, unless the outputs say that there is nothing left to do; all processes call it together."""
    with OutputFolders(model_dir, model_run_dir, is_chief=role.is_chief) as outputs:
        training = _Training(folders, strategy, role, options)
        fingerprint = training_fingerprint(folders, options, num_replicas=strategy.num_replicas_in_sync)
        checkpoint_dir = _checkpoint_folder(options, model_run_dir, fingerprint)
        if role.is_chief and not has_locks(checkpoint_dir):
            say(f"There are no locks in {checkpoint_dir!r}: start one training at a time there.")
        with locked_checkpoints(checkpoint_dir) if role.is_chief else contextlib.nullcontext():
            whole_fingerprint = _with_end(fingerprint, options)
            with errors_of_other_processes(role):
                # The chief alone knows: it may have completed just now what it was killed in.
                has_ended = is_so_anywhere(strategy, is_so_here=outputs.complete(whole_fingerprint))
            if has_ended:
                summary = read_training_summary(model_run_dir)
                if role.is_chief:
                    _say_it_has_ended(model_dir)
            else:
                with (
                    libraries_traced_as_written(),
                    outputs.written(whole_fingerprint) as (model_partial, run_partial),
                    seeded(options.training_seed, deterministic=options.deterministic),
                ):
                    summary = training.run(model_partial, run_partial, checkpoint_dir, fingerprint)
                # A worker that ended while the chief still exports could not help it to start again.
                with errors_of_other_processes(role):
                    wait_for_all(strategy)
            leave_together(strategy)
            if role.is_chief:
                _remove_checkpoints(checkpoint_dir, options)
    return summary


def _say_it_has_ended(model_dir: str) -> None:
    say(f"This training has ended: its model is in {model_dir!r}. Nothing is left to do.")


def _with_end(fingerprint: Mapping[str, str], options: GraphTrainerOptions) -> dict[str, str]:
    return {**fingerprint, "options.num_epochs": str(options.num_epochs)}


def _checkpoint_folder(options: GraphTrainerOptions, model_run_dir: str, fingerprint: Mapping[str, str]) -> str:
    return trainer_outputs.checkpoint_folder(options.checkpoint_dir, model_run_dir, name_of(fingerprint))


def _remove_checkpoints(checkpoint_dir: str, options: GraphTrainerOptions) -> None:
    keeps_folder = bool(options.checkpoint_dir)
    if keeps_folder:
        remove_checkpoints(checkpoint_dir)
    folder = os.path.join(checkpoint_dir, trainer_outputs.LOGS_DIR) if keeps_folder else checkpoint_dir
    if tf.io.gfile.exists(folder):
        tf.io.gfile.rmtree(folder)


def _refuse_for_tpu(folders: TrainerFolders, options: GraphTrainerOptions) -> None:
    # Before the TPU is touched nobody knows by how many cores to divide a global batch; its size is no matter here.
    readiness = check_training_for_tpu(folders, dataclasses.replace(options, batch_size=0))
    readiness.raise_if_not_ready(options.model_fn)


def _check_room(model: tf_keras.Model, model_dir: str, run_dir: str, checkpoint_dir: str) -> None:
    sizes = OutputSizes.of_model(model)
    check_outputs(
        {
            "model_dir": (model_dir, sizes.model),
            "model_run_dir": (run_dir, sizes.run),
            # What is there already will not be written again.
            "checkpoint_dir": (checkpoint_dir, max(sizes.checkpoints - num_checkpoint_bytes(checkpoint_dir), 0)),
        }
    )


class _Training:
    """One training, from what it reads to what it writes."""

    def __init__(
        self,
        folders: TrainerFolders,
        strategy: tf.distribute.Strategy,
        role: ClusterRole,
        options: GraphTrainerOptions,
    ) -> None:
        self._folders, self._strategy, self._role, self._options = folders, strategy, role, options
        self._setup = TrainingSetup(folders, strategy, options)

    def run(self, model_dir: str, run_dir: str, checkpoint_dir: str, fingerprint: Mapping[str, str]) -> TrainingSummary:
        """Trains, or goes on, and writes everything into two existing folders."""
        options, setup, sample = self._options, self._setup, self._setup.sample
        with self._strategy.scope():
            model = setup.builder.build(sample.graph)
        # A model of many replicas or machines is exported from a twin of it that has its weights on one device.
        exported = model if tf.distribute.get_strategy() is self._strategy else setup.builder.build(sample.graph)
        served = ServedModel(
            raw_spec=setup.inputs.raw_spec,
            transformed_spec=setup.inputs.objective.without_labels(setup.inputs.graph_spec),
            transform=SavedGraphTransform(self._folders.transform_graph_dir),
            model=exported,
            objective=setup.inputs.objective,
            other_labels=setup.inputs.other_labels,
            raw_tensor_signature=options.raw_tensor_signature,
        )
        # A trial: what cannot be exported is found out now, not after hours of training.
        trial_dir = os.path.join(model_dir, "trial")
        served.save(trial_dir)
        tf.io.gfile.rmtree(trial_dir)

        create_training_variables(model, self._strategy, sample.graph, sample.labels)
        if self._role.is_chief:
            _check_room(model, model_dir, run_dir, checkpoint_dir)
        state = TrainingState()
        best = BestWeights(patience=options.early_stopping_patience) if options.early_stopping_patience else None
        start = time.monotonic()
        self._train(model, state, best=best, run_dir=run_dir, checkpoint_dir=checkpoint_dir, fingerprint=fingerprint)
        seconds = time.monotonic() - start
        weights = trainer_outputs.save_weights(model, run_dir)
        if exported is not model:
            trainer_outputs.load_weights(exported, weights)
        served.save(os.path.join(model_dir, MODEL_ARTIFACT_FOLDER))
        # Evaluation's batches, not those of training: all examples can be asked, and padding is the same.
        budget = setup.budgets.evaluation
        preprocess = functools.partial(input_pipeline.evaluation_batch, labelled=setup.labelled, budget=budget)
        TrainingPath(
            graph_spec=setup.inputs.graph_spec,
            preprocess=preprocess,
            model=exported,
            objective=setup.inputs.objective,
            batch_size=budget.batch_size,
        ).save(os.path.join(run_dir, TRAINING_PATH_DIR))
        summary = self._summary(model, state, best, seconds)
        write_training_summary(summary, run_dir)
        write_training_report(summary, os.path.join(run_dir, REPORT_FILE))
        return summary

    def _train(
        self,
        model: tf_keras.Model,
        state: TrainingState,
        *,
        best: BestWeights | None,
        run_dir: str,
        checkpoint_dir: str,
        fingerprint: Mapping[str, str],
    ) -> None:
        options = self._options
        # What cannot be read is found out before anything is written.
        steps = self._setup.steps(model)
        evaluate = self._setup.evaluation(model)
        # Beside the checkpoints, so that those of a training that is ended are not lost.
        logs_dir = os.path.join(checkpoint_dir, trainer_outputs.LOGS_DIR)
        progress = TrainingProgress(
            num_epochs=options.num_epochs,
            steps_per_epoch=self._setup.steps_per_epoch,
            notes=[self._setup.sharding.message] if self._setup.sharding.num_pipelines > 1 else [],
            is_quiet=not self._role.is_chief,
        )
        callbacks = [*([best] if best is not None else []), progress]
        if self._role.is_chief:
            board = tf_keras.callbacks.TensorBoard(logs_dir, write_graph=False)
            callbacks = [InputScalars(state=state, logs_dir=logs_dir), board, *callbacks]
        resumption = Resumption(
            model=model,
            strategy=self._strategy,
            data=self._setup.data,
            state=state,
            best=best,
            single_steps=lambda: self._setup.steps(model, one_at_a_time=True),
            fingerprint=fingerprint,
            checkpoint_dir=checkpoint_dir,
            every_steps=options.checkpoint_every_steps,
            writes=self._role.is_chief,
            # A run that fails has no folder.
            run_dir=checkpoint_dir,
            say=progress.say,
        )
        with (
            contextlib.closing(progress),
            errors_of_other_processes(self._role),
            StopSignal(strategy=self._strategy, say=progress.say) as stop,
        ):
            resumption.resume()
            try:
                train(
                    model,
                    steps,
                    evaluate=evaluate,
                    num_epochs=options.num_epochs,
                    state=state,
                    callbacks=callbacks,
                    hooks=resumption.hooks,
                    stop=stop,
                )
            except TrainingPreemptedError as stopped:
                if stop.is_interrupt:
                    progress.say(f"{stopped} Run the same again: it goes on from there.")
                    raise KeyboardInterrupt from stopped
                raise
        if self._role.is_chief:
            # Who is killed from here on will want them again.
            trainer_outputs.copy_files(logs_dir, os.path.join(run_dir, trainer_outputs.LOGS_DIR))

    def _summary(
        self, model: tf_keras.Model, state: TrainingState, best: BestWeights | None, seconds: float
    ) -> TrainingSummary:
        setup = self._setup
        return TrainingSummary(
            model_fn=self._options.model_fn,
            num_parameters=int(model.count_params()),
            num_classes=setup.inputs.objective.num_classes,
            num_train_examples=setup.budgets.num_train_examples,
            num_eval_examples=setup.budgets.num_eval_examples,
            num_eval_examples_of_unknown_class=sum(labels.num_missing for labels in setup.inputs.eval_labels.values()),
            batching=self._options.batching,
            budget=dataclasses.asdict(setup.budgets.training),
            eval_budget=dataclasses.asdict(setup.budgets.evaluation),
            strategy=self._options.strategy,
            num_replicas=self._strategy.num_replicas_in_sync,
            num_steps=state.position.global_step,
            epochs=tuple(state.history),
            epoch_inputs=tuple(state.inputs),
            exported_epoch=best.best_epoch if best is not None else len(state.history),
            stopped_early=best is not None and best.stopped_early,
            seconds=seconds,
            layers=layers_of(model),
            options=json.loads(options_json.to_json(self._options)),
        )
