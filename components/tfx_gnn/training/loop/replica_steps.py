"""Runs steps on all replicas, several per call, until the data of all replicas end.

Each step takes the next batch of each replica. Whether there is a graph in any of them, and how many labels count
in all of them, is added up over the replicas first: a training step without a label that counts would still move
the weights, by an optimizer's momentum, so it is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from tfx_gnn.training.data.global_mean import weights_of_global_mean
from tfx_gnn.training.data.input_pipeline import NUM_COUNTS, TrainingBatch
from tfx_gnn.training.loop.determinism import seconds_now

Step = Callable[[TrainingBatch, tf.Tensor], Any]
"""Runs in each replica; gets its batch and the labels that count in all of them, int64 [num_outputs]."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """What some steps did.

    Attributes:
        num_steps: steps that had a graph.
        is_end: whether the data have ended.
        seconds_waited: time that the steps waited for their batches.
        counts: `counts_of_batch` of all batches of all replicas, added up; int64 [NUM_COUNTS].
        logs: loss and metrics so far, scalar tensors.
    """

    num_steps: int
    is_end: bool
    seconds_waited: float
    counts: npt.NDArray[np.int64]
    logs: Mapping[str, Any]


class ReplicaSteps:
    """A number of steps as one function of TensorFlow.

    Args:
        strategy: on which replicas; steps must be in step, so no parameter servers.
        model: whose metrics are reported.
        step: what each replica does.
        leave_out_uncounted: whether steps are left out in which no label counts.
        jit_compile: whether to compile what a replica does by XLA.
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
        """Runs steps.

        Args:
            batches: endless iterator of `TrainingBatch`, as the strategy distributes it.
            max_steps: how many at most.

        Returns:
            What was done.

        Raises:
            ValueError: if the model's step returns something that is no result of one of its metrics.
        """
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
            # The number of steps is known when the step before has ended.
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


def train_step_of(model: tf_keras.Model, strategy: tf.distribute.Strategy) -> Step:
    """Makes the training step of a compiled model: its own `train_step`, on the mean over all replicas.

    Args:
        model: compiled; `train_step` may be the user's.
        strategy: on which replicas.

    Returns:
        The step.
    """
    num_replicas = strategy.num_replicas_in_sync

    def step(batch: TrainingBatch, num_counted: tf.Tensor) -> Any:
        weights = weights_of_global_mean(batch.weights, num_counted, num_replicas)
        outputs = model.train_step((batch.graph, batch.labels, weights))
        # Keras' own loop counts so, and its callbacks look there.
        with tf.control_dependencies(tf.nest.flatten(outputs)):
            model._train_counter.assign_add(1)  # noqa: SLF001
        return outputs

    return step


def test_step_of(model: tf_keras.Model) -> Step:
    """Makes the step of evaluation: the model's own `test_step`, with the weights of the batches as they are.

    Args:
        model: compiled; `test_step` may be the user's.

    Returns:
        The step.
    """

    def step(batch: TrainingBatch, _: tf.Tensor) -> Any:
        return model.test_step((batch.graph, batch.labels, batch.weights))

    return step
