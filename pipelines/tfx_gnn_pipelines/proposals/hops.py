"""Chooses which edges to follow from a seed, and how many at each node."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.plan.hop import SEED, Hop

_MOST_NEIGHBORS = (32, 16)
"""Nodes that the hops from the seed may find on average, and those from each of these nodes."""
_LARGEST_FAN_OUTS = (8, 4)
_LARGEST_FAN_OUTS_OF_TIMES = (16, 16)
"""Where the newest edges are taken: how many there are in the time before a seed is what models learn from."""


def propose_hops(
    schema: GraphSchema,
    num_rows: Mapping[str, int],
    seed_node_set: str,
    *,
    root: str = SEED,
    depth: Literal[1, 2] = 2,
    left_out: Collection[str] = (),
    edge_times: Mapping[str, str] | None = None,
) -> tuple[Hop, ...]:
    """Goes outward twice, along all edge sets and both ways, with so small fan-outs that subgraphs stay small.

    `num_rows` has the rows of each table, as in "nodes/user" and "edges/buys". The hops begin at the root `root`, of
    `seed_node_set`; with a `depth` of 1 they go outward once. The edge sets of `left_out` are not followed. With
    `edge_times`, the features of edges with their times, the newest edges are taken where a node has many, because what
    is long ago tells less.
    """
    times = edge_times or {}
    largest = _LARGEST_FAN_OUTS_OF_TIMES if times else _LARGEST_FAN_OUTS
    suffix = "" if root == SEED else f"_of_{root}"
    ways = [way for way in _ways_from(schema, num_rows, seed_node_set) if way.edge_set not in left_out]
    fan_out = _fan_out(0, ways, largest) or 1
    hops = [_hop(way, (root,), suffix, fan_out, times) for way in ways]
    reached: dict[str, list[str]] = {}
    for way, hop in zip(ways, hops, strict=True):
        reached.setdefault(way.end, []).append(hop.name)
    for node_set, inputs in reached.items() if depth > 1 else ():
        ways = [way for way in _ways_from(schema, num_rows, node_set) if way.edge_set not in left_out]
        if fan_out := _fan_out(1, ways, largest):
            hops += [_hop(way, tuple(inputs), f"_of_{node_set}{suffix}", fan_out, times) for way in ways]
    return tuple(hops)


def _hop(way: _Way, inputs: tuple[str, ...], suffix: str, fan_out: int, edge_times: Mapping[str, str]) -> Hop:
    name = way.edge_set if way.direction == "forward" else f"{way.edge_set}_backward"
    hop = Hop(edge_set=way.edge_set, direction=way.direction, inputs=inputs, name=f"{name}{suffix}", fan_out=fan_out)
    # Of a foreign key, a row has one edge.
    if way.edge_set in edge_times and (way.direction == "backward" or way.degree > 1.0):
        return dataclasses.replace(hop, strategy="top_k", weight_feature=edge_times[way.edge_set])
    return hop


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Way:
    """An edge set that leads away from a node set: in which direction, where to, and edges for each node on average."""

    edge_set: str
    direction: Literal["forward", "backward"]
    end: str
    degree: float


def _ways_from(schema: GraphSchema, num_rows: Mapping[str, int], node_set: str) -> Iterator[_Way]:
    num_nodes = max(1, num_rows[f"nodes/{node_set}"])
    for name in sorted(schema.edge_sets):
        edge_set, degree = schema.edge_sets[name], num_rows[f"edges/{name}"] / num_nodes
        if edge_set.source == node_set:
            yield _Way(edge_set=name, direction="forward", end=edge_set.target, degree=degree)
        if edge_set.target == node_set:
            yield _Way(edge_set=name, direction="backward", end=edge_set.source, degree=degree)


def _fan_out(ring: int, ways: Sequence[_Way], largest: Sequence[int]) -> int:
    """Finds the largest fan-out by which a node has few enough neighbors on average; 0 if even 1 is too large."""
    for fan_out in range(largest[ring], 0, -1):
        if sum(min(fan_out, way.degree) for way in ways) <= _MOST_NEIGHBORS[ring]:
            return fan_out
    return 0
