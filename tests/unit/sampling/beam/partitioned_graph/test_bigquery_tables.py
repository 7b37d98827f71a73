"""A partitioned graph of tables in BigQuery; of Beam's connector only the call to the service is replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.sampling.beam.partitioned_graph.build import PartitionOptions, partition_graph
from tfx_gnn.sampling.beam.partitioned_graph.reader import PartitionedGraph
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.row_rules import RowRules

_SCHEMA = """
node_sets { key: "user" value { features { key: "age" value { dtype: DT_INT64 } }
  metadata { bigquery { table_spec { dataset: "d" table: "users" } read_method: DIRECT_READ } } } }
node_sets { key: "item" value { metadata { filename: "items.csv" } } }
edge_sets { key: "buys" value { source: "user" target: "item"
  features { key: "#id" value { dtype: DT_INT64 } }
  metadata { bigquery { table_spec { dataset: "d" table: "buys" } read_method: DIRECT_READ } } } }
"""
_USERS = [{"id": name, "age": age} for name, age in (("ann", 20), ("bob", 30), ("cid", 40), ("bob", 31))]
_BUYS = [
    {"id": 12, "source": "bob", "target": "pen"},
    {"id": 10, "source": "ann", "target": "pen"},
    {"id": 30, "source": "eve", "target": "pen"},
    {"id": 20, "source": "ann", "target": "ink"},
    {"id": 40, "source": "cid", "target": "cup"},
]
_PLAN = SamplingPlan(seed_node_set="user", hops=(Hop(edge_set="buys", fan_out=1),))


@pytest.fixture
def tables_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Folder of a graph whose users and purchases are in BigQuery."""
    rows: Mapping[str, Sequence[Mapping[str, Any]]] = {"d.users": _USERS, "d.buys": _BUYS}

    class FakeConnector(beam.PTransform):  # type: ignore[misc]
        def __init__(self, **arguments: Any) -> None:
            super().__init__()
            self._rows = rows[arguments["table"]]

        def expand(self, input_or_inputs: Any) -> Any:
            return input_or_inputs | beam.Create(self._rows)

    monkeypatch.setattr(beam.io, "ReadFromBigQuery", FakeConnector)
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "graph_schema.pbtxt").write_text(_SCHEMA)
    (folder / "items.csv").write_text("id\npen\nink\n")
    return str(folder)


@pytest.mark.parametrize("num_partitions", [1, 4])
def test_edges_are_known_by_the_numbers_that_the_table_gives_them(
    tables_dir: str, tmp_path: Path, num_partitions: int
) -> None:
    rules = RowRules(duplicate_nodes="keep_first", dangling_edges="drop", max_dropped_share=0.5)

    report = partition_graph(
        make_pipeline=make_pipeline,
        tables_dir=tables_dir,
        partitions_dir=str(tmp_path / "partitions"),
        plan=_PLAN,
        rules=rules,
        options=PartitionOptions(num_partitions=num_partitions),
    )

    names = {
        int(code): name
        for name in ("ann", "bob", "pen", "ink")
        for code in hash_ids(pa.array([name], pa.large_string()))
    }
    graph = PartitionedGraph(str(tmp_path / "partitions"))
    found = {}
    for partition in range(num_partitions):
        rows = graph.load_edges("buys", "forward", partition)
        for position, node in enumerate(rows.nodes.tolist()):
            for edge in range(rows.offsets[position], rows.offsets[position + 1]):
                neighbor = int(rows.neighbors[edge : edge + 1].view("uint64")[0])
                found[int(rows.edge_rows[edge])] = names[node], names[neighbor]
    assert found == {10: ("ann", "pen"), 12: ("bob", "pen"), 20: ("ann", "ink")}
    assert report.tables["edges/buys"].dropped == {"dangling_source": 1, "dangling_target": 1}
    assert report.tables["nodes/user"].dropped == {"duplicate_node": 1}
    problems = [json.loads(line) for path in report.dead_letters for line in Path(path).read_text().splitlines()]
    assert [(problem["table"], problem["rule"], problem["value"]) for problem in problems] == [
        ("edges/buys", "dangling_source", "'eve'"),
        ("edges/buys", "dangling_target", "'cup'"),
        ("nodes/user", "duplicate_node", "'bob' again"),
    ]
    assert [problem["row"] for problem in problems[:2]] == [30, 40]


def test_a_dangling_edge_is_refused_with_its_id(tables_dir: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`source` must name a node of 'user' .*got 'eve' in d\.buys, row 30"):
        partition_graph(
            make_pipeline=make_pipeline,
            tables_dir=tables_dir,
            partitions_dir=str(tmp_path / "partitions"),
            plan=_PLAN,
            rules=RowRules(duplicate_nodes="keep_first"),
        )
