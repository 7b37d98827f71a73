"""Predictions in the order of the data, whichever replica computed them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.distribution.plain_datasets import choose_dataset_sharding, distribute_batches
from tfx_gnn.distribution.sharding import DATA, num_input_pipelines


def predict_in_order(strategy: tf.distribute.Strategy, fn: Callable[[Any], Any], dataset: tf.data.Dataset) -> Any:
    """Applies a function to all rows of a dataset, on all replicas.

    Neither the order in which replicas answer nor the number of rows that each of them has is certain, so every
    row carries its position. The data is divided by record among workers: positions are counted before that.

    Args:
        strategy: any but ParameterServerStrategy.
        fn: takes what one replica has of a batch, possibly no rows, and returns a nest of tensors with
            as many rows: numbers, not strings.
        dataset: finite, of batches for one step of all replicas.

    Returns:
        What `fn` returns for all rows of the dataset: NumPy arrays [number of rows, ...], the same on all
        workers.

    Raises:
        ValueError: if the elements are no batches, the dataset cannot be distributed, has no rows, or `fn`
            returned another number of rows.

    Example:
        >>> strategy = tf.distribute.OneDeviceStrategy("CPU:0")
        >>> predict_in_order(strategy, lambda x: 2 * x, tf.data.Dataset.range(5).batch(2)).tolist()
        [0, 2, 4, 6, 8]
    """
    as_written = tf.autograph.experimental.do_not_convert
    with_positions = dataset.scan(tf.zeros([], tf.int64), as_written(_append_positions))
    sharding = choose_dataset_sharding(with_positions, num_pipelines=num_input_pipelines(strategy), asked=DATA)

    def predict(element: Any) -> Any:
        batch, positions = element
        outputs = fn(batch)
        for output in tf.nest.flatten(outputs):
            tf.debugging.assert_equal(tf.shape(output)[0], tf.shape(positions)[0], "`fn` must keep the rows")
        return positions, outputs

    structure: list[Any] = []

    @tf.function(autograph=False)
    def step(element: Any) -> list[list[tf.Tensor]]:
        positions, outputs = strategy.run(predict, (element,))
        structure[:] = [outputs]
        return [_of_all_replicas(strategy, values) for values in (positions, *tf.nest.flatten(outputs))]

    steps = [step(element) for element in distribute_batches(strategy, with_positions, sharding)]
    if not steps:
        raise ValueError("`dataset` must have at least one row; got none. Look where its files are.")
    positions, *outputs = (
        np.concatenate([part.numpy() for parts in of_steps for part in parts]) for of_steps in zip(*steps, strict=True)
    )
    order = np.argsort(positions)
    return tf.nest.pack_sequence_as(structure[0], [rows[order] for rows in outputs])


def _of_all_replicas(strategy: tf.distribute.Strategy, values: Any) -> list[tf.Tensor]:
    """The rows of each replica; other machines have to send theirs."""
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return [strategy.gather(values, axis=0)]
    return list(strategy.experimental_local_results(values))


def _append_positions(start: tf.Tensor, batch: Any) -> tuple[tf.Tensor, tuple[Any, tf.Tensor]]:
    num_rows = _num_rows(tf.nest.flatten(batch)[0])
    return start + num_rows, (batch, start + tf.range(num_rows))


def _num_rows(batch: Any) -> tf.Tensor:
    if isinstance(batch, tf.RaggedTensor):
        return tf.cast(batch.nrows(), tf.int64)
    return tf.shape(batch, tf.int64)[0] if isinstance(batch, tf.Tensor) else tf.cast(batch.shape[0], tf.int64)
