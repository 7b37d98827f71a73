"""Sampling as it is defined, one subgraph, one node and one edge at a time, in plain Python."""

import collections
import dataclasses
import math

_STEP = 0x9E3779B97F4A7C15


def mix(value):
    value = (value + _STEP) % 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def code_of(node_id):
    if isinstance(node_id, int):
        return mix(node_id % 2**64)
    data = node_id.encode()
    value = mix(len(data))
    for start in range(0, len(data), 8):
        value = mix(value ^ int.from_bytes(data[start : start + 8], "little"))
    return value


def _uniform(key, row, draw=0):
    bits = mix((key + (draw + 1) * _STEP) % 2**64 ^ mix(row))
    return ((bits >> 11) + 0.5) / 2**53


def _floyd(key, count, fan_out):
    chosen = []
    for step in range(fan_out):
        last = count - fan_out + step
        draw = mix((key + (step + 1) * _STEP) % 2**64) % (last + 1)
        chosen.append(last if draw in chosen else draw)
    return chosen


def _by_score(hop, eligible, key, weight_of):
    if hop.strategy == "top_k":
        return sorted(eligible, key=lambda row: (-weight_of(row), row))[: hop.fan_out]
    if hop.strategy == "full":
        return sorted(eligible)[: hop.fan_out or None]
    if hop.strategy == "uniform":
        return sorted(eligible, key=lambda row: (_uniform(key, row), row))[: hop.fan_out]
    if hop.strategy == "uniform_with_replacement":
        draws = range(hop.fan_out) if eligible else ()
        return [min(eligible, key=lambda row: (_uniform(key, row, draw), row)) for draw in draws]
    if hop.strategy.endswith("_with_replacement"):
        draws = range(hop.fan_out) if eligible else ()
        return [
            min(eligible, key=lambda row: (-math.log(_uniform(key, row, draw)) / weight_of(row), row)) for draw in draws
        ]
    return sorted(eligible, key=lambda row: (-math.log(_uniform(key, row)) / weight_of(row), row))[: hop.fan_out]


def _by_position(hop, edges, key):
    in_order = sorted(edges, key=mix)
    if hop.strategy == "uniform_with_replacement":
        draws = range(hop.fan_out) if edges else ()
        return [in_order[mix((key + (draw + 1) * _STEP) % 2**64) % len(edges)] for draw in draws]
    if len(edges) <= hop.fan_out:
        return in_order
    return [in_order[position] for position in _floyd(key, len(edges), hop.fan_out)]


@dataclasses.dataclass
class Book:
    """A graph as dicts and lists.

    `ids` by node set, `ends` by edge set; `edges` by edge set, lists of (row as
    written, source row, target row, time, rank, weight).
    """

    ids: dict
    ends: dict
    edges: dict


@dataclasses.dataclass
class Seed:
    """A seed; `readouts` lists the rows of roots: (seed,) or (source, target)."""

    key: int
    readouts: list
    time_limit: int | None
    rank_limit: int | None
    row: int


class Subgraph:
    """One subgraph: `order` of nodes by set, `triples` (row, source, target) by edge set, `positions` of roots."""

    def __init__(self, book, plan, sampling_seed, seed):
        self._book, self._plan, self._sampling_seed, self._seed = book, plan, sampling_seed, seed
        sets = book.ends[plan.seed_edge_set] if plan.is_link_plan else (plan.seed_node_set,)
        self._root_sets = dict(zip(plan.root_names, sets, strict=True))
        self._roots = {
            name: list(dict.fromkeys(each[i] for each in seed.readouts)) for i, name in enumerate(plan.root_names)
        }
        self._found = {name: set(rows) for name, rows in self._roots.items()}
        self._nodes = {name: set() for name in book.ids}
        for name, rows in self._roots.items():
            self._nodes[self._root_sets[name]] |= set(rows)
        self._copies = {name: {} for name in plan.edge_set_names}
        self.counts = {hop.name: self._follow(hop) for hop in plan.hops}
        for name in plan.induced_edge_sets:
            self._induce(name)
        if plan.keeps_seed_edge:
            self._copies[plan.seed_edge_set].setdefault(seed.row, 1)
        self._put_in_order()

    def _is_timed(self, edge_set):
        return self._plan.temporal is not None and edge_set in self._plan.temporal.edge_times

    def _is_ranked(self, edge_set):
        if self._seed.rank_limit is None:
            return False
        if self._plan.is_link_plan:
            return edge_set in (self._plan.seed_edge_set, *self._plan.reverse_edge_sets)
        return self._plan.splits.visibility == "inductive" and self._plan.seed_node_set in self._book.ends[edge_set]

    def _hidden_pairs(self, edge_set):
        """Pairs (source, target) between which edges of a set are hidden."""
        if not self._plan.is_link_plan or self._plan.keeps_seed_edge:
            return set()
        if self._is_timed(edge_set) and not self._plan.temporal.inclusive:
            return set()
        pairs = set(self._seed.readouts) if edge_set == self._plan.seed_edge_set else set()
        if edge_set in self._plan.reverse_edge_sets:
            pairs |= {(target, source) for source, target in self._seed.readouts}
        return pairs

    def _is_hidden(self, edge_set, edge):
        _, source, target, time, rank, _ = edge
        if self._is_timed(edge_set):
            limit = self._seed.time_limit
            if not (time <= limit if self._plan.temporal.inclusive else time < limit):
                return True
        if self._is_ranked(edge_set) and rank > self._seed.rank_limit:
            return True
        return (source, target) in self._hidden_pairs(edge_set)

    def _follow(self, hop):
        near_set, far_set = self._book.ends[hop.edge_set]
        near, far = 1, 2
        if hop.direction == "backward":
            near_set, far_set, near, far = far_set, near_set, 2, 1
        table = {edge[0]: edge for edge in self._book.edges[hop.edge_set]}
        degrees = collections.Counter(edge[far] for edge in table.values())

        def weight_of(row):
            return degrees[table[row][far]] if hop.strategy.startswith("in_degree") else table[row][5]

        hop_key = mix(mix(mix(self._sampling_seed) ^ code_of(hop.name)) ^ self._seed.key)
        inputs = set().union(*(self._found[name] for name in hop.inputs))
        counts = [len(inputs), 0, 0, 0, 0]
        ends = set()
        for node in inputs:
            edges = [row for row, edge in table.items() if edge[near] == node]
            eligible = [row for row in edges if not self._is_hidden(hop.edge_set, table[row])]
            if hop.strategy.startswith(("weighted", "in_degree")):
                eligible = [row for row in eligible if weight_of(row) > 0]
            key = mix(hop_key ^ code_of(self._book.ids[near_set][node]))
            is_filtered = self._is_timed(hop.edge_set) or self._is_ranked(hop.edge_set)
            is_filtered |= node in {pair[near - 1] for pair in self._hidden_pairs(hop.edge_set)}
            if hop.strategy.startswith("uniform") and not is_filtered:
                rows = _by_position(hop, edges, key)
            else:
                rows = _by_score(hop, eligible, key, weight_of)
            self._keep(hop.edge_set, rows)
            ends |= {table[row][far] for row in rows}
            is_cut = hop.fan_out and len(eligible) > hop.fan_out
            more = (0, is_cut, len(rows), len(edges), len(eligible))
            counts = [count + number for count, number in zip(counts, more, strict=True)]
        self._nodes[far_set] |= ends
        if not self._plan.expands_seed_again:
            ends -= {row for name, rows in self._roots.items() if self._root_sets[name] == far_set for row in rows}
        self._found[hop.name] = ends
        return counts

    def _keep(self, edge_set, rows):
        copies = self._copies[edge_set]
        for row in rows:
            copies[row] = max(copies.get(row, 0), rows.count(row))

    def _induce(self, edge_set):
        source_set, target_set = self._book.ends[edge_set]
        for edge in self._book.edges[edge_set]:
            is_inside = edge[1] in self._nodes[source_set] and edge[2] in self._nodes[target_set]
            if is_inside and not self._is_hidden(edge_set, edge):
                self._copies[edge_set].setdefault(edge[0], 1)

    def _put_in_order(self):
        self.order = {}
        for name, rows in self._nodes.items():
            roots = [row for root, them in self._roots.items() if self._root_sets[root] == name for row in them]
            first = list(dict.fromkeys(roots))
            self.order[name] = [*first, *sorted(rows - set(first))]
        self.triples = {}
        for name, rows in self._copies.items():
            source_set, target_set = self._book.ends[name]
            table = {edge[0]: edge for edge in self._book.edges[name]}
            self.triples[name] = [
                (row, self.order[source_set].index(table[row][1]), self.order[target_set].index(table[row][2]))
                for row in sorted(rows)
                for _ in range(rows[row])
            ]
        self.positions = {
            root: [self.order[self._root_sets[root]].index(each[i]) for each in self._seed.readouts]
            for i, root in enumerate(self._plan.root_names)
        }
