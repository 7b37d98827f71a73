"""Messages between blocks of seeds and partitions of the graph, and their routing.

Messages are whole columns for many requests at once, as bytes: Beam then copies
them between its steps without looking inside, and a message costs what its bytes
cost, not what its rows do.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.index.files import partition_of_codes
from tfx_gnn.sampling.engine.edge_choice import EdgeRequests, FoundEdges

_Integers = npt.NDArray[np.int64]


_State = TypeVar("_State")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartRequests:
    """Requests of one hop that one partition answers.

    Attributes:
        hop: position of the hop among the block's requests of this round.
        positions: int64 array, shape [num_requests]: which of the block's requests these are.
        requests: the requests.
    """

    hop: int
    positions: _Integers
    requests: EdgeRequests


@dataclasses.dataclass(frozen=True, kw_only=True)
class BucketRequests:
    """Requests of one hop about edges of hubs that one partition of buckets holds.

    Attributes:
        hop: position of the hop among the block's requests of this round.
        positions: int64 array, shape [n]: which of the block's requests each asks for.
        nodes: uint64 array, shape [n]: codes of the hubs.
        buckets: int32 array, shape [n]: buckets of the hubs.
        requests: what to choose in each bucket, `num_requests` is n; or of requests by
            position, their hop alone with no request in it.
        offsets: int64 array, shape [n]: of requests by position, the edge's place in
            its bucket; None for choices among all edges of the bucket.
        draws: int16 array, shape [n]: of requests by position, number of the draw.
    """

    hop: int
    positions: _Integers
    nodes: npt.NDArray[np.uint64]
    buckets: npt.NDArray[np.int32]
    requests: EdgeRequests
    offsets: _Integers | None = None
    draws: npt.NDArray[np.int16] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartAnswer:
    """Edges that answer some of a block's requests of one hop.

    Attributes:
        hop: position of the hop among the block's requests of this round.
        positions: int64 array: which of the block's requests `found.requests` counts.
        found: the edges.
        features: features of the edges, each row once, with their `#row`, as `pack_table`
            writes them; empty if the examples show none.
    """

    hop: int
    positions: _Integers
    found: FoundEdges
    features: bytes = b""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeRequests:
    """Nodes of one set whose ids and features a block asks for.

    Attributes:
        node_set: name of the set.
        codes: uint64 array, shape [n], ascending, no two equal.
    """

    node_set: str
    codes: npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeAnswer:
    """Nodes of one set, with ids and features.

    Attributes:
        node_set: name of the set.
        rows: `#code`, `#id` and features of the nodes, as `pack_table` writes them.
    """

    node_set: str
    rows: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToPartition:
    """A message from a block to a partition.

    Attributes:
        block: number of the block, which the answer is sent to.
        parts: what is asked for.
    """

    block: int
    parts: tuple[Any, ...]


def pack(message: object) -> bytes:
    """Writes a message, or a block's state.

    Args:
        message: of module-level classes and NumPy arrays.

    Returns:
        Bytes that `unpack` reads on a worker with the same version of this package.
    """
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


def unpack(data: bytes) -> Any:
    """Reads a message.

    Args:
        data: what `pack` wrote.

    Returns:
        The message.
    """
    return pickle.loads(data)


def read_state(messages: Iterable[bytes], add: Callable[[Any], None], kind: type[_State]) -> _State:
    """Reads what has come to a block: its own state, and answers.

    Args:
        messages: packed, in any order; each answer is a tuple of parts.
        add: takes in one part of an answer.
        kind: class of the state.

    Returns:
        The state.

    Raises:
        RuntimeError: if the runner lost the state.
    """
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


def pack_table(rows: pa.Table) -> bytes:
    """Writes rows of a table, and nothing of what they were cut from.

    Args:
        rows: any table; a slice of a larger one is copied out first.

    Returns:
        Bytes of an Arrow stream.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpack_table(data: bytes) -> pa.Table:
    """Reads rows of a table.

    Args:
        data: what `pack_table` wrote.

    Returns:
        The rows.
    """
    return pa.ipc.open_stream(data).read_all()


def group_by_partition(
    partitions: npt.NDArray[np.int64],
) -> Iterator[tuple[int, npt.NDArray[np.int64] | None]]:
    """Groups positions by partition.

    Args:
        partitions: int64 array, shape [n]: partition of each position.

    Yields:
        Each partition that occurs, ascending, with its positions, ascending; None
        stands for all positions where only one partition occurs.
    """
    if not len(partitions):
        return
    if (partitions == partitions[0]).all():
        yield int(partitions[0]), None
        return
    # Two bytes are sorted by counting, in a third of the time.
    narrow: npt.NDArray[Any] = partitions.astype(np.uint16) if partitions.max() < 2**16 else partitions
    order = np.argsort(narrow, kind="stable").astype(np.int64)
    in_order = partitions[order]
    starts = np.flatnonzero(np.concatenate([[True], in_order[1:] != in_order[:-1]])).tolist()
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(in_order[start]), order[start:stop]


def route_requests(requests: Sequence[EdgeRequests], num_partitions: int) -> dict[int, tuple[PartRequests, ...]]:
    """Divides a block's requests among the partitions that hold the nodes' edges.

    Args:
        requests: the requests of one round, hop by hop; nodes are codes.
        num_partitions: number of partitions, a power of two.

    Returns:
        By partition, what it is asked for; partitions that are asked for nothing are left out.
    """
    routed: dict[int, list[PartRequests]] = {}
    for hop, of_hop in enumerate(requests):
        for partition, positions in group_by_partition(partition_of_codes(of_hop.nodes, num_partitions)):
            part = (
                PartRequests(hop=hop, positions=np.arange(of_hop.num_requests), requests=of_hop)
                if positions is None
                else PartRequests(hop=hop, positions=positions, requests=of_hop.take(positions))
            )
            routed.setdefault(partition, []).append(part)
    return {partition: tuple(parts) for partition, parts in sorted(routed.items())}
