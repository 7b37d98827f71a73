"""Precomputed padded batches on disk: several shuffled epochs for the fastest input.

Each epoch is what `padded_batches` gives in one pass: another order, and other graphs together in a
batch. A training takes the next stored epoch in each of its own. When it has had all of them, it
starts again with the first. Padded batches take more
room than examples, which are compressed: the report says how much.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable

import tensorflow as tf

from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.io.atomic_folder import atomic_folder
from tfx_gnn.records import examples_folder
from tfx_gnn.records.examples_folder import record_files, shuffled_records
from tfx_gnn.records.size_constraints_file import (
    FIT_OR_SKIP,
    Budget,
    fingerprint_examples,
    fingerprint_graph_schema,
    read_size_constraints,
)
from tfx_gnn.training.data.epoch_offset import EpochOffset
from tfx_gnn.training.data.padded_batches import BUDGET_KINDS, numbered_batches, padded_batch_spec, padded_batches
from tfx_gnn.training.data.precomputed_batches_manifest import (
    PrecomputedBatchesManifest,
    PrecomputedBatchesOptions,
    PrecomputedBatchRecords,
    ReadyEpoch,
    read_manifest,
    write_manifest,
)

_BUFFER_BYTES = 1 << 20


def write_precomputed_batches(
    *,
    transformed_examples_dir: str,
    transformed_graph_schema_dir: str,
    size_constraints_dir: str,
    precomputed_batches_dir: str,
    options: PrecomputedBatchesOptions,
) -> PrecomputedBatchesManifest:
    """Stores shuffled epochs of padded batches.

    The n-th epoch is the n-th epoch of a training of the same seed that makes its batches itself.

    Args:
        transformed_examples_dir: output of GraphTransform, with labels.
        transformed_graph_schema_dir: folder of `graph_schema.pbtxt` after the transform.
        size_constraints_dir: padding budgets, learned from the same examples.
        precomputed_batches_dir: absent or empty folder to write.
        options: which batches.

    Returns:
        What was written, as in `precomputed_batches.json`.

    Raises:
        ValueError: if the budgets were learned from other data, other splits or another schema, or there is
            none of that kind, or the split does not exist.
        FileExistsError: if `precomputed_batches_dir` holds files already.
        tf.errors.InvalidArgumentError: if a graph is damaged, or does not fit.
    """
    files = record_files(transformed_examples_dir, (options.split,))
    content = read_size_constraints(size_constraints_dir)
    content.check_matches(
        data_fingerprint=fingerprint_examples(transformed_examples_dir, tuple(content.options["splits"])),
        graph_schema_fingerprint=fingerprint_graph_schema(transformed_graph_schema_dir),
    )
    content.check_covers((options.split,))
    kind = BUDGET_KINDS[options.batching]
    ratio = options.success_ratio if kind == FIT_OR_SKIP else None
    budget = content.find(kind, options.batch_size or None, ratio)
    schema = graph_schema_io.read_schema(examples_folder.graph_schema_path(transformed_graph_schema_dir))
    with atomic_folder(precomputed_batches_dir, name="precomputed_batches_dir") as partial:
        start = EpochOffset()
        records = shuffled_records(
            files, epochs=start.epochs(), shuffle_buffer_size=options.shuffle_buffer_size, seed=options.seed
        )
        batches = padded_batches(records, create_graph_spec_from_schema_pb(schema), budget, options.batching)
        layout = PrecomputedBatchRecords(batches.element_spec)
        epochs = []
        for epoch in range(options.num_epochs):
            start.set(epoch)
            epochs.append(_write_epoch(batches, layout, partial, epoch))
        manifest = PrecomputedBatchesManifest(
            data_fingerprint=fingerprint_examples(transformed_examples_dir, (options.split,)),
            graph_schema_fingerprint=fingerprint_graph_schema(transformed_graph_schema_dir),
            options=options,
            budget=budget,
            tensors=layout.description,
            epochs=tuple(epochs),
        )
        graph_schema_io.write_schema(schema, examples_folder.graph_schema_path(partial))
        write_manifest(manifest, partial)
    return manifest


def precomputed_batches_dataset(
    precomputed_batches_dir: str,
    *,
    transformed_examples_dir: str,
    transformed_graph_schema_dir: str,
    budget: Budget,
    epochs: tf.data.Dataset | None = None,
    keep: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.data.Dataset:
    """Reads precomputed batches.

    Args:
        precomputed_batches_dir: output of `write_precomputed_batches`.
        transformed_examples_dir: the examples that batches must have been made of.
        transformed_graph_schema_dir: their schema.
        budget: the budget that they must have been padded to.
        epochs: numbers of the epochs to read, one after the other, int64 scalars from 0; after the last stored
            epoch comes the first again. None: each iteration reads one, the next.
        keep: tells of the number of a batch in its pass, int64 scalar from 0, whether it is wanted.

    Returns:
        Data set of `PaddedBatch`, the same as `padded_batches` gives.

    Raises:
        ValueError: if the batches were made of other data, another schema, another budget or by another
            version, or a file is not whole.
    """
    manifest = read_manifest(precomputed_batches_dir)
    manifest.check_matches(
        data_fingerprint=fingerprint_examples(transformed_examples_dir, (manifest.options.split,)),
        graph_schema_fingerprint=fingerprint_graph_schema(transformed_graph_schema_dir),
        budget=budget,
    )
    schema = graph_schema_io.read_schema(examples_folder.graph_schema_path(precomputed_batches_dir))
    layout = PrecomputedBatchRecords(padded_batch_spec(create_graph_spec_from_schema_pb(schema), manifest.budget))
    if layout.description != manifest.tensors:
        different = sorted(set(layout.description) ^ set(manifest.tensors))
        raise ValueError(
            "`precomputed_batches_dir` must hold batches of the tensors that this version makes; got differences in "
            f"{different[:5]} in {precomputed_batches_dir!r}. Run `tfx-gnn batches` again."
        )
    _check_files(manifest, layout, precomputed_batches_dir)

    def read(epoch: tf.Tensor) -> tf.data.Dataset:
        epoch = epoch % len(manifest.epochs)
        fixed = tf.data.FixedLengthRecordDataset(records[epoch], layout.num_bytes, buffer_size=_BUFFER_BYTES)
        if not layout.has_example:
            return tf.data.Dataset.zip((fixed,))
        varying = tf.data.TFRecordDataset(examples[epoch], buffer_size=_BUFFER_BYTES)
        return tf.data.Dataset.zip((fixed, varying))

    paths = [_paths(precomputed_batches_dir, epoch) for epoch in range(len(manifest.epochs))]
    records, examples = (tf.constant(column) for column in zip(*paths, strict=True))
    as_written = tf.autograph.experimental.do_not_convert
    batches = (_one_epoch_an_iteration() if epochs is None else epochs).flat_map(as_written(read))
    if keep is not None:
        batches = numbered_batches(batches, keep)
    decoded = batches.map(as_written(layout.read), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return decoded.prefetch(tf.data.AUTOTUNE)


def _one_epoch_an_iteration() -> tf.data.Dataset:
    numbers = itertools.count()
    # A generator function is called anew for each iteration.
    return tf.data.Dataset.from_generator(lambda: iter([next(numbers)]), output_signature=tf.TensorSpec([], tf.int64))


def _write_epoch(batches: tf.data.Dataset, layout: PrecomputedBatchRecords, folder: str, epoch: int) -> ReadyEpoch:
    record_path, example_path = _paths(folder, epoch)
    counts = dict.fromkeys(("num_batches", "num_graphs", "num_removed_batches", "num_removed_graphs"), 0)
    with contextlib.ExitStack() as stack:
        records = stack.enter_context(tf.io.gfile.GFile(record_path, "wb"))
        examples = stack.enter_context(tf.io.TFRecordWriter(example_path)) if layout.has_example else None
        for batch in batches:
            record, example = layout.write(batch)
            records.write(record)
            if examples is not None:
                examples.write(example)
            counts["num_batches"] += 1
            counts["num_graphs"] += int(tf.math.count_nonzero(batch.is_real))
            counts["num_removed_batches"] += int(batch.num_removed_batches)
            counts["num_removed_graphs"] += int(batch.num_removed_graphs)
    return ReadyEpoch(**counts, num_bytes=sum(_lengths(layout, folder, epoch)))


def _paths(folder: str, epoch: int) -> tuple[str, str]:
    """Returns where the records and the tf.Examples of an epoch are."""
    start = os.path.join(folder, f"epoch-{epoch:05d}")
    return f"{start}.batches", f"{start}.tfrecord"


def _lengths(layout: PrecomputedBatchRecords, folder: str, epoch: int) -> list[int]:
    paths = _paths(folder, epoch)[: 2 if layout.has_example else 1]
    return [tf.io.gfile.stat(path).length for path in paths]


def _check_files(manifest: PrecomputedBatchesManifest, layout: PrecomputedBatchRecords, folder: str) -> None:
    for number, epoch in enumerate(manifest.epochs):
        try:
            lengths = _lengths(layout, folder, number)
        except tf.errors.NotFoundError as error:
            raise ValueError(
                f"`precomputed_batches_dir` must hold the files of every epoch; got {folder!r} without one of epoch "
                f"{number}. Run `tfx-gnn batches` again. Cause: {error.message}"
            ) from error
        if lengths[0] != epoch.num_batches * layout.num_bytes or sum(lengths) != epoch.num_bytes:
            raise ValueError(
                f"`precomputed_batches_dir` must hold whole files; got {sum(lengths)} bytes of epoch {number} in "
                f"{folder!r}, not {epoch.num_bytes}. Run `tfx-gnn batches` again."
            )
