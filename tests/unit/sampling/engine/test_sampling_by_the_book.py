"""Whole subgraphs of drawn graphs and drawn plans, held to a definition in plain Python."""

import dataclasses
import importlib.util
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.engine.block_result import index_block
from tfx_gnn.sampling.engine.block_sampling import BlockSampling
from tfx_gnn.sampling.engine.edge_choice import find_edges
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, Temporal
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.graph_tables import EdgeTable, GraphTables, NodeTable

_SPEC = importlib.util.spec_from_file_location("by_the_book", Path(__file__).with_name("sampling_by_the_book.py"))
by_the_book = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(by_the_book)

# `ba` holds edges from b to a, as the reverse of `ab` would; `aa` leads from a to a.
ENDS = {"aa": ("a", "a"), "ab": ("a", "b"), "ba": ("b", "a")}
NEGATIVES = Negatives(num_per_positive=2), Negatives(num_per_positive=2, side="source")
STRATEGIES = (
    "uniform",
    "uniform_with_replacement",
    "weighted",
    "weighted_with_replacement",
    "top_k",
    "in_degree",
    "in_degree_with_replacement",
    "full",
)


@st.composite
def graphs(draw):
    """Tables of a small graph, and ranks of its edges."""
    sizes = {"a": draw(st.integers(1, 6)), "b": draw(st.integers(1, 4))}
    nodes = {
        "a": NodeTable(
            path="",
            ids=pa.array([f"node {row}" for row in range(sizes["a"])], pa.large_string()),
            features={"t": pa.array(range(sizes["a"]))},
        ),
        "b": NodeTable(path="", ids=pa.array(np.arange(sizes["b"]) + 100), features={}),
    }
    schema = GraphSchema()
    schema.node_sets["a"].features["t"].dtype = 9
    schema.node_sets["b"].SetInParent()
    edges, ranks = {}, {}
    for name, (source, target) in ENDS.items():
        schema.edge_sets[name].source = source
        schema.edge_sets[name].target = target
        schema.edge_sets[name].features["t"].dtype = 9
        schema.edge_sets[name].features["w"].dtype = 1
        edge = st.tuples(
            st.integers(0, sizes[source] - 1),
            st.integers(0, sizes[target] - 1),
            st.integers(0, 5),
            st.integers(0, 3),
            st.integers(0, 3),
            st.integers(1, 3),
        )
        columns = np.array(draw(st.lists(edge, min_size=1, max_size=20)), np.int64).reshape(-1, 6).T
        edges[name] = EdgeTable(
            path="",
            source_set=source,
            target_set=target,
            sources=columns[0],
            targets=columns[1],
            features={"t": pa.array(columns[2]), "w": pa.array(columns[4], pa.float32())},
            rows=np.cumsum(columns[5]) - 1,  # with gaps, as where rows were dropped
        )
        ranks[name] = columns[3].astype(np.int8)
    return GraphTables(schema=schema, node_tables=nodes, edge_tables=edges), ranks


@st.composite
def hops(draw, root_sets):
    ends = dict(root_sets)
    made = []
    for number in range(draw(st.integers(0, 4))):
        edge_set = draw(st.sampled_from(sorted(ENDS)))
        direction = draw(st.sampled_from(["forward", "backward"]))
        start, end = ENDS[edge_set] if direction == "forward" else ENDS[edge_set][::-1]
        possible = sorted(name for name, where in ends.items() if where == start)
        if not possible:
            continue
        inputs = draw(st.lists(st.sampled_from(possible), min_size=1, unique=True))
        strategy = draw(st.sampled_from(STRATEGIES))
        made.append(
            Hop(
                edge_set=edge_set,
                fan_out=draw(st.integers(0 if strategy == "full" else 1, 3)),
                inputs=tuple(inputs),
                name=f"hop {number}",
                direction=direction,
                strategy=strategy,
                weight_feature="w" if strategy in ("weighted", "weighted_with_replacement", "top_k") else "",
            )
        )
        ends[f"hop {number}"] = end
    return tuple(made)


@st.composite
def plans(draw):
    """A node plan or a link plan with whatever goes with it."""
    seed_edge_set = draw(st.sampled_from(["", "", "aa", "ab"]))
    if seed_edge_set:
        source, target = ENDS[seed_edge_set]
        made = draw(hops({"source": source, "target": target}))
        keeps = draw(st.booleans())
        fields = {
            "seed_edge_set": seed_edge_set,
            "reverse_edge_sets": draw(st.sampled_from([(), ("ba",) if seed_edge_set == "ab" else ("aa",)])),
            "keeps_seed_edge": keeps,
            "negatives": None if keeps else draw(st.sampled_from([None, *NEGATIVES])),
        }
        reached = {source, target}
    else:
        made = draw(hops({"seed": "a"}))
        visibility = draw(st.sampled_from(["transductive", "inductive"]))
        fields = {"seed_node_set": "a", "splits": SplitPlan(visibility=visibility)}
        reached = {"a"}
    for hop in made:
        reached |= set(ENDS[hop.edge_set])
    inducible = [name for name in sorted(ENDS) if set(ENDS[name]) <= reached]
    induced = draw(st.lists(st.sampled_from(inducible), max_size=1)) if inducible else []
    fields |= {
        "hops": made,
        "induced_edge_sets": tuple(induced),
        "expands_seed_again": draw(st.booleans()),
    }
    plan = SamplingPlan(**fields)
    timed = draw(st.lists(st.sampled_from(plan.edge_set_names), unique=True)) if plan.edge_set_names else []
    if timed:
        temporal = Temporal(seed_time="t", edge_times=dict.fromkeys(timed, "t"), inclusive=draw(st.booleans()))
        plan = dataclasses.replace(plan, temporal=temporal)
    return plan


@st.composite
def cases(draw):
    """A graph, a plan, and seeds of it whose nodes are rows."""
    tables, ranks = draw(graphs())
    plan = draw(plans())
    num_seeds = draw(st.integers(0, 5))
    codes = {name: hash_ids(table.ids) for name, table in tables.node_tables.items()}
    if plan.is_link_plan:
        table = tables.edge_tables[plan.seed_edge_set]
        chosen = np.array(draw(st.lists(st.integers(0, table.num_edges - 1), min_size=num_seeds, max_size=num_seeds)))
        chosen = chosen.astype(np.int64)
        num_negatives = np.array([draw(st.integers(0, 2)) if plan.negatives else 0 for _ in range(num_seeds)], np.int64)
        splits = np.concatenate([[0], np.cumsum(1 + num_negatives)]).astype(np.int64)
        sources = np.repeat(table.sources[chosen], 1 + num_negatives)
        targets = np.repeat(table.targets[chosen], 1 + num_negatives)
        replaces_sources = plan.negatives is not None and plan.negatives.side == "source"
        replaced, of_set = (sources, table.source_set) if replaces_sources else (targets, table.target_set)
        num_nodes = tables.node_tables[of_set].num_nodes
        for position in set(range(int(splits[-1]))) - set(splits[:-1].tolist()):
            replaced[position] = draw(st.integers(0, num_nodes - 1))
        labels = np.isin(np.arange(int(splits[-1])), splits[:-1]).astype(np.int8) if plan.negatives else None
        nodes = {"source": sources, "target": targets}
        keys = codes[table.source_set][table.sources[chosen]] ^ codes[table.target_set][table.targets[chosen]]
        rows = table.rows[chosen]
    else:
        num_nodes = tables.node_tables["a"].num_nodes
        rows = np.array(draw(st.lists(st.integers(0, num_nodes - 1), min_size=num_seeds, max_size=num_seeds)), np.int64)
        splits, nodes, labels, keys = np.arange(num_seeds + 1), {"seed": rows}, None, codes["a"][rows]

    def limits(largest):
        return np.array([draw(st.integers(0, largest)) for _ in range(num_seeds)])

    has_ranks = plan.is_link_plan or plan.splits.visibility == "inductive"
    seeds = Seeds(
        keys=keys,
        rows=rows,
        readout_splits=splits,
        readout_nodes=nodes,
        readout_labels=labels,
        time_limits=limits(6) if plan.temporal else None,
        rank_limits=limits(4).astype(np.int8) if has_ranks else None,
    )
    return tables, ranks, plan, seeds


def _describe(subgraphs, tables, which):
    nodes = {
        name: sampled.rows[sampled.splits[which] : sampled.splits[which + 1]].tolist()
        for name, sampled in subgraphs.node_sets.items()
    }
    edges = {}
    for name, sampled in subgraphs.edge_sets.items():
        part = slice(sampled.splits[which], sampled.splits[which + 1])
        rows = tables.edge_tables[name].rows[sampled.rows[part]]
        edges[name] = list(
            zip(rows.tolist(), sampled.sources[part].tolist(), sampled.targets[part].tolist(), strict=True)
        )
    readouts = subgraphs.readouts
    part = slice(readouts.splits[which], readouts.splits[which + 1])
    return nodes, edges, {root: where[part].tolist() for root, where in readouts.positions.items()}


def _book(tables, ranks):
    edges = {}
    for name, table in tables.edge_tables.items():
        columns = (table.rows, table.sources, table.targets, table.features["t"], ranks[name], table.features["w"])
        edges[name] = list(zip(*(column.tolist() for column in columns), strict=True))
    ids = {name: table.ids.to_pylist() for name, table in tables.node_tables.items()}
    return by_the_book.Book(ids, ENDS, edges)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=200)
@given(cases())
def test_subgraphs_are_those_of_the_definition(case):
    tables, ranks, plan, seeds = case
    book = _book(tables, ranks)

    subgraphs = InMemorySampler(tables, plan, sampling_seed=5, edge_ranks=ranks).sample(seeds)

    totals = {hop.name: np.zeros(5, np.int64) for hop in plan.hops}
    for which in range(seeds.num_subgraphs):
        part = range(int(seeds.readout_splits[which]), int(seeds.readout_splits[which + 1]))
        seed = by_the_book.Seed(
            key=int(seeds.keys[which]),
            readouts=[tuple(int(seeds.readout_nodes[root][each]) for root in plan.root_names) for each in part],
            time_limit=None if seeds.time_limits is None else int(seeds.time_limits[which]),
            rank_limit=None if seeds.rank_limits is None else int(seeds.rank_limits[which]),
            row=int(seeds.rows[which]),
        )
        expected = by_the_book.Subgraph(book, plan, 5, seed)
        nodes, found_edges, found_positions = _describe(subgraphs, tables, which)
        assert nodes == {name: expected.order[name] for name in nodes}
        assert {name for name, rows in expected.order.items() if rows} <= set(nodes)
        assert found_edges == expected.triples
        assert found_positions == expected.positions
        for name, values in expected.counts.items():
            totals[name] += values
        if plan.keeps_seed_edge:
            seed_edge = found_edges[plan.seed_edge_set][subgraphs.readouts.seed_edges[which]]
            assert seed_edge[0] == seeds.rows[which]
    for name, counts in subgraphs.hop_counts.items():
        fields = ("num_inputs", "num_truncated", "num_edges", "num_candidates", "num_eligible")
        assert [getattr(counts, field) for field in fields] == totals[name].tolist()


def _sample_by_codes(tables, ranks, plan, seeds):
    """The same, with nodes known by their codes, as where the graph is cut into partitions."""
    codes = {name: hash_ids(table.ids).view(np.int64) for name, table in tables.node_tables.items()}
    sampler = InMemorySampler(tables, plan, sampling_seed=5, edge_ranks=ranks)
    source_sets = ENDS[plan.seed_edge_set] if plan.is_link_plan else ("a",)
    handles = {
        root: codes[name][seeds.readout_nodes[root]] for root, name in zip(plan.root_names, source_sets, strict=True)
    }
    coded = dataclasses.replace(seeds, readout_nodes=handles)
    block = BlockSampling(plan, tables.schema, coded, sampling_seed=5)
    while requests := block.next_requests():
        block = pickle.loads(pickle.dumps(block))
        answers = []
        for asked in requests:
            hop = sampler._hops[asked.hop]
            start, end = ENDS[hop.edge_set] if hop.direction == "forward" else ENDS[hop.edge_set][::-1]
            weights = "#in_degree" if hop.weighs_by_degree else hop.weight_feature
            adjacency = sampler._edges[hop.edge_set, hop.direction, weights]
            coded_adjacency = dataclasses.replace(adjacency, neighbors=codes[end][adjacency.neighbors])
            order = np.argsort(codes[start])
            local = order[np.searchsorted(codes[start], asked.nodes, sorter=order)]
            inclusive = plan.temporal is not None and plan.temporal.inclusive
            answers.append(find_edges(hop, coded_adjacency, local, asked, inclusive=inclusive))
        block.accept(answers[::-1])
    result = block.finish()
    rows = {}
    for name, found in result.node_handles.items():
        order = np.argsort(codes[name])
        rows[name] = order[np.searchsorted(codes[name], found, sorter=order)]
    return index_block(result.with_rows(rows), coded, tables, plan)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=60)
@given(cases())
def test_nodes_known_by_codes_give_the_same_subgraphs(case):
    tables, ranks, plan, seeds = case

    by_codes = _sample_by_codes(tables, ranks, plan, seeds)

    by_rows = InMemorySampler(tables, plan, sampling_seed=5, edge_ranks=ranks).sample(seeds)
    for which in range(seeds.num_subgraphs):
        assert _describe(by_codes, tables, which) == _describe(by_rows, tables, which)
    assert by_codes.hop_counts == by_rows.hop_counts
    assert by_codes.truncated_hubs == by_rows.truncated_hubs


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=30)
@given(cases())
def test_a_subgraph_does_not_depend_on_its_batch(case):
    tables, ranks, plan, seeds = case
    sampler = InMemorySampler(tables, plan, sampling_seed=5, edge_ranks=ranks)

    together = sampler.sample(seeds)

    for which in range(seeds.num_subgraphs):
        alone = sampler.sample(seeds.slice(which, which + 1))
        assert _describe(alone, tables, 0) == _describe(together, tables, which)


def test_rounds_are_asked_and_answered_in_turn():
    schema = GraphSchema()
    schema.node_sets["a"].SetInParent()
    schema.edge_sets["aa"].source = schema.edge_sets["aa"].target = "a"
    plan = SamplingPlan(seed_node_set="a", hops=(Hop(edge_set="aa", fan_out=1),))
    keys = np.zeros(1, np.uint64)
    seeds = Seeds(
        keys=keys,
        rows=np.zeros(1, np.int64),
        readout_splits=np.arange(2),
        readout_nodes={"seed": np.zeros(1, np.int64)},
    )
    block = BlockSampling(plan, schema, seeds, sampling_seed=0, node_codes={"a": keys})

    with pytest.raises(RuntimeError, match="`finish` must come after the last round"):
        block.finish()
    block.next_requests()
    with pytest.raises(RuntimeError, match=r"`accept` must answer \['aa'\] before more requests are made"):
        block.next_requests()
    with pytest.raises(ValueError, match=r"`answers` must be those to the last requests, \['aa'\]; got \[\]"):
        block.accept([])
