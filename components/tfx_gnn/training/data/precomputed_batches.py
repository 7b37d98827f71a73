"""Precomputed padded batches on disk: several shuffled epochs for the fastest input.

Each epoch is one pass of `padded_batches`, with a different order and different graphs together in a
batch. Each training epoch reads the next stored epoch, and after the last one the first again. Padded
batches take more space than examples, which are compressed; the report says how much.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
from collections.abc import Callable

import tensorflow as tf

import tfx_gnn
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.io import options_json
from tfx_gnn.io.atomic_folder import atomic_folder
from tfx_gnn.io.progress import progress
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.io.text_files import parse_json
from tfx_gnn.records import examples_folder
from tfx_gnn.records.examples_folder import record_files, shuffled_records
from tfx_gnn.records.size_constraints_file import (
    FIT_OR_SKIP,
    Budget,
    fingerprint_examples,
    fingerprint_graph_schema,
)
from tfx_gnn.training.data.padded_batches import (
    BUDGET_KINDS,
    EpochOffset,
    numbered_batches,
    padded_batch_spec,
    padded_batches,
    read_matching_size_constraints,
)
from tfx_gnn.training.data.precomputed_batch_records import PrecomputedBatchRecords

MANIFEST_FILE = "precomputed_batches.json"
FORMAT_VERSION = 1

_BUFFER_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrecomputedBatchesOptions:
    """Which batches to precompute.

    Attributes:
        num_epochs: passes over the split to store, at least 1, each shuffled and batched anew.
        split: split of the transformed examples.
        batching: "packed", "fit_or_skip" or "tight".
        batch_size: batch size that the budget was learned for; 0 for the learner's own.
        success_ratio: success ratio of the fit-or-skip budget to use; other kinds have none.
        shuffle_buffer_size: examples in the shuffle buffer, at least 1.
        seed: seed of the order of graphs, in [0, 2**31).
    """

    num_epochs: int = 1
    split: str = "train"
    batching: str = "packed"
    batch_size: int = 0
    success_ratio: float = 0.99
    shuffle_buffer_size: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("num_epochs", 1), ("shuffle_buffer_size", 1), ("batch_size", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}; got {getattr(self, name)}. Give a larger number.")
        if self.batching not in BUDGET_KINDS:
            raise ValueError(
                f"`batching` must be one of {sorted(BUDGET_KINDS)}; got {self.batching!r}. "
                f"{did_you_mean(self.batching, BUDGET_KINDS, otherwise='Choose one of these.')}"
            )
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"`seed` must lie in [0, 2**31); got {self.seed}. Choose another number.")
        if not self.split:
            raise ValueError("`split` must name a split; got ''. Give the split to train on.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredEpoch:
    """One stored pass over a split.

    Attributes:
        num_batches: number of batches.
        num_graphs: graphs in these batches.
        num_removed_batches: batches that fit-or-skip removed.
        num_removed_graphs: graphs in the removed batches.
        num_bytes: bytes on disk.
    """

    num_batches: int
    num_graphs: int
    num_removed_batches: int
    num_removed_graphs: int
    num_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrecomputedBatchesManifest:
    """The content of `precomputed_batches.json`.

    Attributes:
        data_fingerprint: `fingerprint_examples` of the split.
        graph_schema_fingerprint: `fingerprint_graph_schema` of its schema.
        options: the options that the batches were made with.
        budget: what batches are padded to.
        tensors: the tensors of a batch, in the order in which they are stored.
        epochs: the stored epochs.
        tfx_gnn_version: version of the library that wrote the folder.
        format_version: version of this file format.
    """

    data_fingerprint: str
    graph_schema_fingerprint: str
    options: PrecomputedBatchesOptions
    budget: Budget
    tensors: tuple[str, ...]
    epochs: tuple[StoredEpoch, ...]
    tfx_gnn_version: str = tfx_gnn.__version__
    format_version: int = FORMAT_VERSION

    @property
    def num_bytes(self) -> int:
        """Size of all epochs on disk in bytes."""
        return sum(epoch.num_bytes for epoch in self.epochs)

    def check_matches(self, *, data_fingerprint: str, graph_schema_fingerprint: str, budget: Budget) -> None:
        """Refuses batches that were made from other data, another schema or another budget.

        Args:
            data_fingerprint: `fingerprint_examples` of the split at hand.
            graph_schema_fingerprint: `fingerprint_graph_schema` of its schema.
            budget: what batches should be padded to.

        Raises:
            ValueError: if any of them differs.
        """
        for found, expected, what in (
            (self.data_fingerprint, data_fingerprint, "examples"),
            (self.graph_schema_fingerprint, graph_schema_fingerprint, "graph schema"),
        ):
            if found != expected:
                raise ValueError(
                    f"`precomputed_batches_dir` must hold batches of the same {what}; got those of fingerprint "
                    f"{found[:12]}..., the {what} at hand have {expected[:12]}.... Run `tfx-gnn batches` again."
                )
        found_budget, expected_budget = (_what_batches_depend_on(each) for each in (self.budget, budget))
        if found_budget != expected_budget:
            different = [name for name, value in found_budget.items() if value != expected_budget[name]]
            raise ValueError(
                "`precomputed_batches_dir` must hold batches of the same budget; got "
                f"{ {name: found_budget[name] for name in different} }, the budget at hand has "
                f"{ {name: expected_budget[name] for name in different} }. Run `tfx-gnn batches` again, or train with "
                "the budget that these were made with."
            )


def write_precomputed_batches(
    *,
    transformed_examples_dir: str,
    transformed_graph_schema_dir: str,
    size_constraints_dir: str,
    precomputed_batches_dir: str,
    options: PrecomputedBatchesOptions,
) -> PrecomputedBatchesManifest:
    """Stores shuffled epochs of padded batches.

    The n-th stored epoch equals the n-th epoch of a training with the same seed that makes its own batches.

    Args:
        transformed_examples_dir: output of GraphTransform, with labels.
        transformed_graph_schema_dir: folder of `graph_schema.pbtxt` after the transform.
        size_constraints_dir: padding budgets, learned from the same examples.
        precomputed_batches_dir: absent or empty folder to write.
        options: which batches to precompute.

    Returns:
        The manifest, which is also in `precomputed_batches.json`.

    Raises:
        ValueError: if the budgets were learned from other data, other splits or another schema, or there is
            no budget of that kind, or the split does not exist.
        FileExistsError: if `precomputed_batches_dir` holds files already.
        tf.errors.InvalidArgumentError: if a graph is damaged, or does not fit.
    """
    files = record_files(transformed_examples_dir, (options.split,))
    content = read_matching_size_constraints(
        size_constraints_dir,
        transformed_examples_dir=transformed_examples_dir,
        transformed_graph_schema_dir=transformed_graph_schema_dir,
        splits=(options.split,),
    )
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
        with progress("writing batches", total=options.num_epochs, unit="epochs") as advance:
            for epoch in range(options.num_epochs):
                start.set(epoch)
                epochs.append(_write_epoch(batches, layout, partial, epoch))
                advance()
        manifest = PrecomputedBatchesManifest(
            data_fingerprint=fingerprint_examples(transformed_examples_dir, (options.split,)),
            graph_schema_fingerprint=fingerprint_graph_schema(transformed_graph_schema_dir),
            options=options,
            budget=budget,
            tensors=layout.description,
            epochs=tuple(epochs),
        )
        graph_schema_io.write_schema(schema, examples_folder.graph_schema_path(partial))
        _write_manifest(manifest, partial)
    return manifest


def read_manifest(precomputed_batches_dir: str) -> PrecomputedBatchesManifest:
    """Reads `precomputed_batches.json`.

    Args:
        precomputed_batches_dir: folder of precomputed batches.

    Returns:
        Its content.

    Raises:
        ValueError: if there is no such file, or it is damaged, or of another version.
    """
    path = os.path.join(precomputed_batches_dir, MANIFEST_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`precomputed_batches_dir` must hold {MANIFEST_FILE}; got {precomputed_batches_dir!r}. "
            "Point at an output of `tfx-gnn batches`."
        )
    with tf.io.gfile.GFile(path, "rb") as file:
        data: bytes = file.read()
    try:
        content = parse_json(data)
    except ValueError as error:
        raise ValueError(
            f"`precomputed_batches_dir` must hold a whole {MANIFEST_FILE}; got text that is not its JSON in {path!r}: "
            f"{error}. Run `tfx-gnn batches` again."
        ) from error
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise ValueError(
            f"`format_version` must be {FORMAT_VERSION}; got {version!r} in {path!r}. "
            "Run `tfx-gnn batches` of this version of tfx_gnn again."
        )
    return options_json.from_json(data.decode(), PrecomputedBatchesManifest)


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
        transformed_examples_dir: the examples that the batches must have been made from.
        transformed_graph_schema_dir: schema of these examples.
        budget: the budget that the batches must have been padded to.
        epochs: numbers of the epochs to read one after the other, int64 scalars from 0; after the last stored
            epoch, the first is read again. None: each iteration reads the next epoch.
        keep: maps the number of a batch in its pass, int64 scalar from 0, to whether the batch is wanted.

    Returns:
        Dataset of `PaddedBatch`, the same as that of `padded_batches`.

    Raises:
        ValueError: if the batches were made from other data, another schema or another budget, or by another
            version, or a file is incomplete.
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
    # tf.data calls a generator function again for each iteration.
    return tf.data.Dataset.from_generator(lambda: iter([next(numbers)]), output_signature=tf.TensorSpec([], tf.int64))


def _write_epoch(batches: tf.data.Dataset, layout: PrecomputedBatchRecords, folder: str, epoch: int) -> StoredEpoch:
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
    return StoredEpoch(**counts, num_bytes=sum(_lengths(layout, folder, epoch)))


def _paths(folder: str, epoch: int) -> tuple[str, str]:
    """Returns the paths of an epoch's records and tf.Examples."""
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


def _write_manifest(manifest: PrecomputedBatchesManifest, precomputed_batches_dir: str) -> None:
    """Writes `precomputed_batches.json`."""
    text = json.dumps(json.loads(options_json.to_json(manifest)), indent=2, sort_keys=True)
    with tf.io.gfile.GFile(os.path.join(precomputed_batches_dir, MANIFEST_FILE), "w") as file:
        file.write(text + "\n")


def _what_batches_depend_on(budget: Budget) -> dict[str, object]:
    return {
        "kind": budget.kind,
        "batch_size": budget.batch_size,
        "window": budget.window,
        **budget.constraints._asdict(),
    }
