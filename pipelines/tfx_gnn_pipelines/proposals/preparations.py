"""Chooses how a column becomes a feature, by its type and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow.compute as pc
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import Feature
from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn.tables.table_names import says_code

_MAX_VOCABULARY = 10_000
_FEW_TEXTS = 20
_SKEW = 100
"""Amounts are skewed if the largest is more than so many times the median, without their signs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preparation:
    """How a column becomes a feature.

    Attributes:
        kind: a kind of `features`, such as "z_score".
        options: other fields of it.
        reason: what in the data speaks for it; "" if only the type does.
    """

    kind: str
    options: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    reason: str = ""


def choose_preparation(name: str, feature: Feature, values: ColumnValues) -> Preparation:
    """Chooses how the values of a column become a feature; `name` is that of the column."""
    dtype = tf.dtypes.as_dtype(feature.dtype)
    is_whole = values.num_filled == values.num_rows
    # A missing text is a value of its own, a missing truth value stands for false, and a missing number for the mean.
    if values.num_distinct == 1 and (is_whole or dtype not in (tf.string, tf.bool)):
        filled = "" if is_whole else " that has a value"
        return Preparation(kind="drop", reason=f"every row{filled} has the same, {values.values[0].as_py()!r}")
    is_code = dtype.is_integer and not feature.shape.dim and says_code(name)
    if dtype == tf.string or is_code:
        return _word_preparation(values, "code" if is_code else "text")
    if any(dim.size < 0 for dim in feature.shape.dim):
        return Preparation(kind="vocabulary" if dtype.is_integer else "drop", reason="lists of different lengths")
    if feature.shape.dim:
        return Preparation(kind="z_score")
    if dtype == tf.bool or (dtype.is_integer and {"-1", "0", "1"}.issuperset(values.values.to_pylist() or ["?"])):
        return Preparation(kind="number")
    return _number_preparation(values)


def _word_preparation(values: ColumnValues, word: str) -> Preparation:
    if values.num_distinct > _FEW_TEXTS and 2 * values.num_distinct > values.num_counted:
        return Preparation(kind="drop", reason=f"most rows have a {word} of their own")
    options = {"top_k": _MAX_VOCABULARY} if values.num_distinct > _MAX_VOCABULARY else {}
    reason = f"{values.num_distinct:,} different {word}s" if values.num_distinct else ""
    return Preparation(kind="vocabulary", options=options, reason=reason)


def _number_preparation(values: ColumnValues) -> Preparation:
    """Takes the logarithm of numbers of which a few are far larger than most, in either direction."""
    numbers = values.numbers()
    if numbers is not None:
        least, greatest = pc.min(numbers).as_py(), pc.max(numbers).as_py()
        if max(-least, greatest) > _SKEW * (values.median_size() or 1.0):
            return Preparation(kind="log1p_z_score", reason=f"from {least:,.6g} to {greatest:,.6g}, most of them small")
    return Preparation(kind="z_score")
