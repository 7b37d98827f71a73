"""Accumulates the differences between training and serving over batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.components.graph_skew_validator.answers import ServedAnswers, TrainingAnswers
from tfx_gnn.components.graph_skew_validator.comparison import (
    FLOAT,
    INTEGER,
    STRING,
    FeatureComparison,
    FeatureSkew,
    FlatGraph,
    GraphComparison,
    PlaceOfRow,
    RecordPlace,
)
from tfx_gnn.components.graph_skew_validator.examples import ExampleBlock, ExamplePair
from tfx_gnn.records.examples_folder import place_of
from tfx_gnn.serving import model_interface

ID_OUTPUTS = (model_interface.ID_OUTPUT, model_interface.SOURCE_ID_OUTPUT, model_interface.TARGET_ID_OUTPUT)
"""Outputs that say whom the others are about."""


_Array = npt.NDArray[Any]


_KINDS = {np.dtype(np.float64): FLOAT, np.dtype(np.int64): INTEGER}


_PADDING: dict[str, Any] = {FLOAT: -np.inf, INTEGER: -1, STRING: b""}


class OutputComparison:
    """Adds up how answers differ, batch by batch.

    Attributes:
        only_in_first: names of outputs that only the first way has.
        only_in_second: names of outputs that only the second way has.
        num_other_labels: examples whose most probable class differs.
    """

    def __init__(self) -> None:
        """Begins with nothing compared."""
        self.only_in_first: set[str] = set()
        self.only_in_second: set[str] = set()
        self.num_other_labels = 0
        self._outputs: dict[str, FeatureComparison] = {}

    @property
    def results(self) -> tuple[FeatureSkew, ...]:
        """What was found, by name."""
        return tuple(self._outputs[name].result for name in sorted(self._outputs))

    def compare(self, first: Mapping[str, _Array], second: Mapping[str, _Array], places: Sequence[RecordPlace]) -> None:
        """Compares the answers to some examples; ids are left to others.

        Where the most probable class differs, so do logits, and the name of the class says nothing more.

        Args:
            first: arrays of one way by name, each [num_examples, ...]: float64, int64 or objects.
            second: those of the other way.
            places: where each example is.
        """
        self.only_in_first |= first.keys() - second.keys() - set(ID_OUTPUTS)
        self.only_in_second |= second.keys() - first.keys() - set(ID_OUTPUTS)
        for name in sorted((first.keys() & second.keys()) - set(ID_OUTPUTS)):
            one, other = same_width(first[name], second[name])
            rows = np.arange(len(places))
            prefix, _, short_name = name.rpartition("/")
            logits = f"{prefix}/{model_interface.LOGITS_OUTPUT}" if prefix else model_interface.LOGITS_OUTPUT
            if short_name == model_interface.LABEL_OUTPUT and logits in first and logits in second:
                is_same = first[logits].argmax(axis=1) == second[logits].argmax(axis=1)
                self.num_other_labels += int((~is_same).sum())
                rows = np.flatnonzero(is_same)
            kind = _KINDS.get(one.dtype, STRING)
            comparison = self._outputs.setdefault(name, FeatureComparison(name, kind))

            def place(row: int, rows: npt.NDArray[np.int64] = rows) -> tuple[str, int]:
                return places[int(rows[max(row, 0)])].text(), -1

            if len(rows):
                comparison.add(one[rows], other[rows], place, _scale(other[rows]) if kind == FLOAT else None)


def stacked(answers: Sequence[Mapping[str, _Array]]) -> dict[str, _Array]:
    """Puts the answers to single requests together, as one request for all would have given them.

    Args:
        answers: arrays by name, each [1, ...]; at least one.

    Returns:
        Arrays [number of requests, ...].
    """
    together = {}
    for name in answers[0]:
        arrays = [answer[name] for answer in answers]
        if arrays[0].ndim > 1:
            width = max(array.shape[1] for array in arrays)
            arrays = [_padded(array, width) for array in arrays]
        together[name] = np.concatenate(arrays)
    return together


def same_width(first: _Array, second: _Array) -> tuple[_Array, _Array]:
    """Pads rows as signatures do, so that those of two requests have the same length.

    Args:
        first: array [n, ...].
        second: array [n, ...].

    Returns:
        Both, with the same second dimension if they have one.
    """
    if min(first.ndim, second.ndim) < 2:
        return first, second
    width = max(first.shape[1], second.shape[1])
    return _padded(first, width), _padded(second, width)


def _padded(array: _Array, width: int) -> _Array:
    missing = width - array.shape[1]
    if not missing:
        return array
    padding = np.full([len(array), missing, *array.shape[2:]], _PADDING[_KINDS.get(array.dtype, STRING)], array.dtype)
    return np.concatenate([array, padding], axis=1)


def _scale(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The largest value of each example, at least 1; minus infinity pads rows."""
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    largest = finite.reshape(len(values), -1).max(axis=1, initial=1.0)
    return largest.reshape([len(values)] + [1] * (values.ndim - 1))


@dataclasses.dataclass(frozen=True)
class _Answers:
    """What both sides say about a batch."""

    training: dict[str, npt.NDArray[Any]]
    training_outputs: dict[str, npt.NDArray[Any]]
    graph: dict[str, npt.NDArray[Any]]
    outputs: dict[str, npt.NDArray[Any]]


class SkewAccumulator:
    """Asks both sides for the same examples and adds up what differs.

    Attributes:
        graphs: the graphs that the network gets.
        outputs: answers of training and of equal batches that are served.
        one_by_one: answers of batches and of single requests, in the first batch of each block.
        rounding: floating point features of batches and of the blocks in which GraphTransform transforms.
        num_examples: examples that were read, by split.
        num_compared: of these, how many could be compared value by value.
        num_of: examples that could not, by "unanswered", "of_another_seed" and "of_another_size".
        first_of: the first of each kind, in words.
        ids_compared: whether the transformed examples have original ids.
    """

    def __init__(self, training: TrainingAnswers, served: ServedAnswers, batch_size: int) -> None:
        """Begins with nothing compared.

        Args:
            training: the way of training.
            served: the exported model.
            batch_size: examples of a batch, at most those of training.
        """
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
        """Compares the examples of a block; those that cannot be compared are counted and left out.

        Args:
            block: examples of one file.
        """
        split = block.pairs[0].file.split
        self.num_examples[split] = self.num_examples.get(split, 0) + len(block.pairs)
        floats = self._floats_of(block)
        for begin in range(0, len(block.pairs), self._batch_size):
            pairs = list(block.pairs[begin : begin + self._batch_size])
            num_compared = self._add_batch(pairs, floats, ask_alone=begin == 0)
            if num_compared < len(pairs):
                # What is left out has no values here, but in the block it has.
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
                # Asked again without the others: in a merged graph, one stray example displaces all that follow.
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
            alone = stacked([self._served.predict([pair.raw]) for pair in pairs])
            self.one_by_one.compare(answers.outputs, alone, places)
        self.num_compared += len(pairs)
        return len(pairs)

    def _floats_of(self, block: ExampleBlock) -> _BlockFloats | None:
        try:
            return _BlockFloats(self._served.graph(block.raw))
        except tf.errors.InvalidArgumentError:
            # Some example is refused: which one, its batch will show.
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
            training, served = same_width(answers.training_outputs[name], answers.outputs[name])
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
    """The floating point features of a block, handed out batch by batch."""

    def __init__(self, graph: FlatGraph) -> None:
        self._floats = {key: values for key, values in graph.items() if values.dtype == np.float64}
        self._begins = dict.fromkeys(self._floats, 0)

    def put_into(self, graph: FlatGraph) -> FlatGraph:
        """Takes the next values of each feature, as many as the batch has."""
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
    # Of candidate pairs, the first one's source.
    ids = answers.outputs[names[0]].reshape(len(pairs), -1)[:, 0].tolist()
    return [pair.place(seed) for pair, seed in zip(pairs, ids, strict=True)]
