"""Compares two flat graphs, or two sets of outputs, of the same examples: how many values differ, by how much, where.

A flat graph is the form that `tfx_gnn.graph.codec.flat_tensors` gives to examples that were merged into one graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.serving import model_interface

FLOAT, INTEGER, STRING, STRUCTURE = "float", "integer", "string", "structure"

_Array = npt.NDArray[Any]

FlatGraph = Mapping[str, _Array]
"""Arrays by key: floating point numbers as float64, integers and booleans as int64, strings as objects."""

PlaceOfRow = Callable[[int], tuple[str, int]]
"""Maps a row of an array to its example, in words, and the item in that example."""

WHOLE_BATCH = -1
"""Row number that stands for all rows."""

ID_OUTPUTS = (model_interface.ID_OUTPUT, model_interface.SOURCE_ID_OUTPUT, model_interface.TARGET_ID_OUTPUT)
"""Outputs that identify the nodes or pairs that the other outputs are about."""

_NOT_COMPARED = {
    *ID_OUTPUTS,
    # Of the transform's vocabularies, which training has applied before.
    model_interface.UNSEEN_ID_OUTPUT,
    model_interface.UNSEEN_SOURCE_ID_OUTPUT,
    model_interface.UNSEEN_TARGET_ID_OUTPUT,
}

_KINDS = {np.dtype(np.float64): FLOAT, np.dtype(np.int64): INTEGER}
_PADDING: dict[str, Any] = {FLOAT: -np.inf, INTEGER: -1, STRING: b""}
_SIZE = "#size"
_STRUCTURE_NAMES = (_SIZE, "#source", "#target")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordPlace:
    """The place of an example.

    Attributes:
        split: name of its split.
        file: name of its file, the same before and after the transform.
        record: its position in that file, from 0.
        id: original id of its seed, as served.
    """

    split: str
    file: str
    record: int
    id: str

    def text(self) -> str:
        """The place in words."""
        return f"record {self.record} of {self.file} (split {self.split!r}, seed {self.id!r})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureSkew:
    """Differences of one feature, or one part of the structure, between training and serving.

    Attributes:
        key: its key in a tf.Example, such as "nodes/package.size_bytes".
        kind: "float", "integer", "string", or "structure" for sizes and the ends of edges.
        num_values: number of values compared.
        num_differing: number of values that differ at all. NaN is equal to NaN.
        num_nan: number of values that are NaN on both sides.
        num_rows_of_other_length: number of rows of a ragged feature whose numbers of values differ.
        num_without_counterpart: values that could not be compared, because shapes, dtypes or lengths of rows
            differ in their batch.
        largest_difference: for numbers, the largest absolute difference, infinite if only one side is NaN
            or infinite; for strings, 1 if any differs.
        largest_relative_difference: for floats, the largest difference divided by the larger of the two values.
        example: where the largest difference is, in words; "" if there is none.
        item: position of the node or edge in its set in that example; -1 if there is no single item.
        training: the value in training, as text.
        served: the value in serving, as text.
    """

    key: str
    kind: str
    num_values: int = 0
    num_differing: int = 0
    num_nan: int = 0
    num_rows_of_other_length: int = 0
    num_without_counterpart: int = 0
    largest_difference: float = 0.0
    largest_relative_difference: float = 0.0
    example: str = ""
    item: int = -1
    training: str = ""
    served: str = ""

    def is_within(self, max_float_difference: float) -> bool:
        """Tells whether nothing differs, or only floats by no more than the given number.

        Args:
            max_float_difference: largest allowed absolute difference between floats.
        """
        if self.num_without_counterpart or self.num_rows_of_other_length:
            return False
        return self.num_differing == 0 or (self.kind == FLOAT and self.largest_difference <= max_float_difference)

    def text(self) -> str:
        """The difference in words."""
        parts = []
        if self.num_differing:
            by = f", by up to {self.largest_difference:g}" if self.kind in (FLOAT, INTEGER) else ""
            parts.append(f"{self.num_differing} of {self.num_values} values differ{by}")
        if self.num_rows_of_other_length:
            parts.append(f"{self.num_rows_of_other_length} rows have another number of values")
        if self.num_without_counterpart:
            parts.append(f"{self.num_without_counterpart} values have no counterpart")
        if not parts:
            return f"{self.key}: {self.num_values} values are equal"
        place = f"item {self.item} of {self.example}" if self.item >= 0 else self.example
        return f"{self.key}: {'; '.join(parts)}; {self.training} in training, {self.served} when served: {place}"


class FeatureComparison:
    """Accumulates the differences of one feature, batch by batch."""

    def __init__(self, key: str, kind: str) -> None:
        """Starts with nothing compared."""
        self.result = FeatureSkew(key=key, kind=kind)

    def add(
        self,
        training: _Array,
        served: _Array,
        place: PlaceOfRow,
        scale: npt.NDArray[np.float64] | None = None,
    ) -> None:
        """Compares arrays with corresponding rows: float64, int64 or objects, [num_rows, ...].

        Differences are divided by `scale`, which is broadcast to the arrays.
        """
        if training.dtype != served.dtype or training.shape != served.shape:
            described = [f"{array.dtype.name}{list(array.shape)}" for array in (training, served)]
            self.note_without_counterpart(described, place(WHOLE_BATCH), max(training.size, served.size))
            return
        differs = training != served
        num_nan = 0
        if training.dtype == np.float64:
            is_nan = np.isnan(training) & np.isnan(served)
            differs &= ~is_nan
            num_nan = int(is_nan.sum())
        difference, relative = _differences(training, served, differs)
        difference = difference if scale is None else difference / scale
        before = self.result
        largest = float(difference.max(initial=0.0))
        self.result = dataclasses.replace(
            before,
            num_values=before.num_values + training.size,
            num_differing=before.num_differing + int(differs.sum()),
            num_nan=before.num_nan + num_nan,
            largest_difference=max(before.largest_difference, largest),
            largest_relative_difference=max(before.largest_relative_difference, float(relative.max(initial=0.0))),
        )
        if largest > before.largest_difference:
            position = int(difference.argmax())
            row = position // max(int(np.prod(training.shape[1:], dtype=np.int64)), 1)
            self._describe([_as_text(array.reshape(-1)[position]) for array in (training, served)], place(row))

    def add_row_lengths(self, training: _Array, served: _Array, place: PlaceOfRow) -> None:
        """Compares the lengths of the rows of a ragged feature, int64 [num_rows] each.

        At inner levels of nested rows, the two sides may have different numbers of rows.
        """
        num_rows = min(len(training), len(served))
        differing = np.flatnonzero(training[:num_rows] != served[:num_rows])
        count = len(differing) + abs(len(training) - len(served))
        if len(differing) and not self.result.num_rows_of_other_length:
            first = int(differing[0])
            self._describe([f"{array[first]} values" for array in (training, served)], place(first))
        self.result = dataclasses.replace(
            self.result, num_rows_of_other_length=self.result.num_rows_of_other_length + count
        )

    def note_without_counterpart(self, described: Sequence[str], place: tuple[str, int], num_values: int) -> None:
        """Counts values that cannot be compared; `described` describes training's and serving's side in words."""
        if not self.result.example:
            self._describe(described, place)
        self.result = dataclasses.replace(
            self.result, num_without_counterpart=self.result.num_without_counterpart + num_values
        )

    def _describe(self, values: Sequence[str], place: tuple[str, int]) -> None:
        example, item = place
        self.result = dataclasses.replace(self.result, training=values[0], served=values[1], example=example, item=item)


class GraphComparison:
    """Accumulates the differences of all parts of graphs, batch by batch.

    Attributes:
        only_in_training: keys that serving lacks.
        only_served: keys that training lacks.
    """

    def __init__(self) -> None:
        """Starts with nothing compared."""
        self.only_in_training: set[str] = set()
        self.only_served: set[str] = set()
        self._features: dict[str, FeatureComparison] = {}

    @property
    def features(self) -> tuple[FeatureSkew, ...]:
        """The results, sorted by key."""
        return tuple(self._features[key].result for key in sorted(self._features))

    def compare_sizes(
        self, training: FlatGraph, served: FlatGraph, places: Sequence[RecordPlace]
    ) -> npt.NDArray[np.bool_]:
        """Compares the sizes of all sets, graph by graph; returns bool [num_examples], True if all sizes are equal."""
        equal = np.ones(len(places), bool)
        for key in sorted(key for key in training.keys() & served.keys() if key.endswith(_SIZE)):
            self._comparison(key, STRUCTURE).add(training[key], served[key], lambda row: (places[row].text(), -1))
            equal &= training[key] == served[key]
        return equal

    def compare(self, training: FlatGraph, served: FlatGraph, places: Sequence[RecordPlace]) -> None:
        """Compares features and the ends of edges of graphs whose sizes are equal."""
        self.only_in_training |= training.keys() - served.keys()
        self.only_served |= served.keys() - training.keys()
        partitions = {key: _partitions(key, training) for key in training}
        inner = {_splits_key(key, level) for key, levels in partitions.items() for level in range(len(levels))}
        for key in sorted((training.keys() & served.keys()) - inner):
            if not key.endswith(_SIZE):
                self._compare_feature(key, training, served, partitions[key], places)

    def _compare_feature(
        self,
        key: str,
        training: FlatGraph,
        served: FlatGraph,
        partitions: list[_Array],
        places: Sequence[RecordPlace],
    ) -> None:
        starts = _item_starts(key, training, len(partitions[0]) - 1 if partitions else len(training[key]))

        def place_below(levels: list[_Array]) -> PlaceOfRow:
            def place(row: int) -> tuple[str, int]:
                if row == WHOLE_BATCH:
                    return f"the batch of {places[0].text()}", -1
                for splits in reversed(levels):
                    row = int(np.searchsorted(splits, row, side="right")) - 1
                example = int(np.searchsorted(starts, row, side="right")) - 1
                return places[example].text(), row - int(starts[example])

            return place

        comparison = self._comparison(key, _kind(key, training[key]))
        for level, splits in enumerate(partitions):
            other = served.get(_splits_key(key, level), np.zeros([0], np.int64))
            place = place_below(partitions[:level])
            comparison.add_row_lengths(np.diff(splits), np.diff(other), place)
            if not np.array_equal(splits, other):
                described = ["rows of some lengths", "rows of others"]
                comparison.note_without_counterpart(described, place(WHOLE_BATCH), training[key].size)
                return
        comparison.add(training[key], served[key], place_below(partitions))

    def _comparison(self, key: str, kind: str) -> FeatureComparison:
        return self._features.setdefault(key, FeatureComparison(key, kind))


class OutputComparison:
    """Accumulates the differences of outputs, batch by batch.

    Attributes:
        only_in_first: names of outputs that only the first side has.
        only_in_second: names of outputs that only the second side has.
        num_other_labels: examples whose most probable class differs.
    """

    def __init__(self) -> None:
        """Starts with nothing compared."""
        self.only_in_first: set[str] = set()
        self.only_in_second: set[str] = set()
        self.num_other_labels = 0
        self._outputs: dict[str, FeatureComparison] = {}

    @property
    def results(self) -> tuple[FeatureSkew, ...]:
        """The results, sorted by name."""
        return tuple(self._outputs[name].result for name in sorted(self._outputs))

    def compare(
        self,
        first: Mapping[str, _Array],
        second: Mapping[str, _Array],
        places: Sequence[RecordPlace],
    ) -> None:
        """Compares the outputs of some examples by name, each [num_examples, ...]; ids are not compared here.

        If the most probable class differs, so do the logits, so the class name adds no information and is skipped.
        """
        self.only_in_first |= first.keys() - second.keys() - _NOT_COMPARED
        self.only_in_second |= second.keys() - first.keys() - _NOT_COMPARED
        for name in sorted((first.keys() & second.keys()) - _NOT_COMPARED):
            one, other = pad_to_same_width(first[name], second[name])
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


def stack_answers(answers: Sequence[Mapping[str, _Array]]) -> dict[str, _Array]:
    """Joins the responses to single requests into the response that one request for all would give."""
    together = {}
    for name in answers[0]:
        arrays = [answer[name] for answer in answers]
        if arrays[0].ndim > 1:
            width = max(array.shape[1] for array in arrays)
            arrays = [_pad(array, width) for array in arrays]
        together[name] = np.concatenate(arrays)
    return together


def pad_to_same_width(first: _Array, second: _Array) -> tuple[_Array, _Array]:
    """Pads rows of two requests to the same second dimension, if they have one, in the same way as signatures do."""
    if min(first.ndim, second.ndim) < 2:
        return first, second
    width = max(first.shape[1], second.shape[1])
    return _pad(first, width), _pad(second, width)


def _pad(array: _Array, width: int) -> _Array:
    missing = width - array.shape[1]
    if not missing:
        return array
    padding = np.full([len(array), missing, *array.shape[2:]], _PADDING[_KINDS.get(array.dtype, STRING)], array.dtype)
    return np.concatenate([array, padding], axis=1)


def _scale(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The largest value of each example, at least 1; rows are padded with minus infinity, which is ignored."""
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    largest = finite.reshape(len(values), -1).max(axis=1, initial=1.0)
    return largest.reshape([len(values)] + [1] * (values.ndim - 1))


def _differences(
    training: _Array, served: _Array, differs: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Absolute and relative differences; infinite if only one side is NaN, and 1 for strings."""
    if training.dtype == object:
        return differs.astype(np.float64), differs.astype(np.float64)
    first, second = training.astype(np.float64), served.astype(np.float64)
    with np.errstate(all="ignore"):
        difference = np.abs(first - second)
        if training.dtype == np.int64:
            # Beyond 2**53, neighboring integers become the same float.
            difference = np.maximum(difference, 1.0)
        difference = np.where(differs, np.where(np.isnan(difference), np.inf, difference), 0.0)
        relative = difference / np.where(differs, np.maximum(np.abs(first), np.abs(second)), 1.0)
        return difference, np.where(np.isnan(relative), np.inf, relative)


def _kind(key: str, values: _Array) -> str:
    if key.endswith(_STRUCTURE_NAMES):
        return STRUCTURE
    return _KINDS.get(values.dtype, STRING)


def _partitions(key: str, graph: FlatGraph) -> list[_Array]:
    """Row splits of a ragged feature from the outermost; none for a dense one."""
    levels: list[_Array] = []
    while (splits := graph.get(_splits_key(key, len(levels)))) is not None and splits.dtype == np.int64:
        levels.append(splits)
    return levels


def _splits_key(key: str, level: int) -> str:
    return f"{key}.splits{level + 1}"


def _item_starts(key: str, graph: FlatGraph, num_items: int) -> npt.NDArray[np.int64]:
    """Start of each graph's items in the set that a feature belongs to."""
    # Names may contain dots: the set is the longest one that prefixes the key and has the same number of items.
    owners = [size for size in graph if size.endswith(_SIZE) and key.startswith(size.removesuffix(_SIZE))]
    for owner in sorted(owners, key=len, reverse=True):
        if int(graph[owner].sum()) == num_items:
            return np.cumsum(graph[owner]) - graph[owner]
    return np.zeros([1], np.int64)


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value.decode("utf-8", errors="replace"))
    return f"{value:.9g}" if isinstance(value, float) else str(value)
