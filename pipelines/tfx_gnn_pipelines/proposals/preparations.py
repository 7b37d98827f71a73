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
_MOST_TEXTS = 20_000
"""Texts whose words are counted."""
_LEAST_WORDS = 2
"""Words of a text on average, below which it is a name or a code."""
_LEAST_SHARE_OF_WORDS = 0.5
"""Share of words that must occur in several texts for a model to learn from them."""
_UNSCALED = frozenset({"-1", "0", "1", "false", "true"})
_LEAST_CODE = 100
_YEARS = 1800, 2100
_LEAST_SHARE_OF_RANGE = 0.5
"""Share of the integers of a range that must occur for them to look like codes."""
_SKEW = 100
"""Amounts are skewed if the largest is more than so many times the median, without their signs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preparation:
    """How a column becomes a feature.

    Attributes:
        kind: a kind of `features`, such as "z_score".
        options: other fields of it.
        reason: what in the data speaks for it; "" if only the type does.
        doubt: what in the data speaks against it; "" if nothing does.
    """

    kind: str
    options: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    reason: str = ""
    doubt: str = ""


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


def is_read_by_words(texts: ColumnValues) -> bool:
    """Whether most rows have a text of their own, of several words that occur in other rows, too."""
    return _are_own(texts) and not _words_of(texts).reason_against


def _are_own(values: ColumnValues) -> bool:
    return values.num_distinct > _FEW_TEXTS and 2 * values.num_distinct > values.num_counted


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Words:
    """The words of a column of texts.

    Attributes:
        mean_number: words of a text, on average.
        share_shared: share of all words that occur in several of the texts.
    """

    mean_number: float
    share_shared: float

    @property
    def reason_against(self) -> str:
        """Why a model learns nothing from them; "" if it may."""
        if self.mean_number < _LEAST_WORDS:
            return "most rows have a text of their own"
        if self.share_shared < _LEAST_SHARE_OF_WORDS:
            return "most rows have a text of their own, whose words occur in no other one"
        return ""


def _words_of(texts: ColumnValues) -> _Words:
    some = pc.utf8_lower(texts.values[:_MOST_TEXTS])
    words = pc.list_flatten(pc.split_pattern_regex(some, r"[^\pL\pM\pN]+"))
    counts = pc.value_counts(words.filter(pc.not_equal(words, ""))).field("counts")
    num_words = pc.sum(counts).as_py() or 0
    num_shared = pc.sum(counts.filter(pc.greater(counts, 1))).as_py() or 0
    return _Words(mean_number=num_words / len(some), share_shared=num_shared / max(num_words, 1))


def _word_preparation(values: ColumnValues, word: str) -> Preparation:
    if _are_own(values):
        if word == "code":
            return Preparation(kind="drop", reason="most rows have a code of their own")
        words = _words_of(values)
        if words.reason_against:
            return Preparation(kind="drop", reason=words.reason_against)
        return Preparation(kind="text", reason=f"{words.mean_number:.1f} words on average")
    options = {"top_k": _MAX_VOCABULARY} if values.num_distinct > _MAX_VOCABULARY else {}
    reason = f"{values.num_distinct:,} different {word}s" if values.num_distinct else ""
    return Preparation(kind="vocabulary", options=options, reason=reason)


def _number_preparation(values: ColumnValues, dtype: tf.DType) -> Preparation:
    """Takes the logarithm of numbers of which a few are far larger than most, in either direction."""
    # Truth values with gaps are declared as integers.
    if dtype == tf.bool or (dtype.is_integer and _UNSCALED.issuperset(values.values.to_pylist() or ["?"])):
        return Preparation(kind="number")
    numbers = values.numbers()
    # Infinity is refused where the table is read.
    numbers = None if numbers is None else numbers.filter(pc.is_finite(numbers))
    if numbers:
        least, greatest = pc.min(numbers).as_py(), pc.max(numbers).as_py()
        if max(-least, greatest) > _SKEW * (values.median_size() or 1.0):
            return Preparation(kind="log1p_z_score", reason=f"from {least:,.6g} to {greatest:,.6g}, most of them small")
        if dtype.is_integer and _may_be_codes(values, int(least), int(greatest)):
            doubt = f"{values.num_distinct:,} different integers from {int(least)} to {int(greatest)}, as codes are"
            return Preparation(kind="z_score", doubt=doubt)
    return Preparation(kind="z_score")


def _may_be_codes(values: ColumnValues, least: int, greatest: int) -> bool:
    """Whether integers look as if things had been numbered: from 100 or so on, nearly all of a range, and repeated."""
    return (
        least >= _LEAST_CODE
        and not _YEARS[0] <= least <= greatest <= _YEARS[1]
        and len(str(least)) == len(str(greatest))
        and _FEW_TEXTS < values.num_distinct <= values.num_counted / 2
        and values.num_distinct > _LEAST_SHARE_OF_RANGE * (greatest - least + 1)
    )
