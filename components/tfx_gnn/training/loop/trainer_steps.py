"""Training and evaluation steps under any strategy, with their input.

Under parameter servers workers are not in step: a coordinator hands out steps; whichever worker is free takes the next
one, with a batch of its own, and changes the variables on the parameter servers. So there is no global batch: each step
is a mean over the labels of one batch. TensorFlow tells workers nothing that they could divide the data by. Each reads
all of them, in an order of its own that begins anew when the worker does, and an epoch is as many steps as the split
has batches: some examples may come twice in it, and others not at all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.cluster import cluster_role
from tfx_gnn.distribution.flat_elements import flatten_elements
from tfx_gnn.distribution.per_replica import distribute
from tfx_gnn.training.data import input_pipeline
from tfx_gnn.training.data.input_pipeline import NUM_COUNTS, expected_steps
from tfx_gnn.training.data.replica_input import (
    DistributedTrainingInput,
    TrainingInput,
    distributed_evaluation_input,
)
from tfx_gnn.training.loop.replica_steps import Execution, ReplicaSteps, Step, test_step_of, train_step_of
from tfx_gnn.training.loop.trainer_inputs import TrainerBudgets, TrainerInputs
from tfx_gnn.training.loop.training_loop import EpochSteps, TrainingPosition
from tfx_gnn.training.options import GraphTrainerOptions


class CoordinatedSteps:
    """Epochs of a fixed number of steps; an `EpochSteps`.

    Args:
        strategy: of parameter servers; this process coordinates.
        model: whose metrics are reported.
        step: what a worker does.
        data: what each worker reads.
        steps_per_epoch: steps of an epoch, at least 1.
        steps_per_join: steps after which all workers are waited for, so that there is a state to save; 1 makes
            them work one after another.
    """

    def __init__(
        self,
        strategy: tf.distribute.ParameterServerStrategy,
        model: tf_keras.Model,
        step: Step,
        data: TrainingInput,
        *,
        steps_per_epoch: int,
        steps_per_join: int,
    ) -> None:
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._num_workers = cluster_role().num_workers
        self._model = model
        self._steps_per_epoch, self._steps_per_join = steps_per_epoch, steps_per_join
        self._done = 0
        self._batches: Any = None
        restores = []

        def of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
            batches = data.of_pipeline(context, epochs=_epochs_of_a_worker(), keep=None)
            flat, restore = flatten_elements(input_pipeline.weighted_training_batches(batches, data.labelled))
            restores.append(restore)
            return flat

        def execute(batches: Any) -> tuple[tf.Tensor, tf.Tensor]:
            before = tf.timestamp()
            with tf.control_dependencies([before]):
                flat = next(batches)
            with tf.control_dependencies(list(flat.values())):
                waited = tf.timestamp() - before
            batch = restores[0](flat)
            num_counted = batch.counts[NUM_COUNTS:]

            def run() -> tf.Tensor:
                outputs = strategy.run(step, args=(batch, num_counted))
                with tf.control_dependencies(tf.nest.flatten(outputs)):
                    return tf.identity(batch.counts[:NUM_COUNTS])

            # As for replicas in step: a step without a label that counts would still move the weights.
            return tf.cond(tf.reduce_any(num_counted > 0), run, lambda: batch.counts[:NUM_COUNTS]), waited

        self._dataset = distribute(strategy, of_worker)
        self._function = tf.function(execute, autograph=False)

    def begin_epoch(self, position: TrainingPosition) -> None:
        """Begins an epoch; the workers go on reading where they are.

        Args:
            position: its first step that is wanted.
        """
        self._done = position.step_in_epoch
        if self._batches is None:
            self._batches = iter(self._dataset)

    def run(self) -> Execution:
        """Hands out steps, and waits for all of them.

        Returns:
            What they did.
        """
        num_steps = min(self._steps_per_join, self._steps_per_epoch - self._done)
        start = time.perf_counter()
        results = [self._coordinator.schedule(self._function, args=(self._batches,)) for _ in range(num_steps)]
        self._coordinator.join()
        seconds = time.perf_counter() - start
        fetched = self._coordinator.fetch(results)
        self._done += num_steps
        counts = np.sum([counts for counts, _ in fetched], axis=0, dtype=np.int64)
        # Workers wait in parallel: what counts is their mean waiting time.
        waited = sum(float(waited) for _, waited in fetched)
        return Execution(
            num_steps=num_steps,
            is_end=self._done == self._steps_per_epoch,
            seconds_waited=min(seconds, waited / self._num_workers),
            counts=counts,
            logs=self._model.get_metrics_result(),
        )


def _epochs_of_a_worker() -> tf.data.Dataset:
    """Endless epoch numbers, from one that another worker is unlikely to start with."""

    def from_now(_: tf.Tensor) -> tf.data.Dataset:
        microseconds = tf.cast(tf.timestamp() * 1e6, tf.int64)
        return tf.data.Dataset.range(microseconds, tf.int64.max)

    return tf.data.Dataset.from_tensors(0).flat_map(tf.autograph.experimental.do_not_convert(from_now))


class StepsOfReplicas:
    """Epochs of all replicas in step; an `EpochSteps`.

    Args:
        steps: of training.
        data: what they read.
        steps_per_execution: steps that run in one call.
    """

    def __init__(self, steps: ReplicaSteps, data: DistributedTrainingInput, *, steps_per_execution: int) -> None:
        self._steps = steps
        self._data = data
        self._steps_per_execution = steps_per_execution
        self._batches: Any = None
        self._epoch = 0
        self._is_through = False

    def begin_epoch(self, position: TrainingPosition) -> None:
        """Begins to read an epoch.

        Args:
            position: its first step that is wanted.
        """
        is_next = self._is_through and (position.epoch, position.step_in_epoch) == (self._epoch + 1, 0)
        self._batches = self._data.epoch(position.epoch, position.step_in_epoch, is_next=is_next)
        self._epoch, self._is_through = position.epoch, False

    def run(self) -> Execution:
        """Runs the next steps.

        Returns:
            What they did.
        """
        execution = self._steps(self._batches, self._steps_per_execution)
        self._is_through = execution.is_end
        return execution


class Evaluation:
    """Measures a model on all examples of the watched split, each of them once.

    Args:
        strategy: on which replicas. Under parameter servers this process does it alone.
        model: compiled model.
        inputs: what is read.
        budgets: what batches are padded to.
        num_pipelines: input pipelines of the strategy.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: tf_keras.Model,
        *,
        inputs: TrainerInputs,
        budgets: TrainerBudgets,
        labelled: Any,
        num_pipelines: int,
    ) -> None:
        if isinstance(strategy, tf.distribute.ParameterServerStrategy):
            strategy = tf.distribute.get_strategy()
        self._num_steps = expected_steps(budgets.evaluation, budgets.num_eval_examples, strategy.num_replicas_in_sync)
        self._steps = ReplicaSteps(strategy, model, test_step_of(model))
        self._data = distributed_evaluation_input(
            strategy,
            inputs.eval_files,
            labelled,
            budget=budgets.evaluation,
            num_steps=self._num_steps,
            num_counted={name: labels.num_counted for name, labels in inputs.eval_labels.items()},
            num_pipelines=num_pipelines,
        )
        self._batches: Any = None

    def __call__(self) -> Mapping[str, Any]:
        """Measures.

        Returns:
            Loss and metrics.
        """
        if self._batches is None:
            self._batches = iter(self._data)
        return self._steps(self._batches, self._num_steps).logs


def training_steps(
    strategy: tf.distribute.Strategy,
    model: tf_keras.Model,
    data: TrainingInput,
    options: GraphTrainerOptions,
    *,
    steps_per_epoch: int,
) -> EpochSteps:
    """Makes the steps of a training.

    Args:
        strategy: on which replicas.
        model: compiled model.
        data: what is read.
        options: how to train.
        steps_per_epoch: steps to expect of an epoch; under parameter servers so many it has.

    Returns:
        The steps.

    Raises:
        ValueError: if they shall be compiled by XLA on several replicas.
    """
    step = train_step_of(model, strategy)
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        steps_per_join = options.checkpoints.every_steps or steps_per_epoch
        return CoordinatedSteps(
            strategy, model, step, data, steps_per_epoch=steps_per_epoch, steps_per_join=steps_per_join
        )
    if options.execution.jit_compile and strategy.num_replicas_in_sync > 1:
        raise ValueError(
            "`jit_compile` must be False for several replicas, whose sums TensorFlow cannot compile; got True for "
            f"{strategy.num_replicas_in_sync}. A TPU compiles its steps anyway."
        )
    return StepsOfReplicas(
        ReplicaSteps(strategy, model, step, leave_out_uncounted=True, jit_compile=options.execution.jit_compile),
        DistributedTrainingInput(strategy, data, num_epochs=options.num_epochs),
        steps_per_execution=options.execution.steps_per_execution,
    )
