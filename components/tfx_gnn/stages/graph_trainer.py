"""GraphTrainer: transformed graphs and a user's model become one SavedModel that answers raw examples."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.cluster import ClusterRole, cluster_role, serve
from tfx_gnn.distribution.sharding import choose_sharding, num_input_pipelines
from tfx_gnn.distribution.strategies import PARAMETER_SERVER, TPU, make_strategy
from tfx_gnn.serving.signature import MODEL_ARTIFACT_FOLDER
from tfx_gnn.stages.ready_batches import ready_batches_dataset
from tfx_gnn.stages.training import input_pipeline, trainer_outputs
from tfx_gnn.stages.training.agreement import wait_for_all
from tfx_gnn.stages.training.callbacks import BestWeights
from tfx_gnn.stages.training.checkpoints import create_training_variables, remove_checkpoints
from tfx_gnn.stages.training.determinism import seeded
from tfx_gnn.stages.training.fast_tracing import libraries_traced_as_written
from tfx_gnn.stages.training.finished_training import FinishedTraining
from tfx_gnn.stages.training.input_pipeline import LabelledBatch, LabelledGraphs
from tfx_gnn.stages.training.input_scalars import InputScalars
from tfx_gnn.stages.training.model_building import ModelBuilder
from tfx_gnn.stages.training.output_checks import OutputSizes, check_outputs
from tfx_gnn.stages.training.path_export import TRAINING_PATH_DIR, TrainingPath
from tfx_gnn.stages.training.preemption import StopSignal
from tfx_gnn.stages.training.progress import TrainingProgress
from tfx_gnn.stages.training.replica_input import TrainingInput
from tfx_gnn.stages.training.resumption import Resumption
from tfx_gnn.stages.training.served_model import ServedModel
from tfx_gnn.stages.training.summary import TrainingSummary, write_training_summary
from tfx_gnn.stages.training.tpu_readiness import check_training_for_tpu
from tfx_gnn.stages.training.trainer_inputs import (
    TrainerBudgets,
    TrainerFolders,
    TrainerInputs,
    read_budgets,
    read_inputs,
    ready_batches_of_first_epoch,
)
from tfx_gnn.stages.training.trainer_options import GraphTrainerOptions
from tfx_gnn.stages.training.trainer_outputs import errors_of_other_processes, output_folders
from tfx_gnn.stages.training.trainer_steps import Evaluation, training_steps
from tfx_gnn.stages.training.training_fingerprint import name_of, training_fingerprint
from tfx_gnn.stages.training.training_loop import EpochSteps, TrainingState, train
from tfx_gnn.stages.transform.application import SavedGraphTransform
from tfx_gnn.stages.user_code import load_function

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
            `training_path/` (what training saw, for GraphSkewValidator) and `training_summary.json`.
        blessing_dir: verdict of GraphExampleValidator on the raw examples, which must be a blessing; empty to
            train on whatever examples there are.
        ready_batches_dir: output of `write_ready_batches` for the training split and the budget of `options`:
            each epoch reads the next stored one instead of making batches. Empty to make them.
        options: what to train, and how.

    Returns:
        What was done.

    Raises:
        ValueError: if the examples are not blessed, inputs do not fit each other, labels are missing, a class
            of the training split is unknown, the model does not answer the task, the strategy lacks something,
            a TPU would refuse the model, or the loss is not finite.
        ModuleNotFoundError: if the module of `model_fn` cannot be found.
        ConnectionError: if another process that takes part is gone.
        TrainingPreemptedError: if the process got SIGTERM: the same call goes on from where it was.
    """
    role = cluster_role()
    if options.strategy == PARAMETER_SERVER and role.serves:
        serve(role)
    folders = TrainerFolders(
        transformed_examples_dir=transformed_examples_dir,
        transform_graph_dir=transform_graph_dir,
        graph_schema_dir=graph_schema_dir,
        transformed_graph_schema_dir=transformed_graph_schema_dir,
        size_constraints_dir=size_constraints_dir,
        blessing_dir=blessing_dir,
        ready_batches_dir=ready_batches_dir,
    )
    touches_tpu = options.strategy == TPU
    if options.verifies_tpu and touches_tpu:
        _refuse_for_tpu(folders, options)
    # Before anything of TensorFlow runs, but for TPUs: it sets up the connections to other machines.
    strategy = make_strategy(options.strategy_options)
    if options.verifies_tpu and not touches_tpu:
        _refuse_for_tpu(folders, options)
    training = _Training(folders, strategy, role, options)
    fingerprint = training_fingerprint(folders, options, num_replicas=strategy.num_replicas_in_sync)
    checkpoint_dir = trainer_outputs.checkpoint_folder(options.checkpoint_dir, model_run_dir, name_of(fingerprint))
    finished = FinishedTraining(
        fingerprint=name_of(fingerprint),
        num_epochs=options.num_epochs,
        model_dir=model_dir,
        model_run_dir=model_run_dir,
    )
    done = finished.summary(checkpoint_dir) if options.checkpoint_dir else None
    if done is not None:
        return done
    with (
        libraries_traced_as_written(),
        output_folders(model_dir, model_run_dir, is_chief=role.is_chief) as (model_partial, run_partial),
        seeded(options.training_seed, deterministic=options.deterministic),
    ):
        summary = training.run(model_partial, run_partial, checkpoint_dir, fingerprint)
        if role.is_chief and options.checkpoint_dir:
            finished.note(checkpoint_dir)
    # A worker that ended while the chief still exports could not help it to start again.
    with errors_of_other_processes(role):
        wait_for_all(strategy)
    if role.is_chief and options.checkpoint_dir:
        remove_checkpoints(checkpoint_dir)
    elif role.is_chief and tf.io.gfile.exists(checkpoint_dir):
        tf.io.gfile.rmtree(checkpoint_dir)
    return summary


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
            "checkpoint_dir": (checkpoint_dir, sizes.checkpoints),
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
        model_fn = load_function(options.model_fn)
        self._inputs: TrainerInputs = read_inputs(folders, options)
        self._budgets: TrainerBudgets = read_budgets(
            folders, options, self._inputs, num_replicas=strategy.num_replicas_in_sync
        )
        self._labelled = LabelledGraphs(graph_spec=self._inputs.graph_spec, objective=self._inputs.objective)
        self._sharding = choose_sharding(
            num_files=len(self._inputs.train_files),
            num_pipelines=num_input_pipelines(strategy),
            asked=options.sharding,
        )
        self._data = TrainingInput(
            files=self._inputs.train_files,
            labelled=self._labelled,
            budget=self._budgets.training,
            batching=options.batching,
            shuffle_buffer_size=options.shuffle_buffer_size,
            seed=options.training_seed,
            sharding=self._sharding,
            read_ready=self._read_ready if folders.ready_batches_dir else None,
        )
        self._sample = self._sample_batch()
        self._builder = ModelBuilder(
            model_fn=model_fn,
            reference=options.model_fn,
            graph_spec=self._sample.graph.spec.relax(num_components=True, num_nodes=True, num_edges=True),
            tft_output=self._inputs.tft_output,
            objective=self._inputs.objective,
            hyperparameters=options.hyperparameters,
            num_steps=options.num_epochs * self._steps_per_epoch,
            precision=options.precision,
        )

    @functools.cached_property
    def _steps_per_epoch(self) -> int:
        num_replicas = self._strategy.num_replicas_in_sync
        if self._folders.ready_batches_dir:
            return -(-ready_batches_of_first_epoch(self._folders.ready_batches_dir, self._options) // num_replicas)
        return input_pipeline.expected_steps(self._budgets.training, self._budgets.num_train_examples, num_replicas)

    def _read_ready(self, epochs: tf.data.Dataset, keep: Any) -> tf.data.Dataset:
        return ready_batches_dataset(
            self._folders.ready_batches_dir,
            transformed_examples_dir=self._folders.transformed_examples_dir,
            transformed_graph_schema_dir=self._folders.transformed_graph_schema_dir,
            budget=self._budgets.training,
            epochs=epochs,
            keep=keep,
        )

    def _sample_batch(self) -> LabelledBatch:
        """A padded batch of evaluation, the same for all strategies."""
        records = input_pipeline.ordered_records(self._inputs.eval_files)
        (serialized,) = records.batch(self._budgets.evaluation.batch_size).take(1)
        return input_pipeline.evaluation_batch(serialized, self._labelled, self._budgets.evaluation)

    def run(self, model_dir: str, run_dir: str, checkpoint_dir: str, fingerprint: Mapping[str, str]) -> TrainingSummary:
        """Trains, or goes on, and writes everything into two existing folders."""
        options = self._options
        with self._strategy.scope():
            model = self._builder.build(self._sample.graph)
        # A model of many replicas or machines is exported from a twin of it that has its weights on one device.
        exported = model if tf.distribute.get_strategy() is self._strategy else self._builder.build(self._sample.graph)
        served = ServedModel(
            raw_spec=self._inputs.raw_spec,
            transformed_spec=self._inputs.objective.without_labels(self._inputs.graph_spec),
            transform=SavedGraphTransform(self._folders.transform_graph_dir),
            model=exported,
            objective=self._inputs.objective,
            raw_tensor_signature=options.raw_tensor_signature,
        )
        # A trial: what cannot be exported is found out now, not after hours of training.
        trial_dir = os.path.join(model_dir, "trial")
        served.save(trial_dir)
        tf.io.gfile.rmtree(trial_dir)

        create_training_variables(model, self._strategy, self._sample.graph, self._sample.labels)
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
        budget = self._budgets.evaluation
        preprocess = functools.partial(input_pipeline.evaluation_batch, labelled=self._labelled, budget=budget)
        TrainingPath(
            graph_spec=self._inputs.graph_spec,
            preprocess=preprocess,
            model=exported,
            objective=self._inputs.objective,
            batch_size=budget.batch_size,
        ).save(os.path.join(run_dir, TRAINING_PATH_DIR))
        summary = self._summary(model, state, best, seconds)
        write_training_summary(summary, run_dir)
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
        steps = self._steps(model, options)
        evaluate = Evaluation(
            self._strategy,
            model,
            inputs=self._inputs,
            budgets=self._budgets,
            labelled=self._labelled,
            num_pipelines=self._sharding.num_pipelines,
        )
        # Beside the checkpoints, so that those of a training that is ended are not lost.
        logs_dir = os.path.join(checkpoint_dir, trainer_outputs.LOGS_DIR)
        progress = TrainingProgress(
            num_epochs=options.num_epochs,
            steps_per_epoch=self._steps_per_epoch,
            notes=[self._sharding.message] if self._sharding.num_pipelines > 1 else [],
            is_quiet=not self._role.is_chief,
        )
        callbacks = [*([best] if best is not None else []), progress]
        if self._role.is_chief:
            board = tf_keras.callbacks.TensorBoard(logs_dir, write_graph=False)
            callbacks = [InputScalars(state=state, logs_dir=logs_dir), board, *callbacks]
        resumption = Resumption(
            model=model,
            strategy=self._strategy,
            data=self._data,
            state=state,
            best=best,
            single_steps=lambda: self._steps(model, dataclasses.replace(options, steps_per_execution=1)),
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
        if self._role.is_chief:
            trainer_outputs.move_files(logs_dir, os.path.join(run_dir, trainer_outputs.LOGS_DIR))

    def _steps(self, model: tf_keras.Model, options: GraphTrainerOptions) -> EpochSteps:
        return training_steps(self._strategy, model, self._data, options, steps_per_epoch=self._steps_per_epoch)

    def _summary(
        self, model: tf_keras.Model, state: TrainingState, best: BestWeights | None, seconds: float
    ) -> TrainingSummary:
        return TrainingSummary(
            model_fn=self._options.model_fn,
            num_parameters=int(model.count_params()),
            num_classes=self._inputs.objective.num_classes,
            num_train_examples=self._budgets.num_train_examples,
            num_eval_examples=self._budgets.num_eval_examples,
            num_eval_examples_of_unknown_class=sum(labels.num_missing for labels in self._inputs.eval_labels.values()),
            batching=self._options.batching,
            budget=dataclasses.asdict(self._budgets.training),
            eval_budget=dataclasses.asdict(self._budgets.evaluation),
            strategy=self._options.strategy,
            num_replicas=self._strategy.num_replicas_in_sync,
            num_steps=state.position.global_step,
            epochs=tuple(state.history),
            epoch_inputs=tuple(state.inputs),
            exported_epoch=best.best_epoch if best is not None else len(state.history),
            stopped_early=best is not None and best.stopped_early,
            seconds=seconds,
        )
