"""Finds the raw columns that each feature of a network is made of, by asking the model with exchanged values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.serving.raw_columns import ExampleColumns, RawColumns, split_key

_Transformed = Mapping[str, npt.NDArray[Any]]


def columns_of_features(
    features: Sequence[str],
    examples: Sequence[ExampleColumns],
    columns: RawColumns,
    transform: Callable[[list[bytes]], _Transformed] | None,
) -> dict[str, tuple[str, ...]]:
    """Finds which columns of the same set change each feature.

    A column of a feature's own name counts without being asked for. Each other column is filled with different values
    of its own, in all examples; features whose values change are made of it. Nothing is found for columns that hold one
    value, and nothing is told of other sets, such as of the time of the seed, from which ages of neighbors are counted.

    Args:
        features: keys of transformed features, such as "nodes/user.numbers".
        examples: a sample of raw examples, at least one.
        columns: what their columns hold.
        transform: returns the transformed, merged examples as in the signature `transformed_graph`; None for a model
            that has no such signature, of which names alone are compared.

    Returns:
        Names of columns by feature, sorted; empty where none was found.
    """
    found: dict[str, set[str]] = {feature: set() for feature in features}
    for key in columns.distinct:
        if key in found:
            found[key].add(split_key(key)[1])
    if transform is None:
        return _sorted(found)
    sets = {split_key(feature)[0] for feature in features}
    whole = None
    for key in columns.distinct:
        item_set, name = split_key(key)
        if item_set not in sets or len(columns.distinct[key]) < 2:
            continue
        if whole is None:
            whole = transform([example.replaced({}).SerializeToString(deterministic=True) for example in examples])
        changed = transform([_exchanged(example, columns, key) for example in examples])
        for feature in features:
            if split_key(feature)[0] == item_set and _differ(whole, changed, feature):
                found[feature].add(name)
    return _sorted(found)


def _sorted(found: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    return {feature: tuple(sorted(names)) for feature, names in found.items()}


def _exchanged(example: ExampleColumns, columns: RawColumns, key: str) -> bytes:
    """Serializes an example in which each value of a column is another one that the column holds elsewhere."""
    values = columns.distinct[key]
    changes = {
        index: next(other for other in (values[-1], values[0]) if list(other) != row)
        for index, row in enumerate(example.rows.get(key, []))
    }
    serialized: bytes = example.replaced({key: changes} if changes else {}).SerializeToString(deterministic=True)
    return serialized


def _differ(before: _Transformed, after: _Transformed, feature: str) -> bool:
    """Whether the tensors of a feature, of which ragged ones have several, changed."""
    keys = [key for key in before if key == feature or key.startswith(f"{feature}.")]
    return any(not _equal(before[key], after[key]) for key in keys)


def _equal(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> bool:
    return before.shape == after.shape and bool(np.array_equal(before, after))
