"""Selects the columns that the features of a graph schema need."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import Context, EdgeSet, Feature, Metadata, NodeSet
from tfx_gnn.tables.column_types import check_default
from tfx_gnn.tables.table_layout import ID_FEATURE, ColumnDecoder, TableColumn

ARROW_TYPES = {
    tf.bool: pa.bool_(),
    tf.int8: pa.int8(),
    tf.int16: pa.int16(),
    tf.int32: pa.int32(),
    tf.int64: pa.int64(),
    tf.uint8: pa.uint8(),
    tf.uint16: pa.uint16(),
    tf.uint32: pa.uint32(),
    tf.uint64: pa.uint64(),
    # A tf.Example keeps every float type as float32, so what float32 cannot hold is refused here.
    tf.float16: pa.float32(),
    tf.bfloat16: pa.float32(),
    tf.float32: pa.float32(),
    tf.float64: pa.float32(),
    tf.string: pa.large_string(),
}
"""Types of arrays by the dtype that a feature is declared with."""

_DEFAULT_PREFIX = "default."


def feature_columns(
    declared: NodeSet | EdgeSet | Context, decoders: Mapping[str, ColumnDecoder], place: str
) -> dict[str, TableColumn]:
    """Lists the columns that become features, by feature; that of ids is not among them."""
    features = declared.features
    defaults = extra_values(declared.metadata, _DEFAULT_PREFIX)
    for name in defaults:
        if name not in features:
            raise ValueError(
                f"`metadata.extra` must give defaults to declared features; got {_DEFAULT_PREFIX + name!r} in {place}, "
                f"which declares {sorted(features)}. Check the spelling."
            )
    packed_in: dict[str, str] = {}
    for packed, decoder in decoders.items():
        for name in decoder.feature_names:
            if name not in features or name in packed_in:
                raise ValueError(
                    f"`decoder.{packed}` must make declared features, each once; got {name!r} in {place}, which "
                    f"declares {sorted(features)}. Declare the feature, or leave it out of the decoder."
                )
            packed_in[name] = packed
    columns = {}
    for name in sorted(features):
        if name == ID_FEATURE:
            continue
        where = f"feature {name!r} of {place}"
        shape = _shape(features[name], where)
        default = defaults.get(name)
        if shape == (-1,) and default:
            raise ValueError(
                "`metadata.extra` must give the empty default to a feature with any number of values; got "
                f'{default!r} for {where}. Write "" for no values.'
            )
        columns[name] = TableColumn(
            name=name if name in packed_in else features[name].source or name,
            dtype=ARROW_TYPES[tf.dtypes.as_dtype(features[name].dtype)],
            default=default,
            shape=shape,
            packed_in=packed_in.get(name, ""),
        )
        check_default(columns[name], where)
    return columns


def _shape(feature: Feature, where: str) -> tuple[int, ...]:
    shape = tuple(dim.size for dim in feature.shape.dim)
    if -1 in shape and shape != (-1,):
        raise ValueError(
            f"`shape` must be fixed, or [-1] alone; got {list(shape)} for {where}. "
            "Flatten the values, or keep the inner dimensions as features of their own."
        )
    return shape


def extra_value(metadata: Metadata, key: str) -> str | None:
    """Reads a setting of `metadata.extra`; the last one if there are several, None if there is none."""
    values = [entry.value for entry in metadata.extra if entry.key == key]
    return values[-1] if values else None


def extra_values(metadata: Metadata, prefix: str) -> dict[str, str]:
    """Reads the settings of `metadata.extra` whose keys have a prefix, by what follows it."""
    return {entry.key.removeprefix(prefix): entry.value for entry in metadata.extra if entry.key.startswith(prefix)}
