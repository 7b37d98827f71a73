"""Record files as data sets: in the order of the files, or shuffled epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfx_gnn.stages.files.record_files import RecordFile

_MAX_OPEN_FILES = 16
_SEEDS = 2**31


def ordered_records(files: Sequence[RecordFile]) -> tf.data.Dataset:
    """Reads files once, in the same order each time.

    Args:
        files: gzipped TFRecord files, at least one.

    Returns:
        Data set of strings of shape [].
    """
    return _read(tf.constant([file.path for file in files]), len(files))


def shuffled_records(
    files: Sequence[RecordFile],
    *,
    epochs: tf.data.Dataset,
    shuffle_buffer_size: int,
    seed: int,
    pipeline: int = 0,
    shard: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
) -> tf.data.Dataset:
    """Reads files once an epoch, in an order that the seed and the number of the epoch determine.

    Each epoch has another order, and any one can be had again: it hangs on nothing that was read before, nor
    on TensorFlow's global seed.

    Args:
        files: gzipped TFRecord files, at least one.
        epochs: numbers of the epochs to read, one after the other; int64 scalars.
        shuffle_buffer_size: records that are mixed. 1: nothing is, and files are read in their order.
        seed: seed of the order, in [0, 2**31).
        pipeline: number of the input pipeline. Each mixes in an order of its own, but all read the files in the
            same order.
        shard: keeps some of the records, before they are mixed; those of a number that follows from the pipeline.

    Returns:
        Data set of strings of shape [].
    """
    paths = tf.constant([file.path for file in files])

    def epoch_of_records(epoch: tf.Tensor) -> tf.data.Dataset:
        seeds = tf.stack([tf.constant(seed, tf.int64), epoch])
        in_order = shuffle_buffer_size == 1
        # As all pipelines do: what one of them leaves to another is told by its place in this order.
        records = _read(paths if in_order else tf.random.experimental.stateless_shuffle(paths, seeds), len(files))
        if shard is not None:
            records = shard(records)
        if in_order:
            return records
        seeds = tf.stack([tf.constant(seed + pipeline * _SEEDS, tf.int64), epoch])
        # Of this function's graph only: the seed of an operation would else be mixed with the global one.
        tf.random.set_seed(1)
        mixing = tf.random.stateless_uniform([], seed=seeds, minval=0, maxval=tf.int32.max, dtype=tf.int64)
        return records.shuffle(shuffle_buffer_size, seed=mixing, reshuffle_each_iteration=False)

    # Nothing here needs AutoGraph, which takes seconds to read it all.
    return epochs.flat_map(tf.autograph.experimental.do_not_convert(epoch_of_records))


def _read(paths: tf.Tensor, num_files: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(paths).interleave(
        lambda path: tf.data.TFRecordDataset(path, compression_type="GZIP"),
        cycle_length=min(num_files, _MAX_OPEN_FILES),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
