"""Parts of graph pieces: nests of fields and pieces, or of their specs.

A piece holds *parts*: fields, nested pieces, or immutable mappings of these. Its type spec holds
the specs of the parts in the same nest. This module has the operations that pieces and specs share:
casting indices and row splits, and unifying batch dimensions.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import tensorflow as tf

from tfx_gnn.graph.graph_constants import DEFAULT_INDICES_DTYPE, DEFAULT_ROW_SPLITS_DTYPE
from tfx_gnn.graph.tensor import fields

_Value = TypeVar("_Value")


class FrozenMapping(Mapping[str, _Value]):
    """A mapping of names to values in their given order, without item assignment.

    `tf.nest` flattens and rebuilds it like a dict.

    Example:
        >>> FrozenMapping({"a": 1})
        {'a': 1}
    """

    # Tells tf.nest that the constructor takes key-value pairs.
    __supported_by_tf_nest__ = True
    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, _Value] | Iterable[tuple[str, _Value]] = ()) -> None:
        """Copies `items`."""
        self._items = dict(items)

    def __getitem__(self, key: str) -> _Value:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def copy(self) -> dict[str, _Value]:
        """Returns a new dict with the same items, which the caller may change."""
        return dict(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


#: Part names to a leaf (a field, a piece, or the spec of either) or to a mapping of leaves.
Parts = dict[str, Any]


def map_parts(function: Callable[..., Any], *parts: Parts) -> Parts:
    """Applies `function(part_name, leaf, ...)` to the leaves of one or more nests of the same structure."""
    result: Parts = {}
    for name, part in parts[0].items():
        others = [other[name] for other in parts[1:]]
        if isinstance(part, Mapping):
            result[name] = {key: function(name, leaf, *(other[key] for other in others)) for key, leaf in part.items()}
        else:
            result[name] = function(name, part, *others)
    return result


def leaves_of_parts(parts: Parts) -> list[tuple[str, Any]]:
    """Lists (part name, leaf) in the order in which `tf.nest` flattens the parts."""
    leaves: list[tuple[str, Any]] = []
    for name in sorted(parts):
        part = parts[name]
        if isinstance(part, Mapping):
            leaves.extend((name, part[key]) for key in sorted(part))
        else:
            leaves.append((name, part))
    return leaves


def places_of_leaves(parts: Parts) -> Parts:
    """Returns the nest with the place of each leaf in `leaves_of_parts` instead of the leaf."""
    places = itertools.count()
    found: Parts = {}
    for name in sorted(parts):
        part = parts[name]
        found[name] = {key: next(places) for key in sorted(part)} if isinstance(part, Mapping) else next(places)
    # Names in the order of the parts.
    return {
        name: {key: found[name][key] for key in part} if isinstance(part, Mapping) else found[name]
        for name, part in parts.items()
    }


def arrange_leaves(places: Parts, leaves: Sequence[Any]) -> Parts:
    """Puts leaves in the order of `leaves_of_parts` into a nest; `places` is the result of `places_of_leaves`."""
    return {
        name: leaves[place] if isinstance(place, int) else {key: leaves[at] for key, at in place.items()}
        for name, place in places.items()
    }


def check_index_dtype(dtype: Any, name: str) -> tf.DType:
    """Returns `dtype` as a `tf.DType` after checking that it can hold indices."""
    dtype = tf.as_dtype(dtype)
    if dtype not in fields.INDEX_DTYPES:
        raise ValueError(f"{name} dtype must be int32 or int64; got {dtype}.")
    return dtype


def check_batch_shape(shape: tf.TensorShape) -> None:
    """Refuses batches of batches of different sizes."""
    if not shape[1:].is_fully_defined():
        raise ValueError(
            f"All shape dimensions except the outermost must be fully defined; got shape={shape}. Batch graphs with "
            "drop_remainder=True before they are batched again."
        )


def check_mapping(value: Any, name: str, content: str) -> None:
    """Refuses values that are not mappings, such as a list."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"`{name}` must map names to {content}; got a {type(value).__name__}.")


def refuse_positional_arguments(args: tuple[Any, ...]) -> None:
    """Refuses arguments that were not passed by keyword."""
    if args:
        raise TypeError(f"Positional arguments are not supported; got {args!r}. Pass all arguments by keyword.")


def _widest(dtypes: Iterable[tf.DType], default: tf.DType) -> tf.DType:
    found = set(dtypes)
    if tf.int64 in found:
        return tf.int64
    return tf.int32 if found else default


class PieceLike(abc.ABC):
    """Handles parts in the same way for values and specs."""

    #: Names of the parts whose plain fields are indices or sizes.
    _INDEX_PARTS: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def _is_index(cls, part_name: str) -> bool:
        return part_name in cls._INDEX_PARTS

    @classmethod
    def _decides_row_splits(cls, part_name: str, leaf: Any) -> bool:
        """Returns whether a nested piece is considered for the dtype of row splits."""
        return True

    @classmethod
    def _unify_dtypes(cls, parts: Parts, row_splits_dtype: tf.DType | None) -> tuple[Parts, tf.DType, tf.DType]:
        """Casts indices and row splits of all parts to the widest dtype found among them."""
        leaves = leaves_of_parts(parts)
        index_dtypes = [
            leaf.indices_dtype if isinstance(leaf, PieceLike) else leaf.dtype
            for name, leaf in leaves
            if isinstance(leaf, PieceLike) or cls._is_index(name)
        ]
        splits_dtypes = [
            leaf.row_splits_dtype if isinstance(leaf, PieceLike) else fields.row_splits_dtype_of(leaf)
            for name, leaf in leaves
            if not isinstance(leaf, PieceLike) or cls._decides_row_splits(name, leaf)
        ]
        indices = _widest(index_dtypes, DEFAULT_INDICES_DTYPE)
        splits = _widest(
            (dtype for dtype in splits_dtypes if dtype is not None),
            row_splits_dtype or DEFAULT_ROW_SPLITS_DTYPE,
        )
        return cls._cast_parts(parts, indices, splits), indices, splits

    @classmethod
    def _cast_parts(cls, parts: Parts, indices_dtype: tf.DType | None, row_splits_dtype: tf.DType | None) -> Parts:
        def cast_leaf(name: str, leaf: Any) -> Any:
            if isinstance(leaf, PieceLike):
                if indices_dtype is not None:
                    leaf = leaf.with_indices_dtype(indices_dtype)
                if row_splits_dtype is not None:
                    leaf = leaf.with_row_splits_dtype(row_splits_dtype)
                return leaf
            if indices_dtype is not None and cls._is_index(name):
                leaf = fields.with_dtype(leaf, indices_dtype)
            if row_splits_dtype is not None:
                leaf = fields.with_row_splits_dtype(leaf, row_splits_dtype)
            return leaf

        return map_parts(cast_leaf, parts)

    @property
    @abc.abstractmethod
    def shape(self) -> tf.TensorShape:
        """The batch shape."""

    @property
    @abc.abstractmethod
    def rank(self) -> int:
        """The number of batch dimensions."""

    @abc.abstractmethod
    def with_shape(self: Any, new_shape: Any) -> Any:
        """Sets static batch dimensions."""

    @property
    @abc.abstractmethod
    def indices_dtype(self) -> tf.DType:
        """The dtype of sizes and indices, tf.int32 or tf.int64."""

    @property
    @abc.abstractmethod
    def row_splits_dtype(self) -> tf.DType:
        """The dtype of the row splits of ragged fields, tf.int32 or tf.int64."""

    @abc.abstractmethod
    def with_indices_dtype(self: Any, dtype: tf.DType) -> Any:
        """Casts sizes and indices."""

    @abc.abstractmethod
    def with_row_splits_dtype(self: Any, dtype: tf.DType) -> Any:
        """Casts row splits."""


def merged_batch_shape(parts: Parts, shape: tf.TensorShape) -> tf.TensorShape:
    """Merges the static batch dimensions of all leaves into the batch shape."""
    found: list[tuple[Any, tf.TensorShape]] = []
    for _, leaf in leaves_of_parts(parts):
        if isinstance(leaf, PieceLike):
            if leaf.rank != shape.rank:
                raise ValueError(
                    f"All pieces of a graph must have the same batch rank; got a piece of shape="
                    f"{leaf.shape}, expected rank {shape.rank}. "
                    "Batch or merge all of them, or none."
                )
        elif leaf.shape.rank is None or leaf.shape.rank <= shape.rank:
            # The wording of this message and the next one is part of TF-GNN's tested contract.
            raise ValueError(
                f"Field rank must be greater than the batch rank: field shape={leaf.shape}, batch_rank={shape.rank}"
            )
        prefix = leaf.shape[: shape.rank]
        # A scalar piece has no batch dimensions to compare.
        for other, other_prefix in found if shape.rank else ():
            if not prefix.is_compatible_with(other_prefix):
                raise ValueError(
                    f"Fields batch dimensions do not match: batch_rank={shape.rank}, 1st field shape: {other.shape}, "
                    f"2nd field shape: {leaf.shape}"
                )
        found.append((leaf, prefix))
    for leaf, prefix in found:
        if not prefix.is_compatible_with(shape):
            raise ValueError(
                f"Fields batch dimensions do not match: batch_rank={shape.rank}, field shape={leaf.shape}, batch shape="
                f"{shape}. All fields of a piece start with the same batch dimensions."
            )
        shape = shape.merge_with(prefix)
    return shape


def leaf_with_batch_shape(leaf: Any, shape: tf.TensorShape) -> Any:
    """Sets the static batch dimensions of a field or piece, or of its spec."""
    if isinstance(leaf, PieceLike):
        return leaf.with_shape(shape)
    return fields.with_batch_shape(leaf, shape)
