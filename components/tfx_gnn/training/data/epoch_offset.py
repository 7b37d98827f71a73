"""The epoch that a dataset starts from, for datasets that are built once and read many times."""

from __future__ import annotations

import tensorflow as tf


class EpochOffset:
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

    def epochs_until(self, end: int) -> tf.data.Dataset:
        """Returns the data set of the numbers of this epoch and those after it, int64 scalars.

        Args:
            end: number of the first epoch that is left out.
        """
        following = tf.autograph.experimental.do_not_convert(lambda epoch: tf.data.Dataset.range(epoch, end))
        return self.epochs().flat_map(following)

    def keep(self, number: tf.Tensor) -> tf.Tensor:
        """Tells whether a batch is wanted.

        Args:
            number: its number in the epoch, int64 scalar.

        Returns:
            Bool scalar.
        """
        return number >= self._first_batch

    def keep_in_epoch(self, epoch: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """Tells whether a batch is wanted, where one iteration reads several epochs.

        Args:
            epoch: number of the epoch, int64 scalar.
            number: the batch's number in that epoch, int64 scalar.

        Returns:
            Bool scalar; of epochs after the first one all batches are wanted.
        """
        return tf.logical_or(epoch > self._epoch, self.keep(number))
