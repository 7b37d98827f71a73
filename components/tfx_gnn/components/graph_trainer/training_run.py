"""One training, from reading its inputs to writing its outputs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.components.graph_trainer import output_folders as trainer_outputs
from tfx_gnn.components.graph_trainer.output_checks import OutputSizes, check_outputs
from tfx_gnn.components.graph_trainer.output_folders import errors_of_other_processes
from tfx_gnn.components.graph_trainer.progress import TrainingProgress
from tfx_gnn.components.graph_trainer.training_report import write_training_report
from tfx_gnn.distribution.cluster import ClusterRole
from tfx_gnn.io import options_json
from tfx_gnn.io.option_groups import flat_values
from tfx_gnn.records import examples_folder
from tfx_gnn.reports.report_page import REPORT_FILE
from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER
from tfx_gnn.serving.request_records import without_labels
from tfx_gnn.serving.warmup_requests import BATCH_SIZES, write_warmup_requests
from tfx_gnn.training.checkpoints.checkpoints import create_training_variables, num_checkpoint_bytes
from tfx_gnn.training.checkpoints.preemption import StopSignal
from tfx_gnn.training.checkpoints.resumable_state import BestWeights
from tfx_gnn.training.checkpoints.resumption import Resumption
from tfx_gnn.training.data import input_pipeline
from tfx_gnn.training.export.served_model import ServedModel
from tfx_gnn.training.export.training_reference import TRAINING_REFERENCE_DIR, TrainingReference
from tfx_gnn.training.loop.summary import TrainingSummary, describe_layers, write_training_summary
from tfx_gnn.training.loop.trainer_inputs import TrainerFolders
from tfx_gnn.training.loop.training_loop import TrainingPreemptedError, TrainingState, train
from tfx_gnn.training.loop.training_setup import TrainingSetup
from tfx_gnn.training.options import GraphTrainerOptions
from tfx_gnn.transform.application import SavedGraphTransform


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exporters:
    """What writes a trained model; another one may write another format, or nothing where none is asked for.

    Attributes:
        served_model: makes of the arguments of `ServedModel` an object whose `save` makes the folder that is served.
        training_reference: makes of the arguments of `TrainingReference` an object whose `save` makes the folder of it.
    """

    served_model: Callable[..., Any] = ServedModel
    training_reference: Callable[..., Any] = TrainingReference


SAVED_MODELS = Exporters()


class InputScalars(tf_keras.callbacks.Callback):
    """Shows the input of each epoch in TensorBoard.

    The scalars `input/graphs_per_batch`, `input/fill`, `input/padded_share`, `input/removed_share`,
    `train/graphs_per_second`, `train/input_bound_share` and `train/learning_rate`, that of the last step, have the
    epoch as step.

    Args:
        state: of the training.
        logs_dir: where TensorBoard looks; the scalars go to the folder `input` in it, a run of its own,
            for TensorBoard reads one file of a run at a time.
    """

    def __init__(self, *, state: TrainingState, logs_dir: str) -> None:
        super().__init__()
        self._state = state
        self._writer = tf.summary.create_file_writer(os.path.join(logs_dir, "input"))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Writes the figures of the epoch."""
        figures = self._state.inputs[epoch]
        with self._writer.as_default(step=epoch):
            tf.summary.scalar("input/graphs_per_batch", figures.graphs_per_batch)
            tf.summary.scalar("input/fill", figures.fill)
            tf.summary.scalar("input/padded_share", 1.0 - figures.fill)
            tf.summary.scalar("input/removed_share", figures.removed_share)
            tf.summary.scalar("train/graphs_per_second", figures.graphs_per_second)
            tf.summary.scalar("train/input_bound_share", figures.input_bound_share)
            rate = learning_rate_of(self.model.optimizer)
            if rate is not None:
                tf.summary.scalar("train/learning_rate", rate)
        self._writer.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Closes the file."""
        self._writer.close()


def learning_rate_of(optimizer: tf_keras.optimizers.Optimizer) -> float | None:
    """Tells the learning rate of the last step.

    Args:
        optimizer: of the model.

    Returns:
        The rate; None if the optimizer has none, or several.
    """
    rate: Any = getattr(optimizer, "learning_rate", None)
    if callable(rate):
        rate = rate(optimizer.iterations)
    # A tensor of it: variables that are kept on several replicas are no numbers.
    return None if rate is None else float(tf.convert_to_tensor(rate))


class Training:
    """One training, from what it reads to what it writes.

    Args:
        folders: what is read.
        strategy: where the steps run.
        role: of this process among those that take part.
        options: what to train, and how.
        exporters: what writes the trained model.

    Raises:
        ValueError: if inputs do not fit each other or the options.
    """

    def __init__(
        self,
        folders: TrainerFolders,
        strategy: tf.distribute.Strategy,
        role: ClusterRole,
        options: GraphTrainerOptions,
        exporters: Exporters = SAVED_MODELS,
    ) -> None:
        self._folders, self._strategy, self._role, self._options = folders, strategy, role, options
        self._exporters = exporters
        self._setup = TrainingSetup(folders, strategy, options)

    def run(self, model_dir: str, run_dir: str, checkpoint_dir: str, fingerprint: Mapping[str, str]) -> TrainingSummary:
        """Trains, or goes on from checkpoints, and exports the model.

        Args:
            model_dir: existing folder for the SavedModel.
            run_dir: existing folder for everything else.
            checkpoint_dir: folder for checkpoints.
            fingerprint: what tells this training from others.

        Returns:
            What was done.

        Raises:
            ValueError: if the model does not answer the task, there is no room for the outputs, the loss is not
                finite, or there is no raw example.
            ConnectionError: if another process that takes part is gone.
            TrainingPreemptedError: if the process got SIGTERM.
            KeyboardInterrupt: if it got SIGINT.
        """
        options, setup, sample = self._options, self._setup, self._setup.sample
        warmup_records = self._warmup_records()
        with self._strategy.scope():
            model = setup.builder.build(sample.graph)
        # A model of many replicas or machines is exported from a twin of it that has its weights on one device.
        exported = model if tf.distribute.get_strategy() is self._strategy else setup.builder.build(sample.graph)
        served = self._exporters.served_model(
            raw_spec=setup.inputs.raw_spec,
            transformed_spec=setup.inputs.objective.without_labels(setup.inputs.graph_spec),
            transform=SavedGraphTransform(self._folders.transform_graph_dir),
            model=exported,
            objective=setup.inputs.objective,
            other_labels=setup.inputs.other_labels,
            raw_tensor_signature=options.export.raw_tensor_signature,
            allow_unsafe_operations=options.export.allow_unsafe_operations,
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
        saved_model_dir = os.path.join(model_dir, MODEL_ARTIFACT_FOLDER)
        served.save(saved_model_dir)
        if warmup_records:
            write_warmup_requests(saved_model_dir, without_labels(warmup_records, saved_model_dir))
        # Evaluation's batches, not those of training: all examples can be asked, and padding is the same.
        budget = setup.budgets.evaluation
        preprocess = functools.partial(input_pipeline.evaluation_batch, labelled=setup.labelled, budget=budget)
        self._exporters.training_reference(
            graph_spec=setup.inputs.graph_spec,
            preprocess=preprocess,
            model=exported,
            objective=setup.inputs.objective,
            batch_size=budget.batch_size,
        ).save(os.path.join(run_dir, TRAINING_REFERENCE_DIR))
        summary = self._summary(model, state, best, seconds)
        write_training_summary(summary, run_dir)
        write_training_report(summary, os.path.join(run_dir, REPORT_FILE))
        return summary

    def _warmup_records(self) -> list[bytes]:
        folder, split = self._folders.examples_dir, self._options.eval_split
        if not folder:
            return []
        stream = examples_folder.read_split(folder, split, argument="eval_split").take(max(BATCH_SIZES))
        records = [bytes(record) for record in stream.as_numpy_iterator()]
        if not records:
            raise ValueError(
                f"`examples_dir` must hold an example in split {split!r}, to make warm-up requests of; got none in "
                f"{folder!r}. Take the examples that were transformed, or leave it out."
            )
        return records

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
            every_steps=options.checkpoints.every_steps,
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
            # Copy, don't move: a run killed after this point resumes from the originals.
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
            batching=self._options.batching.kind,
            budget=dataclasses.asdict(setup.budgets.training),
            eval_budget=dataclasses.asdict(setup.budgets.evaluation),
            strategy=self._options.strategy.kind,
            num_replicas=self._strategy.num_replicas_in_sync,
            num_steps=state.position.global_step,
            epochs=tuple(state.history),
            epoch_inputs=tuple(state.inputs),
            exported_epoch=best.best_epoch if best is not None else len(state.history),
            stopped_early=best is not None and best.stopped_early,
            seconds=seconds,
            layers=describe_layers(model),
            options=json.loads(options_json.to_json(flat_values(self._options))),
        )


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
