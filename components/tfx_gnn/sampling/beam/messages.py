"""Messages between blocks of seeds and partitions of the graph, and their routing.

A message holds whole columns for many requests as bytes. Beam copies them between its steps without decoding, so the
cost depends on the number of bytes, not on the number of rows.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.partitioned_graph.partitions import group_by_partition, partition_of_codes
from tfx_gnn.sampling.engine.edge_choice import EdgeRequests, FoundEdges

_Integers = npt.NDArray[np.int64]
_State = TypeVar("_State")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartRequests:
    """Requests of one hop that one partition answers.

    Attributes:
        hop: position of the hop among the block's requests of this round.
        positions: int64 array, shape [num_requests]: positions among the block's requests.
        requests: the requests.
    """

    hop: int
    positions: _Integers
    requests: EdgeRequests

    def take(self, at: _Integers) -> PartRequests:
        """Returns the requests at these positions, in that order."""
        return PartRequests(hop=self.hop, positions=self.positions[at], requests=self.requests.take(at))


@dataclasses.dataclass(frozen=True, kw_only=True)
class BucketRequests:
    """Requests of one hop about edges of hubs that one partition of buckets holds.

    There are two kinds: requests by position name an edge of a bucket; other requests
    choose among all edges of a bucket.

    Attributes:
        hop: position of the hop among the block's requests of this round.
        positions: int64 array, shape [n]: positions of the requests among the block's
            requests.
        nodes: uint64 array, shape [n]: codes of the hubs.
        buckets: int32 array, shape [n]: buckets of the hubs.
        requests: what to choose in each bucket, with n requests; for requests by
            position it has no requests and only names the hop.
        offsets: int64 array, shape [n]: for requests by position, the edge's place in
            its bucket; None for the other kind.
        draws: int16 array, shape [n]: for requests by position, number of the draw.
    """

    hop: int
    positions: _Integers
    nodes: npt.NDArray[np.uint64]
    buckets: npt.NDArray[np.int32]
    requests: EdgeRequests
    offsets: _Integers | None = None
    draws: npt.NDArray[np.int16] | None = None

    def take(self, at: _Integers) -> BucketRequests:
        """Returns the requests at these positions, in that order."""
        return BucketRequests(
            hop=self.hop,
            positions=self.positions[at],
            nodes=self.nodes[at],
            buckets=self.buckets[at],
            requests=self.requests if self.offsets is not None else self.requests.take(at),
            offsets=None if self.offsets is None else self.offsets[at],
            draws=None if self.draws is None else self.draws[at],
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartAnswer:
    """Edges that answer some of a block's requests of one hop.

    Attributes:
        hop: position of the hop among the block's requests of this round.
        positions: int64 array: positions among the block's requests of the requests that
            `found.requests` counts.
        found: the edges.
        features: features of the edges, each row once, with their `#row`, as written by
            `pack_table`; empty if the examples have none.
    """

    hop: int
    positions: _Integers
    found: FoundEdges
    features: bytes = b""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeRequests:
    """Nodes of one set whose ids and features a block requests.

    Attributes:
        node_set: name of the set.
        codes: uint64 array, shape [n], ascending, unique.
    """

    node_set: str
    codes: npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeAnswer:
    """Nodes of one set, with ids and features.

    Attributes:
        node_set: name of the set.
        rows: `#code`, `#id` and features of the nodes, as written by `pack_table`.
    """

    node_set: str
    rows: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToPartition:
    """A message from a block to a partition.

    Attributes:
        block: number of the block, to which the answer is sent.
        parts: the requests.
    """

    block: int
    parts: tuple[Any, ...]


def pack(message: object) -> bytes:
    """Serializes a message or a block's state, for workers with the same version of this package."""
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


def unpack(data: bytes) -> Any:
    """Reads what `pack` wrote."""
    return pickle.loads(data)


def read_state(messages: Iterable[bytes], add: Callable[[Any], None], kind: type[_State]) -> _State:
    """Returns a block's own state from its messages; passes each part of the answers to `add`."""
    state: _State | None = None
    for data in messages:
        message = unpack(data)
        if isinstance(message, kind):
            state = message
        else:
            for part in message:
                add(part)
    if state is None:
        raise RuntimeError("A block's answers must come with its state; got answers alone. Run the pipeline again.")
    return state


def pack_table(rows: pa.Table, *, compression: str | None = None) -> bytes:
    """Serializes rows as an Arrow stream; for a slice, only the rows of the slice."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpack_table(data: bytes) -> pa.Table:
    """Reads what `pack_table` wrote."""
    return pa.ipc.open_stream(data).read_all()


def route_requests(requests: Sequence[EdgeRequests], num_partitions: int) -> dict[int, tuple[PartRequests, ...]]:
    """Divides a block's requests among the partitions that hold the nodes' edges; omits partitions without requests."""
    routed: dict[int, list[PartRequests]] = {}
    for hop, of_hop in enumerate(requests):
        for partition, positions in group_by_partition(partition_of_codes(of_hop.nodes, num_partitions)):
            everything = PartRequests(hop=hop, positions=np.arange(of_hop.num_requests), requests=of_hop)
            routed.setdefault(partition, []).append(everything if positions is None else everything.take(positions))
    return {partition: tuple(parts) for partition, parts in sorted(routed.items())}
