"""The partitioned graph that a Beam pipeline builds, against the one that is written from the same tables in memory."""

from __future__ import annotations

import functools
import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.sampling.beam.messages import pack_table
from tfx_gnn.sampling.beam.partitioned_graph import files as graph_files
from tfx_gnn.sampling.beam.partitioned_graph.build import PartitionOptions, PartitionReport, partition_graph
from tfx_gnn.sampling.beam.partitioned_graph.files import PartitionInfo
from tfx_gnn.sampling.beam.partitioned_graph.job import PartitionJob, requirements_of_plan
from tfx_gnn.sampling.beam.partitioned_graph.join_steps import PartitionNodes
from tfx_gnn.sampling.beam.partitioned_graph.reader import PartitionedGraph
from tfx_gnn.sampling.plan.edge_ranks import rank_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.seed_splits import pair_keys, tables_with_splits
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.graph_tables import GraphTables, read_tables, read_tables_schema
from tfx_gnn.tables.row_rules import DEAD_LETTERS_DIR, RowRules, dead_letter_line

WritePartitions = Callable[..., PartitionInfo]

_SCHEMA = """
node_sets { key: "a" value { features { key: "x" value { dtype: DT_FLOAT } }
  features { key: "t" value { dtype: DT_INT64 } }
  features { key: "v" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } }
  metadata { filename: "a.parquet" } } }
node_sets { key: "b" value { features { key: "#id" value { dtype: DT_INT64 } }
  features { key: "kind" value { dtype: DT_STRING } }
  metadata { filename: "b@3.csv" } } }
edge_sets { key: "e" value { source: "a" target: "b"
  features { key: "w" value { dtype: DT_FLOAT } } features { key: "t" value { dtype: DT_INT64 } }
  features { key: "r" value { dtype: DT_INT64 shape { dim { size: -1 } } } }
  metadata { filename: "e-*.parquet" } } }
edge_sets { key: "back" value { source: "b" target: "a"
  features { key: "t" value { dtype: DT_INT64 } }
  metadata { filename: "back.csv.gz" } } }
edge_sets { key: "loops" value { source: "a" target: "a" metadata { filename: "loops.csv" } } }
"""

_NUM_A, _NUM_B, _NUM_EDGES = 50, 30, 700


def _write_tables(folder: Path) -> str:
    """A graph in several files and row groups, with hubs, parallel edges, self loops and reversed edges."""
    generator = np.random.default_rng(11)
    folder.mkdir()
    (folder / "graph_schema.pbtxt").write_text(_SCHEMA)
    names = [f"a{i:02d}" for i in range(_NUM_A)]
    nodes: dict[str, Any] = {"id": names, "x": np.arange(_NUM_A, dtype=np.float32), "t": np.arange(_NUM_A) % 9}
    nodes["v"] = generator.random((_NUM_A, 2)).astype(np.float32).tolist()
    nodes["tags"] = [[f"tag{j}" for j in range(i % 4)] for i in range(_NUM_A)]
    parts = pa.array(["train", "val", "test"]).take(pa.array(np.arange(_NUM_A) % 3))
    pq.write_table(pa.table({**nodes, "part": parts}), folder / "a.parquet", row_group_size=20)
    for shard in range(3):
        rows = "".join(f"{i},k{i % 4}\n" for i in range(shard * 10, shard * 10 + 10))
        (folder / f"b-{shard:05d}-of-00003.csv").write_text(f"id,kind\n{rows}")
    sources, targets = generator.integers(0, _NUM_A, _NUM_EDGES), generator.integers(0, _NUM_B, _NUM_EDGES)
    sources[::3], targets[1::3] = 3, 5
    edges = pa.table(
        {
            "source": pa.array(names).take(pa.array(sources)),
            "target": targets,
            "w": generator.random(_NUM_EDGES, np.float32),
            "t": generator.integers(0, 60, _NUM_EDGES),
            "r": [list(range(i % 3)) for i in range(_NUM_EDGES)],
        }
    )
    pq.write_table(edges.slice(0, 400), folder / "e-1.parquet", row_group_size=150)
    pq.write_table(edges.slice(400), folder / "e-2.parquet")
    back = edges.select(["target", "source", "t"]).rename_columns(["source", "target", "t"]).to_pandas()
    back.to_csv(folder / "back.csv.gz", index=False)
    ends = generator.integers(0, _NUM_A, (60, 2))
    (folder / "loops.csv").write_text("source,target\n" + "".join(f"{names[i]},{names[j]}\n" for i, j in ends.tolist()))
    return str(folder)


@pytest.fixture(scope="module")
def tables_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _write_tables(tmp_path_factory.mktemp("partitions") / "tables")


def _read(tables_dir: str, plan: SamplingPlan, rules: RowRules | None = None) -> GraphTables:
    splits = tables_with_splits(plan)
    return read_tables(
        tables_dir,
        extra_columns=dict.fromkeys((*splits.node_sets, *splits.edge_sets), splits.extra_columns),
        rules=rules,
        edge_times=plan.temporal.edge_times if plan.temporal else None,
    )


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _build(
    tables_dir: str, partitions_dir: Path, plan: SamplingPlan, rules: RowRules | None = None, **options: int
) -> PartitionReport:
    return partition_graph(
        make_pipeline=make_pipeline,
        tables_dir=tables_dir,
        partitions_dir=str(partitions_dir),
        plan=plan,
        rules=rules,
        options=PartitionOptions(**options),
    )


_FROM_A = (Hop(edge_set="e", fan_out=3), Hop(edge_set="e", fan_out=3, direction="backward", inputs=("e",)))
_LINK = SamplingPlan(
    seed_edge_set="e",
    hops=(Hop(edge_set="e", fan_out=2, inputs=("source",)), Hop(edge_set="back", fan_out=2, inputs=("target",))),
)

_PLANS = {
    "both directions": SamplingPlan(seed_node_set="a", hops=_FROM_A),
    "in-degree": SamplingPlan(
        seed_node_set="a",
        hops=(
            Hop(edge_set="e", fan_out=3, strategy="in_degree"),
            Hop(edge_set="e", fan_out=3, direction="backward", inputs=("e",), strategy="in_degree"),
            Hop(edge_set="loops", fan_out=2, direction="backward", strategy="in_degree"),
        ),
    ),
    "inductive": SamplingPlan(
        seed_node_set="a",
        hops=(*_FROM_A, Hop(edge_set="loops", fan_out=2)),
        splits=SplitPlan(column="part", weights={}, visibility="inductive"),
    ),
    "temporal": SamplingPlan(
        seed_node_set="a",
        hops=(Hop(edge_set="e", fan_out=3, strategy="weighted", weight_feature="w"),),
        excluded_features={"e": ("w", "t"), "a": ("t",)},
        induced_edge_sets=("back",),
        temporal=Temporal(seed_time="t", edge_times={"e": "t"}),
        splits=SplitPlan(time_feature="t", until={"train": 4, "test": None}, weights={}),
    ),
    "links by time": SamplingPlan(
        seed_edge_set="e",
        hops=_LINK.hops,
        label_features=("w",),
        splits=SplitPlan(time_feature="t", until={"train": 40, "val": 50, "test": None}, weights={}),
        reverse_edge_sets=("back",),
        keeps_seed_edge=True,
    ),
    "links by hash": SamplingPlan(
        seed_edge_set="e",
        hops=_LINK.hops,
        splits=SplitPlan(disjoint_train_share=0.4),
        reverse_edge_sets=("back",),
        negatives=Negatives(num_per_positive=1, distribution="in_degree"),
    ),
    "negative sources": SamplingPlan(
        seed_edge_set="e", negatives=Negatives(num_per_positive=1, side="source", distribution="in_degree")
    ),
}


@pytest.mark.parametrize("name", _PLANS)
def test_the_partitions_are_those_of_the_tables_in_memory(
    tables_dir: str, tmp_path: Path, name: str, write_partitions: WritePartitions
) -> None:
    plan = _PLANS[name]
    num_partitions, hub_degree = (4, 20) if name != "temporal" else (1, 4096)

    report = _build(tables_dir, tmp_path / "beam", plan, num_partitions=num_partitions, hub_degree=hub_degree)

    tables = _read(tables_dir, plan)
    info = write_partitions(tables, plan, str(tmp_path / "memory"), num_partitions, hub_degree=hub_degree)
    assert _contents(tmp_path / "beam") == _contents(tmp_path / "memory")
    assert report.info == info
    assert report.tables == {label: tables.reports[label] for label in report.tables}
    assert report.dead_letters == ()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (_PLANS["temporal"], r"at least 0; got -0\.25 in 'w' of .*e-2\.parquet, row 2, one of 2"),
        (
            SamplingPlan(
                seed_edge_set="e",
                negatives=Negatives(num_per_positive=1, side="source", distribution="node_weight", weight_feature="x"),
            ),
            r"weights in \[0, 1048576\]; got -1\.0 in 'x' of .*a\.parquet, row 1\.",
        ),
    ],
    ids=["edges", "nodes"],
)
def test_weights_that_nothing_can_be_drawn_by_are_refused_with_file_and_row(
    tables_dir: str, tmp_path: Path, plan: SamplingPlan, message: str
) -> None:
    folder = tmp_path / "tables"
    shutil.copytree(tables_dir, folder)
    for name, column, positions, value in (("e-2", "w", (2, 5), -0.25), ("a", "x", (1,), -1.0)):
        table = pq.read_table(folder / f"{name}.parquet")
        values = table.column(column).to_numpy().copy()
        values[list(positions)] = value
        place = table.schema.get_field_index(column)
        pq.write_table(table.set_column(place, column, pa.array(values)), folder / f"{name}.parquet")

    with pytest.raises(ValueError, match=message):
        _build(str(folder), tmp_path / "partitions", plan, num_partitions=2)


def test_the_largest_hubs_are_named(tables_dir: str, tmp_path: Path) -> None:
    report = _build(tables_dir, tmp_path / "partitions", _PLANS["both directions"], num_partitions=2, hub_degree=100)

    edges = _read(tables_dir, _PLANS["both directions"]).edge_tables["e"]
    degrees = {"forward": np.bincount(edges.sources), "backward": np.bincount(edges.targets)}
    assert report.top_hubs["e", "forward"] == (("a03", degrees["forward"][3]),)
    assert report.top_hubs["e", "backward"] == ((5, degrees["backward"][5]),)
    for direction, of_nodes in degrees.items():
        summary = report.degrees["e", direction]
        expected = [int(((of_nodes >= 2**i) & (of_nodes < 2 ** (i + 1))).sum()) for i in range(len(summary.histogram))]
        assert list(summary.histogram) == expected
        assert summary.num_nodes == (of_nodes > 0).sum()
        assert [degree for degree, _ in summary.top] == sorted(of_nodes.tolist(), reverse=True)[:10]


def test_the_edges_of_a_hub_spread_over_all_partitions(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "graph_schema.pbtxt").write_text(
        'node_sets { key: "n" value { features { key: "#id" value { dtype: DT_INT64 } }'
        ' metadata { filename: "n.parquet" } } }'
        'edge_sets { key: "e" value { source: "n" target: "n" metadata { filename: "e.parquet" } } }'
    )
    pq.write_table(pa.table({"id": np.arange(20_001)}), folder / "n.parquet")
    pq.write_table(
        pa.table({"source": np.zeros(20_000, np.int64), "target": np.arange(1, 20_001)}), folder / "e.parquet"
    )
    plan = SamplingPlan(seed_node_set="n", hops=(Hop(edge_set="e", fan_out=2),))

    report = _build(str(folder), tmp_path / "partitions", plan, num_partitions=8, hub_degree=100)

    graph = PartitionedGraph(str(tmp_path / "partitions"))
    hubs = [graph.load_hubs("e", "forward", partition) for partition in range(8)]
    counts = np.concatenate([hub.bucket_counts for hub in hubs])
    assert counts.sum() == 20_000
    assert counts.max() <= 100
    in_buckets = report.info.tables[graph_files.bucket_table("e", "forward")].num_rows
    assert sum(in_buckets) == 20_000
    assert max(in_buckets) < 20_000 / 4
    assert report.info.tables[graph_files.edge_table("e", "forward")].total == 0
    assert report.top_hubs["e", "forward"] == ((0, 20_000),)


def test_several_workers_write_the_same_bytes(
    tables_dir: str, tmp_path: Path, write_partitions: WritePartitions
) -> None:
    plan = _PLANS["in-degree"]
    workers = ("--direct_running_mode=multi_threading", "--direct_num_workers=2")

    partition_graph(
        make_pipeline=functools.partial(make_pipeline, workers),
        tables_dir=tables_dir,
        partitions_dir=str(tmp_path / "beam"),
        plan=plan,
        options=PartitionOptions(num_partitions=4, hub_degree=20),
    )

    write_partitions(_read(tables_dir, plan), plan, str(tmp_path / "memory"), 4, hub_degree=20)
    assert _contents(tmp_path / "beam") == _contents(tmp_path / "memory")


def test_the_number_of_partitions_follows_from_the_size_of_the_files(tables_dir: str, tmp_path: Path) -> None:
    report = _build(tables_dir, tmp_path / "partitions", SamplingPlan(seed_node_set="a"))

    assert report.info.num_partitions == 1


def _with_seed_table(tables_dir: str, folder: Path, text: str) -> str:
    folder.mkdir()
    for path in Path(tables_dir).iterdir():
        shutil.copy(path, folder)
    (folder / "seeds.csv").write_text(text)
    return str(folder)


def _check_seeds(
    partitions_dir: Path, report: PartitionReport, keys: list[int], columns: dict[str, list[object]]
) -> None:
    graph = PartitionedGraph(str(partitions_dir))
    seeds = pa.concat_tables([graph.load_seeds(p) for p in range(graph.info.num_partitions)])
    assert seeds.column("#row").to_pylist() == sorted(range(len(keys)), key=lambda row: (keys[row], row))
    by_row = {row["#row"]: row for row in seeds.to_pylist()}
    for name, values in {"#key": np.array(keys, np.uint64).view(np.int64).tolist(), **columns}.items():
        assert [by_row[row][name] for row in range(len(keys))] == values
    assert report.tables["seeds"].rows_used == len(keys)
    assert sum(sum(counts) for counts in report.info.seed_counts.values()) == len(keys)


def test_nodes_of_a_seed_table_become_seeds(tables_dir: str, tmp_path: Path) -> None:
    text = "from,when,answer,part\na07,30,yes,train\na02,10,no,train\na07,31,maybe,test\na49,5,yes,test\n"
    folder = _with_seed_table(tables_dir, tmp_path / "tables", text)
    plan = SamplingPlan(
        seed_node_set="a",
        seed_table=SeedTable(
            filename="seeds.csv", columns={"id": "from"}, features={"when": "int64", "answer": "string"}
        ),
        hops=_FROM_A,
        label_features=("answer",),
        temporal=Temporal(seed_time="when", edge_times={"e": "t"}),
        splits=SplitPlan(column="part", weights={}, order=("train", "test")),
    )

    report = _build(folder, tmp_path / "partitions", plan, num_partitions=2)

    keys = hash_ids(pa.array(["a07", "a02", "a07", "a49"], pa.large_string()))
    columns = {"answer": ["yes", "no", "maybe", "yes"], "#time": [30, 10, 31, 5], "#split": [0, 0, 1, 1]}
    _check_seeds(tmp_path / "partitions", report, keys.tolist(), columns)


def test_pairs_of_a_seed_table_become_seeds(tables_dir: str, tmp_path: Path) -> None:
    text = "source,target,when,answer\na01,7,30,yes\na02,3,10,no\na01,7,31,maybe\na49,29,5,yes\n"
    folder = _with_seed_table(tables_dir, tmp_path / "tables", text)
    plan = SamplingPlan(
        seed_edge_set="e",
        seed_table=SeedTable(filename="seeds.csv", features={"when": "int64", "answer": "string"}),
        hops=_LINK.hops,
        label_features=("answer",),
        temporal=Temporal(seed_time="when", edge_times={"e": "t"}),
        splits=SplitPlan(weights={"train": 1}),
    )

    report = _build(folder, tmp_path / "partitions", plan, num_partitions=4)

    ends = hash_ids(pa.array(["a01", "a02", "a01", "a49"], pa.large_string())), hash_ids(pa.array([7, 3, 7, 29]))
    columns = {
        "answer": ["yes", "no", "maybe", "yes"],
        "#time": [30, 10, 31, 5],
        "#source": ends[0].view(np.int64).tolist(),
        "#target": ends[1].view(np.int64).tolist(),
    }
    _check_seeds(tmp_path / "partitions", report, pair_keys(*ends).tolist(), columns)


_BAD_FILES = {
    "users.csv": "id,age,color,part\nbob,3,red,train\nann,2,blue,val\ndan,x,red,test\ncid,4,blue,val\nbob,1,red,val\n",
    "knows.csv": "source,target\nann,bob\nann,ann\nbob,eve\nann,bob\nzoe,eve\nann,ann\nzoe,ann\nann,zoe\n",
    "buys.csv": "user,item,count\nann,7,1\nbob,7,2\ncid,12,3\nbob,12,many\ndan,12,4\n",
}
_DROP_ALL = RowRules(
    invalid_rows="drop",
    duplicate_nodes="keep_first",
    duplicate_edges="keep_first",
    dangling_edges="drop",
    max_dropped_share=0.9,
)
_SHOP_PLAN = SamplingPlan(
    seed_node_set="user", hops=(Hop(edge_set="knows", fan_out=1), Hop(edge_set="buys", fan_out=1))
)


def _spoil(shop_dir: str) -> None:
    for name, text in _BAD_FILES.items():
        (Path(shop_dir) / name).write_text(text)


@pytest.mark.parametrize("num_partitions", [1, 4])
def test_dropped_rows_are_counted_and_described_as_in_memory(
    shop_dir: str, tmp_path: Path, num_partitions: int, write_partitions: WritePartitions
) -> None:
    _spoil(shop_dir)

    report = _build(shop_dir, tmp_path / "beam", _SHOP_PLAN, _DROP_ALL, num_partitions=num_partitions)

    tables = _read(shop_dir, _SHOP_PLAN, _DROP_ALL)
    assert report.tables == tables.reports
    # Of 8 `knows`, 4 dangle and 2 come again; of 5 `buys` one is malformed, and one is of dan, who is.
    assert report.tables["edges/knows"].dropped == {"dangling_source": 2, "dangling_target": 2, "duplicate_edge": 2}
    assert report.tables["edges/buys"].dropped == {"dangling_source": 1, "type": 1}
    assert report.tables["nodes/user"].dropped == {"duplicate_node": 1, "type": 1}
    written = [line for path in report.dead_letters for line in Path(path).read_text().splitlines(keepends=True)]
    assert sorted(written) == sorted(dead_letter_line(problem) for problem in tables.problems)
    rows = [json.loads(line)["row"] for line in Path(report.dead_letters[1]).read_text().splitlines()]
    assert rows == sorted(rows)
    write_partitions(tables, _SHOP_PLAN, str(tmp_path / "memory"), num_partitions)
    beam_files, memory_files = _contents(tmp_path / "beam"), _contents(tmp_path / "memory")
    for name in beam_files:
        # Rows of seeds count in the files there, in the order of ids here.
        if not name.startswith((DEAD_LETTERS_DIR, "seeds", "partitions.json")):
            assert beam_files[name] == memory_files[name]


_CLEAN_FILES = {
    "users.csv": "id,age,color,part\nbob,30,red,train\nann,20,blue,train\n",
    "knows.csv": "source,target\nann,bob\nann,ann\n",
    "buys.csv": "user,item,count\nann,7,1\n",
}


@pytest.mark.parametrize(
    ("name", "text", "rules"),
    [
        ("users.csv", "id,age,color,part\nbob,3,red,train\nann,2,red,val\nbob,1,red,val\nbob,1,red,val\n", RowRules()),
        ("users.csv", "id,age,color,part\nbob,three,red,train\nann,2,red,val\n", RowRules()),
        ("knows.csv", "source,target\nann,bob\nzoe,eve\nann,zoe\nzoe,bob\n", RowRules()),
        ("knows.csv", "source,target\nann,bob\nann,zoe\n", RowRules()),
        ("knows.csv", "source,target\nann,bob\nann,ann\nann,bob\n", RowRules(duplicate_edges="refuse")),
        (
            "knows.csv",
            "source,target\nann,bob\nann,zoe\nann,eve\n",
            RowRules(dangling_edges="drop", max_dropped_share=0.5),
        ),
        ("knows.csv", "source,target\nann,zoe\n", RowRules(dangling_edges="drop", max_dropped_share=1.0)),
        ("users.csv", "id,age,color,part\n", RowRules()),
    ],
    ids=["twice", "type", "sources", "target", "again", "share", "all", "empty"],
)
def test_what_is_refused_in_memory_is_refused_in_the_same_words(
    shop_dir: str, tmp_path: Path, name: str, text: str, rules: RowRules
) -> None:
    for file, clean in _CLEAN_FILES.items():
        (Path(shop_dir) / file).write_text(clean)
    (Path(shop_dir) / name).write_text(text)

    with pytest.raises(ValueError, match="must") as in_memory:
        _read(shop_dir, _SHOP_PLAN, rules)
    with pytest.raises(Exception, match="must") as on_beam:
        _build(shop_dir, tmp_path / "partitions", _SHOP_PLAN, rules)

    # Beam adds the name of the step to an error that a worker raises.
    assert str(in_memory.value) in str(on_beam.value)
    assert not (tmp_path / "partitions").exists()


@pytest.mark.parametrize("num_partitions", [1, 4])
def test_a_reverse_edge_in_another_split_is_refused_in_the_same_words(
    tables_dir: str, tmp_path: Path, num_partitions: int
) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    for path in Path(tables_dir).iterdir():
        shutil.copy(path, folder)
    back = gzip.decompress((folder / "back.csv.gz").read_bytes()).decode().splitlines()
    for row, split_time in ((100, 1), (200, 99)):
        source, target, _ = back[row].split(",")
        back[row] = f"{source},{target},{split_time}"
    (folder / "back.csv.gz").unlink()
    (folder / "back.csv.gz").write_bytes(gzip.compress("\n".join([*back, ""]).encode()))
    plan = _PLANS["links by time"]

    with pytest.raises(ValueError, match="`splits` must give an edge and its reverse the same split") as in_memory:
        rank_edges(_read(str(folder), plan), plan)
    with pytest.raises(ValueError, match="`splits` must give") as on_beam:
        _build(str(folder), tmp_path / "partitions", plan, num_partitions=num_partitions)

    assert str(on_beam.value) == str(in_memory.value)


def test_seeds_that_are_not_there_or_come_again_are_refused(shop_dir: str, tmp_path: Path) -> None:
    plan = SamplingPlan(seed_node_set="user", seed_table=SeedTable(filename="seeds.csv"))
    seeds = Path(shop_dir) / "seeds.csv"

    seeds.write_text("id\nann\nzoe\n")
    with pytest.raises(ValueError, match=r"`id` must name a node of 'user' .*got 'zoe' in .*seeds\.csv, line 3"):
        _build(shop_dir, tmp_path / "partitions", plan)
    seeds.write_text("id\nann\nbob\nann\n")
    with pytest.raises(ValueError, match=r"`seeds` must name every seed once.*got \('ann',\) again in .*csv, line 4"):
        _build(shop_dir, tmp_path / "partitions", plan)


def test_seeds_of_the_same_pair_are_told_apart_by_their_identity(shop_dir: str, tmp_path: Path) -> None:
    table = SeedTable(filename="seeds.csv", features={"kind": "string"}, identity_features=("kind",))
    plan = SamplingPlan(
        seed_edge_set="buys", seed_table=table, label_features=("kind",), splits=SplitPlan(weights={"train": 1})
    )
    seeds = Path(shop_dir) / "seeds.csv"

    seeds.write_text("source,target,kind\nann,12,gift\nann,12,loan\n")
    _build(shop_dir, tmp_path / "partitions", plan)
    seeds.write_text("source,target,kind\nann,12,gift\nann,12,loan\nann,12,gift\n")
    with pytest.raises(ValueError, match=r"`seeds` must name every seed once.*csv, line 4, one of 1\."):
        _build(shop_dir, tmp_path / "again", plan)


def test_two_ids_of_one_hash_are_refused(shop_dir: str, tmp_path: Path) -> None:
    job = PartitionJob(
        plan=_SHOP_PLAN,
        requirements=requirements_of_plan(_SHOP_PLAN, read_tables_schema(shop_dir)),
        rules=RowRules(),
        layouts={},
        units={},
        partitions_dir=str(tmp_path),
        num_partitions=1,
        hub_degree=1,
    )
    rows = pa.table(
        {
            "#code": pa.array([5, 5]),
            "#id": pa.array(["ann", "bob"], pa.large_string()),
            "#row": pa.array([0, 1]),
            "#unit": pa.array([0, 0], pa.int32()),
        }
    )

    with pytest.raises(ValueError, match=r"64-bit hash that no other node .*got \('ann', 'bob'\) with 0x0+5"):
        list(PartitionNodes(job).process(("0/user", [pack_table(rows)]), {("nodes/user", 0): (2, 2)}))


def test_a_folder_that_holds_something_is_left_alone(shop_dir: str, tmp_path: Path) -> None:
    (tmp_path / "partitions").mkdir()
    (tmp_path / "partitions" / "mine.txt").write_text("keep")

    with pytest.raises(FileExistsError, match="`partitions_dir` must be absent or empty"):
        _build(shop_dir, tmp_path / "partitions", _SHOP_PLAN)

    assert _contents(tmp_path / "partitions") == {"mine.txt": b"keep"}


@pytest.mark.parametrize("count", [3, -1, True])
def test_partitions_are_a_power_of_two(count: int) -> None:
    with pytest.raises(ValueError, match="`num_partitions` must be a power of two, or 0; got"):
        PartitionOptions(num_partitions=count)


def test_a_hub_has_more_than_one_edge() -> None:
    with pytest.raises(ValueError, match="`hub_degree` must be at least 1; got 0"):
        PartitionOptions(hub_degree=0)


def test_the_context_is_kept_where_examples_show_it(
    shop_dir: str, tmp_path: Path, write_partitions: WritePartitions
) -> None:
    folder = Path(shop_dir)
    schema = (folder / "graph_schema.pbtxt").read_text()
    context = 'context { features { key: "year" value { dtype: DT_INT64 } } metadata { filename: "context.csv" } }'
    (folder / "graph_schema.pbtxt").write_text(schema + context)
    (folder / "context.csv").write_text("year\n1990\n")
    plan = SamplingPlan(seed_node_set="user", context_features=("year",))

    report = _build(shop_dir, tmp_path / "partitions", plan)

    assert PartitionedGraph(str(tmp_path / "partitions")).load_context().to_pylist() == [{"year": 1990}]
    assert report.tables["context"].rows_used == 1
    write_partitions(_read(shop_dir, plan), plan, str(tmp_path / "memory"), 1)
    name = graph_files.table_file("", graph_files.CONTEXT_TABLE, 0)
    assert _contents(tmp_path / "partitions")[name] == _contents(tmp_path / "memory")[name]
