"""Record files as data sets: in the order of the files, or shuffled."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfx_gnn.stages.files.record_files import RecordFile

_MAX_OPEN_FILES = 16


def ordered_records(files: Sequence[RecordFile]) -> tf.data.Dataset:
    """Reads files once, in the same order each time.

    Args:
        files: gzipped TFRecord files, at least one.

    Returns:
        Data set of strings of shape [].
    """
    return _read(tf.data.Dataset.from_tensor_slices([file.path for file in files]), len(files))


def shuffled_records(files: Sequence[RecordFile], *, shuffle_buffer_size: int, seed: int) -> tf.data.Dataset:
    """Reads files once, in an order that the seed and the number of the iteration determine.

    Each iteration has another order. The n-th is the same in each run that has set TensorFlow's global
    seed alike, with `tf.random.set_seed`. Keras begins iterations that it does not read, so the epochs of
    a training are not the first ones.

    Args:
        files: gzipped TFRecord files, at least one.
        shuffle_buffer_size: examples that are mixed.
        seed: seed of the order.

    Returns:
        Data set of strings of shape [].
    """
    paths = tf.data.Dataset.from_tensor_slices([file.path for file in files])
    records = _read(paths.shuffle(len(files), seed=seed), len(files))
    return records.shuffle(shuffle_buffer_size, seed=seed)


def _read(paths: tf.data.Dataset, num_files: int) -> tf.data.Dataset:
    return paths.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression_type="GZIP"),
        cycle_length=min(num_files, _MAX_OPEN_FILES),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
