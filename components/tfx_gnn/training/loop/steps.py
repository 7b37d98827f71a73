"""Training and evaluation steps under any strategy, with their input.

Synchronous replicas each take their next batch, several steps per call, until all replicas run out of data. The counts
of graphs and of labels that count in the loss are first summed over the replicas: a training step in which no label
counts is skipped, because an optimizer's momentum would still move the weights.

Under parameter servers workers are not synchronous: a coordinator hands out steps, and whichever worker is free takes
the next one with a batch of its own and updates the variables on the parameter servers. So there is no global batch:
each step is a mean over the labels of one batch. TensorFlow gives workers nothing to divide the data by, so each
worker reads all of it, in its own order, which starts over when the worker restarts. An epoch is as many steps as
the split has batches: some examples may occur twice in it, and others not at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.cluster import cluster_role
from tfx_gnn.distribution.distributed_datasets import distribute
from tfx_gnn.distribution.flat_elements import flatten_elements
from tfx_gnn.distribution.strategy_predicates import is_parameter_server_strategy
from tfx_gnn.training.data import input_pipeline
from tfx_gnn.training.data.input_pipeline import NUM_COUNTS, TrainingBatch, expected_steps, weights_of_global_mean
from tfx_gnn.training.data.replica_input import (
    DistributedTrainingInput,
    TrainingInput,
    distributed_evaluation_input,
)
from tfx_gnn.training.loop.determinism import seconds_now
from tfx_gnn.training.loop.trainer_inputs import TrainerBudgets, TrainerInputs
from tfx_gnn.training.loop.training_loop import EpochSteps, Execution, TrainingPosition
from tfx_gnn.training.options import GraphTrainerOptions

Step = Callable[[TrainingBatch, tf.Tensor], Any]
"""Runs in each replica; gets its batch, and the number of labels that count over all replicas, int64 [num_outputs]."""


def make_train_step(model: tf_keras.Model, strategy: tf.distribute.Strategy) -> Step:
    """Makes the training step of a compiled model: its own `train_step`, weighted for the mean over all replicas."""
    num_replicas = strategy.num_replicas_in_sync

    def step(batch: TrainingBatch, num_counted: tf.Tensor) -> Any:
        weights = weights_of_global_mean(batch.weights, num_counted, num_replicas)
        outputs = model.train_step((batch.graph, batch.labels, weights))
        # As Keras' own loop does: its callbacks read this counter.
        with tf.control_dependencies(tf.nest.flatten(outputs)):
            model._train_counter.assign_add(1)  # noqa: SLF001
        return outputs

    return step


def make_test_step(model: tf_keras.Model) -> Step:
    """Makes the evaluation step: the model's own `test_step`, with the batch's weights unchanged."""

    def step(batch: TrainingBatch, _: tf.Tensor) -> Any:
        return model.test_step((batch.graph, batch.labels, batch.weights))

    return step


class ReplicaSteps:
    """Several steps as one TensorFlow function, for synchronous replicas.

    `leave_out_uncounted` skips the steps in which no label counts.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: tf_keras.Model,
        step: Step,
        *,
        leave_out_uncounted: bool = False,
        jit_compile: bool = False,
    ) -> None:
        self._strategy = strategy
        self._model = model
        self._leave_out_uncounted = leave_out_uncounted
        self._returned: tuple[str, ...] = ()

        def run_in_replica(batch: TrainingBatch, num_counted: tf.Tensor) -> list[tf.Tensor]:
            outputs = step(batch, num_counted)
            self._returned = tuple(outputs) if isinstance(outputs, Mapping) else ()
            return list(tf.nest.flatten(outputs))

        self._run_in_replica = tf.function(run_in_replica, jit_compile=True) if jit_compile else run_in_replica
        self._function = tf.function(self._execute, autograph=False, reduce_retracing=True)

    def __call__(self, batches: Iterator[Any], max_steps: int) -> Execution:
        """Runs steps on an endless iterator of `TrainingBatch`, as distributed by the strategy."""
        with self._strategy.scope():
            num_steps, is_end, waited, counts, logs = self._function(batches, tf.constant(max_steps))
        unknown = sorted(set(self._returned) - set(logs))
        if unknown:
            raise ValueError(
                f"`train_step` and `test_step` must return results of the model's metrics; got {unknown}, which are "
                f"none of {sorted(logs)}. Keep each in a metric of `Model.metrics`, as in Keras' guide."
            )
        return Execution(
            num_steps=int(num_steps),
            is_end=bool(is_end),
            seconds_waited=float(waited),
            counts=counts.numpy(),
            logs=logs,
        )

    def _execute(self, batches: Iterator[Any], max_steps: tf.Tensor) -> tuple[Any, ...]:
        def goes_on(num_steps: tf.Tensor, is_end: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
            return tf.logical_and(num_steps < max_steps, tf.logical_not(is_end))

        def body(num_steps: tf.Tensor, _: tf.Tensor, waited: tf.Tensor, totals: tf.Tensor) -> tuple[tf.Tensor, ...]:
            # `num_steps` is available once the previous step has ended.
            with tf.control_dependencies([num_steps]):
                before = seconds_now()
            with tf.control_dependencies([before]):
                batch = next(batches)
            with tf.control_dependencies(self._strategy.experimental_local_results(batch.counts)):
                waited += seconds_now() - before
            counts = self._strategy.reduce(tf.distribute.ReduceOp.SUM, batch.counts, axis=None)
            num_counted = counts[NUM_COUNTS:]

            def run() -> tf.Tensor:
                outputs = self._strategy.run(self._run_in_replica, args=(batch, num_counted))
                done = tf.nest.flatten([self._strategy.experimental_local_results(output) for output in outputs])
                with tf.control_dependencies(done):
                    return tf.ones([], tf.int32)

            has_graph = counts[0] > 0
            is_wanted = tf.reduce_any(num_counted > 0) if self._leave_out_uncounted else has_graph
            num_steps += tf.cond(is_wanted, run, lambda: tf.cast(has_graph, tf.int32))
            totals = tf.where(has_graph, totals + counts[:NUM_COUNTS], totals)
            return num_steps, tf.logical_not(has_graph), waited, totals

        start = (
            tf.zeros([], tf.int32),
            tf.zeros([], tf.bool),
            tf.zeros([], tf.float64),
            tf.zeros([NUM_COUNTS], tf.int64),
        )
        num_steps, is_end, waited, totals = tf.while_loop(goes_on, body, start, parallel_iterations=1)
        # Read the metrics only after the last step; without this they might be read before it has run.
        with tf.control_dependencies([num_steps]):
            logs = {name: tf.identity(value) for name, value in self._model.get_metrics_result().items()}
        return num_steps, is_end, waited, totals, logs


class SynchronousSteps:
    """Epochs of synchronous replicas; an `EpochSteps`."""

    def __init__(self, steps: ReplicaSteps, data: DistributedTrainingInput, *, steps_per_execution: int) -> None:
        self._steps = steps
        self._data = data
        self._steps_per_execution = steps_per_execution
        self._batches: Any = None
        self._epoch = 0
        self._is_through = False

    def begin_epoch(self, position: TrainingPosition) -> None:
        """Starts to read an epoch."""
        is_next = self._is_through and (position.epoch, position.step_in_epoch) == (self._epoch + 1, 0)
        self._batches = self._data.epoch(position.epoch, position.step_in_epoch, is_next=is_next)
        self._epoch, self._is_through = position.epoch, False

    def run(self) -> Execution:
        """Runs up to `steps_per_execution` steps in one call."""
        execution = self._steps(self._batches, self._steps_per_execution)
        self._is_through = execution.is_end
        return execution


class CoordinatedSteps:
    """Epochs of a fixed number of steps under parameter servers, coordinated by this process; an `EpochSteps`.

    Every `steps_per_join` steps it waits for all workers, so that there is a consistent state to save; with 1, the
    workers take turns.
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
            batches = data.of_pipeline(context, epochs=_worker_epochs(), keep=None)
            flat, restore = flatten_elements(input_pipeline.weighted_training_batches(batches, data.labelled))
            restores.append(restore)
            return flat

        def execute(batches: Any) -> tuple[tf.Tensor, tf.Tensor]:
            # Not `seconds_now`: parameter servers are never deterministic, so TensorFlow's clock always runs.
            before = tf.timestamp()
            with tf.control_dependencies([before]):
                flat = next(batches)
            with tf.control_dependencies(list(flat.values())):
                waited = tf.timestamp() - before
            # `distribute` calls `of_worker` several times; the function that restores elements is the same each time.
            batch = restores[0](flat)
            num_counted = batch.counts[NUM_COUNTS:]

            def run() -> tf.Tensor:
                outputs = strategy.run(step, args=(batch, num_counted))
                with tf.control_dependencies(tf.nest.flatten(outputs)):
                    return tf.identity(batch.counts[:NUM_COUNTS])

            # As for synchronous replicas: a step without a label that counts would still move the weights.
            return tf.cond(tf.reduce_any(num_counted > 0), run, lambda: batch.counts[:NUM_COUNTS]), waited

        self._dataset = distribute(strategy, of_worker)
        self._function = tf.function(execute, autograph=False)

    def begin_epoch(self, position: TrainingPosition) -> None:
        """Starts an epoch; the workers continue to read where they are."""
        self._done = position.step_in_epoch
        if self._batches is None:
            self._batches = iter(self._dataset)

    def run(self) -> Execution:
        """Hands out steps and waits until all are done."""
        num_steps = min(self._steps_per_join, self._steps_per_epoch - self._done)
        start = time.perf_counter()
        results = [self._coordinator.schedule(self._function, args=(self._batches,)) for _ in range(num_steps)]
        self._coordinator.join()
        seconds = time.perf_counter() - start
        fetched = self._coordinator.fetch(results)
        self._done += num_steps
        counts = np.sum([counts for counts, _ in fetched], axis=0, dtype=np.int64)
        # Workers wait in parallel, so report their mean waiting time.
        waited = sum(float(waited) for _, waited in fetched)
        return Execution(
            num_steps=num_steps,
            is_end=self._done == self._steps_per_epoch,
            seconds_waited=min(seconds, waited / self._num_workers),
            counts=counts,
            logs=self._model.get_metrics_result(),
        )


def _worker_epochs() -> tf.data.Dataset:
    """Yields epoch numbers without end, starting at one that no other worker is likely to start at."""

    def from_now(_: tf.Tensor) -> tf.data.Dataset:
        microseconds = tf.cast(tf.timestamp() * 1e6, tf.int64)
        return tf.data.Dataset.range(microseconds, tf.int64.max)

    return tf.data.Dataset.from_tensors(0).flat_map(tf.autograph.experimental.do_not_convert(from_now))


class Evaluation:
    """Evaluates a model on every example of the evaluation split, once each.

    Under parameter servers only this process does it.
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
        if is_parameter_server_strategy(strategy):
            strategy = tf.distribute.get_strategy()
        self._num_steps = expected_steps(budgets.evaluation, inputs.num_eval_examples, strategy.num_replicas_in_sync)
        self._steps = ReplicaSteps(strategy, model, make_test_step(model))
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
        """Measures loss and metrics."""
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
    """Makes the steps of a training; under parameter servers an epoch has exactly `steps_per_epoch` of them."""
    step = make_train_step(model, strategy)
    if is_parameter_server_strategy(strategy):
        steps_per_join = options.checkpoints.every_steps or steps_per_epoch
        return CoordinatedSteps(
            strategy, model, step, data, steps_per_epoch=steps_per_epoch, steps_per_join=steps_per_join
        )
    if options.execution.jit_compile and strategy.num_replicas_in_sync > 1:
        raise ValueError(
            "`jit_compile` must be False for several replicas, whose sums TensorFlow cannot compile; got True for "
            f"{strategy.num_replicas_in_sync}. A TPU compiles its steps anyway."
        )
    return SynchronousSteps(
        ReplicaSteps(strategy, model, step, leave_out_uncounted=True, jit_compile=options.execution.jit_compile),
        DistributedTrainingInput(strategy, data, num_epochs=options.num_epochs),
        steps_per_execution=options.execution.steps_per_execution,
    )
