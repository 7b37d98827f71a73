"""Concatenates the values of several types of nodes or edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfx_gnn.graph.data.stores import Stores


def concatenate_types(
    stores: Stores, counts: Mapping[Any, int], names: Sequence[str] | None, *, fills: bool
) -> dict[str, Any]:
    """Returns the arrays with one row per node or edge, those of the first type first.

    With `names` None, these are the arrays whose rows have one shape in all types; types without one are filled up, or
    keep the array out.
    """
    given = {key for store_key in counts for key in stores[store_key]} - {"edge_index", "batch", "ptr", "num_nodes"}
    joined = {}
    for key in dict.fromkeys(names if names is not None else sorted(given)):
        parts = {store_key: stores[store_key].get(key) for store_key in counts}
        arrays = [
            part
            for count, part in zip(counts.values(), parts.values(), strict=True)
            if isinstance(part, np.ndarray) and _has_rows(part, count)
        ]
        fits = len({part.shape[1:] for part in arrays}) == 1 and len(arrays) == sum(
            part is not None for part in parts.values()
        )
        if not fits or (len(arrays) < len(counts) and not fills):
            if names is not None:
                raise ValueError(
                    f"`{key}` must be an array whose rows have one shape in all types; got "
                    f"{ {store_key: getattr(part, 'shape', part) for store_key, part in parts.items()} }. Leave it out."
                )
            continue
        joined[key] = np.concatenate(
            [
                np.full([counts[store_key], *arrays[0].shape[1:]], _dummy(arrays[0].dtype), arrays[0].dtype)
                if part is None
                else part
                for store_key, part in parts.items()
            ]
        )
    return joined


def _has_rows(array: Any, count: int) -> bool:
    return array.ndim > 0 and len(array) == count


def _dummy(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return np.nan
    return False if dtype.kind == "b" else "" if dtype.kind in "US" else -1
