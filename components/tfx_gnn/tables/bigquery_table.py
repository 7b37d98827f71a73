"""Tables in BigQuery, read through Beam's own connector.

BigQuery's rows have no order and no numbers, but an edge is identified by its row: the choice of
edges and the feature `#id` depend on it. So each row is given a number: the value of the integer
column that the schema declares as feature `#id` of the edge set, or else a hash of the columns
that were read. Rows that are equal in all columns get different numbers derived from their hash;
they are indistinguishable, so it does not matter which row gets which number. A table gives the
same numbers however it is read, as long as the same columns are declared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import BigQuery
from tfx_gnn.tables.column_types import is_list, list_lengths
from tfx_gnn.tables.row_rules import RowRules, show_value
from tfx_gnn.tables.table_files import TableBlock, TableUnit, type_block
from tfx_gnn.tables.table_format import MAX_BLOCK_ROWS, RawBlock, TableFormat
from tfx_gnn.tables.table_layout import ID_FEATURE, TableLayout

if TYPE_CHECKING:
    import apache_beam as beam

_ROWS_AT_ONCE = 8192
_NUM_NUMBERS = (1 << 63) - 1  # all non-negative int64 values but the largest
_SEPARATOR = "\x1f"
_COLLECT = RowRules(invalid_rows="drop", max_dropped_share=1.0)
_PROBLEMS = "problems"

Row = Mapping[str, Any]


class BigQueryFormat(TableFormat):
    """Rows of a BigQuery table or query; only `bigquery_blocks` reads them."""

    missing_value = "NULL"

    def list_units(self, path: str) -> tuple[int, ...]:
        """Raises, because only Beam's connector reads BigQuery; see `TableFormat`."""
        raise self._refusal()

    def column_names(self, path: str) -> Sequence[str]:
        """Raises, as `list_units` does; see `TableFormat`."""
        raise self._refusal()

    def read_raw_blocks(self, path: str, unit: int, column_names: Sequence[str]) -> Iterator[RawBlock]:
        """Raises, as `list_units` does; see `TableFormat`."""
        raise self._refusal()

    def _refusal(self) -> ValueError:
        return ValueError(
            "`metadata.bigquery` must be read on Beam; got a reader of files or of tables in memory for "
            f"{self.layout.label}, {bigquery_unit(self.layout).path}. Run the stage on Beam, or export the table "
            "(EXPORT DATA, as Parquet) and name the files in `metadata.filename`."
        )


def bigquery_unit(layout: TableLayout) -> TableUnit:
    """Makes the only unit of a BigQuery table, named "<project>:<dataset>.<table>" or by the start of the query."""
    arguments = _source_arguments(layout)
    return TableUnit(path=arguments.get("table") or show_value(" ".join(arguments["query"].split())), part=0, index=0)


def bigquery_blocks(
    pipeline: beam.Pipeline,
    layout: TableLayout,
    rules: RowRules | None = None,
    *,
    gcs_location: str = "",
    num_partitions: int = 64,
) -> beam.PCollection[TableBlock]:
    """Reads a BigQuery table as blocks of typed columns, under the same rules as other tables.

    A query is in BigQuery's standard SQL, unless it begins with "#legacySQL". `gcs_location` is where the read method
    EXPORT writes, by default the pipeline's `temp_location`. A worker holds one of `num_partitions` partitions of the
    table at a time; the results do not depend on their number.

    Blocks are like those of `read_unit`, in no particular order, all of unit 0. `rows` holds the numbers of the rows
    (see this module), ascending in a block and unique over all blocks; an edge column `#id` is turned into these
    numbers. Problems come in blocks without rows; the `value` of a problem includes its row.
    """
    import apache_beam as beam

    arguments = _source_arguments(layout)
    if gcs_location and arguments["method"] == "EXPORT":
        arguments["gcs_location"] = gcs_location
    steps = _Steps(layout, rules or RowRules(), num_partitions)
    rows = pipeline | f"Read {layout.label}" >> beam.io.ReadFromBigQuery(**arguments)
    if layout.bigquery is not None and layout.bigquery.reshuffle:
        rows = rows | f"Reshuffle {layout.label}" >> beam.Reshuffle()
    typed = (
        rows
        | f"Batch {layout.label}" >> beam.BatchElements(min_batch_size=256, max_batch_size=_ROWS_AT_ONCE)
        | f"Type {layout.label}" >> beam.FlatMap(steps.type_rows).with_outputs(_PROBLEMS, main="parts")
    )
    numbered = (
        typed["parts"]
        | f"Group {layout.label}" >> beam.GroupByKey()
        | f"Number {layout.label}" >> beam.FlatMap(steps.number_rows)
    )
    blocks: beam.PCollection[TableBlock] = (numbered, typed[_PROBLEMS]) | f"Join {layout.label}" >> beam.Flatten()
    return blocks


def _source_arguments(layout: TableLayout) -> dict[str, Any]:
    """Returns the arguments of Beam's connector."""
    source = layout.bigquery
    kind = source.WhichOneof("source") if source is not None else None
    if source is None or kind is None:
        raise ValueError(
            f"`metadata.bigquery` must have a table_spec or sql; got neither for {layout.label}. Add one of the two."
        )
    method = "DIRECT_READ" if source.read_method == BigQuery.DIRECT_READ else "EXPORT"
    if kind == "sql":
        if not source.sql.strip():
            raise ValueError(f"`sql` must be a query; got {source.sql!r} for {layout.label}. Write one.")
        is_legacy = source.sql.lstrip().lower().startswith("#legacysql")
        return {"method": method, "query": source.sql, "use_standard_sql": not is_legacy, "flatten_results": False}
    spec = source.table_spec
    for field in ("dataset", "table"):
        if not getattr(spec, field):
            raise ValueError(f"`table_spec` must name a {field}; got none for {layout.label}. Add it.")
    project = f"{spec.project}:" if spec.project else ""
    arguments: dict[str, Any] = {"method": method, "table": f"{project}{spec.dataset}.{spec.table}"}
    if method == "DIRECT_READ":
        arguments["selected_fields"] = sorted(_file_columns(layout))
    return arguments


def _file_columns(layout: TableLayout) -> set[str]:
    return {column.name for column in layout.columns.values() if not column.packed_in} | set(layout.decoders)


@dataclasses.dataclass(frozen=True)
class _Steps:
    """The steps of the pipeline for the rows of one table."""

    layout: TableLayout
    rules: RowRules
    num_partitions: int

    def type_rows(self, rows: Sequence[Row]) -> Iterator[Any]:
        """Converts rows to typed columns, partitioned by row number."""
        from apache_beam import pvalue

        unit = bigquery_unit(self.layout)
        names = {key: column.name for key, column in self.layout.columns.items() if not column.packed_in}
        names.update({packed: packed for packed in self.layout.decoders})
        columns = _file_columns(self.layout)
        _check_columns(columns, rows[0], unit.path)
        raw = RawBlock(
            columns=pa.RecordBatch.from_pydict({name: _array(rows, name) for name in sorted(columns)}),
            rows=np.arange(len(rows)),
            num_rows_read=len(rows),
        )
        block = type_block(self.layout, unit, _COLLECT, reader=BigQueryFormat(self.layout), raw=raw, names=names)
        if block.problems:
            bad = _describe_problems(block, rows)
            if self.rules.invalid_rows == "refuse":
                raise ValueError(bad.problems[0].message)
            yield pvalue.TaggedOutput(_PROBLEMS, bad)
        typed = dict(block.columns)
        numbers = self._declared_numbers(typed, unit) if self.layout.kind == "edge" and ID_FEATURE in typed else None
        if numbers is None:
            numbers = hash_rows(typed)
        partitions = numbers % self.num_partitions
        for partition in np.unique(partitions).tolist():
            chosen = np.flatnonzero(partitions == partition)
            yield partition, (numbers[chosen], {key: array.take(pa.array(chosen)) for key, array in typed.items()})

    def number_rows(
        self, element: tuple[int, Iterable[tuple[npt.NDArray[np.int64], Mapping[str, pa.Array]]]]
    ) -> Iterator[TableBlock]:
        """Assigns different numbers to equal rows, and makes blocks in the order of the numbers."""
        parts = list(element[1])
        numbers = np.concatenate([part[0] for part in parts])
        columns = {key: pa.concat_arrays([part[1][key] for part in parts]) for key in parts[0][1]}
        if self.layout.kind == "edge" and ID_FEATURE in columns:
            _check_unique(numbers, bigquery_unit(self.layout).path)
            del columns[ID_FEATURE]
        else:
            numbers = _part_twins(numbers)
        order = np.argsort(numbers, kind="stable")
        for start in range(0, len(order), MAX_BLOCK_ROWS):
            chosen = order[start : start + MAX_BLOCK_ROWS]
            yield TableBlock(
                columns={key: array.take(pa.array(chosen)) for key, array in columns.items()},
                unit=0,
                rows=numbers[chosen],
                num_rows_read=len(chosen),
            )

    def _declared_numbers(self, columns: Mapping[str, pa.Array], unit: TableUnit) -> npt.NDArray[np.int64]:
        numbers = np.asarray(columns[ID_FEATURE].to_numpy(zero_copy_only=False), np.int64)
        if len(numbers) and numbers.min() < 0:
            raise ValueError(
                f"`{self.layout.columns[ID_FEATURE].name}` must be at least 0 in an edge table; got {numbers.min()} "
                f"in {unit.path}. Number the edges from 0, or do not declare the feature."
            )
        return numbers


def hash_rows(columns: Mapping[str, pa.Array]) -> npt.NDArray[np.int64]:
    """Hashes the rows of typed columns without nulls, to values in [0, 2**63 - 1).

    Rows with the same values under the same keys have the same hash on every machine.
    """
    texts = [_unambiguous(columns[key]) for key in sorted(columns)]
    joined = pc.binary_join_element_wise(*texts, pa.scalar(_SEPARATOR, pa.large_string()))
    return _fingerprints(joined.cast(pa.large_binary()).to_numpy(zero_copy_only=False))


def _fingerprints(texts: npt.NDArray[np.object_]) -> npt.NDArray[np.int64]:
    if not len(texts):
        return np.empty(0, np.int64)
    return np.asarray(tf.strings.to_hash_bucket_fast(tf.constant(texts, tf.string), _NUM_NUMBERS).numpy(), np.int64)


def _unambiguous(array: pa.Array) -> pa.Array:
    """Formats values as large_string, one-to-one."""
    text = pa.large_string()
    if is_list(array.type):
        lengths = list_lengths(array)
        offsets = pa.array(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))
        lists = pa.LargeListArray.from_arrays(offsets, _unambiguous(array.flatten()))
        spelled = pc.binary_join(lists, pa.scalar(",", text))
        return pc.binary_join_element_wise(pa.array(lengths).cast(text), spelled, pa.scalar("*", text))
    if pa.types.is_floating(array.type):
        values = np.asarray(array.to_numpy(zero_copy_only=False))
        return pa.array(values.view(f"i{values.itemsize}")).cast(text)
    if pa.types.is_large_string(array.type):
        return pc.binary_join_element_wise(pc.binary_length(array).cast(text), array, pa.scalar(":", text))
    return array.cast(text)


def _part_twins(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Makes numbers unique by replacing all but one of equal numbers."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    occurrences = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))
    repeated = np.flatnonzero(occurrences)
    if not len(repeated):
        return numbers
    # Hashes of the shared number and the count, so that no other row changes them.
    texts = [f"{ordered[i]}/{occurrences[i]}".encode() for i in repeated.tolist()]
    parted = numbers.copy()
    parted[order[repeated]] = _fingerprints(np.array(texts, object))
    return parted


def _check_unique(numbers: npt.NDArray[np.int64], path: str) -> None:
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) != len(numbers):
        raise ValueError(
            f"`{ID_FEATURE}` must be different for every edge; got {values[counts > 1][0]} {counts.max()} times in "
            f"{path}. Number the edges, or do not declare the feature."
        )


def _check_columns(names: Iterable[str], row: Row, path: str) -> None:
    for name in sorted(names):
        if name not in row:
            raise ValueError(
                f"`{name}` must be one column of the table; got none among {sorted(row)} in {path}. "
                "Correct the names in the table or query, or in the graph schema."
            )


def _array(rows: Sequence[Row], name: str) -> pa.Array:
    """Makes a column from Python values of BigQuery's types; mixed types become text."""
    values = [row.get(name) for row in rows]
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else _spell(value) for value in values])


def _spell(value: Any) -> Any:
    return [_spell(item) for item in value] if isinstance(value, list) else str(value)


def _describe_problems(block: TableBlock, rows: Sequence[Row]) -> TableBlock:
    """Adds the rows to their problems, because a BigQuery row cannot be found by its number."""
    texts = [show_value(dict(rows[problem.row])) for problem in block.problems]
    numbers = _fingerprints(np.array([text.encode() for text in texts], object)).tolist()
    problems = sorted(
        (
            dataclasses.replace(problem, row=number, value=f"{problem.value} in the row {text}")
            for problem, text, number in zip(block.problems, texts, numbers, strict=True)
        ),
        key=lambda problem: problem.row,
    )
    return TableBlock(
        columns={key: pa.array([], array.type) for key, array in block.columns.items()},
        unit=block.unit,
        rows=np.empty(0, np.int64),
        num_rows_read=len(problems),
        problems=tuple(problems),
    )
