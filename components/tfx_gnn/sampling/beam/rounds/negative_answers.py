"""Requests for negatives of link seeds, and the answers of partitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.partitioned_graph.partitions import (
    bucket_partition_of,
    group_by_partition,
    partition_of_codes,
    positions_in,
)
from tfx_gnn.sampling.beam.partitioned_graph.reader import EdgePartition, NodePartition, PartitionedGraph
from tfx_gnn.sampling.engine.edge_choice import expand_ranges
from tfx_gnn.sampling.engine.negatives import DrawableNodes, order_drawable_nodes, times_of_nodes, whole_weights
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, root_node_sets
from tfx_gnn.sampling.random_choice import hash_ids, hash_integers, mix

_Integers = npt.NDArray[np.int64]
_Codes = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupRequests:
    """Requests the groups of a block's true nodes, from the partition that holds the nodes.

    Attributes:
        positions: int64 array, shape [n]: positions of their pairs in the block.
        nodes: uint64 array, shape [n]: codes of the nodes.
    """

    positions: _Integers
    nodes: _Codes


@dataclasses.dataclass(frozen=True, kw_only=True)
class TotalRequests:
    """Requests the total weight, in each partition, of the groups of a block's pairs.

    Attributes:
        positions: int64 array, shape [n]: pair and part of the negatives, as the position of the pair in the block
            times the number of parts, plus that of the part.
        groups: uint64 array, shape [n]: group that this part of the pair's negatives draws from, see `hash_groups`.
    """

    positions: _Integers
    groups: _Codes


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupTotals:
    """Total weights of drawable nodes, by group and partition.

    Attributes:
        groups: uint64 array, shape [m]: the groups.
        partitions: int64 array, shape [m]: partitions of nodes.
        totals: int64 array, shape [m]: sum of the weights of the group's nodes there.
    """

    groups: _Codes
    partitions: _Integers
    totals: _Integers

    def take(self, at: _Integers) -> GroupTotals:
        """Returns the items at these positions, in that order."""
        return GroupTotals(groups=self.groups[at], partitions=self.partitions[at], totals=self.totals[at])


@dataclasses.dataclass(frozen=True, kw_only=True)
class TotalAnswer:
    """Total weights of drawable nodes for some pairs.

    Attributes:
        positions: int64 array, shape [n]: pair and part, as in `TotalRequests`.
        groups: uint64 array, shape [n]: group of each.
        totals: total weights of these groups.
    """

    positions: _Integers
    groups: _Codes
    totals: GroupTotals


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawRequests:
    """Requests the nodes that draws fall on, from the partition that holds the nodes.

    Attributes:
        positions: int64 array, shape [n]: positions of the draws in the block.
        offsets: int64 array, shape [n]: offset of each draw in the cumulative weights of
            the partition's nodes, or of its nodes of the draw's group.
        groups: uint64 array, shape [n]: groups; None if all nodes are in one group.
    """

    positions: _Integers
    offsets: _Integers
    groups: _Codes | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawAnswer:
    """Nodes that draws fell on.

    Attributes:
        positions: int64 array, shape [n]: positions of the draws in the block.
        nodes: uint64 array, shape [n]: codes of the nodes.
        since: int64 array, shape [n]: times since which they are there; None if they always are.
    """

    positions: _Integers
    nodes: _Codes
    since: _Integers | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairRequests:
    """Requests which pairs of a source and a candidate are edges.

    Attributes:
        positions: int64 array, shape [n]: positions of the draws in the block.
        sources: uint64 array, shape [n]: codes of the sources.
        targets: uint64 array, shape [n]: codes of the candidates.
    """

    positions: _Integers
    sources: _Codes
    targets: _Codes

    def take(self, at: _Integers) -> PairRequests:
        """Returns the pairs at these positions, in that order."""
        return PairRequests(positions=self.positions[at], sources=self.sources[at], targets=self.targets[at])


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairAnswer:
    """Pairs that are edges.

    Attributes:
        positions: int64 array: positions of their draws in the block.
    """

    positions: _Integers


class DrawablePartition:
    """The nodes of one partition that negatives are drawn from.

    Attributes:
        groups: uint64 array, shape [num_groups], ascending: the groups of all parts of the negatives;
            a single 0 if all nodes are in one group.
    """

    def __init__(self, graph: PartitionedGraph, plan: SamplingPlan, partition: int) -> None:
        assert plan.negatives is not None
        nodes = graph.load_nodes(root_node_sets(plan, graph.schema)[plan.negatives.side], partition)
        weights = None
        if plan.negatives.distribution == "in_degree":
            weights = graph.load_in_degrees(plan.seed_edge_set, partition)
        elif plan.negatives.weight_feature:
            # The reader of the tables, which knows the file and the row, has refused others before.
            weights = whole_weights(
                nodes.features[plan.negatives.weight_feature],
                plan.negatives.weight_feature,
                lambda position: f"the node with code {nodes.codes[position]:#x}",
            )
        self._nodes = nodes
        self._since = None
        if plan.negatives.time_feature:
            self._since = times_of_nodes(nodes.features[plan.negatives.time_feature])
        self._groups_of_nodes: _Codes | None = None
        self.groups: _Codes = np.zeros(1, np.uint64)
        numbers = None
        if plan.negatives.condition_features:
            self._groups_of_nodes = hash_groups(nodes, plan.negatives)
            self.groups, numbers = np.unique(self._groups_of_nodes, return_inverse=True)
            numbers = numbers.reshape(self._groups_of_nodes.shape)
        self._drawable: DrawableNodes = order_drawable_nodes(nodes.codes, weights=weights, groups=numbers)

    def totals(self, partition: int) -> GroupTotals:
        """Returns the total weight of each group; `partition` is this partition's number."""
        return GroupTotals(
            groups=self.groups,
            partitions=np.full(len(self.groups), partition),
            totals=self._drawable.totals(np.arange(len(self.groups))).astype(np.int64),
        )

    def groups_of(self, nodes: _Codes) -> _Codes:
        """Returns the groups of nodes of this partition, given by code: shape [len(nodes), num_parts]."""
        if self._groups_of_nodes is None:
            return np.zeros((len(nodes), 1), np.uint64)
        groups: _Codes = self._groups_of_nodes[:, self._nodes.positions_of(nodes)].T
        return groups

    def answer(self, asked: DrawRequests) -> DrawAnswer:
        """Finds the nodes that draws fall on."""
        groups = np.zeros(len(asked.offsets), np.int64)
        if asked.groups is not None:
            groups = np.searchsorted(self.groups, asked.groups).astype(np.int64)
        nodes = self._drawable.nodes_at(groups, asked.offsets.astype(np.uint64))
        since = None if self._since is None else self._since[nodes]
        return DrawAnswer(positions=asked.positions, nodes=self._nodes.codes[nodes], since=since)


def hash_groups(nodes: NodePartition, negatives: Negatives) -> _Codes:
    """Identifies the group of each node for each part of the negatives, uint64 [num_parts, num_nodes]."""
    hashes = [
        hash_values(nodes.features[feature]) if feature else np.zeros(len(nodes.codes), np.uint64)
        for feature, _ in negatives.parts
    ]
    return mix(np.stack(hashes) ^ np.arange(len(hashes), dtype=np.uint64)[:, np.newaxis])


def hash_values(values: pa.Array) -> _Codes:
    """Hashes the values of the feature that defines groups; equal values have equal hashes."""
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0  # zero has one sign
        return hash_integers(numbers.view(np.int64))
    if pa.types.is_boolean(values.type) or pa.types.is_integer(values.type):
        return hash_integers(values.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False))
    return hash_ids(values)


def partition_of_groups(groups: _Codes, num_partitions: int) -> _Integers:
    """Returns the partition where the totals of each group are collected."""
    return partition_of_codes(mix(groups), num_partitions)


def forward_groups(drawable: DrawablePartition, asked: GroupRequests, num_partitions: int) -> dict[int, TotalRequests]:
    """Looks up the groups of true nodes; requests the groups' totals for the block, by partition of groups."""
    by_part = drawable.groups_of(asked.nodes)
    num_parts = by_part.shape[1]
    groups = by_part.ravel()
    positions = (asked.positions[:, np.newaxis] * num_parts + np.arange(num_parts)).ravel()
    forwarded = {}
    for partition, at in group_by_partition(partition_of_groups(groups, num_partitions)):
        where = np.arange(len(groups)) if at is None else at
        forwarded[partition] = TotalRequests(positions=positions[where], groups=groups[where])
    return forwarded


def answer_totals(totals: GroupTotals, asked: TotalRequests) -> TotalAnswer:
    """Returns the totals of the pairs' groups; `totals` is sorted by group."""
    groups = np.unique(asked.groups)
    first = np.searchsorted(totals.groups, groups, side="left")
    last = np.searchsorted(totals.groups, groups, side="right")
    return TotalAnswer(
        positions=asked.positions, groups=asked.groups, totals=totals.take(expand_ranges(first, last - first))
    )


def join_totals(parts: Sequence[GroupTotals]) -> GroupTotals:
    """Joins totals of different partitions, sorted by group, then partition."""
    if not parts:
        return GroupTotals(
            groups=np.zeros(0, np.uint64), partitions=np.zeros(0, np.int64), totals=np.zeros(0, np.int64)
        )
    groups = np.concatenate([part.groups for part in parts])
    partitions = np.concatenate([part.partitions for part in parts])
    order = np.lexsort((partitions, groups))
    joined = np.concatenate([part.totals for part in parts])
    return GroupTotals(groups=groups[order], partitions=partitions[order], totals=joined[order])


class EdgePairs:
    """Looks up which pairs of nodes are edges in a partition of edges by source, in 8 bytes per edge."""

    def __init__(self, edges: EdgePartition) -> None:
        sources = np.repeat(edges.nodes, np.diff(edges.offsets))
        self._sources, source_numbers = np.unique(sources, return_inverse=True)
        self._targets, target_numbers = np.unique(edges.neighbors.view(np.uint64), return_inverse=True)
        self._pairs = np.unique(source_numbers * max(len(self._targets), 1) + target_numbers)

    def answer(self, asked: PairRequests) -> PairAnswer:
        """Returns the pairs that are edges."""
        sources = positions_in(self._sources, asked.sources)
        targets = positions_in(self._targets, asked.targets)
        pairs = positions_in(self._pairs, sources * len(self._targets) + targets)
        return PairAnswer(positions=asked.positions[(sources >= 0) & (targets >= 0) & (pairs >= 0)])


def forward_pairs_of_hubs(
    graph: PartitionedGraph, edge_set: str, partition: int, asked: PairRequests
) -> dict[int, PairRequests]:
    """Requests edges of hubs for a block: by partition of buckets, the pairs whose source has a bucket there."""
    hubs = graph.load_hubs(edge_set, "forward", partition)
    at_hub = hubs.positions_of(asked.sources)
    of_hubs = np.flatnonzero(at_hub >= 0)
    if not len(of_hubs):
        return {}
    num_partitions = graph.info.num_partitions
    used, which = np.unique(at_hub[of_hubs], return_inverse=True)
    num_buckets = np.diff(hubs.offsets)[used]
    hub = np.repeat(np.arange(len(used)), num_buckets)
    buckets = expand_ranges(np.zeros(len(used), np.int64), num_buckets)
    homes = bucket_partition_of(hubs.nodes[used][hub], buckets.astype(np.int32), num_partitions)
    forwarded = {}
    for home in np.unique(homes).tolist():
        has_bucket = np.zeros(len(used), np.bool_)
        has_bucket[hub[homes == home]] = True
        forwarded[home] = asked.take(of_hubs[has_bucket[which]])
    return forwarded
