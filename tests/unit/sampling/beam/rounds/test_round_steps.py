"""Answers of partitions, put together, are those of the whole graph."""

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.beam.messages import route_requests, unpack_table
from tfx_gnn.sampling.beam.partitioned_graph.reader import PartitionedGraph
from tfx_gnn.sampling.beam.rounds import block_state, round_steps
from tfx_gnn.sampling.beam.rounds.block_state import AnswerMerger
from tfx_gnn.sampling.beam.rounds.round_steps import PartitionAnswers
from tfx_gnn.sampling.engine.adjacency import build_adjacency
from tfx_gnn.sampling.engine.edge_choice import EdgeRequests, find_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, Temporal
from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.graph_tables import EdgeTable, GraphTables, NodeTable

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

SCHEMA = """
node_sets { key: "v" value { features { key: "#id" value { dtype: DT_INT64 } }
  features { key: "born" value { dtype: DT_INT64 } } metadata { filename: "v.csv" } } }
edge_sets { key: "e" value { source: "v" target: "v"
  features { key: "w" value { dtype: DT_FLOAT } } features { key: "t" value { dtype: DT_INT64 } }
  metadata { filename: "e.csv" } } }
"""
NUM_NODES = 30


@pytest.fixture(scope="module")
def tables():
    """Node 0 has 200 edges and node 1 has 40, loops and parallels among them; nodes from 20 on have none."""
    draw = np.random.default_rng(0)
    sources = np.concatenate([np.zeros(200, np.int64), np.ones(40, np.int64), draw.integers(0, 20, 100)])
    draw.shuffle(sources)
    count = len(sources)
    nodes = NodeTable(
        path="v.csv", ids=pa.array(np.arange(NUM_NODES)), features={"born": pa.array(np.arange(NUM_NODES))}
    )
    edges = EdgeTable(
        path="e.csv",
        source_set="v",
        target_set="v",
        sources=sources,
        targets=draw.integers(0, NUM_NODES, count),
        features={
            "w": pa.array(draw.integers(0, 4, count).astype(np.float32)),
            "t": pa.array(draw.integers(0, 9, count)),
        },
    )
    schema = text_format.Parse(SCHEMA, GraphSchema())
    return GraphTables(schema=schema, node_tables={"v": nodes}, edge_tables={"e": edges})


def _requests(codes, *, filters):
    draw = np.random.default_rng(1)
    nodes = draw.integers(0, NUM_NODES, 300)
    nodes[:40] %= 2
    excluded = draw.integers(0, 3, len(nodes))
    return nodes, EdgeRequests(
        hop="h",
        subgraphs=np.arange(len(nodes)),
        nodes=codes[nodes].view(np.int64),
        keys=draw.integers(0, 2**64 - 1, len(nodes), dtype=np.uint64),
        time_limits=draw.integers(0, 12, len(nodes)) if filters == "time" else None,
        excluded_splits=np.concatenate([[0], np.cumsum(excluded)]) if filters == "excluded" else None,
        excluded_neighbors=codes[draw.integers(0, NUM_NODES, excluded.sum())].view(np.int64)
        if filters == "excluded"
        else None,
    )


def _answer(graph, plan, requests):
    schema = make_subgraph_schema(graph.schema, plan)
    at_home, of_buckets = (PartitionAnswers(graph, plan, schema, plan.hops) for _ in range(2))
    answers = []
    for partition, parts in route_requests([requests], graph.info.num_partitions).items():
        direct, forwarded = at_home.answer(partition, parts)
        answers += direct
        for bucket_partition, asked in forwarded:
            answers += of_buckets.answer_buckets(bucket_partition, [asked])
    return answers


def _found(found):
    order = np.lexsort((found.draws, found.edge_rows, found.requests))
    columns = (found.requests, found.edge_rows, found.neighbors, found.draws)
    return [column[order].tolist() for column in columns], found.num_candidates.tolist(), found.num_eligible.tolist()


@pytest.fixture
def check_answers(tmp_path, tables, write_partitions):
    """Compares answers with those of the whole graph; returns their number."""

    def check(strategy, direction, filters):
        hop = Hop(
            edge_set="e",
            fan_out=0 if strategy == "full" else 5,
            direction=direction,
            strategy=strategy,
            weight_feature="w" if strategy in ("weighted", "weighted_with_replacement", "top_k") else "",
            name="h",
        )
        temporal = Temporal(seed_time="born", edge_times={"e": "t"}) if filters == "time" else None
        plan = SamplingPlan(seed_node_set="v", hops=(hop,), temporal=temporal)
        edges = tables.edge_tables["e"]
        codes = hash_ids(tables.node_tables["v"].ids)
        starts, ends = (edges.sources, edges.targets)[:: 1 if direction == "forward" else -1]
        weights = (
            np.bincount(ends, minlength=NUM_NODES)[ends]
            if strategy.startswith("in_degree")
            else edges.features["w"].to_numpy()
        )
        whole = build_adjacency(
            starts, codes[ends].view(np.int64), NUM_NODES, times=edges.features["t"].to_numpy(), weights=weights
        )
        nodes, requests = _requests(codes, filters=filters)
        write_partitions(tables, plan, str(tmp_path), 4, hub_degree=12)
        graph = PartitionedGraph(str(tmp_path))
        assert graph.info.tables["edges/e/" + direction + "/hubs"].total > 0

        answers = _answer(graph, plan, requests)

        merger = AnswerMerger(plan.hops)
        for answer in answers:
            merger.add(answer)
        (merged,) = merger.merge([len(nodes)])
        assert _found(merged) == _found(find_edges(hop, whole, nodes, requests))
        features = {}
        for answer in answers:
            assert bool(answer.features) == bool(answer.found.num_edges)
            if answer.features:
                rows = unpack_table(answer.features)
                features.update(zip(rows["#row"].to_pylist(), rows["w"].to_pylist(), strict=True))
        assert features.items() >= {row: edges.features["w"][row].as_py() for row in merged.edge_rows.tolist()}.items()
        return len(answers)

    return check


@pytest.mark.parametrize("filters", ["none", "time", "excluded"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_partitions_and_buckets_find_what_the_whole_graph_has(check_answers, strategy, direction, filters):
    check_answers(strategy, direction, filters)


@pytest.mark.parametrize("strategy", ["uniform_with_replacement", "weighted_with_replacement", "weighted", "full"])
def test_edges_of_hubs_come_in_many_messages_and_are_merged_on_the_way(check_answers, monkeypatch, strategy):
    monkeypatch.setattr(round_steps, "MAX_BUCKET_REQUESTS", 7)
    monkeypatch.setattr(block_state, "_MAX_SCORED_EDGES", 20)

    num_messages = check_answers(strategy, "forward", "excluded")

    assert num_messages > 20
