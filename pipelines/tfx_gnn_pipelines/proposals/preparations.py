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
_UNSCALED = frozenset({"-1", "0", "1", "false", "true"})
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


def choose_preparation(
    name: str, feature: Feature, values: ColumnValues, *, missing_value: int | None = None
) -> Preparation:
    """Chooses how the values of a column become a feature.

    Args:
        name: that of the column.
        feature: its type and shape.
        values: its values, without those that are missing.
        missing_value: the number that stands for no value, if features can tell it apart.

    Returns:
        The preparation.
    """
    dtype = tf.dtypes.as_dtype(feature.dtype)
    is_whole = values.num_filled == values.num_rows
    is_code = dtype.is_integer and not feature.shape.dim and says_code(name)
    # A missing text or code is a value of its own, a missing truth value stands for false.
    is_told = is_code or missing_value is not None or dtype in (tf.string, tf.bool)
    if values.num_distinct == 1 and (is_whole or not is_told):
        filled = "" if is_whole else " that has a value"
        return Preparation(kind="drop", reason=f"every row{filled} has the same, {values.values[0].as_py()!r}")
    if dtype == tf.string or is_code:
        return _word_preparation(values, "code" if is_code else "text")
    if any(dim.size < 0 for dim in feature.shape.dim):
        return Preparation(kind="vocabulary" if dtype.is_integer else "drop", reason="lists of different lengths")
    made = Preparation(kind="z_score") if feature.shape.dim else _number_preparation(values, dtype)
    if missing_value is None:
        return made
    return dataclasses.replace(made, options={**made.options, "missing_value": missing_value})


def _word_preparation(values: ColumnValues, word: str) -> Preparation:
    if values.num_distinct > _FEW_TEXTS and 2 * values.num_distinct > values.num_counted:
        return Preparation(kind="drop", reason=f"most rows have a {word} of their own")
    options = {"top_k": _MAX_VOCABULARY} if values.num_distinct > _MAX_VOCABULARY else {}
    reason = f"{values.num_distinct:,} different {word}s" if values.num_distinct else ""
    return Preparation(kind="vocabulary", options=options, reason=reason)


def _number_preparation(values: ColumnValues, dtype: tf.DType) -> Preparation:
    """Takes the logarithm of numbers of which a few are far larger than most, in either direction."""
    # Truth values with gaps are declared as integers.
    if dtype == tf.bool or (dtype.is_integer and _UNSCALED.issuperset(values.values.to_pylist() or ["?"])):
        return Preparation(kind="number")
    numbers = values.numbers()
    if numbers is not None:
        least, greatest = pc.min(numbers).as_py(), pc.max(numbers).as_py()
        if max(-least, greatest) > _SKEW * (values.median_size() or 1.0):
            return Preparation(kind="log1p_z_score", reason=f"from {least:,.6g} to {greatest:,.6g}, most of them small")
    return Preparation(kind="z_score")
