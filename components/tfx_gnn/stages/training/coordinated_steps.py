"""Steps of workers that are not in step, under parameter servers.

A coordinator hands out steps; whichever worker is free takes the next one, with a batch of its own, and changes the
variables on the parameter servers. So there is no global batch: each step is a mean over the labels of one batch.
TensorFlow tells workers nothing that they could divide the data by. Each reads all of them, in an order of its own
that begins anew when the worker does, and an epoch is as many steps as the split has batches: some examples may come
twice in it, and others not at all.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.cluster import cluster_role
from tfx_gnn.distribution.flat_elements import flatten_elements
from tfx_gnn.distribution.per_replica import distribute
from tfx_gnn.stages.training import input_pipeline
from tfx_gnn.stages.training.input_tally import NUM_COUNTS
from tfx_gnn.stages.training.replica_input import TrainingInput
from tfx_gnn.stages.training.replica_steps import Execution, Step
from tfx_gnn.stages.training.training_loop import TrainingPosition


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
        # Workers wait at the same time: what counts is the share of their time.
        waited = sum(float(waited) for _, waited in fetched)
        return Execution(
            num_steps=num_steps,
            is_end=self._done == self._steps_per_epoch,
            seconds_waited=min(seconds, waited / self._num_workers),
            counts=counts,
            logs=self._model.get_metrics_result(),
        )


def _epochs_of_a_worker() -> tf.data.Dataset:
    """Numbers of epochs without end, from one that another worker will hardly begin with."""

    def from_now(_: tf.Tensor) -> tf.data.Dataset:
        microseconds = tf.cast(tf.timestamp() * 1e6, tf.int64)
        return tf.data.Dataset.range(microseconds, tf.int64.max)

    return tf.data.Dataset.from_tensors(0).flat_map(tf.autograph.experimental.do_not_convert(from_now))
