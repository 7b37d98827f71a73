"""GraphLearn's feature specs: how the attributes of a node or an edge are encoded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Union


class EncodingError(AssertionError, ValueError):
    """An attribute cannot be encoded in the given dimension.

    It is a ValueError; it is also an AssertionError because GraphLearn raises that.
    """


@dataclasses.dataclass(frozen=True, kw_only=True)
class DenseSpec:
    """A number that is used directly: one dimension."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparseSpec:
    """A category that is looked up in a table of embeddings.

    Attributes:
        bucket_size: number of rows of the table.
        dimension: width of an embedding.
        need_hash: whether values have yet to be hashed to buckets; if not, they are
            already buckets.
    """

    bucket_size: int
    dimension: int
    need_hash: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class DynamicSparseSpec:
    """A category without a known number of values.

    Attributes:
        dimension: width of an embedding.
        need_hash: whether the values are integers rather than strings.
    """

    dimension: int
    need_hash: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultivalSpec:
    """Several categories, whose embeddings are combined into one.

    Attributes:
        bucket_size: number of rows of the table of embeddings, to which strings are hashed.
        dimension: width of an embedding.
        delimiter: separator of the categories in a string.
    """

    bucket_size: int
    dimension: int
    delimiter: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class DynamicMultivalSpec:
    """Several categories without a known number of values.

    Attributes:
        dimension: width of an embedding.
        delimiter: separator of the categories in a string.
    """

    dimension: int
    delimiter: str


IntSpec = Union[DenseSpec, SparseSpec, DynamicSparseSpec]
StringSpec = Union[DynamicSparseSpec, MultivalSpec, DynamicMultivalSpec]


class FeatureSpec:
    """Encodings of attributes, by the type in which the attributes are stored.

    Attributes are appended in order; `int_specs`, `float_specs` and `string_specs` then
    describe the integer, float and string attributes, each in the order of the columns.
    """

    def __init__(self, feature_num: int, weighted: bool = False, labeled: bool = False) -> None:  # noqa: FBT001, FBT002 - GraphLearn's signature.
        """Starts without encodings.

        Args:
            feature_num: number of attributes that will be appended.
            weighted: whether the nodes or edges have weights.
            labeled: whether they have labels.
        """
        self.feature_num = feature_num
        self.weighted = weighted
        self.labeled = labeled
        self._int_specs: list[IntSpec] = []
        self._float_specs: list[DenseSpec] = []
        self._string_specs: list[StringSpec] = []
        self._dimension = 0

    @property
    def int_specs(self) -> tuple[IntSpec, ...]:
        """Encodings of integer attributes, including strings that were hashed to buckets."""
        return tuple(self._int_specs)

    @property
    def float_specs(self) -> tuple[DenseSpec, ...]:
        """Encodings of float attributes."""
        return tuple(self._float_specs)

    @property
    def string_specs(self) -> tuple[StringSpec, ...]:
        """Encodings of string attributes."""
        return tuple(self._string_specs)

    @property
    def dimension(self) -> int:
        """Width of all encoded attributes side by side."""
        return self._dimension

    def append_dense(self, is_float: bool = True) -> None:  # noqa: FBT001, FBT002 - GraphLearn's signature.
        """Adds a number that is used directly.

        Args:
            is_float: whether it is stored as a float, not as an integer.
        """
        self._count(1)
        (self._float_specs if is_float else self._int_specs).append(DenseSpec())

    def append_sparse(self, bucket_size: int | None, dimension: int, need_hash: bool = False) -> None:  # noqa: FBT001, FBT002
        """Adds a category.

        Args:
            bucket_size: number of buckets; None if the number of values is unknown.
            dimension: width of its embedding, at least 1.
            need_hash: whether the values are integers that have yet to be hashed.
        """
        self._count(dimension)
        if bucket_size is not None:
            self._int_specs.append(SparseSpec(bucket_size=bucket_size, dimension=dimension, need_hash=need_hash))
        else:
            spec = DynamicSparseSpec(dimension=dimension, need_hash=need_hash)
            if need_hash:
                self._int_specs.append(spec)
            else:
                self._string_specs.append(spec)

    def append_multival(self, bucket_size: int | None, dimension: int, delimiter: str = ",") -> None:
        """Adds several categories in one string.

        Args:
            bucket_size: number of buckets; None if the number of values is unknown.
            dimension: width of the combined embedding, at least 1.
            delimiter: separator of the categories.
        """
        self._count(dimension)
        if bucket_size is None:
            self._string_specs.append(DynamicMultivalSpec(dimension=dimension, delimiter=delimiter))
        else:
            self._string_specs.append(MultivalSpec(bucket_size=bucket_size, dimension=dimension, delimiter=delimiter))

    def _count(self, dimension: int) -> None:
        num_specs = len(self._int_specs) + len(self._float_specs) + len(self._string_specs)
        if num_specs == self.feature_num:
            raise ValueError(
                f"`feature_num` must be the number of attributes; got {self.feature_num}, and one more is appended. "
                "Correct it."
            )
        if dimension < 1:
            raise ValueError(
                f"`dimension` must be at least 1; got {dimension} for attribute {num_specs}. "
                "Use append_dense for a number that is not embedded."
            )
        self._dimension += dimension


def spec_to_plain(spec: FeatureSpec) -> dict[str, Any]:
    """Converts a feature spec to plain values: the number of floats, and the fields of all other attributes."""
    return {
        "num_floats": len(spec.float_specs),
        "ints": [{"kind": type(one).__name__, **dataclasses.asdict(one)} for one in spec.int_specs],
        "strings": [{"kind": type(one).__name__, **dataclasses.asdict(one)} for one in spec.string_specs],
    }


def spec_from_plain(plain: Mapping[str, Any]) -> FeatureSpec:
    """Converts the result of `spec_to_plain` back to a feature spec.

    Example:
        >>> spec = FeatureSpec(2)
        >>> spec.append_dense()
        >>> spec.append_sparse(10, 4)
        >>> spec_from_plain(spec_to_plain(spec)).dimension
        5
    """
    spec = FeatureSpec(plain["num_floats"] + len(plain["ints"]) + len(plain["strings"]))
    for _ in range(plain["num_floats"]):
        spec.append_dense()
    for one in (*plain["ints"], *plain["strings"]):
        if one["kind"] == DenseSpec.__name__:
            spec.append_dense(is_float=False)
        elif one["kind"] in (MultivalSpec.__name__, DynamicMultivalSpec.__name__):
            spec.append_multival(one.get("bucket_size"), one["dimension"], one["delimiter"])
        elif one["kind"] == DynamicSparseSpec.__name__:
            spec.append_sparse(None, one["dimension"], one["need_hash"])
        else:
            spec.append_sparse(one["bucket_size"], one["dimension"], one["need_hash"])
    return spec
