"""The folder layout of graph tf.Examples: one `Split-<name>` folder per split.

It is the layout of TFX's standard Examples artifact (gzipped TFRecord files),
with the `graph_schema.pbtxt` that describes the records beside the splits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import tensorflow as tf

from tfx_gnn.io.disk_sync import sync_path
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.serving.prediction import HIDDEN

GRAPH_SCHEMA_FILE = "graph_schema.pbtxt"
_SCHEMA_SUFFIX = ".pbtxt"
_SPLIT_PREFIX = "Split-"
_RECORDS_SUFFIX = ".gz"


def graph_schema_path(folder: str) -> str:
    """Path of the graph schema inside a folder that holds one; a file that ends in `.pbtxt` is the schema itself."""
    is_file = folder.endswith(_SCHEMA_SUFFIX) and not tf.io.gfile.isdir(folder)
    return folder if is_file else os.path.join(folder, GRAPH_SCHEMA_FILE)


def split_dir(examples_dir: str, split: str) -> str:
    """Path of one split's folder."""
    return os.path.join(examples_dir, _SPLIT_PREFIX + split)


def split_names(examples_dir: str) -> list[str]:
    """Lists the splits of an examples folder in alphabetical order.

    Args:
        examples_dir: folder with `Split-<name>` folders.

    Returns:
        The names, at least one.

    Raises:
        ValueError: if the folder is missing or holds no split.
    """
    entries = tf.io.gfile.listdir(examples_dir) if tf.io.gfile.isdir(examples_dir) else []
    names = sorted(
        entry.rstrip("/").removeprefix(_SPLIT_PREFIX) for entry in entries if entry.startswith(_SPLIT_PREFIX)
    )
    if not names:
        raise ValueError(
            f"`examples_dir` must hold `{_SPLIT_PREFIX}<name>` folders; got {examples_dir!r} with "
            f"{sorted(entries)[:5]}. Point at the output of SubgraphExampleGen."
        )
    return names


def split_files(examples_dir: str, split: str, *, argument: str = "split") -> list[str]:
    """Lists the record files of one split in name order.

    Names that begin with `.` or `_` are passed over, as Beam and TFX do.

    Args:
        examples_dir: folder with `Split-<name>` folders.
        split: name of the split.
        argument: the option that names it, for messages.

    Returns:
        Paths, at least one.

    Raises:
        ValueError: if the split does not exist, or holds no file or another folder.
    """
    known = split_names(examples_dir)
    if split not in known:
        raise ValueError(
            f"`{argument}` must be one of {known}; got {split!r} in {examples_dir!r}. Choose a split that was made."
        )
    folder = split_dir(examples_dir, split)
    names = sorted(name for name in tf.io.gfile.listdir(folder) if not name.startswith(HIDDEN))
    files = [os.path.join(folder, name) for name in names]
    for file in files:
        # Object stores are asked about each name, so not about those of records.
        if file.endswith("/") or (not file.endswith(_RECORDS_SUFFIX) and tf.io.gfile.isdir(file)):
            raise ValueError(
                f"`{folder}` must hold record files only; got the folder {os.path.basename(file.rstrip('/'))!r}. "
                "Move it out of the split."
            )
    if not files:
        raise ValueError(f"`{argument}` must hold record files; got none in {folder!r}. Make the examples again.")
    return files


def write_split_shard(examples_dir: str, split: str, shard: int, num_shards: int, records: Iterable[bytes]) -> int:
    """Writes one gzipped TFRecord file of a split.

    Args:
        examples_dir: folder with `Split-<name>` folders; made if missing.
        split: name of the split.
        shard: position of the file, in [0, num_shards).
        num_shards: files of the split.
        records: serialized tf.Examples.

    Returns:
        How many records were written.
    """
    folder = split_dir(examples_dir, split)
    tf.io.gfile.makedirs(folder)
    path = os.path.join(folder, f"graphs-{shard:05d}-of-{num_shards:05d}.gz")
    count = 0
    with tf.io.TFRecordWriter(path, options="GZIP") as writer:
        for record in records:
            writer.write(record)
            count += 1
    if has_locks(path):
        # Who notes that it is whole relies on it, after a power failure too.
        sync_path(path)
        sync_path(folder)
    return count


def read_split(examples_dir: str, split: str, *, argument: str = "split") -> tf.data.Dataset:
    """Reads the records of one split in file order.

    Args:
        examples_dir: folder with `Split-<name>` folders.
        split: name of the split.
        argument: the option that names it, for messages.

    Returns:
        Dataset of scalar string tensors, one serialized tf.Example each.
    """
    return tf.data.TFRecordDataset(split_files(examples_dir, split, argument=argument), compression_type="GZIP")
