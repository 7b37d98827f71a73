"""Feature specs in the configs of layers, which hold plain values only."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfx_gnn.tables.feature_spec import DenseSpec, DynamicMultivalSpec, DynamicSparseSpec, FeatureSpec, MultivalSpec


def spec_to_plain(spec: FeatureSpec) -> dict[str, Any]:
    """Writes a feature spec as plain values.

    Args:
        spec: the spec.

    Returns:
        Number of floats, and one mapping of fields for each integer and string attribute, in their order.
    """
    return {
        "num_floats": len(spec.float_specs),
        "ints": [{"kind": type(one).__name__, **dataclasses.asdict(one)} for one in spec.int_specs],
        "strings": [{"kind": type(one).__name__, **dataclasses.asdict(one)} for one in spec.string_specs],
    }


def spec_from_plain(plain: Mapping[str, Any]) -> FeatureSpec:
    """Reads what `spec_to_plain` wrote.

    Args:
        plain: the plain values.

    Returns:
        A spec with the same attributes.

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
