"""Infers a graph schema from examples that came without one."""

from __future__ import annotations

from tensorflow.core.framework import types_pb2

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.records.example_batches import BYTES, FLOATS, INTS
from tfx_gnn.records.example_summary import (
    Evidence,
    ExamplesSummary,
    is_size_key,
    row_length_axes,
    row_length_key,
)
from tfx_gnn.records.graph_layout import prefix_of_key, schema_features

_DTYPE_OF_KIND = {BYTES: types_pb2.DT_STRING, INTS: types_pb2.DT_INT64, FLOATS: types_pb2.DT_FLOAT}
_WRITE_A_SCHEMA = "Put a graph_schema.pbtxt beside the splits that says it."


def infer_graph_schema(summary: ExamplesSummary) -> graph_schema_pb2.GraphSchema:
    """Makes the schema that a data set speaks for.

    Sets are those that have `#size` in some example. A feature's dtype is string, int64 or float32, its shape what
    `#size` and row lengths leave for one item; several uniform dimensions in a row cannot be told from one, and
    appear as one.

    Data that leave something open or contradict themselves are refused.
    """
    schema = graph_schema_pb2.GraphSchema()
    prefixes = sorted(key.rpartition(".")[0] for key in summary.keys if is_size_key(key))
    node_sets = [prefix.removeprefix(f"{const.NODES}/") for prefix in prefixes if prefix.startswith(f"{const.NODES}/")]
    for prefix in prefixes:
        set_type, _, name = prefix.partition("/")
        if set_type == const.NODES:
            schema.node_sets[name].SetInParent()
            continue
        if len(node_sets) != 1:
            raise ValueError(
                f"`examples_dir` must say which node sets edges join; got edge set {name!r} and node sets {node_sets}, "
                f"but no graph schema. {_WRITE_A_SCHEMA}"
            )
        schema.edge_sets[name].source = schema.edge_sets[name].target = node_sets[0]
    ragged = row_length_axes(summary.keys)
    row_length_keys = {row_length_key(key, axis) for key, axes in ragged.items() for axis in axes}
    for key in sorted(set(summary.keys) - row_length_keys):
        feature_set_prefix = prefix_of_key(key, prefixes)
        if feature_set_prefix is None:
            continue  # Never has a value, else the example without `#size` would have been refused.
        name = key[len(feature_set_prefix) + 1 :]
        _check_always_there(summary, key, feature_set_prefix)
        if name in const.RESERVED_FEATURES:
            continue
        feature = schema_features(schema, feature_set_prefix)[name]
        feature.dtype = _dtype(summary, key)
        for size in _shape(summary, key, ragged.get(key, [])):
            feature.shape.dim.add(size=size)
    return schema


def _check_always_there(summary: ExamplesSummary, key: str, prefix: str) -> None:
    expected = (
        summary.num_examples if prefix == const.CONTEXT else summary.keys[f"{prefix}.{const.SIZE_NAME}"].num_with_items
    )
    found = summary.keys[key].num_with_items
    if found != expected:
        raise ValueError(
            f"`examples_dir` must hold {key!r} in every example in which its set has items; got it in {found} of "
            f"{expected}. Write the feature to all examples, or to none."
        )


def _dtype(summary: ExamplesSummary, key: str) -> types_pb2.DataType.ValueType:
    kinds = summary.keys[key].kinds
    if len(kinds) != 1:
        seen = (
            "no value in any example" if not kinds else "; ".join(f"{kind} in {kinds[kind]}" for kind in sorted(kinds))
        )
        raise ValueError(
            f"`examples_dir` must hold values of one kind for {key!r}; got {seen}. "
            f"{_WRITE_A_SCHEMA if not kinds else 'Make the examples again.'}"
        )
    return _DTYPE_OF_KIND[next(iter(kinds))]


def _shape(summary: ExamplesSummary, key: str, ragged_axes: list[int]) -> list[int]:
    shape: list[int] = []
    for axis in ragged_axes:
        length_key = row_length_key(key, axis)
        rows = _only(summary.keys[length_key].rows_per_item, length_key)
        num_uniform = axis - 1 - len(shape)
        if num_uniform > 1 or (num_uniform == 0 and rows != 1):
            raise ValueError(
                f"`examples_dir` must show the dimensions before a ragged one; got {rows} row lengths for each row in "
                f"{length_key!r}, which tells {num_uniform} dimensions. {_WRITE_A_SCHEMA}"
            )
        shape += [rows] * num_uniform + [-1]
    values = _only(summary.keys[key].rows_per_item, key)
    return shape if values == 1 else [*shape, values]


def _only(evidence: Evidence, key: str) -> int:
    if len(evidence) > 1:
        seen = "; ".join(f"{rows} in {evidence[rows]}" for rows in sorted(evidence))
        raise ValueError(
            f"`examples_dir` must hold the same number of values for each item or row in {key!r}; got {seen}. "
            "Write row lengths of ragged features, or make the examples again."
        )
    return next(iter(evidence), 1)
