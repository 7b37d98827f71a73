"""GraphLearn's `Data`: the attributes of a batch of nodes or edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfx_gnn.graphlearn.data.composite_value import (
    CompositeSpec,
    CompositeValue,
    array_spec,
    check_is_name,
    describe,
    num_rows,
)

FLAT_ORDER = (
    "int_attrs",
    "float_attrs",
    "string_attrs",
    "labels",
    "weights",
    "timestamps",
    "ids",
    "dst_ids",
    "offsets",
    "indices",
    "dense_shape",
)
"""Order of the arrays in `Data.flatten`; further ones follow in the order of their names."""

ENCODED = "encoded"
"""Key of the encoded attributes, which `transform` adds."""

_OWN_ROWS = ("offsets", "indices", "dense_shape")
_MATRICES = ("int_attrs", "float_attrs", "string_attrs", ENCODED)


class DataSpec(CompositeSpec):
    """Type spec of `Data`."""


class Data(CompositeValue):
    """The attributes of nodes or edges; GraphLearn's form of what a query returns.

    The arrays are numpy arrays or tensors; those that are absent are None. TensorFlow takes a `Data` as a value:
    in tf.function, tf.data and SavedModel.

    Attributes:
        ids: ids, shape [num_items]; of edges, the ids of their source nodes.
        int_attrs: integer attributes, shape [num_items, number of attributes].
        float_attrs: float attributes, shape [num_items, number of attributes].
        string_attrs: texts, shape [num_items, number of attributes].
        labels: labels, shape [num_items].
        weights: weights, shape [num_items].
        timestamps: timestamps, shape [num_items].
        dst_ids: of edges, the ids of their target nodes, shape [num_items].
        offsets: of a ragged result, the number of neighbors in each row, shape [num_rows].
        indices: of a ragged result, row and column of each item, shape [num_items, 2].
        dense_shape: of a ragged result, the numbers of rows and columns, shape [2].

    Example:
        >>> data = Data(ids=np.array([3, 4]), floats=np.array([[0.5], [1.5]]), degrees=np.array([1, 2]))
        >>> data["degrees"].tolist(), data["unknown"]
        ([1, 2], None)
        >>> data.apply(lambda array: array[:1])
        Data(float_attrs=[1, 1], ids=[1], degrees=[1])
    """

    _SPEC_TYPE: ClassVar[type[CompositeSpec]] = DataSpec

    ids: Any
    int_attrs: Any
    float_attrs: Any
    string_attrs: Any
    labels: Any
    weights: Any
    timestamps: Any = None
    dst_ids: Any = None
    offsets: Any = None
    indices: Any = None
    dense_shape: Any = None

    def __init__(
        self,
        ids: Any = None,
        ints: Any = None,
        floats: Any = None,
        strings: Any = None,
        labels: Any = None,
        weights: Any = None,
        **kwargs: Any,
    ) -> None:
        """Holds arrays, of which all may be absent; lists become arrays.

        Args:
            ids: becomes `ids`.
            ints: becomes `int_attrs`.
            floats: becomes `float_attrs`.
            strings: becomes `string_attrs`.
            labels: becomes `labels`.
            weights: becomes `weights`.
            **kwargs: further arrays by name, such as `timestamps`.

        Raises:
            ValueError: if a name in `kwargs` is private, or is that of a method.
        """
        given = {
            "ids": ids,
            "int_attrs": ints,
            "float_attrs": floats,
            "string_attrs": strings,
            "labels": labels,
            "weights": weights,
        }
        for key, value in {**given, **kwargs}.items():
            self[key] = value

    @tf.autograph.experimental.do_not_convert
    def __getitem__(self, key: str) -> Any:
        """Returns an array by name; None if there is none."""
        check_is_name(key)
        return vars(self).get(key)

    def __setitem__(self, key: str, value: Any) -> None:
        """Sets an array by name."""
        check_is_name(key)
        if key.startswith("_") or (key not in FLAT_ORDER and hasattr(type(self), key)):
            raise ValueError(
                f"`{key}` must be a free name without an underscore in front; got the name of something that Data has "
                "already. Use another name."
            )
        setattr(self, key, np.asarray(value) if isinstance(value, (list, tuple)) else value)

    def __contains__(self, key: object) -> bool:
        """Returns whether there is an array of this name."""
        return key in self.arrays

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays that are not None, by name, in the order of `flatten`."""
        given = {key: value for key, value in vars(self).items() if value is not None and key[0] != "_"}
        others = sorted(key for key in given if key not in FLAT_ORDER)
        return {key: given[key] for key in (*FLAT_ORDER, *others) if key in given}

    @property
    def keys(self) -> list[str]:
        """The names of the arrays that are not None."""
        return list(self.arrays)

    def apply(self, func: Callable[[Any], Any]) -> Data:
        """Applies a function to every array, in place.

        Args:
            func: gets an array and returns what replaces it.

        Returns:
            The object itself.
        """
        for key, value in self.arrays.items():
            setattr(self, key, func(value))
        return self

    @property
    def num_items(self) -> Any:
        """The number of nodes or edges: an int if it is known, else a scalar tensor.

        Raises:
            ValueError: if there is no array.
        """
        for key, value in self.arrays.items():
            if key not in _OWN_ROWS:
                return num_rows(value)
        raise ValueError("`Data` must hold an array to tell its number of items; got none. Give its ids.")

    @tf.autograph.experimental.do_not_convert
    def flatten(self) -> list[Any]:
        """Returns the arrays that are not None, in GraphLearn's order; `from_tensors` is the inverse."""
        return list(self.arrays.values())

    @classmethod
    @tf.autograph.experimental.do_not_convert
    def from_tensors(cls, tensors: Sequence[Any], keys: Sequence[str]) -> Data:
        """Makes the object that `flatten` was called on.

        Args:
            tensors: the result of `flatten`.
            keys: `keys` of that object.

        Raises:
            ValueError: if there is not one tensor per key.

        Example:
            >>> data = Data(ids=np.array([3, 4]), labels=np.array([0, 1]))
            >>> Data.from_tensors(data.flatten(), data.keys).ids.tolist()
            [3, 4]
        """
        if len(tensors) != len(keys):
            raise ValueError(
                f"`tensors` must hold one tensor per key; got {len(tensors)} for {list(keys)}. Pass all of flatten()."
            )
        return data_of(dict(zip(keys, tensors, strict=True)))

    def _components(self) -> dict[str, Any]:
        return self.arrays

    @classmethod
    def _from_components(cls, components: dict[str, Any], static: Any) -> Data:
        return data_of(components)

    def __repr__(self) -> str:
        return f"Data({describe(self.arrays)})"


def data_of(arrays: Mapping[str, Any]) -> Data:
    """Makes a `Data` of arrays by attribute name."""
    data = Data()
    for key, value in arrays.items():
        setattr(data, key, value)
    return data


def as_data(value: Any, what: str) -> Data:
    """Returns a `Data`; a float tensor of shape [num_items, dimension] becomes its encoded attributes."""
    if isinstance(value, Data):
        return value
    if value is None or isinstance(value, (dict, list, tuple, str)):
        raise TypeError(f"`{what}` must be a Data or a tensor; got {type(value).__name__}. Make a Data of it.")
    if array_spec(value).shape.rank != 2:
        raise ValueError(
            f"`{what}` must have shape [num_items, dimension]; got {list(array_spec(value).shape)}. Add a dimension, "
            "or make a Data of it."
        )
    return data_of({ENCODED: value})


def data_or_encoded(data: Data) -> Any:
    """Returns the encoded attributes if `transform` has made them, else the `Data`."""
    encoded = data[ENCODED]
    return data if encoded is None else encoded


def flat_rows(values: Any) -> dict[str, Any]:
    """Reads the attributes of a query's result, and makes one row per item of them.

    Attributes of shape [b, k, n] become [b * k, n]; labels, weights and ids of shape [b, k] become [b * k].
    """
    arrays: dict[str, Any] = {}
    for key in FLAT_ORDER:
        if key == "ids" and getattr(values, "src_ids", None) is not None:
            array = values.src_ids
        else:
            array = getattr(values, key, None)
        if array is None:
            continue
        array = np.asarray(array)
        if key in _MATRICES:
            array = array.reshape(-1, array.shape[-1])
        elif key not in _OWN_ROWS:
            array = array.reshape(-1)
        arrays[key] = array
    return arrays
