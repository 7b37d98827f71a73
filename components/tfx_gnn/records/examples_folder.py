"""The folder layout of graph tf.Examples, one `Split-<name>` folder per split, and its record files.

It is the layout of TFX's standard Examples artifact (gzipped TFRecord files),
with a `graph_schema.pbtxt` that describes the records next to the splits.

Gzipped files cannot be split, so a file is the unit of work on any runner; reading
it in order therefore costs nothing extra, and gives the position of each record.

Examples of a window of spans lie in one folder: the splits hold the newest span, and the first split also holds files
of earlier spans, which have the span in their names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import tensorflow as tf

from tfx_gnn.io.disk_sync import sync_path
from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE
from tfx_gnn.io.fingerprint import fingerprint_text
from tfx_gnn.io.folder_listing import list_entries
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.io.progress import BYTES, count_progress, progress
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.io.text_files import check_regular_file
from tfx_gnn.serving.prediction import HIDDEN
from tfx_gnn.serving.refusal_messages import plain_message

_SCHEMA_SUFFIX = ".pbtxt"
_SPLIT_PREFIX = "Split-"
_RECORDS_SUFFIX = ".gz"
_RECORDS_AT_ONCE = 32
_RECORDS_TO_REPEAT = 128  # A function call for each record would take longer than reading it.
_GZIP_TRAILER_BYTES = 8
_EMPTY_GZIP_BYTES = 20
_RECORD_FRAME_BYTES = 16  # length and checksums of a TFRecord
_GZIP_LENGTH_MODULUS = 2**32
# If a gzip stream is cut off after this, it still yields the header of a record, and TensorFlow reports the damage.
_SMALL_FILE_BYTES = 1024
_SHARD_NAME = re.compile(r"(?P<prefix>.*)-(?P<shard>\d{5})-of-(?P<total>\d{5})(?P<suffix>.*)")
_EARLIER_SPAN = "span-"
_MAX_OPEN_FILES = 16
_SEEDS = 2**31  # Seeds are below this, so no two pipelines share one.


RecordTimes = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
"""Decides how many times records come in an epoch.

Maps records, string [n], the shards of their files and their positions in these, int64 [n], and the epoch to int64 [n].
"""


def graph_schema_path(folder: str) -> str:
    """Returns the path of the graph schema in a folder; a path that ends in `.pbtxt` is the schema itself."""
    is_file = folder.endswith(_SCHEMA_SUFFIX) and not tf.io.gfile.isdir(folder)
    return folder if is_file else os.path.join(folder, GRAPH_SCHEMA_FILE)


def split_dir(examples_dir: str, split: str) -> str:
    """Returns the path of one split's folder."""
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
    entries = list_entries(examples_dir)
    names = sorted(entry.removeprefix(_SPLIT_PREFIX) for entry in entries if entry.startswith(_SPLIT_PREFIX))
    if not names:
        raise ValueError(
            f"`examples_dir` must hold `{_SPLIT_PREFIX}<name>` folders; got {examples_dir!r} with "
            f"{entries[:5]}. Point at the output of SubgraphExampleGen."
        )
    return names


def split_files(examples_dir: str, split: str, *, argument: str = "split") -> list[str]:
    """Lists the record files of one split in name order.

    Names that begin with `.` or `_` are skipped, as in Beam and TFX.

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
            f"`{argument}` must be one of {known}; got {split!r} in {examples_dir!r}. "
            f"{did_you_mean(split, known, otherwise='Choose a split that was made.')}"
        )
    folder = split_dir(examples_dir, split)
    names = sorted(name for name in tf.io.gfile.listdir(folder) if not name.startswith(HIDDEN))
    files = [os.path.join(folder, name) for name in names]
    for file in files:
        # Do not ask about names of record files: object stores take a request for each name.
        if file.endswith("/") or (not file.endswith(_RECORDS_SUFFIX) and tf.io.gfile.isdir(file)):
            raise ValueError(
                f"`{folder}` must hold record files only; got the folder {os.path.basename(file.rstrip('/'))!r}. "
                "Move it out of the split."
            )
    if not files:
        raise ValueError(f"`{argument}` must hold record files; got none in {folder!r}. Make the examples again.")
    return files


def _complete_split_files(
    examples_dir: str, split: str, *, argument: str = "split", takes_cut_off: bool = False
) -> list[str]:
    """Lists the record files of one split; refuses a split with missing shards or truncated files."""
    files = split_files(examples_dir, split, argument=argument)
    found = defaultdict(set)
    for file in files:
        if match := _SHARD_NAME.fullmatch(os.path.basename(file)):
            found[match["prefix"], int(match["total"]), match["suffix"]].add(int(match["shard"]))
    for (prefix, total, suffix), shards in found.items():
        if missing := sorted(set(range(total)) - shards):
            name = f"{prefix}-{missing[0]:05d}-of-{total:05d}{suffix}"
            raise ValueError(
                f"`{split_dir(examples_dir, split)}` must hold all {total} shards; got {len(shards)}, without "
                f"{name!r}. Copy the missing files, or make the examples again."
            )
    for file in files:
        check_regular_file(file)
        if not takes_cut_off and _is_cut_off(file):
            raise ValueError(
                f"`{split_dir(examples_dir, split)}` must hold whole gzipped TFRecord files; got "
                f"{os.path.basename(file)!r}, which ends early. Copy it again, or make the examples again."
            )
    return files


def _is_cut_off(path: str) -> bool:
    """Returns whether a file is truncated so early that TensorFlow reads it as a file without records."""
    if not has_locks(path):
        # Objects in a store are complete or absent, and a request for each would take long.
        return False
    size = os.path.getsize(path)
    if size >= _SMALL_FILE_BYTES:
        return False
    try:
        # TensorFlow itself reports files that are not gzip or have a wrong checksum.
        with contextlib.suppress(gzip.BadGzipFile), gzip.open(path) as file:
            file.read()
    except (EOFError, zlib.error):
        return True
    return size < _EMPTY_GZIP_BYTES


def write_split_shard(examples_dir: str, split: str, shard: int, num_shards: int, records: Iterable[bytes]) -> int:
    """Writes one gzipped TFRecord file of a split.

    Args:
        examples_dir: folder with `Split-<name>` folders; created if missing.
        split: name of the split.
        shard: position of the file, in [0, num_shards).
        num_shards: files of the split.
        records: serialized tf.Examples.

    Returns:
        Number of records written.
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
        # Callers record that the file is complete, so it must also survive a power failure.
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
    return tf.data.TFRecordDataset(
        _complete_split_files(examples_dir, split, argument=argument), compression_type="GZIP"
    )


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class RecordFile:
    """One record file of a split.

    Attributes:
        split: name of the split.
        shard: position of the file in the split.
        num_shards: number of files of the split.
        path: path of the file.
    """

    split: str
    shard: int
    num_shards: int
    path: str

    @property
    def earlier_span(self) -> str:
        """Number or date of the earlier span that the file is of; empty if it is of the newest, or the only one."""
        matched = _SHARD_NAME.fullmatch(os.path.basename(self.path))
        prefix = matched["prefix"] if matched else ""
        return prefix.removeprefix(_EARLIER_SPAN) if prefix.startswith(_EARLIER_SPAN) else ""


def earlier_span_path(path: str, span: str) -> str:
    """Returns the path of a record file, once it is among those of a later span.

    Args:
        path: as `write_split_shard` names it.
        span: number or date of the file's span.
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{_EARLIER_SPAN}{span}{name[name.index('-') :]}")


def files_by_span(files: Sequence[RecordFile]) -> tuple[tuple[RecordFile, ...], ...]:
    """Groups files by span, the newest last; a span without files is left out."""
    by_span: dict[str, list[RecordFile]] = {}
    for file in files:
        by_span.setdefault(file.earlier_span, []).append(file)
    return tuple(tuple(by_span[span]) for span in sorted(by_span, key=lambda span: (not span, span)))


def record_files(
    examples_dir: str, splits: Sequence[str] = (), *, argument: str = "split", takes_cut_off: bool = False
) -> list[RecordFile]:
    """Lists the files of some splits, or of all, by split and name; `argument` is the option that names a split.

    Truncated files are refused, unless the caller accepts them and lets `read_records` report them.
    """
    names = list(splits) or split_names(examples_dir)
    if len(set(names)) != len(names):
        raise ValueError(f"`splits` must name each split once; got {names}. Remove the repetition.")
    files = []
    for split in sorted(names):
        paths = _complete_split_files(examples_dir, split, argument=argument, takes_cut_off=takes_cut_off)
        files += [
            RecordFile(split=split, shard=shard, num_shards=len(paths), path=path) for shard, path in enumerate(paths)
        ]
    return files


def fingerprint_examples_folder(examples_dir: str) -> str:
    """Fingerprints a folder of examples, independently of its path, without reading the examples.

    The fingerprint covers the size of each file and the end of its gzip stream, which holds the CRC-32 and the length
    of the uncompressed data (RFC 1952, section 2.3).
    """
    files = record_files(examples_dir, takes_cut_off=True)
    return fingerprint_text("\n".join(f"{file.split} {file.shard} {describe_content(file)}" for file in files))


def describe_content(file: RecordFile) -> str:
    """Describes the content of a file in a text that is equal for equal content, wherever the file lies.

    It has the size of the file and the end of its gzip stream; see `fingerprint_examples_folder`.
    """
    with tf.io.gfile.GFile(file.path, "rb") as opened:
        size = opened.size()
        opened.seek(max(size - _GZIP_TRAILER_BYTES, 0))
        return f"{size} {opened.read().hex()}"


@contextlib.contextmanager
def reading_progress(name: str, files: Sequence[RecordFile]) -> Iterator[None]:
    """Shows as the progress of a stage what `read_records` and `count_records` read of files during its block."""
    with progress(name, total=lambda: sum(map(_content_bytes, files)), unit=BYTES):
        yield


def count_records(records: Iterable[bytes]) -> None:
    """Counts records that were read for `reading_progress`."""
    count_progress(BYTES, sum(len(record) + _RECORD_FRAME_BYTES for record in records))


def _content_bytes(file: RecordFile) -> int:
    """Returns the length of a gzipped file's content; its trailer holds that modulo 2**32 (RFC 1952, section 2.3)."""
    with tf.io.gfile.GFile(file.path, "rb") as opened:
        size = opened.size()
        opened.seek(max(size - 4, 0))
        length = int.from_bytes(opened.read(), "little")
    # Compression does not enlarge records; it may store them as they are.
    return length + max(0, -(-(size - _EMPTY_GZIP_BYTES - length) // _GZIP_LENGTH_MODULUS)) * _GZIP_LENGTH_MODULUS


def read_records(file: RecordFile) -> Iterator[bytes]:
    """Reads the records of a gzipped TFRecord file in order; raises ValueError if it is damaged."""
    records = tf.data.TFRecordDataset(file.path, compression_type="GZIP")
    num_read = 0
    try:
        with contextlib.suppress(tf.errors.DataLossError):
            # Taking records from TensorFlow one by one takes three times as long as reading them.
            for batch in records.batch(_RECORDS_AT_ONCE).as_numpy_iterator():
                yield from batch
                num_read += len(batch)
                count_records(batch)
            if not num_read and _is_cut_off(file.path):
                raise ValueError(
                    f"`examples_dir` must hold gzipped TFRecord files; got {place_of(file)}, which ends early. Copy it "
                    "again, or make the examples again."
                )
            return
        # Yields the records before the damage, then raises the error.
        yield from records.skip(num_read).as_numpy_iterator()
    except tf.errors.FailedPreconditionError as error:
        raise ValueError(
            f"`examples_dir` must hold gzipped TFRecord files; got a folder in place of {place_of(file)}. "
            "Move it out of the split."
        ) from error
    except tf.errors.DataLossError as error:
        raise ValueError(
            f"`examples_dir` must hold gzipped TFRecord files; got a damaged record in {place_of(file)}. "
            f"Make the examples again. Cause: {plain_message(error.message)}."
        ) from error


def place_of(file: RecordFile, record: int | None = None) -> str:
    """Names a file, or a record in it, for messages: "record 3 of graphs-00000-of-00002.gz (split 'train')"."""
    prefix = "" if record is None else f"record {record} of "
    return f"{prefix}{os.path.basename(file.path)} (split {file.split!r})"


def ordered_records(files: Sequence[RecordFile]) -> tf.data.Dataset:
    """Reads files once, in the same order each time, as a dataset of strings of shape []."""
    return _read(tf.constant([file.path for file in files]), len(files))


def shuffled_records(
    files: Sequence[RecordFile],
    *,
    epochs: tf.data.Dataset,
    shuffle_buffer_size: int,
    seed: int,
    pipeline: int = 0,
    shard: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
    times: RecordTimes | None = None,
) -> tf.data.Dataset:
    """Reads files once for each of `epochs`, in an order determined by the seed and the number of the epoch.

    Each epoch has a different order, which can be reproduced: it depends neither on what was read before nor on
    TensorFlow's global seed. `seed` is in [0, 2**31). A buffer of 1 does not shuffle. Each input pipeline shuffles in
    its own order, but all read the files in the same order; `shard` picks the records of one pipeline before they are
    shuffled. `times` decides how many times each of these comes; before shuffling, its copies follow each other.
    """
    paths = tf.constant([file.path for file in files])
    shards = tf.constant([file.shard for file in files], tf.int64)

    def epoch_of_records(epoch: tf.Tensor) -> tf.data.Dataset:
        seeds = tf.stack([tf.constant(seed, tf.int64), epoch])
        in_order = shuffle_buffer_size == 1
        # All pipelines read in this order, because the position of a record decides which pipeline keeps it.
        order = tf.range(len(files))
        order = order if in_order else tf.random.experimental.stateless_shuffle(order, seeds)
        read = _read if times is None else functools.partial(_read_with_places, shards=tf.gather(shards, order))
        records = read(tf.gather(paths, order), len(files))
        if shard is not None:
            records = shard(records)
        if times is not None:
            records = _repeated(records, times, epoch)
        if in_order:
            return records
        seeds = tf.stack([tf.constant(seed + pipeline * _SEEDS, tf.int64), epoch])
        # In this function's graph only: otherwise an operation's seed would be mixed with the global one.
        tf.random.set_seed(1)
        mixing = tf.random.stateless_uniform([], seed=seeds, minval=0, maxval=tf.int32.max, dtype=tf.int64)
        return records.shuffle(shuffle_buffer_size, seed=mixing, reshuffle_each_iteration=False)

    # Nothing here needs AutoGraph, which would take seconds to rewrite all of it.
    return epochs.flat_map(tf.autograph.experimental.do_not_convert(epoch_of_records))


def _read(paths: tf.Tensor, num_files: int) -> tf.data.Dataset:
    return _interleaved(tf.data.Dataset.from_tensor_slices(paths), _records_of, num_files)


def _read_with_places(paths: tf.Tensor, num_files: int, *, shards: tf.Tensor) -> tf.data.Dataset:
    """Reads records with the shard of the file and the position in it."""

    def numbered(path: tf.Tensor, shard: tf.Tensor) -> tf.data.Dataset:
        # Without a function that is called for each record.
        shard_of_each, positions = tf.data.Dataset.from_tensors(shard).repeat(), tf.data.Dataset.range(tf.int64.max)
        return tf.data.Dataset.zip((_records_of(path), shard_of_each, positions))

    return _interleaved(tf.data.Dataset.from_tensor_slices((paths, shards)), numbered, num_files)


def _repeated(records: tf.data.Dataset, times: RecordTimes, epoch: tf.Tensor) -> tf.data.Dataset:
    counted = records.batch(_RECORDS_TO_REPEAT).map(
        lambda record, shard, position: (record, times(record, shard, position, epoch)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )

    def copies(record: tf.Tensor, number: tf.Tensor) -> tf.data.Dataset:
        # Few copies at a time: there may be a million of one record.
        ends = tf.cumsum(number)
        places = tf.data.Dataset.range(ends[-1]).batch(_RECORDS_TO_REPEAT)
        return places.map(lambda place: tf.gather(record, tf.searchsorted(ends, place, side="right"))).unbatch()

    return counted.flat_map(copies)


def _records_of(path: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(path, compression_type="GZIP")


def _interleaved(files: tf.data.Dataset, read: Callable[..., tf.data.Dataset], num_files: int) -> tf.data.Dataset:
    return files.interleave(
        tf.autograph.experimental.do_not_convert(read),
        cycle_length=min(num_files, _MAX_OPEN_FILES),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
