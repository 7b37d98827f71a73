"""Where the next pass over data begins, for data sets that are built once and read many times."""

from __future__ import annotations

import tensorflow as tf


class PassStart:
    """Number of an epoch, and of the first batch of it that is wanted.

    A data set that was built with `epochs()` and `keep` looks at both when an iteration begins.

    Args:
        epoch: number of the first epoch.
    """

    def __init__(self, epoch: int = 0) -> None:
        # Where tf.data runs, whatever device the model is on.
        with tf.device("/CPU:0"):
            self._epoch = tf.Variable(epoch, dtype=tf.int64, trainable=False, name="epoch")
            self._first_batch = tf.Variable(0, dtype=tf.int64, trainable=False, name="first_batch")

    def set(self, epoch: int, first_batch: int = 0) -> None:
        """Says where the next iteration begins.

        Args:
            epoch: number of the epoch, from 0.
            first_batch: batches of it that are left out.
        """
        self._epoch.assign(epoch)
        self._first_batch.assign(first_batch)

    def epochs(self) -> tf.data.Dataset:
        """Returns the data set of the one number of the epoch, int64 scalar."""
        read = tf.autograph.experimental.do_not_convert(lambda _: self._epoch.read_value())
        return tf.data.Dataset.from_tensors(0).map(read)

    def keep(self, number: tf.Tensor) -> tf.Tensor:
        """Tells whether a batch is wanted.

        Args:
            number: its number in the epoch, int64 scalar.

        Returns:
            Bool scalar.
        """
        return number >= self._first_batch
