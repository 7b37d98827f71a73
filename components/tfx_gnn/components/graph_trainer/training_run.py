"""One training, from reading its inputs to writing its outputs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.components.graph_trainer.output_folders import LOGS_DIR, OutputSizes, check_outputs
from tfx_gnn.components.graph_trainer.progress import TrainingProgress
from tfx_gnn.components.graph_trainer.tensorboard_logs import TensorBoardLogs, trace_model
from tfx_gnn.components.graph_trainer.training_report import write_training_report
from tfx_gnn.distribution.cluster import ClusterRole
from tfx_gnn.distribution.strategy_predicates import is_parameter_server_strategy
from tfx_gnn.io import file_names, options_json
from tfx_gnn.io.option_groups import flat_values
from tfx_gnn.io.whole_files import copy_files
from tfx_gnn.records import examples_folder
from tfx_gnn.records.latest_blessed_model import find_latest_blessed_model
from tfx_gnn.reports.report_page import REPORT_FILE
from tfx_gnn.sampling.plan.recorded_plan import copy_recorded_plan
from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER, SAMPLING_PLAN_FILE
from tfx_gnn.serving.request_records import without_labels
from tfx_gnn.serving.warmup_requests import BATCH_SIZES, write_warmup_requests
from tfx_gnn.training.checkpoints.checkpoints import create_training_variables, num_checkpoint_bytes
from tfx_gnn.training.checkpoints.preemption import StopSignal
from tfx_gnn.training.checkpoints.resumable_state import BestWeights, best_weights
from tfx_gnn.training.checkpoints.resumption import Resumption
from tfx_gnn.training.data import input_pipeline
from tfx_gnn.training.export.saved_weights import SavedWeights
from tfx_gnn.training.export.served_model import ServedModel
from tfx_gnn.training.export.training_reference import TRAINING_REFERENCE_DIR, TrainingReference
from tfx_gnn.training.loop.learning_check import FEWEST_STEPS, find_useless_outputs
from tfx_gnn.training.loop.summary import TrainingSummary, WarmStart, describe_layers, write_training_summary
from tfx_gnn.training.loop.trainer_inputs import TrainerFolders
from tfx_gnn.training.loop.training_loop import TrainingPreemptedError, TrainingState, train
from tfx_gnn.training.loop.training_setup import TrainingSetup
from tfx_gnn.training.loop.warm_start import warm_start
from tfx_gnn.training.options import SAME_NETWORK, GraphTrainerOptions
from tfx_gnn.transform.application import RAW_METADATA_DIR, SavedGraphTransform


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exporters:
    """Factories of the objects that write a trained model; replace them to write another format, or nothing.

    Attributes:
        served_model: takes the arguments of `ServedModel`; returns an object whose `save` writes the folder to serve.
        training_reference: takes the arguments of `TrainingReference`; returns an object whose `save` writes its
            folder.
    """

    served_model: Callable[..., Any] = ServedModel
    training_reference: Callable[..., Any] = TrainingReference


SAVED_MODELS = Exporters()

_CHECKED_EXAMPLES = 1024
_EXPORTED_WEIGHTS = os.path.join("checkpoints", "exported")
_BETWEEN_PROCESSES = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


@contextlib.contextmanager
def errors_of_other_processes(role: ClusterRole) -> Iterator[None]:
    """Turns an error between machines into a ConnectionError that explains it."""
    try:
        yield
    except _BETWEEN_PROCESSES as error:
        if role.is_alone:
            raise
        reason = (error.message.strip().splitlines() or [type(error).__name__])[-1]
        raise ConnectionError(
            f"Another process of this training is gone, or cannot be reached; got {type(error).__name__} in "
            f"{role.task_type} {role.task_id}: {reason} Start all processes again: training goes on from the newest "
            "checkpoint."
        ) from error


class Training:
    """One training, from what it reads to what it writes."""

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
        self._earlier, self._earlier_description = "", ""
        if folders.blessed_model_dir:
            self._earlier, self._earlier_description = find_latest_blessed_model(folders.blessed_model_dir)
        self._setup = TrainingSetup(folders, strategy, options)

    def run(self, model_dir: str, run_dir: str, checkpoint_dir: str, fingerprint: Mapping[str, str]) -> TrainingSummary:
        """Trains, or resumes from checkpoints, and exports the model into existing folders."""
        options, setup, sample = self._options, self._setup, self._setup.sample
        warmup_records = self._warmup_records()
        with self._strategy.scope():
            model = setup.builder.build(sample.graph)
        # A model of many replicas or machines is exported from a twin that has its weights on one device.
        exported = model if tf.distribute.get_strategy() is self._strategy else setup.builder.build(sample.graph)
        served = self._exporters.served_model(
            raw_spec=setup.inputs.raw_spec,
            transformed_spec=setup.inputs.objective.without_labels(setup.inputs.graph_spec),
            transform=SavedGraphTransform(self._folders.transform_graph_dir),
            model=exported,
            objective=setup.inputs.objective,
            other_labels=setup.inputs.other_labels,
            index_features=setup.inputs.index_features,
            trees=setup.inputs.trees,
            raw_tensor_signature=options.export.raw_tensor_signature,
            explanation_steps=options.export.explanation_steps,
            layerwise_inference=options.export.layerwise_inference,
            embedding_normalization=options.export.embedding_normalization,
            allow_unsafe_operations=options.export.allow_unsafe_operations,
            vocabulary_files=setup.inputs.tft_output.vocabulary_files(),
            raw_schema=setup.inputs.raw_schema,
        )
        # A trial export: a model that cannot be exported must fail now, not after hours of training.
        trial_dir = os.path.join(model_dir, "trial")
        served.save(trial_dir)
        tf.io.gfile.rmtree(trial_dir)

        create_training_variables(model, self._strategy, sample.graph, sample.labels)
        # A checkpoint of this training, if there is one, replaces these weights.
        warm = self._warm_start(model)
        best = best_weights(model, options)
        if self._role.is_chief:
            _check_room(model, model_dir, run_dir, checkpoint_dir)
        state = TrainingState()
        start = time.monotonic()
        self._train(
            model,
            state,
            exported=exported,
            best=best,
            run_dir=run_dir,
            checkpoint_dir=checkpoint_dir,
            fingerprint=fingerprint,
            warm=warm,
        )
        seconds = time.monotonic() - start
        weights = _save_weights(model, run_dir)
        if exported is not model:
            _load_weights(exported, weights)
        warnings = self._check_learning(exported, state.position.global_step) if self._role.is_chief else ()
        saved_model_dir = os.path.join(model_dir, MODEL_ARTIFACT_FOLDER)
        served.save(saved_model_dir)
        copy_recorded_plan(
            os.path.join(self._folders.transform_graph_dir, RAW_METADATA_DIR, file_names.SAMPLING_PLAN_FILE),
            os.path.join(saved_model_dir, SAMPLING_PLAN_FILE),
        )
        if warmup_records:
            write_warmup_requests(saved_model_dir, without_labels(warmup_records, saved_model_dir))
        # Evaluation's batches, not training's: every example fits them, and padding is the same.
        budget = setup.budgets.evaluation
        preprocess = functools.partial(input_pipeline.evaluation_batch, labelled=setup.labelled, budget=budget)
        self._exporters.training_reference(
            graph_spec=setup.inputs.graph_spec,
            preprocess=preprocess,
            model=exported,
            objective=setup.inputs.objective,
            batch_size=budget.batch_size,
            index_features=setup.inputs.index_features,
            trees=setup.inputs.trees,
        ).save(os.path.join(run_dir, TRAINING_REFERENCE_DIR))
        summary = dataclasses.replace(self._summary(model, state, best, seconds, warm), warnings=warnings)
        write_training_summary(summary, run_dir)
        write_training_report(summary, os.path.join(run_dir, REPORT_FILE))
        return summary

    def _warm_start(self, model: tf_keras.Model) -> WarmStart | None:
        """Copies the weights of the latest blessed model, if the options say so and there is one."""
        if not self._folders.blessed_model_dir:
            return None
        if not self._earlier:
            return WarmStart(model=self._earlier_description)
        objective = self._setup.inputs.objective
        found = {getattr(part.task, "class_vocabulary", "") for part in objective.parts.values()}
        with self._strategy.scope():
            return warm_start(
                model,
                SavedWeights(self._earlier),
                description=self._earlier_description,
                vocabularies=self._setup.inputs.tft_output,
                class_vocabularies=found - {""},
                must_match=self._options.warm_start == SAME_NETWORK,
            )

    def _check_learning(self, model: tf_keras.Model, num_steps: int) -> tuple[str, ...]:
        """Compares the network with a constant; refuses one that has learned nothing for a reason that can be seen."""
        if self._options.batching.class_sampling:
            # It learned from other shares of classes than the examples have.
            return ()
        inputs = self._setup.inputs
        batches = self._setup.training_examples(_CHECKED_EXAMPLES)
        useless = find_useless_outputs(batches, model, inputs.objective, inputs.train_labels)
        for name, output in useless.items():
            if output.causes and num_steps >= FEWEST_STEPS and self._options.must_beat_constant:
                raise ValueError(
                    f"`model_fn` must give a network that learns; got one of {self._options.model_fn!r} that has not. "
                    f"{output.describe(name, num_steps)} Set `must_beat_constant` to false to export it nevertheless."
                )
        return tuple(output.describe(name, num_steps) for name, output in useless.items())

    def _warmup_records(self) -> list[bytes]:
        folder, split = self._folders.examples_dir, self._options.eval_split
        if not folder:
            return []
        stream = examples_folder.read_split(folder, split, argument="eval_split").take(max(BATCH_SIZES))
        records = [bytes(record) for record in stream.as_numpy_iterator()]
        if not records:
            raise ValueError(
                f"`examples_dir` must hold an example in split {split!r}, to make warm-up requests from; got none in "
                f"{folder!r}. Give the raw examples that were transformed, or leave `examples_dir` out."
            )
        return records

    def _train(
        self,
        model: tf_keras.Model,
        state: TrainingState,
        *,
        exported: tf_keras.Model,
        best: BestWeights | None,
        run_dir: str,
        checkpoint_dir: str,
        fingerprint: Mapping[str, str],
        warm: WarmStart | None,
    ) -> None:
        options = self._options
        # Unreadable inputs must fail before anything is written.
        steps = self._setup.steps(model)
        evaluate = self._setup.evaluation(model)
        # Next to the checkpoints, so that the logs of an interrupted training are not lost.
        logs_dir = os.path.join(checkpoint_dir, LOGS_DIR)
        progress = TrainingProgress(
            num_epochs=options.num_epochs,
            steps_per_epoch=self._setup.steps_per_epoch,
            notes=[self._setup.sharding.message] if self._setup.sharding.num_pipelines > 1 else [],
            is_quiet=not self._role.is_chief,
        )
        callbacks = [progress]
        if self._role.is_chief:
            board = TensorBoardLogs(
                logs_dir=logs_dir,
                state=state,
                options=options,
                model_graph=lambda: trace_model(exported, self._setup.sample.graph),
                best=best,
            )
            callbacks = [board, *callbacks]
        if best is not None:
            # First, because the scalars include the best value so far.
            callbacks = [best, *callbacks]
        resumption = Resumption(
            model=model,
            strategy=self._strategy,
            data=self._setup.data,
            state=state,
            best=best,
            single_steps=lambda: self._setup.steps(model, one_at_a_time=True),
            evaluation_batches=self._setup.evaluation_batches,
            fingerprint=fingerprint,
            checkpoint_dir=checkpoint_dir,
            every_steps=options.checkpoints.every_steps,
            writes=self._role.is_chief,
            # A failed run has no output folder, so its findings go next to the checkpoints.
            run_dir=checkpoint_dir,
            say=progress.say,
        )
        with (
            contextlib.closing(progress),
            errors_of_other_processes(self._role),
            StopSignal(strategy=self._strategy, say=progress.say) as stop,
        ):
            resumption.resume()
            _check_num_epochs(options.num_epochs, state, checkpoint_dir)
            if warm is not None and not state.position.global_step:
                progress.say(warm.describe())
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
                    again = f"{stopped} Run the same command again to resume from there."
                    raise KeyboardInterrupt(again) from stopped
                raise
        if self._role.is_chief:
            # Copy, don't move: a run killed after this point resumes from the originals.
            copy_files(logs_dir, os.path.join(run_dir, LOGS_DIR))

    def _summary(
        self,
        model: tf_keras.Model,
        state: TrainingState,
        best: BestWeights | None,
        seconds: float,
        warm: WarmStart | None,
    ) -> TrainingSummary:
        setup = self._setup
        return TrainingSummary(
            model_fn=self._options.model_fn,
            num_parameters=int(model.count_params()),
            num_classes=setup.inputs.objective.num_classes,
            num_train_examples=setup.inputs.num_train_examples,
            num_eval_examples=setup.inputs.num_eval_examples,
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
            warm_start=warm,
        )


def _check_num_epochs(num_epochs: int, state: TrainingState, checkpoint_dir: str) -> None:
    begun = state.position.epoch + (state.position.step_in_epoch > 0)
    if begun > num_epochs:
        raise ValueError(
            f"`num_epochs` must be at least {begun}, as many as the interrupted training had begun; got {num_epochs}. "
            f"Ask for at least as many, or begin anew by removing its checkpoints in {checkpoint_dir!r}."
        )


def _check_room(model: tf_keras.Model, model_dir: str, run_dir: str, checkpoint_dir: str) -> None:
    sizes = OutputSizes.of_model(model)
    check_outputs(
        {
            "model_dir": (model_dir, sizes.model),
            "model_run_dir": (run_dir, sizes.run),
            # Existing checkpoints will not be written again.
            "checkpoint_dir": (checkpoint_dir, max(sizes.checkpoints - num_checkpoint_bytes(checkpoint_dir), 0)),
        }
    )


def _save_weights(model: tf_keras.Model, run_dir: str) -> str:
    """Saves the weights as a checkpoint in the model run, and returns its prefix; every process must take part."""
    prefix = os.path.join(run_dir, _EXPORTED_WEIGHTS)
    tf.train.Checkpoint(model=model).write(prefix, options=_checkpoint_options(model))
    return prefix


def _load_weights(model: tf_keras.Model, prefix: str) -> None:
    """Loads what `_save_weights` saved into a model on one device, built by the same function."""
    tf.train.Checkpoint(model=model).read(prefix).expect_partial().assert_existing_objects_matched()


def _checkpoint_options(model: tf_keras.Model) -> tf.train.CheckpointOptions:
    is_served = is_parameter_server_strategy(model.distribute_strategy)
    # Parameter servers may see other disks.
    return tf.train.CheckpointOptions(experimental_io_device="/job:chief" if is_served else None)
