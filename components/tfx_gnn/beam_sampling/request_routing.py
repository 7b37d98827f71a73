"""Which partition of the graph answers which request of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.beam_sampling.index_files import partition_of_codes
from tfx_gnn.beam_sampling.messages import PartRequests
from tfx_gnn.sampling.edge_requests import EdgeRequests


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
