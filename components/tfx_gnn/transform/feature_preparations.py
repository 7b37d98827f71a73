"""How columns become features without code: the declarations under `features` of a project file.

    features:
      nodes/user: {age: z_score, country: vocabulary, tags: {kind: vocabulary, top_k: 1000}}
      edges/purchase: {amount: log1p_z_score, comment: drop}
      nodes/product: {own: {kind: vocabulary, column: "#id"}}

Imports no TensorFlow, so that options load fast.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from tfx_gnn.io.option_kinds import register_kinds

NUMBERS = ("int64", "float32")
CATEGORIES = ("int64", "string")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeaturePreparation:
    """How one column becomes a feature; in YAML the name of a kind is enough where it needs no fields.

    Attributes:
        column: the column, if the feature has another name: `#id`, to learn something of each node by itself, or one
            that becomes several features. Empty: the column has the feature's name.
    """

    dtypes: ClassVar[tuple[str, ...]] = ("int64", "float32", "string")
    """Types of the columns that it takes."""

    takes_ragged: ClassVar[bool] = False
    """Whether items may have different numbers of values."""

    takes_vectors: ClassVar[bool] = True
    """Whether items may have several values."""

    column: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Keep(FeaturePreparation):
    """Keeps a column as it is: for integers that are indices already, and for code of yours that reads texts.

    Attributes:
        num_categories: number of categories of a column of indices, at least 2, which ready networks need: values in
            [0, num_categories) are embedded, and all others share one more row. 0: your code knows it.
    """

    takes_ragged: ClassVar[bool] = True

    num_categories: int = 0

    def __post_init__(self) -> None:
        if self.num_categories < 0 or self.num_categories == 1:
            raise ValueError(
                f"`num_categories` must be at least 2, or 0; got {self.num_categories}. Count the indices, 0 included."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drop(FeaturePreparation):
    """Leaves a column out."""

    takes_ragged: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumericPreparation(FeaturePreparation):
    """How numbers become numbers.

    Attributes:
        missing_value: what stands for no value in the column, such as -1; of vectors, in all places. It is no part of
            the statistics and becomes 0, and the feature has one more number, which is 1 for it and 0 otherwise.
            Left out: every value is a number.
    """

    dtypes: ClassVar[tuple[str, ...]] = NUMBERS

    missing_value: float | None = None

    def __post_init__(self) -> None:
        if self.missing_value is not None and not math.isfinite(self.missing_value):
            raise ValueError(
                f"`missing_value` must be a finite number; got {self.missing_value}. Write the value that the tables "
                "or the defaults of the graph schema have."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Number(NumericPreparation):
    """Takes numbers as they are, as floats: for 0 and 1, and for values that are scaled already."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZScore(NumericPreparation):
    """Subtracts the mean and divides by the standard deviation, for vectors dimension by dimension."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MinMax(NumericPreparation):
    """Maps the smallest value to 0 and the largest to 1, for vectors dimension by dimension."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Log1pZScore(NumericPreparation):
    """Takes sign(x) * log(1 + |x|), and then `z_score`: for amounts that span orders of magnitude."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Age(FeaturePreparation):
    """Replaces a time by how long before the seed it was, and where in the day and the week.

    A time after the seed's is not known yet when the model is asked, so that nothing but this is told of it. The
    feature is a vector of 7 floats: 1 for such a time, otherwise 0; log(1 + days) / 4 and log(1 + minutes) / 8 before
    the seed's time; sine and cosine of the time of day and of the week, in UTC. Only for plans that sample around nodes
    with times, or whose table of seeds has times.

    Attributes:
        seed_time: integer feature of the seed node set with the times of the seeds, in the unit of the column; or of
            the context, where a table of seeds has them among its `input_features`.
        units_per_day: how many units a day has; times of tables are in seconds.
    """

    dtypes: ClassVar[tuple[str, ...]] = ("int64",)
    takes_vectors: ClassVar[bool] = False

    seed_time: str
    units_per_day: int = 86_400

    def __post_init__(self) -> None:
        if self.units_per_day < 1:
            raise ValueError(f"`units_per_day` must be at least 1; got {self.units_per_day}. Seconds are 86400.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bucketize(FeaturePreparation):
    """Replaces a number by the index of its quantile, a category for the network to embed.

    Attributes:
        num_buckets: number of quantiles, at least 2.
    """

    dtypes: ClassVar[tuple[str, ...]] = NUMBERS
    takes_vectors: ClassVar[bool] = False

    num_buckets: int

    def __post_init__(self) -> None:
        if self.num_buckets < 2:
            raise ValueError(f"`num_buckets` must be at least 2; got {self.num_buckets}. 10 is usual.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vocabulary(FeaturePreparation):
    """Replaces texts or integers by their rank in a vocabulary, the most frequent value first, for embeddings.

    Attributes:
        top_k: number of values to keep, the most frequent ones; 0: all.
        frequency_threshold: values that occur fewer times are left out; 0: none.
        num_oov_buckets: categories after the vocabulary that all other values share, by hash; 0: they get -1.
        name: `vocab_filename` of the vocabulary; "": the key of the feature, such as "nodes.user.country", where
            characters that no file name of TensorFlow has are replaced.
    """

    dtypes: ClassVar[tuple[str, ...]] = CATEGORIES
    takes_ragged: ClassVar[bool] = True

    top_k: int = 0
    frequency_threshold: int = 0
    num_oov_buckets: int = 1
    name: str = ""

    def __post_init__(self) -> None:
        for field in ("top_k", "frequency_threshold", "num_oov_buckets"):
            if getattr(self, field) < 0:
                raise ValueError(f"`{field}` must be at least 0; got {getattr(self, field)}. Correct it.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hash(FeaturePreparation):
    """Replaces texts or integers by the number of a hash bucket, for values that are too many for a vocabulary.

    Attributes:
        num_buckets: number of buckets, at least 2.
    """

    dtypes: ClassVar[tuple[str, ...]] = CATEGORIES
    takes_ragged: ClassVar[bool] = True

    num_buckets: int

    def __post_init__(self) -> None:
        if self.num_buckets < 2:
            raise ValueError(f"`num_buckets` must be at least 2; got {self.num_buckets}. 1000 is usual.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text(FeaturePreparation):
    """Replaces a text by the ranks of its words, and of pairs of neighboring words, in a vocabulary; in lower case.

    A network embeds them as several categories of one item. Words that are rare in training are left out: a network
    would learn by heart which rows have them. So are words that training did not have; a text of none but these, as an
    empty one, has no categories.

    Attributes:
        top_k: number of words and pairs to keep, the most frequent ones; at least 1.
        frequency_threshold: those that occur fewer times are left out; 0: none.
        max_words: words of a text that are read, the first ones; at least 1.
    """

    dtypes: ClassVar[tuple[str, ...]] = ("string",)
    takes_vectors: ClassVar[bool] = False

    top_k: int = 2_000
    frequency_threshold: int = 8
    max_words: int = 100

    def __post_init__(self) -> None:
        for field, least in (("top_k", 1), ("frequency_threshold", 0), ("max_words", 1)):
            if getattr(self, field) < least:
                raise ValueError(f"`{field}` must be at least {least}; got {getattr(self, field)}. Correct it.")


PREPARATION_KINDS: dict[str, type[FeaturePreparation]] = {
    "age": Age,
    "bucketize": Bucketize,
    "drop": Drop,
    "hash": Hash,
    "keep": Keep,
    "log1p_z_score": Log1pZScore,
    "min_max": MinMax,
    "number": Number,
    "text": Text,
    "vocabulary": Vocabulary,
    "z_score": ZScore,
}
"""Every preparation by the name that YAML and JSON use for it."""

register_kinds(FeaturePreparation, PREPARATION_KINDS)

Features = dict[str, dict[str, FeaturePreparation]]
"""Preparations by set ("nodes/user", "edges/purchase", "context") and column."""


def kind_of(preparation: FeaturePreparation) -> str:
    """Returns the name of a preparation's kind.

    Example:
        >>> kind_of(ZScore())
        'z_score'
    """
    return next(name for name, kind in PREPARATION_KINDS.items() if kind is type(preparation))
