"""The partitions of tables in memory, read back and compared with plain loops over the tables."""

from __future__ import annotations

import collections
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.beam.partitioned_graph import files as graph_files
from tfx_gnn.sampling.beam.partitioned_graph.files import PartitionInfo
from tfx_gnn.sampling.beam.partitioned_graph.job import requirements_of_plan
from tfx_gnn.sampling.beam.partitioned_graph.partitions import bucket_partition_of, partition_of_codes
from tfx_gnn.sampling.beam.partitioned_graph.reader import EdgePartition, PartitionedGraph
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, Temporal
from tfx_gnn.sampling.plan.seed_splits import pair_keys
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.sampling.random_choice import edge_hash, hash_ids
from tfx_gnn.tables.graph_tables import EdgeTable, GraphTables, NodeTable, read_tables

WritePartitions = Callable[..., PartitionInfo]

_SCHEMA = """
node_sets { key: "a" value {
  features { key: "x" value { dtype: DT_FLOAT } } features { key: "t" value { dtype: DT_INT64 } } } }
node_sets { key: "b" value { features { key: "kind" value { dtype: DT_STRING } } } }
edge_sets { key: "e" value { source: "a" target: "b"
  features { key: "w" value { dtype: DT_FLOAT } } features { key: "t" value { dtype: DT_INT64 } } } }
"""

_NUM_A, _NUM_B, _HUB = 40, 25, 3


def _random_tables(num_edges: int = 600) -> GraphTables:
    """Node 3 of both sets is a hub, node 7 of "a" has no edge, and some edges are parallel."""
    generator = np.random.default_rng(5)
    sources = generator.integers(0, _NUM_A, num_edges)
    targets = generator.integers(0, _NUM_B, num_edges)
    sources[::3] = _HUB
    targets[1::3] = _HUB
    sources[sources == 7] = 8
    targets[0:30:3] = targets[0]
    return GraphTables(
        schema=text_format.Parse(_SCHEMA, GraphSchema()),
        node_tables={
            "a": NodeTable(
                path="a",
                ids=pa.array([f"a{i:02d}" for i in range(_NUM_A)], pa.large_string()),
                features={"x": pa.array(np.arange(_NUM_A, dtype=np.float32)), "t": pa.array(np.arange(_NUM_A) % 7)},
            ),
            "b": NodeTable(
                path="b",
                ids=pa.array(range(100, 100 + _NUM_B)),
                features={"kind": pa.array([f"k{i % 3}" for i in range(_NUM_B)], pa.large_string())},
            ),
        },
        edge_tables={
            "e": EdgeTable(
                path="e",
                source_set="a",
                target_set="b",
                sources=sources,
                targets=targets,
                features={
                    "w": pa.array(generator.random(num_edges, np.float32)),
                    "t": pa.array(generator.integers(0, 50, num_edges)),
                },
            )
        },
    )


def _found_edges(part: EdgePartition, position: int) -> list[tuple[int, int, float]]:
    chosen = slice(int(part.offsets[position]), int(part.offsets[position + 1]))
    return list(
        zip(
            part.edge_rows[chosen].tolist(),
            part.neighbors[chosen].view(np.uint64).tolist(),
            part.features["w"].to_pylist()[chosen],
            strict=True,
        )
    )


def _edges_by_node(graph: PartitionedGraph, direction: str) -> dict[int, list[tuple[int, int, float]]]:
    """Reads every edge of every node, through hubs and buckets where they are."""
    found: dict[int, list[tuple[int, int, float]]] = {}
    num_partitions = graph.info.num_partitions
    for partition in range(num_partitions):
        part = graph.load_edges("e", direction, partition)
        assert (part.positions_of(part.nodes) == np.arange(len(part.nodes))).all()
        for position, node in enumerate(part.nodes.tolist()):
            found[node] = _found_edges(part, position)
        hubs = graph.load_hubs("e", direction, partition)
        assert (hubs.positions_of(hubs.nodes) == np.arange(len(hubs.nodes))).all()
        for position, node in enumerate(hubs.nodes.tolist()):
            counts = hubs.bucket_counts[hubs.offsets[position] : hubs.offsets[position + 1]]
            nodes = np.full(len(counts), node, np.uint64)
            buckets = np.arange(len(counts), dtype=np.int32)
            edges: list[tuple[int, int, float]] = []
            for bucket, home in enumerate(bucket_partition_of(nodes, buckets, num_partitions).tolist()):
                part_of_bucket = graph.load_buckets("e", direction, home)
                place = int(part_of_bucket.positions_of(nodes[:1], np.array([bucket], np.int32))[0])
                in_bucket = [] if place < 0 else _found_edges(part_of_bucket, place)
                assert len(in_bucket) == counts[bucket]
                edges += in_bucket
            assert len(edges) == hubs.degrees[position]
            assert node not in found
            found[node] = edges
    return found


def _expected_edges(tables: GraphTables, direction: str) -> dict[int, list[tuple[int, int, float]]]:
    edges = tables.edge_tables["e"]
    codes = {name: hash_ids(table.ids).tolist() for name, table in tables.node_tables.items()}
    weights = edges.features["w"].to_pylist()
    expected: dict[int, list[tuple[int, int, float]]] = collections.defaultdict(list)
    for row, (source, target) in enumerate(zip(edges.sources.tolist(), edges.targets.tolist(), strict=True)):
        node, neighbor = codes["a"][source], codes["b"][target]
        if direction == "backward":
            node, neighbor = neighbor, node
        expected[node].append((row, neighbor, weights[row]))
    hashes = edge_hash(np.arange(edges.num_edges)).tolist()
    return {node: sorted(found, key=lambda edge: (hashes[edge[0]], edge[0])) for node, found in expected.items()}


_BOTH_WAYS = (Hop(edge_set="e", fan_out=2), Hop(edge_set="e", fan_out=2, direction="backward", inputs=("e",)))


@pytest.mark.parametrize("num_partitions", [1, 4])
@pytest.mark.parametrize("hub_degree", [1, 20, 10_000])
def test_every_edge_is_found_from_both_ends_in_the_order_of_hashes(
    tmp_path: Path, num_partitions: int, hub_degree: int, write_partitions: WritePartitions
) -> None:
    tables = _random_tables()
    plan = SamplingPlan(seed_node_set="a", hops=_BOTH_WAYS)

    write_partitions(tables, plan, str(tmp_path), num_partitions, hub_degree=hub_degree)

    graph = PartitionedGraph(str(tmp_path))
    for direction in ("forward", "backward"):
        assert _edges_by_node(graph, direction) == _expected_edges(tables, direction)
        num_hubs = sum(len(graph.load_hubs("e", direction, p).nodes) for p in range(num_partitions))
        degrees = [len(edges) for edges in _expected_edges(tables, direction).values()]
        assert num_hubs == sum(degree > hub_degree for degree in degrees)
    assert graph.info.num_edges == {"e": 600}


def test_nodes_have_their_ids_and_features_by_code(tmp_path: Path, write_partitions: WritePartitions) -> None:
    tables = _random_tables()

    write_partitions(tables, SamplingPlan(seed_node_set="a", hops=_BOTH_WAYS), str(tmp_path), 4)

    graph = PartitionedGraph(str(tmp_path))
    for name, table in tables.node_tables.items():
        found = []
        for partition in range(4):
            nodes = graph.load_nodes(name, partition)
            assert (nodes.codes == hash_ids(nodes.ids)).all()
            assert (partition_of_codes(nodes.codes, 4) == partition).all()
            assert (np.diff(nodes.codes.astype(object)) > 0).all()
            found += zip(nodes.ids.to_pylist(), *(nodes.features[f].to_pylist() for f in table.features), strict=True)
        expected = zip(table.ids.to_pylist(), *(values.to_pylist() for values in table.features.values()), strict=True)
        assert sorted(found) == list(expected)


def test_in_degrees_count_the_edges_at_the_far_end(tmp_path: Path, write_partitions: WritePartitions) -> None:
    tables = _random_tables()
    hops = (
        Hop(edge_set="e", fan_out=2, strategy="in_degree"),
        Hop(edge_set="e", fan_out=2, strategy="in_degree", direction="backward", inputs=("e",)),
    )

    write_partitions(tables, SamplingPlan(seed_node_set="a", hops=hops), str(tmp_path), 2, hub_degree=30)

    graph = PartitionedGraph(str(tmp_path))
    num_checked = 0
    for direction, other in (("forward", "backward"), ("backward", "forward")):
        degrees = {node: len(edges) for node, edges in _expected_edges(tables, other).items()}
        for partition in range(2):
            for part in (graph.load_edges("e", direction, partition), graph.load_buckets("e", direction, partition)):
                assert part.in_degrees is not None
                assert part.in_degrees.tolist() == [degrees[code] for code in part.neighbors.view(np.uint64).tolist()]
                num_checked += len(part.neighbors)
    assert num_checked == 2 * 600


def test_seeds_of_a_node_plan_are_its_nodes_by_code(tmp_path: Path, write_partitions: WritePartitions) -> None:
    tables = _random_tables()
    plan = SamplingPlan(
        seed_node_set="a",
        hops=_BOTH_WAYS,
        splits=SplitPlan(time_feature="t", until={"train": 5, "test": None}, weights={}),
        temporal=Temporal(seed_time="t", edge_times={"e": "t"}),
    )

    info = write_partitions(tables, plan, str(tmp_path), 4)

    graph = PartitionedGraph(str(tmp_path))
    seeds = pa.concat_tables([graph.load_seeds(p) for p in range(4)])
    by_code = dict(zip(hash_ids(tables.node_tables["a"].ids).tolist(), range(_NUM_A), strict=True))
    rows = [by_code[code] for code in graph_files.as_codes(seeds.column("#code")).tolist()]
    assert rows == [row for _, row in sorted(by_code.items())]
    assert seeds.column("#row").to_pylist() == rows
    assert seeds.column("#time").to_pylist() == [row % 7 for row in rows]
    assert seeds.column("#split").to_pylist() == [int(row % 7 >= 5) for row in rows]
    assert info.splits == ("train", "test")
    assert {name: sum(counts) for name, counts in info.seed_counts.items()} == {
        "train": sum(row % 7 < 5 for row in rows),
        "test": sum(row % 7 >= 5 for row in rows),
    }


def test_a_link_plan_has_pairs_as_seeds_ranks_and_in_degrees_of_targets(
    tmp_path: Path, write_partitions: WritePartitions
) -> None:
    tables = _random_tables()
    plan = SamplingPlan(
        seed_edge_set="e",
        hops=(Hop(edge_set="e", fan_out=2, inputs=("source",)),),
        splits=SplitPlan(time_feature="t", until={"train": 30, "val": 40, "test": None}, weights={}),
        negatives=Negatives(num_per_positive=2, distribution="in_degree"),
    )

    info = write_partitions(tables, plan, str(tmp_path), 4, hub_degree=50)

    edges = tables.edge_tables["e"]
    times = edges.features["t"].to_numpy()
    split_codes = np.searchsorted([30, 40], times, side="right")
    graph = PartitionedGraph(str(tmp_path))
    seeds = pa.concat_tables([graph.load_seeds(p) for p in range(4)])
    rows = seeds.column("#row").to_numpy()
    keys = pair_keys(
        hash_ids(tables.node_tables["a"].ids)[edges.sources], hash_ids(tables.node_tables["b"].ids)[edges.targets]
    )
    assert rows.tolist() == sorted(range(600), key=lambda row: (keys[row], row))
    assert (graph_files.as_codes(seeds.column("#key")) == keys[rows]).all()
    assert (seeds.column("#split").to_numpy() == split_codes[rows]).all()
    ranks = np.array([0, 3, 5])[split_codes]
    degrees = np.bincount(edges.targets, minlength=_NUM_B)
    by_code = dict(zip(hash_ids(tables.node_tables["b"].ids).tolist(), degrees.tolist(), strict=True))
    for partition in range(4):
        part = graph.load_edges("e", "forward", partition)
        assert part.ranks is not None
        assert part.ranks.tolist() == ranks[part.edge_rows].tolist()
        stored = graph.load_in_degrees("e", partition)
        assert stored.tolist() == [by_code[code] for code in graph.load_nodes("b", partition).codes.tolist()]
        assert info.in_degree_totals["e"][partition] == stored.sum()


def test_an_inductive_plan_ranks_edges_by_the_later_end(
    shop_dir: str, tmp_path: Path, write_partitions: WritePartitions
) -> None:
    tables = read_tables(shop_dir, extra_columns={"user": ["part"]})
    plan = SamplingPlan(
        seed_node_set="user",
        hops=(Hop(edge_set="knows", fan_out=1), Hop(edge_set="buys", fan_out=1)),
        splits=SplitPlan(column="part", weights={}, order=("train", "val", "test"), visibility="inductive"),
    )

    write_partitions(tables, plan, str(tmp_path / "partitions"), 1)

    graph = PartitionedGraph(str(tmp_path / "partitions"))
    knows, buys = graph.load_edges("knows", "forward", 0), graph.load_edges("buys", "forward", 0)
    assert knows.ranks is not None
    assert buys.ranks is not None
    # ann and bob are in train, cid is in val: bob -> cid is row 2, cid buys in row 2.
    assert dict(zip(knows.edge_rows.tolist(), knows.ranks.tolist(), strict=True)) == {0: 0, 1: 0, 2: 2, 3: 0}
    assert dict(zip(buys.edge_rows.tolist(), buys.ranks.tolist(), strict=True)) == {0: 0, 1: 0, 2: 2, 3: 0}


def test_equal_tables_give_equal_bytes_and_one_cell_another_fingerprint(
    tmp_path: Path, write_partitions: WritePartitions
) -> None:
    plan = SamplingPlan(seed_node_set="a", hops=_BOTH_WAYS)
    folders = [str(tmp_path / name) for name in "abc"]

    first = write_partitions(_random_tables(), plan, folders[0], 4, hub_degree=30)
    second = write_partitions(_random_tables(), plan, folders[1], 4, hub_degree=30)
    other = write_partitions(_random_tables(num_edges=599), plan, folders[2], 4, hub_degree=30)

    contents = [
        {path.relative_to(folder): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
        for folder in folders[:2]
    ]
    assert contents[0] == contents[1]
    assert first.fingerprint == second.fingerprint != other.fingerprint


def test_a_partition_that_was_cut_short_is_refused(tmp_path: Path, write_partitions: WritePartitions) -> None:
    plan = SamplingPlan(seed_node_set="a", hops=_BOTH_WAYS)
    info = write_partitions(_random_tables(), plan, str(tmp_path), 1)
    table = graph_files.node_table("a")
    rows = graph_files.read_partition(str(tmp_path), info, table, 0)
    graph_files.write_partition(str(tmp_path), table, 0, rows.slice(0, 5))

    with pytest.raises(ValueError, match=r"must hold the 40 rows that partitions\.json declares; got 5"):
        PartitionedGraph(str(tmp_path)).load_nodes("a", 0)


def test_a_folder_without_partitions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must be the folder of a partitioned graph; got .*no partitions\.json"):
        PartitionedGraph(str(tmp_path))


def test_what_the_plan_did_not_need_is_not_in_the_partitions(tmp_path: Path, write_partitions: WritePartitions) -> None:
    write_partitions(_random_tables(), SamplingPlan(seed_node_set="a", hops=_BOTH_WAYS[:1]), str(tmp_path), 1)
    graph = PartitionedGraph(str(tmp_path))

    with pytest.raises(ValueError, match="`table` must be in the partitioned graph; got 'edges/e/backward'"):
        graph.load_edges("e", "backward", 0)


def test_only_the_last_partitions_stay_in_memory(tmp_path: Path, write_partitions: WritePartitions) -> None:
    write_partitions(_random_tables(), SamplingPlan(seed_node_set="a", hops=_BOTH_WAYS), str(tmp_path), 4)
    graph = PartitionedGraph(str(tmp_path), num_cached=2)

    first = graph.load_nodes("a", 0)

    assert graph.load_nodes("a", 0) is first
    graph.load_nodes("a", 1)
    graph.load_nodes("a", 2)
    assert graph.load_nodes("a", 0) is not first


def test_a_feature_named_like_a_column_of_the_partitions_is_refused(tmp_path: Path) -> None:
    schema = text_format.Parse(
        'node_sets { key: "n" value { features { key: "#row" value { dtype: DT_INT64 } } } }', GraphSchema()
    )

    with pytest.raises(ValueError, match=r"`features` must not have the name of a column .* got \['#row'\] in set 'n'"):
        requirements_of_plan(SamplingPlan(seed_node_set="n"), schema)
