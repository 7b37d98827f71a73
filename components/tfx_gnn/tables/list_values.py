"""Values that are missing inside of the lists of a column, as null and NaN in a Parquet file."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def is_list(dtype: pa.DataType) -> bool:
    """Whether values are lists of numbers or texts."""
    is_any = pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype)
    return is_any and not pa.types.is_nested(dtype.value_type)


def count_incomplete(array: pa.Array) -> int:
    """Counts the lists with an item that is null or NaN."""
    array = _of_any_length(array)
    return len(np.unique(_parents(array)[_is_missing(array)]))


def lengths_of(array: pa.Array) -> set[int]:
    """Lists the different lengths of the lists that are not null."""
    return set(pc.unique(pc.list_value_length(_of_any_length(array))).drop_null().to_pylist())


def without_missing(array: pa.Array, *, has_one_length: bool) -> pa.Array:
    """Takes missing items out of lists.

    Args:
        array: the lists, [num_rows].
        has_one_length: whether all lists of the column have the same length, so that one that lacks an item counts as
            null; otherwise the item alone is left out.
    """
    array = _of_any_length(array)
    is_missing, parents = _is_missing(array), _parents(array)
    if not is_missing.any():
        return array
    if has_one_length:
        is_gone = np.zeros(len(array), bool)
        is_gone[parents[is_missing]] = True
        return array.take(pa.array(np.arange(len(array)), mask=is_gone))
    lengths = np.bincount(parents[~is_missing], minlength=len(array))
    items = pc.list_flatten(array).filter(pa.array(~is_missing))
    return _joined(items, lengths, array.is_null(), is_large=pa.types.is_large_list(array.type))


def _of_any_length(array: pa.Array) -> pa.Array:
    """Writes lists of a fixed size as others: Parquet files cannot have null among them."""
    if not pa.types.is_fixed_size_list(array.type):
        return array
    is_null = array.is_null()
    lengths = np.where(is_null.to_numpy(zero_copy_only=False), 0, array.type.list_size)
    return _joined(array.drop_null().flatten(), lengths, is_null, is_large=False)


def _joined(items: pa.Array, lengths: npt.NDArray[np.int64], is_null: pa.Array, *, is_large: bool) -> pa.Array:
    # A null offset makes its list null.
    mask = np.append(is_null.to_numpy(zero_copy_only=False), np.False_)
    offsets = np.append(0, np.cumsum(lengths))
    if is_large:
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64(), mask=mask), items)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=mask), items)


def _parents(array: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.list_parent_indices(array).to_numpy(), np.int64)


def _is_missing(array: pa.Array) -> npt.NDArray[np.bool_]:
    items = pc.list_flatten(array)
    is_null = pc.is_null(items, nan_is_null=pa.types.is_floating(items.type))
    return np.asarray(is_null.to_numpy(zero_copy_only=False), np.bool_)
