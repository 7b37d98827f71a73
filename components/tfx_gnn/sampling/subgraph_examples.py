"""Sampled subgraphs as serialized tf.Examples in TF-GNN's layout.

Subgraphs repeat nodes: a feature value that a table holds once is written many
times. So every value is turned into its piece of the record once, up front,
and a record is put together from slices, ten times as fast as through
`tf.train.Example` and byte for byte the same as its deterministic form.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.plan import SamplingPlan
from tfx_gnn.sampling.sampled_subgraphs import SampledSubgraphs
from tfx_gnn.sampling.subgraph_schema import READOUT_EDGE_SET, READOUT_NODE_SET, make_subgraph_schema
from tfx_gnn.tables.graph_tables import ID_FEATURE, GraphTables

# Wire types of protobuf for fields 1, 2 and 3, each holding bytes.
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"
# tf.train.Feature's fields.
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = _FIELD_1, _FIELD_2, _FIELD_3

_Rows = npt.NDArray[np.int64]


class SubgraphExampleEncoder:
    """Turns sampled subgraphs into serialized tf.Examples.

    The keys are `nodes/<set>.#size`, `nodes/<set>.<feature>`, `edges/<set>.#size`,
    `edges/<set>.#source`, `edges/<set>.#target` and `edges/<set>.<feature>`, for
    exactly the sets and features of `schema`. Every key is there in every record;
    an empty set has empty lists.

    Attributes:
        schema: graph schema of the records.
    """

    def __init__(self, tables: GraphTables, plan: SamplingPlan) -> None:
        """Encodes the values of all tables.

        Args:
            tables: the graph that subgraphs are sampled from.
            plan: the plan that they are sampled by.
        """
        self.schema: GraphSchema = make_subgraph_schema(tables.schema, plan)
        self._seed_node_set = plan.seed_node_set
        self._features: dict[str, _EncodedColumn] = {}
        for name, node_set in self.schema.node_sets.items():
            table = tables.node_tables[plan.seed_node_set if name == READOUT_NODE_SET else name]
            for feature in node_set.features:
                column = table.ids if feature == ID_FEATURE else table.features[feature]
                self._features[f"nodes/{name}.{feature}"] = _encode_column(column)
        for name, edge_set in self.schema.edge_sets.items():
            for feature in edge_set.features:
                edges = tables.edge_tables[name]
                column = pa.array(np.arange(edges.num_edges)) if feature == ID_FEATURE else edges.features[feature]
                self._features[f"edges/{name}.{feature}"] = _encode_column(column)
        self._integers = _EncodedIntegers()
        self._headers: dict[str, _HeaderCache] = {}

    def encode(self, subgraphs: SampledSubgraphs) -> list[bytes]:
        """Writes subgraphs as records.

        Args:
            subgraphs: a batch that was sampled from the tables by the plan.

        Returns:
            One serialized tf.Example a subgraph, in order.
        """
        num_subgraphs = len(subgraphs.seed_rows)
        one_each = np.arange(num_subgraphs + 1)
        zeros = np.zeros(num_subgraphs, np.int64)
        entries: dict[str, Iterator[bytes]] = {}

        def add_feature(key: str, rows: _Rows, splits: _Rows) -> None:
            column = self._features[key]
            entries[key] = self._entries(key, column.kind, column.take(rows), splits)

        def add_integers(key: str, values: _Rows, splits: _Rows) -> None:
            entries[key] = self._entries(key, _INT64_LIST, self._integers.take(values), splits)

        for name, node_set in self.schema.node_sets.items():
            if name == READOUT_NODE_SET:
                rows, splits = subgraphs.seed_rows, one_each
            else:
                rows, splits = subgraphs.node_sets[name].rows, subgraphs.node_sets[name].splits
            add_integers(f"nodes/{name}.#size", np.diff(splits), one_each)
            for feature in node_set.features:
                add_feature(f"nodes/{name}.{feature}", rows, splits)
        for name, edge_set in self.schema.edge_sets.items():
            if name == READOUT_EDGE_SET:
                rows, sources, targets, splits = zeros, zeros, zeros, one_each
            else:
                edges = subgraphs.edge_sets[name]
                rows, sources, targets, splits = edges.rows, edges.sources, edges.targets, edges.splits
            add_integers(f"edges/{name}.#size", np.diff(splits), one_each)
            add_integers(f"edges/{name}.#source", sources, splits)
            add_integers(f"edges/{name}.#target", targets, splits)
            for feature in edge_set.features:
                add_feature(f"edges/{name}.{feature}", rows, splits)
        in_key_order = [entries[key] for key in sorted(entries)]
        return [_with_length(_FIELD_1, b"".join(parts)) for parts in zip(*in_key_order, strict=True)]

    def _entries(self, key: str, kind: bytes, values: _EncodedValues, splits: _Rows) -> Iterator[bytes]:
        """Yields `features { feature { key: ... value: ... } }` for one key, subgraph after subgraph."""
        headers = self._headers.setdefault(key, _HeaderCache(key, kind))
        data = values.data
        bounds = values.offsets[splits].tolist()
        for start, stop in itertools.pairwise(bounds):
            yield headers[stop - start] + data[start:stop]


class _HeaderCache(dict[int, bytes]):
    """What comes before a list of values of a given length in bytes."""

    def __init__(self, key: str, kind: bytes) -> None:
        super().__init__()
        self._key = _with_length(_FIELD_1, key.encode())
        self._kind = kind

    def __missing__(self, num_bytes: int) -> bytes:
        # Numbers are packed into one field, byte strings are fields of their own.
        packed = b"" if self._kind == _BYTES_LIST or num_bytes == 0 else _FIELD_1 + _varint(num_bytes)
        value = self._kind + _varint(len(packed) + num_bytes) + packed
        entry = self._key + _FIELD_2 + _varint(len(value) + num_bytes) + value
        header = _FIELD_1 + _varint(len(entry) + num_bytes) + entry
        self[num_bytes] = header
        return header


class _EncodedValues:
    """Encoded values one after the other, and where each begins."""

    def __init__(self, data: bytes, offsets: _Rows) -> None:
        self.data = data
        self.offsets = offsets


class _EncodedColumn:
    """Values of a table column in their encoded form.

    `kind` tells which list of tf.train.Feature they belong to.
    """

    def __init__(self, kind: bytes, pieces: pa.LargeBinaryArray | npt.NDArray[np.float32]) -> None:
        self.kind = kind
        self._pieces = pieces

    def take(self, rows: _Rows) -> _EncodedValues:
        """Returns the encoded values of some rows, in that order."""
        if isinstance(self._pieces, np.ndarray):
            return _EncodedValues(self._pieces[rows].tobytes(), np.arange(len(rows) + 1) * self._pieces.itemsize)
        taken = self._pieces.take(pa.array(rows))
        _, offsets, data = taken.buffers()
        starts = np.frombuffer(offsets, np.int64)[taken.offset : taken.offset + len(taken) + 1]
        return _EncodedValues(b"" if data is None else data.to_pybytes(), starts)


class _EncodedIntegers:
    """Small non-negative integers (sizes, positions) in their encoded form; grows as needed."""

    def __init__(self) -> None:
        self._column = _encode_column(pa.array(np.arange(1024)))
        self._num_known = 1024

    def take(self, values: _Rows) -> _EncodedValues:
        """Returns the encoded values, in that order."""
        largest = int(values.max(initial=0))
        if largest >= self._num_known:
            self._num_known = 2 * largest
            self._column = _encode_column(pa.array(np.arange(self._num_known)))
        return self._column.take(values)


def _encode_column(column: pa.Array) -> _EncodedColumn:
    if pa.types.is_floating(column.type):
        return _EncodedColumn(_FLOAT_LIST, column.to_numpy(zero_copy_only=False).astype("<f4"))
    distinct = column.dictionary_encode()
    if pa.types.is_large_string(column.type):
        kind, pieces = _BYTES_LIST, [_with_length(_FIELD_1, text.encode()) for text in distinct.dictionary.to_pylist()]
    else:
        kind, pieces = _INT64_LIST, [_varint(int(value) % 2**64) for value in distinct.dictionary.to_pylist()]
    encoded = pa.array(pieces, pa.large_binary()).take(distinct.indices)
    return _EncodedColumn(kind, encoded)


def _varint(value: int) -> bytes:
    """Encodes a value in [0, 2**64): seven bits a byte, low bits first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _with_length(field: bytes, data: bytes) -> bytes:
    return field + _varint(len(data)) + data
