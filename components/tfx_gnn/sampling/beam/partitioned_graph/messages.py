"""Messages between the steps of partitioning a graph.

Every message is about many rows and is sent as bytes (see `tfx_gnn.sampling.beam.messages`), under a text key. A key
that names a partition has the form "<partition>/<what>".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.messages import pack_table

_Codes = npt.NDArray[np.uint64]
_Integers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedNodes:
    """Nodes that rows refer to, each code once.

    Attributes:
        distinct: uint64 array, shape [num_nodes], ascending.
        places: array of unsigned integers, shape [num_rows]: positions in `distinct`.
    """

    distinct: _Codes
    places: npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinkBlock:
    """A block of rows that refer to nodes: edges or seeds.

    Attributes:
        key: key of the block, to which answers are sent.
        label: label of the table.
        unit: position of the unit among the table's units.
        rows: int64 array, shape [num_rows]: positions in the unit.
        ends: the nodes that each row refers to: source and target, or the one node.
        columns: features and extra columns, as written by `pack_rows`.
    """

    key: str
    label: str
    unit: int
    rows: _Integers
    ends: tuple[NamedNodes, ...]
    columns: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownNodes:
    """The nodes of one set in one partition.

    Attributes:
        codes: uint64 array, shape [num_nodes], ascending.
        ranks: int8 array, shape [num_nodes]; None if every split sees all nodes.
    """

    codes: _Codes
    ranks: npt.NDArray[np.int8] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class EndRequest:
    """Request for the nodes of one partition that a block refers to.

    Attributes:
        block: key of the block.
        end: position of the end in the block's `ends`.
        partition: number of the partition.
        codes: uint64 array, shape [n], each once, ascending.
    """

    block: str
    end: int
    partition: int
    codes: _Codes


@dataclasses.dataclass(frozen=True, kw_only=True)
class EndAnswer:
    """Answer to an `EndRequest`.

    Attributes:
        end: as in the request.
        partition: as in the request.
        is_known: bool array, shape [n]: whether the node exists.
        ranks: int8 array, shape [n], 0 for unknown nodes; None without ranks.
    """

    end: int
    partition: int
    is_known: npt.NDArray[np.bool_]
    ranks: npt.NDArray[np.int8] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pairs:
    """Rows of a block whose ends fall into one partition of pairs.

    Attributes:
        block: key of the block.
        unit: position of the unit.
        first_row: position in the unit of the first row of the block.
        positions: array of unsigned integers, shape [n]: positions in the block.
        ends: codes, arrays of shape [n].
        times: int64 array, shape [n], if time distinguishes rows with equal ends.
        identity: hashes of other columns that distinguish such rows, uint64 arrays of shape [n].
    """

    block: str
    unit: int
    first_row: int
    positions: npt.NDArray[Any]
    ends: tuple[_Codes, ...]
    times: _Integers | None
    identity: tuple[_Codes, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Repeats:
    """Repeated rows of a block.

    Attributes:
        positions: array of unsigned integers: positions in the block.
    """

    positions: npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EndCounts:
    """Numbers of edges of a block at each node of one partition.

    Attributes:
        block: key of the block if it requests the sums over all blocks, else "".
        partition: number of the partition.
        codes: uint64 array, shape [n], each once, ascending.
        counts: int64 array, shape [n].
    """

    block: str
    partition: int
    codes: _Codes
    counts: _Integers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Degrees:
    """Sums over all blocks, as the answer to an `EndCounts`.

    Attributes:
        end: "source" or "target".
        partition: as in the request.
        counts: int64 array, shape [n]: number of edges at each of the request's codes.
    """

    end: str
    partition: int
    counts: _Integers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hubs:
    """The hubs of one partition.

    Attributes:
        edge_set: name of the set.
        direction: "forward" or "backward".
        codes: uint64 array, shape [num_hubs], ascending.
        degrees: int64 array, shape [num_hubs].
    """

    edge_set: str
    direction: str
    codes: _Codes
    degrees: _Integers


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrokenRows:
    """Rows of one unit that break a rule between rows.

    Attributes:
        label: label of the table.
        unit: position of the unit.
        rule: name of the rule, see `row_rules`.
        rows: int64 array: positions in the unit, ascending; for refused rows, only the
            first position.
        count: number of rows.
        values: ids and time of each row, by key, if the table cannot be read again.
    """

    label: str
    unit: int
    rule: str
    rows: _Integers
    count: int
    values: tuple[Mapping[str, Any], ...] | None = None


def name_nodes(codes: _Codes) -> NamedNodes:
    """Lists each node once, which takes a fraction of the bytes."""
    distinct, places = np.unique(codes, return_inverse=True)
    return NamedNodes(distinct=distinct, places=places.astype(np.min_scalar_type(max(len(distinct) - 1, 0))))


def pack_rows(rows: pa.Table) -> bytes:
    """Serializes rows for `unpack_table`, compressed, because all rows of a graph pass through shuffles."""
    return pack_table(rows, compression="lz4")


def partition_key(partition: int, what: str) -> str:
    """Returns the key of a partition of `what`; `split_key` is the inverse."""
    return f"{partition}/{what}"


def split_key(key: str) -> tuple[int, str]:
    """Splits a key into the number of the partition and `what` it is a partition of."""
    partition, _, what = key.partition("/")
    return int(partition), what
