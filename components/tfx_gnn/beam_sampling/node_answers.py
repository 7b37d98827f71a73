"""Fetches ids and features of sampled nodes, one partition of the graph at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.beam_sampling import index_files as files
from tfx_gnn.beam_sampling.index_reader import GraphIndex
from tfx_gnn.beam_sampling.messages import NodeAnswer, NodeRequests, pack_table
from tfx_gnn.beam_sampling.request_routing import group_by_partition


def route_nodes(
    codes: Mapping[str, npt.NDArray[np.uint64]], num_partitions: int
) -> dict[int, tuple[NodeRequests, ...]]:
    """Divides the nodes of a block among the partitions that hold them.

    Args:
        codes: by node set, uint64 array, shape [n], ascending, no two equal.
        num_partitions: number of partitions, a power of two.

    Returns:
        By partition, what it is asked for; partitions that are asked for nothing are left out.
    """
    routed: dict[int, list[NodeRequests]] = {}
    for node_set, of_set in codes.items():
        for partition, at in group_by_partition(files.partition_of_codes(of_set, num_partitions)):
            part = NodeRequests(node_set=node_set, codes=of_set if at is None else of_set[at])
            routed.setdefault(partition, []).append(part)
    return {partition: tuple(parts) for partition, parts in sorted(routed.items())}


def answer_nodes(index: GraphIndex, partition: int, parts: Sequence[NodeRequests]) -> tuple[NodeAnswer, ...]:
    """Looks nodes up.

    Args:
        index: the graph.
        partition: number of the partition.
        parts: nodes of that partition.

    Returns:
        The nodes, set by set.

    Raises:
        ValueError: if an edge of the index led to a node that the index lacks.
    """
    answers = []
    for part in parts:
        nodes = index.load_nodes(part.node_set, partition)
        positions = nodes.positions_of(part.codes)
        if (positions < 0).any():
            missing = part.codes[positions < 0]
            raise ValueError(
                f"`index_dir` must hold the nodes that its edges lead to; got {index.index_dir!r}, which lacks "
                f"{len(missing)} of node set {part.node_set!r}, the first with code {int(missing[0]):#x}. "
                "Build the index again."
            )
        at = pa.array(positions)
        rows = {
            files.CODE: part.codes.view(np.int64),
            files.ID: nodes.ids.take(at),
            **{name: values.take(at) for name, values in nodes.features.items()},
        }
        answers.append(NodeAnswer(node_set=part.node_set, rows=pack_table(pa.table(rows))))
    return tuple(answers)
