"""Samples a block of subgraphs in rounds of requests and answers.

A block's state does not hold the graph. In each round it requests the edges of
nodes, for all hops whose starting points are known, and gets the nodes that the
edges lead to. In memory, the answers come from whole adjacencies; in a pipeline,
from one partition of the graph after the other. The requests do not depend on
where the answers come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tfx_gnn.graph.tensor.index_features import NO_NODE
from tfx_gnn.sampling import random_choice
from tfx_gnn.sampling.engine.block_result import (
    BlockEdges,
    BlockResult,
    NodeNumbers,
    NodePairs,
    TruncatedNodes,
    is_among,
    union,
)
from tfx_gnn.sampling.engine.edge_choice import AllowedNodes, EdgeRequests, FoundEdges
from tfx_gnn.sampling.engine.sampled_subgraphs import HopCounts
from tfx_gnn.sampling.plan.hop import INDUCED_PREFIX, ROOT_SOURCE, ROOT_TARGET, Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, hop_ends, reached_node_sets, root_node_sets

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
    from tfx_gnn.sampling.engine.seeds import Seeds

_Integers = npt.NDArray[np.int64]


def rounds_of_plan(plan: SamplingPlan) -> tuple[tuple[Hop, ...], ...]:
    """Lists the hops that each round of `BlockSampling.next_requests` asks for.

    A hop is in the round after all hops that it starts from. Induced edges are
    requested last, by hops of their own: all edges between sampled nodes.
    """
    rounds: list[list[Hop]] = []
    done_in = dict.fromkeys(plan.root_names, 0)
    for hop in plan.hops:
        done_in[hop.name] = 1 + max(done_in[name] for name in hop.inputs)
        rounds.extend([] for _ in range(done_in[hop.name] - len(rounds)))
        rounds[done_in[hop.name] - 1].append(hop)
    if plan.induced_edge_sets:
        rounds.append([_induced_hop(edge_set) for edge_set in plan.induced_edge_sets])
    return tuple(tuple(hops) for hops in rounds)


def _induced_hop(edge_set: str) -> Hop:
    return Hop(edge_set=edge_set, strategy="full", name=INDUCED_PREFIX + edge_set)


def ranked_edge_sets(plan: SamplingPlan, schema: GraphSchema) -> tuple[str, ...]:
    """Lists the edge sets of a plan whose edges may belong to a later split, in alphabetical order.

    For a link plan, these are the seed edge set and its reverse edge sets, unless `splits_edges` is False; for an
    inductive node plan, the edge sets with an end in the seed node set.
    """
    if plan.is_link_plan:
        ranked = set(plan.split_edge_sets)
    elif plan.splits.visibility == "inductive":
        ranked = {
            name
            for name in plan.edge_set_names
            if plan.seed_node_set in (schema.edge_sets[name].source, schema.edge_sets[name].target)
        }
    else:
        ranked = set()
    return tuple(sorted(ranked & set(plan.edge_set_names)))


def timed_edge_sets(plan: SamplingPlan) -> tuple[str, ...]:
    """Lists the edge sets of a plan that are filtered by time, in alphabetical order."""
    return tuple(sorted(plan.temporal.edge_times)) if plan.temporal else ()


def hides_read_out_pairs(plan: SamplingPlan, edge_set: str) -> bool:
    """Returns whether edges between the pairs that a subgraph reads out are hidden from it.

    This holds for the seed edge set and its reverse edge sets, unless the plan keeps the seed edge, or time hides the
    seed edge already: it is not older than itself, and what is a forecast is later than its seed.
    """
    if not plan.is_link_plan or plan.keeps_seed_edge or edge_set not in {plan.seed_edge_set, *plan.reverse_edge_sets}:
        return False
    is_forecast = plan.seed_table is not None and plan.seed_table.is_forecast
    shows_equal_times = plan.temporal is not None and plan.temporal.inclusive and not is_forecast
    return plan.temporal is None or shows_equal_times or edge_set not in plan.temporal.edge_times


def hidden_pairs(plan: SamplingPlan, hop: Hop, seeds: Seeds) -> tuple[_Integers, _Integers, _Integers] | None:
    """Lists the pairs of nodes between which a hop must not follow edges; None if nothing is hidden.

    Returns the subgraph, the node where the hop starts and the node where it must not end, as handles;
    pairs that are repeated in the seeds are repeated here.
    """
    if not hides_read_out_pairs(plan, hop.edge_set):
        return None
    subgraphs = np.repeat(np.arange(seeds.num_subgraphs), np.diff(seeds.readout_splits))
    sources, targets = seeds.readout_nodes[ROOT_SOURCE], seeds.readout_nodes[ROOT_TARGET]
    if seeds.true_nodes is not None:
        subgraphs = np.concatenate([subgraphs, np.arange(seeds.num_subgraphs)])
        sources = np.concatenate([sources, seeds.true_nodes[ROOT_SOURCE]])
        targets = np.concatenate([targets, seeds.true_nodes[ROOT_TARGET]])
    is_forward = hop.direction == "forward"
    starts, ends = [], []
    if hop.edge_set == plan.seed_edge_set:
        starts.append(sources if is_forward else targets)
        ends.append(targets if is_forward else sources)
    if hop.edge_set in plan.reverse_edge_sets:
        starts.append(targets if is_forward else sources)
        ends.append(sources if is_forward else targets)
    return np.tile(subgraphs, len(starts)), np.concatenate(starts), np.concatenate(ends)


class BlockSampling:
    """The state of a block of subgraphs while it is sampled. It can be pickled.

    while requests := block.next_requests():
        block.accept([answer(each) for each in requests])
    result = block.finish()
    """

    def __init__(
        self,
        plan: SamplingPlan,
        schema: GraphSchema,
        seeds: Seeds,
        *,
        sampling_seed: int,
        node_codes: Mapping[str, npt.NDArray[np.uint64]] | None = None,
    ) -> None:
        """Starts with the roots.

        If handles of nodes are rows, `node_codes` holds the code of each row, for every node set that the plan
        reaches. It is None if handles are codes.
        """
        self._plan = plan
        self._seeds = seeds
        self._sampling_seed = sampling_seed
        self._codes = node_codes
        self._root_sets = root_node_sets(plan, schema)
        self._edge_ends = {
            name: (schema.edge_sets[name].source, schema.edge_sets[name].target) for name in plan.edge_set_names
        }
        self._rounds = rounds_of_plan(plan)
        self._induced = {_induced_hop(edge_set).name for edge_set in plan.induced_edge_sets}
        self._hops = {hop.name: hop for hops in self._rounds for hop in hops}
        self._hop_ends = {name: hop_ends(hop, schema) for name, hop in self._hops.items()}
        self._timed = frozenset(timed_edge_sets(plan))
        self._ranked = frozenset(ranked_edge_sets(plan, schema)) if seeds.rank_limits is not None else frozenset()
        node_sets = reached_node_sets(plan, schema)
        self._numbers = {name: NodeNumbers(None if node_codes is None else len(node_codes[name])) for name in node_sets}
        self._round = 0
        self._asked: dict[str, NodePairs] = {}
        self._found: dict[str, NodePairs] = {}
        self._roots: dict[str, NodePairs] = {}
        self._nodes: dict[str, list[NodePairs]] = {name: [] for name in node_sets}
        self._edges: dict[str, list[BlockEdges]] = {name: [] for name in plan.edge_set_names}
        self._counts: dict[str, HopCounts] = {}
        self._truncated: dict[str, TruncatedNodes] = {}
        self._trees: dict[str, _Integers] = {}
        readouts = np.repeat(np.arange(seeds.num_subgraphs), np.diff(seeds.readout_splits))
        for root, node_set in self._root_sets.items():
            numbers = self._numbers[node_set].number(seeds.readout_nodes[root])
            pairs = NodePairs(readouts, numbers)
            self._roots[root] = pairs
            self._found[root] = union([pairs], self._numbers[node_set].size)
            if plan.is_ego:
                self._trees[root] = numbers[:, np.newaxis]
        for node_set in node_sets:
            self._nodes[node_set] += [self._found[root] for root in self._roots if self._root_sets[root] == node_set]

    @property
    def seeds(self) -> Seeds:
        """The seeds of the block."""
        return self._seeds

    def next_requests(self) -> list[EdgeRequests]:
        """Returns the requests of the next round; an empty list after the last round.

        Each hop of the round has one batch of requests, possibly empty, sorted by subgraph, then node number.
        """
        if self._asked:
            raise RuntimeError(f"`accept` must answer {sorted(self._asked)} before more requests are made. Call it.")
        if self._round == len(self._rounds):
            return []
        hops = self._rounds[self._round]
        self._asked = {hop.name: self._inputs(hop) for hop in hops}
        keys = self._keys([hop for hop in hops if hop.strategy not in ("full", "top_k")])
        self._round += 1
        return [self._ask(hop, self._asked[hop.name], keys.get(hop.name)) for hop in hops]

    def accept(self, answers: Iterable[FoundEdges]) -> None:
        """Adds the edges of a round: one answer to each batch of the last requests, in any order."""
        by_hop = {answer.hop: answer for answer in answers}
        if sorted(by_hop) != sorted(self._asked):
            raise ValueError(
                f"`answers` must be those to the last requests, {sorted(self._asked)}; got {sorted(by_hop)}. "
                "Answer each batch of requests once."
            )
        # Nodes are numbered in the order of hops, whatever the order of the answers.
        for name in tuple(self._asked):
            self._take_in(self._hops[name], by_hop[name], self._asked.pop(name))

    def finish(self) -> BlockResult:
        """Collects the nodes and edges of every subgraph of the block."""
        if self._asked or self._round < len(self._rounds):
            raise RuntimeError("`finish` must come after the last round. Call `next_requests` until it returns [].")
        if self._plan.keeps_seed_edge:
            self._edges[self._plan.seed_edge_set].append(
                BlockEdges(
                    subgraphs=self._roots[ROOT_SOURCE].subgraphs,
                    rows=self._seeds.rows,
                    copies=np.zeros(self._seeds.num_subgraphs, np.int64),
                    sources=self._roots[ROOT_SOURCE].nodes,
                    targets=self._roots[ROOT_TARGET].nodes,
                )
            )
        return BlockResult(
            num_subgraphs=self._seeds.num_subgraphs,
            roots={root: (self._root_sets[root], pairs) for root, pairs in self._roots.items()},
            nodes={name: union(parts, self._numbers[name].size) for name, parts in self._nodes.items()},
            edges={name: BlockEdges.union(parts) for name, parts in self._edges.items()},
            edge_ends=self._edge_ends,
            node_handles={name: numbers.all_handles for name, numbers in self._numbers.items()},
            hop_counts={hop.name: self._counts[hop.name] for hop in self._plan.hops},
            truncated=self._truncated,
            trees={
                feature: (self._hop_ends[hop.name][1], self._trees[hop.name])
                for feature, hop in self._plan.ego_hops.items()
            },
        )

    def _inputs(self, hop: Hop) -> NodePairs:
        start_set, _ = self._hop_ends[hop.name]
        found = self._nodes[start_set] if hop.name in self._induced else [self._found[name] for name in hop.inputs]
        return found[0] if len(found) == 1 else union(found, self._numbers[start_set].size)

    def _ask(self, hop: Hop, inputs: NodePairs, keys: npt.NDArray[np.uint64] | None) -> EdgeRequests:
        start_set, end_set = self._hop_ends[hop.name]
        numbers = self._numbers[start_set]
        limits, ranks = self._seeds.time_limits, self._seeds.rank_limits
        splits, excluded = self._exclusions(hop, inputs, numbers)
        return EdgeRequests(
            hop=hop.name,
            subgraphs=inputs.subgraphs,
            nodes=numbers.handles(inputs.nodes),
            keys=np.zeros(len(inputs), np.uint64) if keys is None else keys,
            time_limits=limits[inputs.subgraphs] if limits is not None and hop.edge_set in self._timed else None,
            rank_limits=ranks[inputs.subgraphs] if ranks is not None and hop.edge_set in self._ranked else None,
            excluded_splits=splits,
            excluded_neighbors=excluded,
            allowed=self._sampled_nodes(end_set) if hop.name in self._induced else None,
        )

    def _keys(self, hops: Sequence[Hop]) -> dict[str, npt.NDArray[np.uint64]]:
        """Makes the keys of the random choices of hops, all in one pass, by hop."""
        if not hops:
            return {}
        inputs = [self._asked[hop.name] for hop in hops]
        ends = np.cumsum([len(pairs) for pairs in inputs])
        hop_keys = np.array([random_choice.hop_key(self._sampling_seed, hop.name) for hop in hops])
        keys = random_choice.choice_keys(
            hop_keys.repeat(np.diff(ends, prepend=0)),
            self._seeds.keys[np.concatenate([pairs.subgraphs for pairs in inputs])],
            np.concatenate([self._codes_of(hop) for hop in hops]),
        )
        return {
            hop.name: keys[end - len(pairs) : end] for hop, pairs, end in zip(hops, inputs, ends.tolist(), strict=True)
        }

    def _codes_of(self, hop: Hop) -> npt.NDArray[np.uint64]:
        start_set, _ = self._hop_ends[hop.name]
        nodes = self._asked[hop.name].nodes
        if self._codes is None:
            return self._numbers[start_set].handles(nodes).view(np.uint64)
        return self._codes[start_set][nodes]

    def _sampled_nodes(self, node_set: str) -> AllowedNodes:
        pairs = union(self._nodes[node_set], self._numbers[node_set].size)
        return AllowedNodes(subgraphs=pairs.subgraphs, nodes=self._numbers[node_set].handles(pairs.nodes))

    def _exclusions(
        self, hop: Hop, inputs: NodePairs, numbers: NodeNumbers
    ) -> tuple[_Integers | None, _Integers | None]:
        hidden = hidden_pairs(self._plan, hop, self._seeds)
        if hidden is None:
            return None, None
        subgraphs, starts, ends = hidden
        # Roots are numbered already, so the size does not grow here.
        keys = NodePairs(subgraphs, numbers.number(starts)).packed(numbers.size)
        asked = inputs.packed(numbers.size)
        concerned = is_among(keys, asked)
        if not concerned.any():
            return None, None
        requests = np.searchsorted(asked, keys[concerned])
        pairs = np.unique(np.stack([requests, ends[concerned]], axis=1), axis=0)
        return np.searchsorted(pairs[:, 0], np.arange(len(inputs) + 1)), pairs[:, 1].copy()

    def _take_in(self, hop: Hop, answer: FoundEdges, inputs: NodePairs) -> None:
        _, end_set = self._hop_ends[hop.name]
        numbers = self._numbers[end_set]
        subgraphs = inputs.subgraphs[answer.requests]
        near, far = inputs.nodes[answer.requests], numbers.number(answer.neighbors)
        is_forward = hop.direction == "forward"
        self._edges[hop.edge_set].append(
            BlockEdges(
                subgraphs=subgraphs,
                rows=answer.edge_rows,
                copies=_copies(answer) if hop.draws_with_replacement else None,
                sources=near if is_forward else far,
                targets=far if is_forward else near,
            )
        )
        if hop.name in self._induced:
            return
        if self._plan.is_ego:
            parents = self._trees[hop.inputs[0]]
            num_nodes = self._numbers[self._hop_ends[hop.name][0]].size
            self._trees[hop.name] = _grown_tree(parents, inputs, num_nodes, hop=hop, answer=answer, neighbors=far)
        found = union([NodePairs(subgraphs, far)], numbers.size)
        if not self._plan.expands_seed_again:
            for root, node_set in self._root_sets.items():
                if node_set == end_set:
                    found = found.without(self._found[root], numbers.size)
        self._found[hop.name] = found
        self._nodes[end_set].append(found)
        self._count(hop, answer, inputs)

    def _count(self, hop: Hop, answer: FoundEdges, inputs: NodePairs) -> None:
        cut = (answer.num_eligible > hop.fan_out).nonzero()[0] if hop.fan_out else np.zeros(0, np.int64)
        num_candidates = int(answer.num_candidates.sum())
        are_all_eligible = answer.num_eligible is answer.num_candidates
        self._counts[hop.name] = HopCounts(
            num_inputs=len(inputs),
            num_truncated=len(cut),
            num_edges=answer.num_edges,
            num_candidates=num_candidates,
            num_eligible=num_candidates if are_all_eligible else int(answer.num_eligible.sum()),
        )
        if len(cut):
            nodes, first, times = np.unique(inputs.nodes[cut], return_index=True, return_counts=True)
            self._truncated[hop.name] = TruncatedNodes(
                node_set=self._hop_ends[hop.name][0],
                nodes=nodes,
                degrees=answer.num_candidates[cut[first]],
                times_truncated=times,
            )


def _grown_tree(
    parents: _Integers, inputs: NodePairs, num_nodes: int, *, hop: Hop, answer: FoundEdges, neighbors: _Integers
) -> _Integers:
    """Returns the neighbors of each node of a tree: numbers of nodes, or -1, [num_subgraphs, width * fan_out].

    `parents` has shape [num_subgraphs, width]; `num_nodes` exceeds each of its numbers; `neighbors` are the numbers of
    the nodes in the answer.
    """
    # In the order of their table, whatever the order of the answer.
    order = np.lexsort((answer.draws, answer.edge_rows, answer.requests))
    splits = np.searchsorted(answer.requests[order], np.arange(len(inputs) + 1))
    asked = inputs.packed(num_nodes)
    packed = np.arange(len(parents))[:, np.newaxis] * num_nodes + parents
    requests = np.minimum(np.searchsorted(asked, packed), max(len(asked) - 1, 0))
    is_asked = (parents >= 0) & (asked[requests] == packed if len(asked) else False)
    counts = np.where(is_asked, np.diff(splits)[requests] if len(asked) else 0, 0)[..., np.newaxis]
    draws = np.arange(hop.fan_out)
    is_there = (counts > 0) & ((draws < counts) | (hop.padding == "circular"))
    places = splits[requests][..., np.newaxis] + draws % np.maximum(counts, 1)
    tree = np.full([*parents.shape, hop.fan_out], NO_NODE, np.int64)
    tree[is_there] = neighbors[order][places[is_there]]
    return tree.reshape([len(parents), -1])


def _copies(answer: FoundEdges) -> _Integers:
    """Numbers repeated draws of the same edge by one request: 0, 1, ..."""
    order = np.lexsort((answer.draws, answer.edge_rows, answer.requests))
    requests, rows = answer.requests[order], answer.edge_rows[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (requests[1:] != requests[:-1]) | (rows[1:] != rows[:-1])
    begins = np.flatnonzero(is_first)
    copies = np.empty(len(order), np.int64)
    copies[order] = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    return copies
