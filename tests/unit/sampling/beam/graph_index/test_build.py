"""A graph index that a Beam pipeline builds, against the one that is built from the same tables in memory."""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.sampling import random_choice
from tfx_gnn.sampling.beam.graph_index import node_steps
from tfx_gnn.sampling.beam.graph_index.build import write_graph_index_on_beam
from tfx_gnn.sampling.index import index_writer
from tfx_gnn.sampling.index.build import write_graph_index
from tfx_gnn.tables import csv_table
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.row_rules import RowRules, write_dead_letters
from tfx_gnn.tables.schema_layouts import layouts_of

SCHEMA = """
context { features { key: "year" value { dtype: DT_INT64 } } metadata { filename: "context.csv" } }
node_sets { key: "a" value {
  features { key: "x" value { dtype: DT_FLOAT } } features { key: "n" value { dtype: DT_INT32 } }
  features { key: "good" value { dtype: DT_BOOL } } features { key: "name" value { dtype: DT_STRING } }
  features { key: "pair" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  features { key: "flags" value { dtype: DT_BOOL shape { dim { size: -1 } } } }
  features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } }
  metadata { filename: "a.parquet" } } }
node_sets { key: "b.c/d" value {
  features { key: "#id" value { dtype: DT_INT64 } } metadata { filename: "b@2.csv" } } }
node_sets { key: "none" value { metadata { filename: "none.csv" } } }
edge_sets { key: "aa" value { source: "a" target: "a"
  features { key: "w" value { dtype: DT_FLOAT } } features { key: "t" value { dtype: DT_INT64 } }
  metadata { filename: "aa.csv" extra { key: "default:w" value: "0.5" } } } }
edge_sets { key: "ab" value { source: "a" target: "b.c/d"
  features { key: "word" value { dtype: DT_STRING } } metadata { filename: "ab.parquet" } } }
edge_sets { key: "nb" value { source: "none" target: "b.c/d" metadata { filename: "nb.csv" } } }
"""
DROP = RowRules(invalid_rows="drop", duplicate_nodes="keep_first", duplicate_edges="keep_first", dangling_edges="drop")
SMALL = {"group_rows": 150, "part_rows": 200}
FILES_OF_B = ("b-00000-of-00002.csv", "b-00001-of-00002.csv")


def _write(path: Path, header: str, *columns) -> None:
    rows = [header, *(",".join(map(str, row)) for row in zip(*(list(column) for column in columns), strict=True))]
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def tables_dir(tmp_path_factory) -> str:
    """Tables with every kind of row that rules drop, a hub, loops, nodes without edges, and two empty tables."""
    folder, draw = tmp_path_factory.mktemp("tables"), np.random.default_rng(5)
    names = np.array([f"é{'x' * (number % 19)}{number}" for number in draw.permutation(260)])
    ids = np.concatenate([names, names[:9], [""]])
    count = len(ids)
    nodes = {
        "id": ids,
        "x": [None if number == 7 else number / 3 for number in range(count)],
        "n": draw.integers(-9, 9, count),
        "good": draw.random(count) < 0.3,
        "name": [f"name {number}" * (number % 3) for number in range(count)],
        "pair": draw.random([count, 2]).tolist(),
        "flags": [[True, False, True][: number % 4] for number in range(count)],
        "tags": [list("uvw"[: number % 4]) for number in range(count)],
    }
    pq.write_table(pa.table(nodes), folder / "a.parquet", row_group_size=110)
    others = np.concatenate([draw.permutation(230) * 7 - 70, [0, 7]])
    for name, part in zip(FILES_OF_B, np.array_split(others, 2), strict=True):
        _write(folder / name, "id", part)
    known = names[names != names[7]]
    sources, targets = draw.choice(known[:200], 500), draw.choice(known[:200], 500)
    sources[:20], sources[100:103], targets[90:95] = targets[:20], "nobody", "somebody"
    sources[300:320], targets[300:320] = sources[280], targets[280]
    weights = [("", "0.25", "oops")[(number % 40 == 0) + (number == 33)] for number in range(500)]
    _write(folder / "aa.csv", "source,target,w,t", sources, targets, weights, np.arange(500) // 300)
    sources = np.concatenate([np.full(400, known[3]), draw.choice(known, 300)])
    targets = np.concatenate([others[draw.integers(0, 200, 690)], np.arange(10) * 7 - 69])
    words = [f"w{number}" for number in range(700)]
    edges = pa.table({"source": sources, "target": targets, "word": words})
    pq.write_table(edges, folder / "ab.parquet", row_group_size=240)
    _write(folder / "none.csv", "id")
    _write(folder / "nb.csv", "source,target")
    _write(folder / "context.csv", "year", [2024])
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    return str(folder)


def _build(write, tables_dir: str, folder: Path | str, **options) -> dict[str, bytes]:
    """Returns the contents of all files of an index and of its dead letters."""
    folder = str(folder)
    tf.io.gfile.makedirs(folder)
    schema = read_tables_schema(tables_dir)
    extra_columns = {"a": ("name",)} if "b.c/d" in schema.node_sets else {}
    layouts = layouts_of(schema, tables_dir, extra_columns=extra_columns)
    built = write(folder, schema, layouts, **options)
    write_dead_letters(f"{folder}/dead_letters", built.problems)
    paths = [f"{place}/{name}" for place, _, names in tf.io.gfile.walk(folder) for name in names]
    return {path.removeprefix(folder): tf.io.gfile.GFile(path, "rb").read() for path in paths}


def _on_beam(*args: str, **sizes: int):
    make = functools.partial(make_pipeline, args)
    return functools.partial(write_graph_index_on_beam, make_pipeline=make, sizes=sizes)


def _error(write, tables_dir: str, folder: Path, rules: RowRules) -> str:
    with pytest.raises(ValueError, match="must") as caught:
        _build(write, tables_dir, folder, rules=rules)
    return str(caught.value)


@pytest.mark.parametrize(
    ("write", "is_local", "duplicate_edges"),
    [
        (_on_beam(), False, "keep_first"),
        (_on_beam(**SMALL), True, "keep_first"),
        (_on_beam("--direct_running_mode=multi_threading", "--direct_num_workers=2", **SMALL), True, "keep"),
    ],
    ids=["one part in an object store", "many parts", "two workers"],
)
def test_files_and_dead_letters_are_those_of_a_build_in_memory(write, is_local, duplicate_edges, tables_dir, tmp_path):
    folder = tmp_path / "beam" if is_local else f"ram://{tmp_path.name}/index"
    options = {"rules": dataclasses.replace(DROP, duplicate_edges=duplicate_edges), "edge_times": {"aa": "t"}}

    found = _build(write, tables_dir, folder, **options)

    expected = _build(write_graph_index, tables_dir, tmp_path / "memory", **options)
    assert found.keys() == expected.keys()
    assert [name for name, content in found.items() if content != expected[name]] == []
    assert {f"/dead_letters/{name}.jsonl" for name in ("nodes.a", "edges.aa", "edges.ab")} <= found.keys()


SMALL_TABLES = {
    "graph_schema.pbtxt": """
context { features { key: "year" value { dtype: DT_INT64 } } metadata { filename: "context.csv" } }
node_sets { key: "user" value { metadata { filename: "users.csv" } } }
node_sets { key: "item" value {
  features { key: "#id" value { dtype: DT_INT64 } } features { key: "price" value { dtype: DT_FLOAT } }
  metadata { filename: "items.csv" } } }
edge_sets { key: "buys" value { source: "user" target: "item" metadata { filename: "buys.csv" } } }
""",
    "users.csv": "id\nbob\nann\neve\ndan\n",
    "items.csv": "id,price\n7,1.5\n3,2\n9,0\n",
    "buys.csv": "source,target\nbob,7\nann,3\nann,9\ndan,7\n",
    "context.csv": "year\n2024\n",
}
BROKEN = {
    "an invalid row of a later table hides no repeated id": (
        {"items.csv": "7,1\n7,2\n", "users.csv": '""\n'},
        RowRules(),
        r"`id` must be different .* got 7 again in .*items.csv, line 5.* one of 2 such rows",
    ),
    "an invalid row": ({"items.csv": "8,cheap\n7,1\n"}, RowRules(), "be a finite number.*'cheap' in .*line 5"),
    "ends that are no nodes": (
        {"buys.csv": "ann,8\nnobody,3\nnobody,9\n"},
        RowRules(),
        "name a node of 'user'.*'nobody' in .*line 7.* one of 2 such rows",
    ),
    "repeated edges": (
        {"buys.csv": "dan,7\nbob,7\n"},
        RowRules(duplicate_edges="refuse"),
        r"got \('dan', 7\) again in .*line 6.* one of 2 such rows",
    ),
    "too many dropped rows": (
        {"buys.csv": "ann,8\nnobody,3\n"},
        RowRules(dangling_edges="drop", max_dropped_share=0.2),
        "for 2 of 6 rows of edges/buys: {'dangling_source': 1, 'dangling_target': 1}",
    ),
    "no usable edge": (
        {"users.csv": "=id\nann\n", "buys.csv": "=source,target\nann,1\nann,2\nx,7\n"},
        RowRules(dangling_edges="drop"),
        "one usable edge.*after 3 were dropped: {'dangling_target': 2, 'dangling_source': 1}",
    ),
    "a node table without records": (
        {"users.csv": "=id\n"},
        RowRules(dangling_edges="drop"),
        "users.csv` must hold at least one record",
    ),
    "a file without units": (
        {
            "graph_schema.pbtxt": "=" + SMALL_TABLES["graph_schema.pbtxt"].replace("users.csv", "users.parquet"),
            "users.parquet": "no table",
        },
        RowRules(),
        "users.parquet` must be a whole Parquet file",
    ),
    "a file that is no table": ({"items.csv": "=wrong\n"}, RowRules(), "`id` must be one column"),
}


@pytest.mark.parametrize(("changes", "rules", "message"), BROKEN.values(), ids=BROKEN)
def test_refused_tables_have_the_message_of_a_build_in_memory(changes, rules, message, tmp_path, monkeypatch):
    folder = tmp_path / "tables"
    folder.mkdir()
    for name in SMALL_TABLES.keys() | changes.keys():
        text = SMALL_TABLES.get(name, "") + changes.get(name, "")
        # What is before the last "=" is replaced.
        (folder / name).write_text(text.rpartition("=")[2])
    monkeypatch.setattr(csv_table, "MAX_BLOCK_ROWS", 2)

    found = _error(_on_beam(group_rows=2, part_rows=3), str(folder), tmp_path / "beam", rules)

    assert found == _error(write_graph_index, str(folder), tmp_path / "memory", rules)
    assert re.search(message, found)


def test_two_texts_with_one_hash_are_refused_as_in_memory(tables_dir, tmp_path, monkeypatch):
    def hash_ids(ids: pa.Array):
        codes = random_choice.hash_ids(ids)
        return np.where(codes % np.uint64(60) == 7, np.uint64(1 << 40), codes)

    for module in (node_steps, index_writer):
        monkeypatch.setattr(module, "hash_ids", hash_ids)

    found = _error(_on_beam(**SMALL), tables_dir, tmp_path / "beam", DROP)

    assert found == _error(write_graph_index, tables_dir, tmp_path / "memory", DROP)
    assert "with the same 64-bit hash" in found


def test_tables_in_bigquery_are_refused_by_both_builds(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "graph_schema.pbtxt").write_text(
        'node_sets { key: "a" value { metadata { bigquery { table_spec { dataset: "d" table: "t" } } } } }'
    )

    found = _error(_on_beam(), str(folder), tmp_path / "beam", DROP)

    assert found == _error(write_graph_index, str(folder), tmp_path / "memory", DROP)
    assert "got `metadata.bigquery` for nodes/a. Export the table" in found
