"""Reads examples before and after the transform side by side, in the blocks they were transformed in."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

from tfx_gnn.components.graph_skew_validator.comparison import RecordPlace
from tfx_gnn.records.examples_folder import RecordFile, place_of, read_records, record_files
from tfx_gnn.transform.application import EXAMPLES_AT_ONCE


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExamplePair:
    """An example before and after the transform.

    Attributes:
        file: file of the raw example.
        record: its position there, from 0.
        raw: the raw example, serialized.
        transformed: what became of it.
    """

    file: RecordFile
    record: int
    raw: bytes
    transformed: bytes

    def place(self, seed: Any) -> RecordPlace:
        """Says where the example is.

        Args:
            seed: original id of its seed, bytes or an integer.
        """
        text = seed.decode("utf-8", errors="replace") if isinstance(seed, bytes) else str(seed)
        return RecordPlace(split=self.file.split, file=os.path.basename(self.file.path), record=self.record, id=text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleBlock:
    """Examples that GraphTransform transformed at once.

    Attributes:
        pairs: the first of them, which are to be compared; at least one.
        raw: all of them before the transform.
    """

    pairs: tuple[ExamplePair, ...]
    raw: tuple[bytes, ...]


def file_pairs(examples_dir: str, transformed_dir: str, splits: Sequence[str]) -> list[tuple[RecordFile, RecordFile]]:
    """Finds the files of two examples folders that belong together.

    Args:
        examples_dir: raw examples.
        transformed_dir: what GraphTransform made of them.
        splits: names of splits; empty for all.

    Returns:
        Raw and transformed file, by split and name.

    Raises:
        ValueError: if a split is missing in one of them, or has another number of files.
    """
    raw_files = record_files(examples_dir, splits)
    files = record_files(transformed_dir, tuple(dict.fromkeys(file.split for file in raw_files)))
    if [(file.split, file.shard) for file in raw_files] != [(file.split, file.shard) for file in files]:
        raise ValueError(
            "`transformed_examples_dir` must hold as many files in each split as `examples_dir`; got "
            f"{len(files)} files in {transformed_dir!r}, {len(raw_files)} in {examples_dir!r}. "
            "Take the examples that GraphTransform made of these."
        )
    return list(zip(raw_files, files, strict=True))


def example_blocks(files: Sequence[tuple[RecordFile, RecordFile]], max_examples: int) -> Iterator[ExampleBlock]:
    """Reads the beginnings of files.

    Args:
        files: raw and transformed files.
        max_examples: examples of a split at most, about as many of each of its files.

    Yields:
        Blocks of examples of one file.

    Raises:
        ValueError: if a file and its transformed one differ in their numbers of examples.
    """
    for raw_file, file in files:
        quota, rest = divmod(max_examples, raw_file.num_shards)
        limit = quota + (raw_file.shard < rest)
        records = itertools.zip_longest(read_records(raw_file), read_records(file))
        for begin in range(0, limit, EXAMPLES_AT_ONCE):
            block = list(itertools.islice(records, EXAMPLES_AT_ONCE))
            if not block:
                break
            pairs = tuple(_pair(raw_file, begin + i, *pair) for i, pair in enumerate(block))
            yield ExampleBlock(pairs=pairs[: limit - begin], raw=tuple(pair.raw for pair in pairs))


def _pair(file: RecordFile, record: int, raw: bytes | None, transformed: bytes | None) -> ExamplePair:
    if raw is None or transformed is None:
        longer = "transformed_examples_dir" if raw is None else "examples_dir"
        raise ValueError(
            "`transformed_examples_dir` must hold one example for each of `examples_dir`; got more than "
            f"{record} in `{longer}` alone, {place_of(file)}. Take the examples that GraphTransform made."
        )
    return ExamplePair(file=file, record=record, raw=raw, transformed=transformed)
