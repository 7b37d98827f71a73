"""Values as 64-bit hashes, by which they are compared across files without being kept.

Among a billion different values the chance that any two share a hash is about one in forty.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.random_choice import hash_ids, hash_integers, mix
from tfx_gnn.stages.examples.example_batches import ExampleBatch, splits_of
from tfx_gnn.stages.examples.graph_layout import FeatureColumn
from tfx_gnn.stages.examples.split_statistics import item_splits

Hashes = npt.NDArray[np.uint64]

_MAX_EXACT = 2.0**53


def hash_values(values: pa.Array) -> Hashes:
    """Hashes values; a float that is a whole number has the hash of that integer.

    Args:
        values: large_binary, int64 or float32 array without nulls, shape [n].

    Returns:
        uint64, shape [n].
    """
    if pa.types.is_large_binary(values.type):
        return hash_ids(values.view(pa.large_string()))
    numbers = values.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(values.type):
        return hash_integers(numbers)
    wide = numbers.astype(np.float64)
    is_whole = np.isfinite(wide) & (np.abs(wide) < _MAX_EXACT) & (wide == np.floor(wide))
    whole = hash_integers(np.where(is_whole, wide, 0.0).astype(np.int64))
    return np.where(is_whole, whole, mix(~wide.view(np.uint64)))


def hash_pairs(sources: Hashes, targets: Hashes) -> Hashes:
    """Hashes ordered pairs.

    Args:
        sources: uint64, shape [n].
        targets: uint64, shape [n].

    Returns:
        uint64, shape [n].
    """
    return mix(mix(sources) ^ targets)


def hash_items(batch: ExampleBatch, feature: FeatureColumn, prefix: str) -> Hashes:
    """Hashes what each item of a set has as a feature; a scalar has the hash of its value.

    Args:
        batch: examples that keep the schema.
        feature: the feature.
        prefix: its set, as in "nodes/package".

    Returns:
        uint64 [num_items], items of all examples one below the other.
    """
    hashes = hash_values(batch.column(feature.key).values)
    if not feature.shape:
        return hashes
    splits = _value_splits(batch, feature, prefix)
    starts, lengths = splits[:-1], np.diff(splits)
    positions = (np.arange(len(hashes)) - np.repeat(starts, lengths)).astype(np.uint64)
    # Sums of unsigned integers wrap around, and so do their differences: nothing is lost.
    sums = np.zeros(len(hashes) + 1, np.uint64)
    np.cumsum(mix(hashes ^ mix(positions)), out=sums[1:])
    return mix((sums[splits[1:]] - sums[starts]) ^ lengths.astype(np.uint64))


def _value_splits(batch: ExampleBatch, feature: FeatureColumn, prefix: str) -> npt.NDArray[np.int64]:
    """int64 [num_items + 1]: where the values of each item begin, inner dimensions flattened."""
    splits = np.arange(int(item_splits(batch, prefix)[-1]) + 1)
    for axis, size in enumerate(feature.shape):
        if size is None:
            splits = splits_of(batch.column(feature.row_length_keys[axis]).numbers)[splits]
        else:
            splits = splits * size
    return splits
