"""Tables of a database as tables of a graph: ids, edges, times, and what has no edge."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
import pytest

from tfx_gnn.graph.schema.schema_io import write_schema
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.prepared_tables import write_prepared_tables
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_access import TableAccess

HOURS = [dt.datetime(2013, 1, 1 + i % 20, 5, tzinfo=dt.timezone.utc) for i in range(40)]
FLIGHTS = {
    "tail": [None if i % 10 == 0 else "gone" if i % 10 == 1 else f"N{i % 4}" for i in range(40)],
    "delay": [None if i == 7 else float(i) for i in range(40)],
    "late": [i % 3 == 0 for i in range(40)],
}
PLANES = {"tail": [f"N{i}" for i in range(4)], "seats": [100, 120, 120, 100]}


@pytest.fixture(params=["csv", "parquet"])
def prepared(request, tmp_path):
    """Prepares flights whose rows have no id, in both formats; gives what was learned and the folder."""
    raw, folder = tmp_path / "raw", tmp_path / "tables"
    raw.mkdir()
    folder.mkdir()
    hours = [f"{hour:%Y-%m-%dT%H:%M:%SZ}" for hour in HOURS] if request.param == "csv" else HOURS
    for name, columns in (("flights", {**FLIGHTS, "hour": hours}), ("planes", PLANES)):
        if request.param == "csv":
            pc_csv.write_csv(pa.table(columns), raw / f"{name}.csv")
        else:
            pq.write_table(pa.table(columns), raw / f"{name}.parquet", row_group_size=7)
    access = TableAccess()
    database = find_keys(find_tables(str(raw), access), str(raw), label=("flights", "late"), access=access)
    return write_prepared_tables(database, str(raw), str(folder), access=access), folder


def test_rows_are_nodes_and_their_foreign_keys_edges_with_their_times(prepared):
    found, folder = prepared

    flights = pq.read_table(folder / "flights.parquet").to_pydict()
    assert flights["id"] == [str(i) for i in range(40)]
    assert (flights["delay"], flights["late"]) == (FLIGHTS["delay"], FLIGHTS["late"])
    assert "tail" not in flights
    edges = pq.read_table(folder / "flights_tail.parquet").to_pydict()
    has_edge = [i for i, tail in enumerate(FLIGHTS["tail"]) if tail is not None]
    assert edges["source"] == [str(i) for i in has_edge]
    assert edges["target"] == [FLIGHTS["tail"][i] for i in has_edge]
    assert edges["row_time"] == [HOURS[i].replace(tzinfo=None) for i in has_edge]
    assert found.num_without_edge == {"flights_tail": 4}
    assert (found.node_times, found.edge_times) == ({"flights": "hour"}, {"flights_tail": "row_time"})


def test_the_schema_reads_them_as_a_graph(prepared):
    found, folder = prepared
    del found.schema.node_sets["flights"].features["delay"]
    write_schema(found.schema, str(folder / "graph_schema.pbtxt"))

    graph = read_tables(str(folder), rules=RowRules(dangling_edges="drop"))

    edges = graph.edge_tables["flights_tail"]
    assert (graph.node_tables["flights"].num_nodes, edges.num_edges) == (40, 32)
    ids = {name: table.ids.to_pylist() for name, table in graph.node_tables.items()}
    joined = {ids["flights"][i]: ids["planes"][j] for i, j in zip(edges.sources, edges.targets, strict=True)}
    assert joined == {str(i): tail for i, tail in enumerate(FLIGHTS["tail"]) if tail not in (None, "gone")}
    assert edges.features["row_time"].to_pylist() == [
        int(hour.timestamp()) for hour, tail in zip(HOURS, FLIGHTS["tail"], strict=True) if tail not in (None, "gone")
    ]


def test_entities_and_edge_tables_without_some_ends(tmp_path):
    raw, folder = tmp_path / "raw", tmp_path / "tables"
    raw.mkdir()
    folder.mkdir()
    ratings = {
        "userId": ["" if i == 3 else f"{i % 5}.0" for i in range(60)],
        "movieId": [i % 20 for i in range(60)],
        "rating": [i % 5 for i in range(60)],
    }
    pc_csv.write_csv(pa.table(ratings), raw / "ratings.csv")
    pc_csv.write_csv(pa.table({"movieId": list(range(20)), "title": [f"f{i}" for i in range(20)]}), raw / "movies.csv")
    access = TableAccess()
    database = find_keys(find_tables(str(raw), access), str(raw), access=access)

    found = write_prepared_tables(database, str(raw), str(folder), access=access)

    assert pq.read_table(folder / "user.parquet").to_pydict() == {"id": ["0", "1", "2", "3", "4"]}
    edges = pq.read_table(folder / "ratings.parquet")
    assert edges.num_rows == 59
    assert sorted(edges.column_names) == ["movieId", "rating", "userId"]
    assert found.num_without_edge == {"ratings": 1}
    ends = found.schema.edge_sets["ratings"]
    assert {ends.source, ends.target} == {"user", "movies"}


def test_fractions_of_seconds_of_the_label_are_left_out_and_empty_times_stay_empty(tmp_path):
    raw, folder = tmp_path / "raw", tmp_path / "tables"
    raw.mkdir()
    folder.mkdir()
    times = [f"2026-01-0{1 + i % 9}T10:00:{i:02d}.667" for i in range(40)]
    posts = {"at": ["" if i == 5 else time for i, time in enumerate(times)], "good": [i % 3 == 0 for i in range(40)]}
    pc_csv.write_csv(pa.table(posts), raw / "posts.csv")
    access = TableAccess()
    database = find_keys(find_tables(str(raw), access), str(raw), label=("posts", "good"), access=access)

    found = write_prepared_tables(database, str(raw), str(folder), label=("posts", "good"), access=access)

    written = pq.read_table(folder / "posts.parquet").to_pydict()["at"]
    expected = [dt.datetime.fromisoformat(time.partition(".")[0]) for time in times]
    assert written == [None if i == 5 else time for i, time in enumerate(expected)]
    assert found.node_times == {"posts": "at"}


def test_records_of_other_lengths_are_refused(tmp_path):
    (tmp_path / "posts.csv").write_text("length,good\n1,yes\n2,no\n1\n", encoding="utf-8")
    access = TableAccess()
    database = find_keys(find_tables(str(tmp_path), access), str(tmp_path), label=("posts", "good"), access=access)

    with pytest.raises(ValueError, match=r"`posts\.csv` must have as many cells in each record as its header"):
        write_prepared_tables(database, str(tmp_path), str(tmp_path), access=access)
