"""Checks a batch of graph tf.Examples against their graph schema."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.index_features import NO_NODE
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.records.example_batches import (
    FLOATS,
    INTS,
    KIND_OF_DTYPE,
    Column,
    ExampleBatch,
    ExampleDecoder,
    describe_item_id,
)
from tfx_gnn.records.examples_folder import RecordFile
from tfx_gnn.records.findings import MAX_PLACES, Findings, Place
from tfx_gnn.records.graph_layout import FeatureColumn, GraphLayout, SetLayout, graph_layout, schema_features

NOT_AN_EXAMPLE = "not_an_example"
UNDECLARED_FEATURE = "undeclared_feature"
WRONG_KIND = "wrong_kind"
WRONG_SIZE = "wrong_size"
WRONG_NUMBER_OF_VALUES = "wrong_number_of_values"
WRONG_ROW_LENGTHS = "wrong_row_lengths"
MISSING_FEATURE = "missing_feature"
DANGLING_EDGE = "dangling_edge"
DANGLING_INDEX = "dangling_index"
MISSING_SET = "missing_set"
NOT_FINITE = "not_finite"
OUT_OF_DTYPE = "out_of_dtype"

READABLE = frozenset(
    {
        NOT_AN_EXAMPLE,
        WRONG_KIND,
        WRONG_SIZE,
        WRONG_NUMBER_OF_VALUES,
        WRONG_ROW_LENGTHS,
        MISSING_FEATURE,
        DANGLING_EDGE,
        DANGLING_INDEX,
    }
)
"""Checks that an example must pass to be read as a graph."""

_Mask = npt.NDArray[np.bool_]
_Sizes = npt.NDArray[np.int64]


def file_name(file: RecordFile) -> str:
    """Returns the name of a file in a `Place`."""
    return os.path.basename(file.path)


@dataclasses.dataclass(frozen=True)
class BatchChecker:
    """Checks many examples at once against a graph schema.

    As in TF-GNN, a set without `#size` is empty; the features of an empty set may be absent.

    Attributes:
        schema: the graph schema.
        layout: its tf.Example keys.
        required_sets: prefixes, such as "nodes/paper", of sets that must have items in every example.
        decisive: checks that an example must pass to be kept.
    """

    schema: graph_schema_pb2.GraphSchema
    layout: GraphLayout
    required_sets: tuple[str, ...] = ()
    decisive: frozenset[str] = READABLE

    @staticmethod
    def by(
        schema: graph_schema_pb2.GraphSchema,
        required_sets: Sequence[str] = (),
        decisive: frozenset[str] = READABLE,
    ) -> BatchChecker:
        """Makes the checker for a schema; `_readout` is required if the schema has it."""
        layout = graph_layout(schema)
        readouts = [prefix for prefix in (f"{const.NODES}/{READOUT_NODE_SET}",) if prefix in layout.set_by_prefix]
        unknown = sorted(set(required_sets) - set(layout.set_by_prefix))
        if unknown:
            raise ValueError(
                f"`required_sets` must be sets of the graph schema, as in 'nodes/paper'; got {unknown}. It has "
                f"{sorted(layout.set_by_prefix)}. {did_you_mean(unknown[0], layout.set_by_prefix)}"
            )
        return BatchChecker(schema, layout, tuple(sorted({*required_sets, *readouts})), decisive)

    def read(
        self, decoder: ExampleDecoder, first: int, records: Sequence[bytes], file: RecordFile, findings: Findings
    ) -> Iterator[ExampleBatch]:
        """Decodes and checks consecutive records, the first at position `first` of their file.

        Yields the examples that pass the decisive checks; adds the failed checks to `findings`.
        """
        decoded = decoder.decode(first, records)
        if len(decoded.undecodable):
            places = [
                Place(file=file_name(file), record=record, detail=f"{len(records[record - first])} other bytes")
                for record in decoded.undecodable[:MAX_PLACES].tolist()
            ]
            findings.at(NOT_AN_EXAMPLE, file.split).add(len(decoded.undecodable), places)
        for batch in decoded.batches:
            chosen = [records[number - first] for number in batch.numbers.tolist()]
            yield batch.keep(_BatchCheck(self, batch, chosen, file, findings).run())


class _BatchCheck:
    """Holds what the checks of one batch share."""

    def __init__(
        self,
        checker: BatchChecker,
        batch: ExampleBatch,
        records: Sequence[bytes],
        file: RecordFile,
        findings: Findings,
    ) -> None:
        self._checker = checker
        self._batch = batch
        self._records = records
        self._file = file
        self._findings = findings
        self._is_good = np.ones(batch.num_examples, bool)

    def run(self) -> _Mask:
        layout = self._checker.layout
        for key in sorted(set(self._batch.columns) - set(layout.set_of_key)):
            column = self._batch.column(key)
            # A key without a kind is not counted if other examples have one: no reader sees it.
            has_key = column.is_present if column.kind else self._has_key(key, ~column.is_present)
            self._report(UNDECLARED_FEATURE, key, has_key, lambda _: "not in the graph schema")
        sizes = {one_set.prefix: self._sizes(one_set) for one_set in layout.sets}
        for prefix in self._checker.required_sets:
            is_empty = self._is_good & (sizes[prefix] == 0)
            self._report(MISSING_SET, prefix, is_empty, lambda _: "the set has no items")
        for one_set in layout.sets:
            if one_set.set_type == const.EDGES:
                for key, node_set in ((one_set.source_key, one_set.source), (one_set.target_key, one_set.target)):
                    self._check_ends(key, sizes[one_set.prefix], node_set, sizes[f"{const.NODES}/{node_set}"])
            declared = schema_features(self._checker.schema, one_set.prefix)
            for feature in one_set.features:
                column = self._check_column(feature, sizes[one_set.prefix])
                self._check_values(feature.key, column, tf.dtypes.as_dtype(declared[feature.name].dtype))
                node_sets = one_set.index_features.get(feature.name)
                if node_sets:
                    columns = [node_sets] if isinstance(node_sets, str) else list(node_sets)
                    limits = np.stack([sizes[f"{const.NODES}/{name}"] for name in columns], axis=1)
                    self._check_index_feature(feature.key, column, columns, limits)
        return self._is_good

    def _has_key(self, key: str, among: _Mask) -> _Mask:
        """Finds the examples that have a key, even without a kind, which Arrow does not show; bool [num_examples]."""
        has_key = np.zeros(self._batch.num_examples, bool)
        for row in np.flatnonzero(among):
            has_key[row] = key in tf.train.Example.FromString(self._records[row]).features.feature
        return has_key

    def _report(
        self,
        check: str,
        key: str,
        is_broken: _Mask,
        detail: Callable[[int], str],
        *,
        num_values: int = 0,
        num_by_kind: Mapping[str, int] | None = None,
    ) -> None:
        rows = np.flatnonzero(is_broken)
        if not len(rows):
            return
        places = [
            Place(file=file_name(self._file), record=int(self._batch.numbers[row]), detail=detail(int(row)))
            for row in rows[:MAX_PLACES]
        ]
        self._findings.at(check, self._file.split, key).add(len(rows), places, num_values, num_by_kind)
        if check in self._checker.decisive:
            self._is_good &= ~is_broken

    def _of_kind(self, key: str, kind: str) -> Column:
        """Returns the column of a key; reports values of another kind, and leaves them out."""
        column = self._batch.column(key)
        if column.kind in ("", kind):
            return column
        self._report(WRONG_KIND, key, column.lengths > 0, lambda _: f"{column.kind} instead of {kind}")
        bare = ExampleBatch(numbers=self._batch.numbers, columns={}).column(key)
        return dataclasses.replace(bare, is_present=column.is_present)

    def _sizes(self, one_set: SetLayout) -> _Sizes:
        """Returns the number of items, int64 [num_examples]; 0 if the size is broken."""
        if one_set.set_type == const.CONTEXT:
            return np.ones(self._batch.num_examples, np.int64)
        column = self._of_kind(one_set.size_key, INTS)
        lengths = column.lengths
        sizes = np.zeros(self._batch.num_examples, np.int64)
        has_size = lengths == 1
        sizes[has_size] = column.numbers[column.splits[:-1][has_size]]
        self._report(
            WRONG_SIZE,
            one_set.size_key,
            (lengths > 1) | (sizes < 0),
            lambda row: f"{column.numbers[column.splits[row] : column.splits[row + 1]][:5].tolist()}",
        )
        others = [*one_set.structure_keys, *(feature.key for feature in one_set.features)]
        num_others = np.sum([self._batch.column(key).lengths for key in others], axis=0)
        self._report(
            WRONG_SIZE,
            one_set.size_key,
            (lengths == 0) & (num_others > 0),
            lambda row: f"no size, but {num_others[row]} values of the set",
        )
        return np.where(has_size & (sizes > 0), sizes, 0)

    def _check_ends(self, key: str, num_edges: _Sizes, node_set: str, num_nodes: _Sizes) -> None:
        column = self._of_kind(key, INTS)
        lengths = column.lengths
        self._report(
            WRONG_NUMBER_OF_VALUES,
            key,
            self._is_good & (lengths != num_edges),
            lambda row: f"{lengths[row]} values for {num_edges[row]} edges",
        )
        owners, index = column.owners(), column.numbers
        dangles = ((index < 0) | (index >= num_nodes[owners])) & self._is_good[owners]
        if dangles.any():

            def detail(row: int) -> str:
                first = int(index[dangles & (owners == row)][0])
                return f"index {first} with {num_nodes[row]} nodes in node set {node_set!r}"

            is_broken = np.zeros(self._batch.num_examples, bool)
            is_broken[owners[dangles]] = True
            self._report(DANGLING_EDGE, key, is_broken, detail, num_values=int(dangles.sum()))

    def _check_index_feature(self, key: str, column: Column, node_sets: Sequence[str], num_nodes: _Sizes) -> None:
        """Checks values whose columns refer to `node_sets`; `num_nodes` is int64 [num_examples, num_columns]."""
        owners, index = column.owners(), column.numbers
        place = (np.arange(len(index)) - column.splits[owners]) % len(node_sets)
        dangles = ((index < NO_NODE) | (index >= num_nodes[owners, place])) & self._is_good[owners]
        if dangles.any():

            def detail(row: int) -> str:
                first = np.flatnonzero(dangles & (owners == row))[0]
                of_column = num_nodes[row, place[first]]
                return f"index {index[first]} with {of_column} nodes in node set {node_sets[int(place[first])]!r}"

            is_broken = np.zeros(self._batch.num_examples, bool)
            is_broken[owners[dangles]] = True
            self._report(DANGLING_INDEX, key, is_broken, detail, num_values=int(dangles.sum()))

    def _check_column(self, feature: FeatureColumn, sizes: _Sizes) -> Column:
        key = feature.key
        column = self._of_kind(key, KIND_OF_DTYPE[feature.dtype])
        is_missing = self._is_good & (sizes > 0) & ~column.is_present
        is_missing &= ~self._has_key(key, is_missing)
        self._report(MISSING_FEATURE, key, is_missing, lambda row: f"absent although there are {sizes[row]} items")
        rows = sizes
        for axis, size in enumerate(feature.shape):
            if size is not None:
                rows = rows * size
                continue
            rows = self._check_row_lengths(feature.row_length_keys[axis], rows)
        lengths, expected, shape = column.lengths, rows, list(feature.shape)
        self._report(
            WRONG_NUMBER_OF_VALUES,
            key,
            self._is_good & (lengths != expected),
            lambda row: f"{lengths[row]} values instead of {expected[row]}, for {sizes[row]} items of shape {shape}",
        )
        return column

    def _check_row_lengths(self, key: str, rows: _Sizes) -> _Sizes:
        """Checks the lengths of a number of rows; returns the sum of the lengths, int64 [num_examples]."""
        column = self._of_kind(key, INTS)
        lengths, values = column.lengths, column.numbers
        is_negative = np.zeros(self._batch.num_examples, bool)
        is_negative[column.owners()[values < 0]] = True
        self._report(
            WRONG_ROW_LENGTHS,
            key,
            self._is_good & ((lengths != rows) | is_negative),
            lambda row: (
                f"{lengths[row]} lengths {values[column.splits[row] : column.splits[row + 1]][:5].tolist()} "
                f"for {rows[row]} rows"
            ),
        )
        totals = np.concatenate([[0], np.cumsum(values)]) if len(values) else np.zeros(1, np.int64)
        return np.diff(totals[column.splits]) if len(values) else np.zeros(self._batch.num_examples, np.int64)

    def _check_values(self, key: str, column: Column, dtype: tf.DType) -> None:
        if column.kind == FLOATS:
            self._report_values(NOT_FINITE, key, column, ~np.isfinite(column.numbers))
        elif column.kind == INTS and dtype.size < tf.int64.size:
            lowest, highest = (0, 1) if dtype == tf.bool else (dtype.min, dtype.max)
            is_wrong = (column.numbers < lowest) | (column.numbers > highest)
            self._report_values(OUT_OF_DTYPE, key, column, is_wrong)

    def _report_values(self, check: str, key: str, column: Column, is_wrong: _Mask) -> None:
        if not is_wrong.any():
            return
        owners, numbers = column.owners(), column.numbers
        is_broken = np.zeros(self._batch.num_examples, bool)
        is_broken[owners[is_wrong]] = True
        counts: dict[str, int] = {}
        if check == NOT_FINITE:
            masks = {"NaN": np.isnan(numbers), "inf": np.isposinf(numbers), "-inf": np.isneginf(numbers)}
            counts = {kind: int(is_of_kind.sum()) for kind, is_of_kind in masks.items()}
        self._report(
            check,
            key,
            is_broken,
            lambda row: f"value {numbers[is_wrong & (owners == row)][0]}{self._item_of(key, column, is_wrong, row)}",
            num_values=int(is_wrong.sum()),
            num_by_kind={kind: count for kind, count in counts.items() if count},
        )

    def _item_of(self, key: str, column: Column, is_wrong: _Mask, row: int) -> str:
        """Returns the original id of the item with an example's first wrong value, if it has one."""
        one_set = self._checker.layout.owner_of(key)
        ids = one_set.id_column
        feature = next(feature for feature in one_set.features if feature.key == key)
        if ids is None or feature.is_ragged:
            return ""
        begin = int(column.splits[row])
        place = int(np.flatnonzero(is_wrong[begin : int(column.splits[row + 1])])[0])
        number = place // int(np.prod([size or 0 for size in feature.shape], dtype=np.int64))
        item_id = describe_item_id(self._records[row], ids.key, number)
        return f" of item {item_id}" if item_id else ""
