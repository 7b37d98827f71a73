"""Accumulates the differences between training and serving over blocks of examples.

Examples before and after the transform are read in parallel, in the blocks in which they were transformed.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.components.graph_skew_validator.answers import ServedAnswers, TrainingAnswers
from tfx_gnn.components.graph_skew_validator.comparison import (
    FLOAT,
    ID_OUTPUTS,
    FeatureComparison,
    FlatGraph,
    GraphComparison,
    OutputComparison,
    PlaceOfRow,
    RecordPlace,
    pad_to_same_width,
    stack_answers,
)
from tfx_gnn.records.examples_folder import RecordFile, place_of, read_records, record_files
from tfx_gnn.transform.application import EXAMPLES_AT_ONCE


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExamplePair:
    """An example before and after the transform.

    Attributes:
        file: file of the raw example.
        record: its position there, from 0.
        raw: the raw example, serialized.
        transformed: the transformed example, serialized.
    """

    file: RecordFile
    record: int
    raw: bytes
    transformed: bytes

    def place(self, seed: Any) -> RecordPlace:
        """Returns the example's place; `seed` is the original id, bytes or an integer."""
        text = seed.decode("utf-8", errors="replace") if isinstance(seed, bytes) else str(seed)
        return RecordPlace(split=self.file.split, file=os.path.basename(self.file.path), record=self.record, id=text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleBlock:
    """Examples that GraphTransform transformed at once.

    Attributes:
        pairs: the first examples of the block, which are to be compared; at least one.
        raw: all examples of the block before the transform.
    """

    pairs: tuple[ExamplePair, ...]
    raw: tuple[bytes, ...]


def pair_files(examples_dir: str, transformed_dir: str, splits: Sequence[str]) -> list[tuple[RecordFile, RecordFile]]:
    """Pairs the files of a raw and a transformed examples folder, by split and name."""
    raw_files = record_files(examples_dir, splits)
    files = record_files(transformed_dir, tuple(dict.fromkeys(file.split for file in raw_files)))
    if [(file.split, file.shard) for file in raw_files] != [(file.split, file.shard) for file in files]:
        raise ValueError(
            "`transformed_examples_dir` must hold as many files in each split as `examples_dir`; got "
            f"{len(files)} files in {transformed_dir!r}, {len(raw_files)} in {examples_dir!r}. "
            "Take the examples that GraphTransform made of these."
        )
    return list(zip(raw_files, files, strict=True))


def read_example_blocks(files: Sequence[tuple[RecordFile, RecordFile]], max_examples: int) -> Iterator[ExampleBlock]:
    """Reads blocks of examples from the beginnings of files, about the same number from each file of a split.

    From each split, at most `max_examples` are read.
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


@dataclasses.dataclass(frozen=True)
class _Answers:
    """The outputs of both sides for a batch."""

    training: dict[str, npt.NDArray[Any]]
    training_outputs: dict[str, npt.NDArray[Any]]
    graph: dict[str, npt.NDArray[Any]]
    outputs: dict[str, npt.NDArray[Any]]


class SkewAccumulator:
    """Runs both sides on the same examples and accumulates the differences.

    Attributes:
        graphs: differences of the graphs that the network gets.
        outputs: differences between training's outputs and served outputs, in equal batches.
        one_by_one: differences between batches and single requests, for the first batch of each block.
        rounding: differences of floating point features between batches and the blocks that GraphTransform transforms.
        num_examples: examples that were read, by split.
        num_compared: examples among these that could be compared value by value.
        num_of: examples that could not be compared, by "unanswered", "of_another_seed" and "of_another_size".
        first_of: the first of each kind, in words.
        ids_compared: whether the transformed examples have original ids.
    """

    def __init__(self, training: TrainingAnswers, served: ServedAnswers, batch_size: int) -> None:
        """Starts with nothing compared."""
        self._training, self._served, self._batch_size = training, served, batch_size
        self.graphs = GraphComparison()
        self.outputs = OutputComparison()
        self.one_by_one = OutputComparison()
        self.rounding = FeatureComparison("floats of other batches", FLOAT)
        self.num_examples: dict[str, int] = {}
        self.num_compared = 0
        self.num_of: dict[str, int] = dict.fromkeys(("unanswered", "of_another_seed", "of_another_size"), 0)
        self.first_of: dict[str, str] = {}
        self.ids_compared = True

    def add(self, block: ExampleBlock) -> None:
        """Compares the examples of a block; examples that cannot be compared are counted and left out."""
        split = block.pairs[0].file.split
        self.num_examples[split] = self.num_examples.get(split, 0) + len(block.pairs)
        floats = self._floats_of(block)
        for begin in range(0, len(block.pairs), self._batch_size):
            pairs = list(block.pairs[begin : begin + self._batch_size])
            num_compared = self._add_batch(pairs, floats, ask_alone=begin == 0)
            if num_compared < len(pairs):
                # The block still holds values of the examples left out here, so the two no longer line up.
                floats = None

    def _add_batch(self, pairs: list[ExamplePair], floats: _BlockFloats | None, *, ask_alone: bool) -> int:
        num_pairs = len(pairs)
        pairs, answers = self._answered(pairs)
        if answers is None:
            return 0
        places = _places(pairs, answers)
        for same in (self._same_seeds, self._same_sizes):
            is_kept = same(answers, places)
            if not is_kept.any():
                return 0
            if not is_kept.all():
                # Run again without the others: in a merged graph, one stray example shifts everything after it.
                pairs = [pair for pair, kept in zip(pairs, is_kept.tolist(), strict=True) if kept]
                answers = self._ask(pairs)
                places = _places(pairs, answers)
        graph: FlatGraph = answers.graph
        if floats is not None and len(pairs) == num_pairs:
            graph = floats.put_into(graph)
            self._compare_rounding(answers.graph, graph, places)
        self.graphs.compare(answers.training, graph, places)
        self.outputs.compare(answers.training_outputs, answers.outputs, places)
        if ask_alone:
            alone = stack_answers([self._served.predict([pair.raw]) for pair in pairs])
            self.one_by_one.compare(answers.outputs, alone, places)
        self.num_compared += len(pairs)
        return len(pairs)

    def _floats_of(self, block: ExampleBlock) -> _BlockFloats | None:
        try:
            return _BlockFloats(self._served.graph(block.raw))
        except tf.errors.InvalidArgumentError:
            # Some example is refused; its batch will show which one.
            return None

    def _ask(self, pairs: Sequence[ExamplePair]) -> _Answers:
        raw = [pair.raw for pair in pairs]
        training = self._training.answer([pair.transformed for pair in pairs])
        return _Answers(training.graph, training.outputs, self._served.graph(raw), self._served.predict(raw))

    def _answered(self, pairs: list[ExamplePair]) -> tuple[list[ExamplePair], _Answers | None]:
        try:
            return pairs, self._ask(pairs)
        except tf.errors.InvalidArgumentError:
            kept = []
        for pair in pairs:
            try:
                self._ask([pair])
            except tf.errors.InvalidArgumentError as error:
                self._count("unanswered", 1, f"{place_of(pair.file, pair.record)}: {error.message}")
            else:
                kept.append(pair)
        try:
            return kept, self._ask(kept) if kept else None
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(
                f"`batch_size` must let batches fit the budget of evaluation; got {len(kept)} examples from "
                f"{place_of(kept[0].file, kept[0].record)} on that fit alone and not together. Learn budgets from "
                f"this split, too, or compare smaller batches. Cause: {error.message}"
            ) from error

    def _same_seeds(self, answers: _Answers, places: Sequence[RecordPlace]) -> npt.NDArray[np.bool_]:
        names = [name for name in ID_OUTPUTS if name in answers.training_outputs and name in answers.outputs]
        self.ids_compared &= bool(names)
        same = np.ones(len(places), bool)
        for name in names:
            training, served = pad_to_same_width(answers.training_outputs[name], answers.outputs[name])
            same &= np.asarray(training == served, bool).reshape(len(places), -1).all(axis=1)
        if not same.all():
            first = int(np.argmin(same))
            seed = answers.training_outputs[names[0]][first]
            self._count("of_another_seed", int((~same).sum()), f"{places[first].text()}: {seed!r} in training")
        return same

    def _same_sizes(self, answers: _Answers, places: Sequence[RecordPlace]) -> npt.NDArray[np.bool_]:
        same = self.graphs.compare_sizes(answers.training, answers.graph, places)
        if not same.all():
            self._count("of_another_size", int((~same).sum()), places[int(np.argmin(same))].text())
        return same

    def _compare_rounding(self, of_batch: FlatGraph, of_block: FlatGraph, places: Sequence[RecordPlace]) -> None:
        for key, values in of_batch.items():
            if values.dtype == np.float64:
                scale = np.maximum(np.nan_to_num(np.abs(values), nan=1.0, posinf=1.0), 1.0)
                self.rounding.add(of_block[key], values, _in_batch(key, places[0]), scale)

    def _count(self, kind: str, count: int, first: str) -> None:
        self.num_of[kind] += count
        self.first_of.setdefault(kind, first)


class _BlockFloats:
    """The floating point features of a block, returned batch by batch."""

    def __init__(self, graph: FlatGraph) -> None:
        self._floats = {key: values for key, values in graph.items() if values.dtype == np.float64}
        self._begins = dict.fromkeys(self._floats, 0)

    def put_into(self, graph: FlatGraph) -> FlatGraph:
        """Takes the next values of each feature, as many as the batch has, and puts them into its graph."""
        taken = {}
        for key, values in self._floats.items():
            begin = self._begins[key]
            self._begins[key] = begin + len(graph[key])
            taken[key] = values[begin : self._begins[key]]
        return {**graph, **taken}


def _in_batch(key: str, first: RecordPlace) -> PlaceOfRow:
    return lambda _: (f"{key} in the batch of {first.text()}", -1)


def _places(pairs: Sequence[ExamplePair], answers: _Answers) -> list[RecordPlace]:
    names = [name for name in ID_OUTPUTS if name in answers.outputs]
    if not names:
        return [pair.place("") for pair in pairs]
    # For candidate pairs, the source of the first pair.
    ids = answers.outputs[names[0]].reshape(len(pairs), -1)[:, 0].tolist()
    return [pair.place(seed) for pair, seed in zip(pairs, ids, strict=True)]
