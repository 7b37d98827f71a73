"""The weights, labels, timestamps and attributes of one node or edge type, looked up by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import EdgeSet, NodeSet
from tfx_gnn.graphlearn.attribute_decoder import (
    LABEL,
    MISSING_VALUES,
    TIMESTAMP,
    VALUE_DELIMITER,
    WEIGHT,
    AttributeType,
    Decoder,
)
from tfx_gnn.tables.packed_column import parse_packed_column

_DECODER_PREFIX = "decoder."  # of the settings of a table that describe its packed columns
_MISSING = {"int": 0, "float": 0.0, "string": ""}
_SCALAR_KINDS = {WEIGHT: "float", LABEL: "int", TIMESTAMP: "int"}
_DTYPES: Mapping[str, Any] = {"int": np.int64, "float": np.float32, "string": np.object_}

Rows = npt.NDArray[np.int64]


class TypeAttributes:
    """Columns of a node or edge type; row -1 stands for a node or edge that does not exist.

    Attributes:
        decoder: description of the columns, as GraphLearn has it.
    """

    def __init__(self, label: str, features: Mapping[str, pa.Array], num_rows: int, decoder: Decoder) -> None:
        """Keeps the columns; each kind of attribute becomes a matrix when it is first looked up.

        Args:
            label: name of the table in messages, such as "nodes/user".
            features: the columns by name, Arrow arrays of `num_rows` values.
            num_rows: number of rows.
            decoder: description of the columns.
        """
        self._label = label
        self._features = features
        self._num_rows = num_rows
        self.decoder = decoder
        self._matrices: dict[str, npt.NDArray[Any] | None] = {}
        self._scalars: dict[str, npt.NDArray[Any]] = {}
        wanted = {WEIGHT: decoder.weighted, LABEL: decoder.labeled, TIMESTAMP: decoder.timestamped}
        kinds = {name: _SCALAR_KINDS[name] for name, is_there in wanted.items() if is_there}
        kinds |= {attribute.name: attribute.stored_type for attribute in decoder.attributes}
        absent = [name for name in kinds if name not in features]
        if absent:
            raise ValueError(
                f"`decoders` must describe columns of {label!r}, which has {sorted(features)}; got {absent}. Take the "
                "decoder that the table was read with."
            )
        for name, kind in kinds.items():
            _check_kind(label, name, features[name], kind)

    def weights(self, rows: Rows) -> npt.NDArray[np.float32] | None:
        """Returns weights in the shape of `rows`, 0.0 where a row is -1; None if there are none."""
        return self._scalar(WEIGHT, rows) if self.decoder.weighted else None

    def labels(self, rows: Rows) -> npt.NDArray[np.int32] | None:
        """Returns labels in the shape of `rows`, -1 where a row is -1; None if there are none."""
        return self._scalar(LABEL, rows) if self.decoder.labeled else None

    def timestamps(self, rows: Rows) -> npt.NDArray[np.int64] | None:
        """Returns timestamps in the shape of `rows`, -1 where a row is -1; None if there are none."""
        return self._scalar(TIMESTAMP, rows) if self.decoder.timestamped else None

    def attributes(self, kind: str, rows: Rows) -> npt.NDArray[Any] | None:
        """Returns the attributes of one stored type.

        Args:
            kind: "int", "float" or "string".
            rows: int64 array of rows.

        Returns:
            int64, float32 or object array, shape [*rows.shape, number of attributes], with 0,
            0.0 or '' where a row is -1; None if there are no such attributes.
        """
        matrix = self.matrix(kind)
        return None if matrix is None else matrix[rows]

    def matrix(self, kind: str) -> npt.NDArray[Any] | None:
        """Returns all attributes of one stored type, with a last row for nodes or edges that do not exist."""
        if kind not in self._matrices:
            self._matrices[kind] = self._make_matrix(kind)
        return self._matrices[kind]

    def _scalar(self, name: str, rows: Rows) -> npt.NDArray[Any]:
        if name not in self._scalars:
            dtype = {WEIGHT: np.float32, LABEL: np.int32, TIMESTAMP: np.int64}[name]
            column = _cells(self._features[name])
            wide = np.flatnonzero((column.astype(dtype) != column) & (name == LABEL))
            if len(wide):
                raise ValueError(
                    f"`{LABEL}` must be an int32 in queries; got {column[wide[0]]} in row {wide[0]} of "
                    f"{self._label!r}. Read it as an attribute instead."
                )
            self._scalars[name] = np.append(column.astype(dtype), np.array(MISSING_VALUES[name], dtype))
        return self._scalars[name][rows]

    def _make_matrix(self, kind: str) -> npt.NDArray[Any] | None:
        names = [attribute.name for attribute in self.decoder.attributes if attribute.stored_type == kind]
        if not names:
            return None
        matrix = np.empty((self._num_rows + 1, len(names)), _DTYPES[kind])
        for position, name in enumerate(names):
            matrix[:-1, position] = _cells(self._features[name])
        matrix[-1] = _MISSING[kind]
        return matrix


def _cells(column: pa.Array) -> npt.NDArray[Any]:
    """Returns one value per row; the values of a list of texts are joined, as they are in GraphLearn's files."""
    if _is_list(column.type):
        texts = np.empty(len(column), np.object_)
        texts[:] = [VALUE_DELIMITER.join(values) for values in column.to_pylist()]
        return texts
    return column.to_numpy(zero_copy_only=False)


def _check_kind(label: str, name: str, column: pa.Array, kind: str) -> None:
    """Refuses columns whose values would change, or be no values at all, in the type that a decoder gives them."""
    dtype = column.type
    is_number = pa.types.is_integer(dtype) or pa.types.is_boolean(dtype)
    fits = {
        "int": is_number,
        "float": is_number or pa.types.is_floating(dtype),
        "string": _is_text(dtype.value_type if _is_list(dtype) else dtype),
    }
    if not fits[kind]:
        raise ValueError(
            f"`decoders` must give {name!r} of {label!r} the type of its column, {dtype}; got {kind!r}. Take the "
            "decoder that the table was read with."
        )
    if kind == "int" and pa.types.is_uint64(dtype):
        largest = int(column.to_numpy(zero_copy_only=False).max(initial=0))
        if largest >= 2**63:
            raise ValueError(
                f"`{name}` must be an int64 in queries; got {largest} in {label!r}. Declare it as DT_STRING in the "
                "schema, or leave it out."
            )


def _is_list(dtype: pa.DataType) -> bool:
    return pa.types.is_list(dtype) or pa.types.is_large_list(dtype)


def _is_text(dtype: pa.DataType) -> bool:
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype)


def scalar_features(label: str, features: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Splits features of a fixed shape [n] into n columns, and refuses what GraphLearn's attributes cannot hold."""
    columns: dict[str, pa.Array] = {}
    for name, column in features.items():
        dtype = column.type
        if pa.types.is_fixed_size_list(dtype):
            values, size = column.flatten(), dtype.list_size
            for position in range(size):
                if f"{name}.{position}" in features:
                    raise ValueError(
                        f"`tables` must have features of different names to be queried; got {name!r} of {label!r}, of "
                        f"{size} values, and a feature {name}.{position}, the name of one of them. Rename it."
                    )
                columns[f"{name}.{position}"] = values.take(pa.array(np.arange(position, len(values), size)))
        elif _is_list(dtype) and not pa.types.is_large_string(dtype.value_type):
            raise ValueError(
                f"`tables` must have numbers, texts, lists of texts and lists of a fixed length to be queried; got "
                f"{name!r} of {label!r}, lists of {dtype.value_type} of any length. Leave the feature out of the "
                "schema, or give it a fixed shape."
            )
        else:
            columns[name] = column
    return columns


def decoder_of(declared: NodeSet | EdgeSet, columns: Mapping[str, pa.Array]) -> Decoder:
    """Describes columns by a decoder: packed attributes in their order, then the others in the order of their names."""
    buckets: dict[str, int | None] = {}
    for item in declared.metadata.extra:
        if item.key.startswith(_DECODER_PREFIX):
            column = parse_packed_column(item.key.removeprefix(_DECODER_PREFIX), item.value)
            buckets.update({part.name: part.num_buckets for part in column.parts if part.name})
    special = {
        WEIGHT: pa.types.is_floating,
        LABEL: pa.types.is_integer,
        TIMESTAMP: pa.types.is_integer,
    }
    found = {name: name in columns and fits(columns[name].type) for name, fits in special.items()}
    plain = [name for name in sorted(columns, key=_name_order) if name not in buckets and not found.get(name, False)]
    names = [*(name for name in buckets if name in columns), *plain]
    return Decoder(
        weighted=found[WEIGHT],
        labeled=found[LABEL],
        timestamped=found[TIMESTAMP],
        attr_types=[_attribute_type(columns[name].type, buckets.get(name)) for name in names],
        attr_names=names,
    )


def _name_order(name: str) -> tuple[str, int]:
    """Orders columns by name, and the values of a feature of a fixed shape, such as x.2 and x.10, by position."""
    feature, _, position = name.rpartition(".")
    return (feature, int(position)) if feature and position.isdecimal() else (name, -1)


def _attribute_type(dtype: pa.DataType, num_buckets: int | None) -> AttributeType:
    if num_buckets is not None:
        return ("string", num_buckets)
    if _is_list(dtype):
        return ("string", None, True)
    if pa.types.is_integer(dtype) or pa.types.is_boolean(dtype):
        return "int"
    return "float" if pa.types.is_floating(dtype) else "string"
