"""Decides what rows without a value stand for, so that a model can tell them from those with one."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import Feature, GraphSchema
from tfx_gnn.graph.schema.feature_defaults import DEFAULT_KEY
from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn.tables.table_names import says_code
from tfx_gnn_pipelines.proposals.preparations import is_read_by_words
from tfx_gnn_pipelines.proposals.tables import SetTable, declared_set

_ENOUGH_ROWS = 20
"""So many rows without a value are told apart from the mean, however large the table is."""
_LEAST_ROWS = 5
"""So many are, too, if they are at least a `_LEAST_SHARE` of the rows; of fewer, a model learns nothing."""
_LEAST_SHARE = 0.01
_DISTANCE = 1_000
"""What stands for no number is so many times as large as the largest number, for numbers that come later."""
_NO_TEXT = "<no value>"
"""A word of its own, because vocabularies of tf.Transform pass over empty texts."""
_NO_VECTOR = -(2**60)
"""Stands for no list of floats, of which the values are not known here."""
_MOST_BITS_OF_INTEGERS = 62
_MOST_BITS_OF_FLOATS = 126
_NOTE = re.compile(r"Rows without a value: (\d+) of (\d+); declare .*? under the key \".*?\"\.(?= |$)", re.DOTALL)
_NEVER = 253_402_300_799
"""The last second of the year 9999: no seed is later."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StandIn:
    """What a column has where it has no value.

    Attributes:
        default: the value, as the schema spells it.
        meaning: what it stands for, to be read after "they stand for".
        missing_value: the same as a number that no row has, where features can tell it apart.
        dtype: type that holds it, if not that of the column.
    """

    default: str
    meaning: str
    missing_value: int | None = None
    dtype: tf.DType | None = None


_NO_WORD = _StandIn(default=_NO_TEXT, meaning=f"{_NO_TEXT!r}, a word of its own")
_EMPTY = _StandIn(default="", meaning="an empty text, which has no words")
_FALSE = _StandIn(default="false", meaning="false")


def fill_in(
    schema: GraphSchema,
    tables: Mapping[str, SetTable],
    *,
    label: tuple[str, str],
    times: Mapping[str, Sequence[str]],
    row_times: Mapping[str, str],
) -> dict[tuple[str, str], int]:
    """Declares what rows without a value stand for.

    A text is a word of its own. A number is one that no row has if many have none, and the mean otherwise. A time is
    later than all seeds, so that it says nothing yet; that of the row itself is the latest.

    Args:
        schema: schema that was inferred; gets the defaults.
        tables: the tables by label, such as "nodes/user".
        label: set as in "nodes/user", and feature, that is predicted; its empty rows are not.
        times: by set, features that hold times.
        row_times: by set, the feature with the times of its rows.

    Returns:
        By set and feature, the number that stands for no value.
    """
    missing_values: dict[tuple[str, str], int] = {}
    for table in tables.values():
        prefix = table.layout.label
        declared = declared_set(schema, table.layout)
        for name, feature in declared.features.items():
            found = _NOTE.match(feature.description)
            if found is None:
                continue
            num_missing, num_rows = int(found[1]), int(found[2])
            if name == row_times.get(prefix):
                latest = str(pc.max(table.values_of(name).values.cast(pa.int64())).as_py())
                stand_in = _StandIn(default=latest, meaning="the latest, which hides them from earlier seeds")
            elif name in times.get(prefix, ()):
                stand_in = _StandIn(default=str(_NEVER), meaning="a time after all seeds")
            else:
                is_many = num_missing >= _ENOUGH_ROWS or num_missing >= max(_LEAST_ROWS, _LEAST_SHARE * num_rows)
                stand_in = _stand_in(name, feature, table, is_marked=is_many and (prefix, name) != label)
            declared.metadata.extra.add(key=f"{DEFAULT_KEY}{name}", value=stand_in.default)
            if stand_in.dtype is not None:
                feature.dtype = stand_in.dtype.as_datatype_enum
            if stand_in.missing_value is not None:
                missing_values[prefix, name] = stand_in.missing_value
            becomes = "they are not predicted" if (prefix, name) == label else f"they stand for {stand_in.meaning}"
            feature.description = (
                f"Rows without a value: {num_missing} of {num_rows}; {becomes}.{feature.description[found.end() :]}"
            )
    return missing_values


def _stand_in(name: str, feature: Feature, table: SetTable, *, is_marked: bool) -> _StandIn:
    """Decides it for a column that holds no times; `is_marked` says whether a number shall be told from the mean."""
    dtype, values = tf.dtypes.as_dtype(feature.dtype), table.values_of(name)
    if feature.shape.dim:
        return _stand_in_of_list(dtype, [dim.size for dim in feature.shape.dim], is_marked=is_marked)
    if dtype == tf.string:
        return _EMPTY if is_read_by_words(values) else _NO_WORD
    if dtype == tf.bool:
        return _stand_in_of_truth(is_cell=table.layout.format == "csv") if is_marked else _FALSE
    is_code = dtype.is_integer and says_code(name)
    far = _far_number(values, dtype) if is_code or is_marked else None
    if far is not None:
        return _StandIn(
            default=str(far),
            meaning=f"{far}, {'a code of its own' if is_code else 'which the feature marks'}",
            missing_value=None if is_code else far,
            dtype=tf.int64 if dtype.is_integer else None,
        )
    mean = values.mean()
    default = str(round(mean)) if dtype.is_integer else f"{mean:.6g}"
    return _StandIn(default=default, meaning=f"the mean, {default}")


def _stand_in_of_truth(*, is_cell: bool) -> _StandIn:
    """Takes truth values as integers; those of CSV files are spelled as no integer is, so as texts."""
    if is_cell:
        return dataclasses.replace(_NO_WORD, dtype=tf.string)
    return _StandIn(default="-1", meaning="-1, which the feature marks", missing_value=-1, dtype=tf.int64)


def _stand_in_of_list(dtype: tf.DType, sizes: Sequence[int], *, is_marked: bool) -> _StandIn:
    if -1 in sizes:
        return _StandIn(default="", meaning="an empty list")
    if dtype == tf.string:
        return _StandIn(default=_NO_TEXT, meaning=f"a list of {_NO_TEXT!r}")
    if dtype == tf.bool:
        return _StandIn(default="false", meaning="a list of false")
    if dtype.is_floating and is_marked:
        return _StandIn(
            default=str(_NO_VECTOR),
            meaning=f"a list of {_NO_VECTOR}, which the feature marks",
            missing_value=_NO_VECTOR,
        )
    return _StandIn(default="0", meaning="a list of zeros")


def _far_number(values: ColumnValues, dtype: tf.DType) -> int | None:
    """Finds a power of two, without its sign far above all numbers of a column; None if the type has none."""
    numbers = values.numbers()
    if numbers is None:
        return None
    # Infinity is no number that can be read.
    largest = float(pc.max(pc.abs(numbers.filter(pc.is_finite(numbers)))).as_py() or 0.0)
    # A float holds powers of two exactly.
    most = _MOST_BITS_OF_INTEGERS if dtype.is_integer else _MOST_BITS_OF_FLOATS
    bits = min(math.ceil(math.log2(_DISTANCE * max(largest, 1.0))), most)
    return -(2**bits) if 2.0**bits > largest else None
