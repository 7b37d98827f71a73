"""Snapshots of folders of files."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.snapshot.open_source import open_source
from tfx_gnn.tables.keys.declared_keys import DeclaredForeignKey, DeclaredKeys, read_declared_keys


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_cells_of_csv_files_get_types_that_lose_nothing(folder, taken):
    (folder / "t.csv").write_text(
        'i,big,zeros,f,yes,text,empty,"a,b"\n1,12345678901234567890,007,1.5,true,x,,"1\n2"\n-2,1,1,2,FALSE,1,,\n,,,,,,,\n'
    )

    _, tables = taken(folder)

    assert tables["t"].to_pydict() == {
        "i": [1, -2, None],
        "big": [12345678901234567890.0, 1.0, None],
        "zeros": ["007", "1", None],
        "f": [1.5, 2.0, None],
        "yes": [True, False, None],
        "text": ["x", "1", None],
        "empty": [None, None, None],
        "a,b": ["1\n2", None, None],
    }
    assert tables["t"].schema.field("i").type == pa.int64()


def test_a_column_without_a_name_gets_that_of_pandas(folder, taken):
    (folder / "t.csv").write_text(",a\n0,x\n1,y\n")

    _, tables = taken(folder)

    assert tables["t"].to_pydict() == {"Unnamed: 0": [0, 1], "a": ["x", "y"]}


def test_other_formats_and_shards_are_tables_of_their_names(folder, taken):
    (folder / "tabs.tsv").write_text("a\tb\n1\tx\n")
    with gzip.open(folder / "lines.jsonl.gz", "wt") as file:
        file.write('{"a": 1, "b": {"c": [1, 2]}}\n{"a": null, "d": "2026-01-02"}\n')
    for shard in range(2):
        (folder / f"parts-0000{shard}-of-00002.csv").write_text(f"a\n{shard}\n")
    (folder / "README.md").write_text("no table")

    _, tables = taken(folder)

    assert tables["tabs"].to_pydict() == {"a": [1], "b": ["x"]}
    assert tables["parts"].to_pydict() == {"a": [0, 1]}
    assert tables["lines"].column("a").to_pylist() == [1, None]
    assert tables["lines"].column("b").to_pylist() == [{"c": [1, 2]}, None]


def test_parquet_keeps_its_types_order_and_keys(folder, taken, tmp_path):
    keys = DeclaredKeys(
        primary_key=("id",), foreign_keys=(DeclaredForeignKey(columns=("to",), table="t"),), time_column="at"
    )
    table = pa.table(
        {
            "id": pa.array([3, 1], pa.uint16()),
            "to": [1, None],
            "at": pa.array([1, 2], pa.timestamp("ns", "UTC")),
        }
    )
    pq.write_table(table.replace_schema_metadata(keys.to_metadata()), folder / "t.parquet", version="2.6")
    pq.write_table(pa.table({"a": [2, 1]}), folder / "no_key.parquet")

    _, tables = taken(folder)

    assert tables["t"].column("id").to_pylist() == [3, 1]
    assert tables["t"].schema.field("id").type == pa.uint16()
    assert tables["t"].column("at").cast(pa.int64()).to_pylist() == [1, 2]
    assert tables["no_key"].column("a").to_pylist() == [2, 1]
    assert read_declared_keys(str(tmp_path / "snapshot" / "t.parquet")) == keys


def test_shards_of_two_schemas_are_refused(folder, taken):
    pq.write_table(pa.table({"a": [1]}), folder / "t-00000-of-00002.parquet")
    pq.write_table(pa.table({"b": [1]}), folder / "t-00001-of-00002.parquet")

    with pytest.raises(ValueError, match="must have one schema in all shards of a table; got another in"):
        taken(folder)


def test_a_file_that_changes_while_it_is_read_is_noticed(folder):
    (folder / "t.csv").write_text("a\n1\n")

    with open_source(str(folder)) as source:
        source.list_tables()
        (folder / "t.csv").write_text("a\n1\n2\n")
        with pytest.raises(ValueError, match=r"t.csv` must stay as it is while the tables are read; .* has changed"):
            source.check_unchanged()


def test_a_ragged_file_is_an_error_that_names_it(folder, taken):
    (folder / "t.csv").write_text("a,b\n1,2\n1,2,3\n")

    with pytest.raises(ValueError, match=r"`source` must be a source that can be read; got .*t.csv.* from .*data"):
        taken(folder)


def test_a_folder_without_tables_and_two_of_one_name_are_refused(folder, taken):
    (folder / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=r"must hold tables as .csv, .* files; got \['notes.txt'\]"):
        taken(folder)

    (folder / "t.csv").write_text("a\n1\n")
    (folder / "t.tsv").write_text("a\n1\n")
    with pytest.raises(ValueError, match=r"must hold tables of different names; got 't.csv' and 't.tsv'"):
        taken(folder)
