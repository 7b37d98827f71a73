"""BigQuery is read by Beam's connector, of which only the calls to the service are replaced."""

import datetime as dt
import decimal
import os
import pickle
import tempfile
import types

import apache_beam as beam
import fastavro
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.io.gcp import bigquery_tools
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that

from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.tables.bigquery_table import bigquery_blocks, bigquery_unit, hash_rows
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn.tables.table_files import list_units, read_table

SCHEMA = """
node_sets { key: "user" value {
  features { key: "age" value { dtype: DT_INT64 } }
  features { key: "score" value { dtype: DT_FLOAT } }
  features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } }
  metadata { bigquery { table_spec { project: "my-project" dataset: "d" table: "users" } }
             extra { key: "default.age" value: "-1" } } } }
edge_sets { key: "knows" value { source: "user" target: "user"
  features { key: "since" value { dtype: DT_INT64 } }
  metadata { bigquery { sql: "SELECT *\\n FROM d.knows" read_method: DIRECT_READ reshuffle: true } } } }
edge_sets { key: "numbered" value { source: "user" target: "user"
  features { key: "#id" value { dtype: DT_INT64 } }
  metadata { bigquery { table_spec { dataset: "d" table: "numbered" } read_method: DIRECT_READ } } } }
"""
USERS = [
    {"id": "ann", "age": 20, "score": 0.5, "tags": ["a", "b"], "more": 1},
    {"id": "bob", "age": None, "score": 2, "tags": [], "more": 2},
]
KNOWS = [
    {"source": "ann", "target": "bob", "since": 5},
    {"source": "bob", "target": "ann", "since": 5},
    {"source": "ann", "target": "bob", "since": 5},
    {"source": "ann", "target": "bob", "since": 6},
]
DROP = RowRules(invalid_rows="drop", max_dropped_share=1.0)


def _layouts(text=SCHEMA):
    layouts = layouts_of(parse_schema(text), "/tables")
    return {**layouts.node_sets, **layouts.edge_sets}


@pytest.fixture
def connector(monkeypatch):
    """Rows that the connector finds, and the arguments with which it was made."""

    class FakeConnector(beam.PTransform):
        def __init__(self, **arguments):
            super().__init__()
            connector.arguments = arguments

        def expand(self, pipeline):
            return pipeline | beam.Create(connector.rows)

    connector = types.SimpleNamespace(rows=[], arguments={})
    monkeypatch.setattr(beam.io, "ReadFromBigQuery", FakeConnector)
    return connector


def _read(layout, rules=None, *, args=(), **options):
    with tempfile.NamedTemporaryFile() as file:
        path = file.name

        def gather(found):
            with open(path, "wb") as copy:
                pickle.dump(found, copy)

        with beam.Pipeline(options=PipelineOptions(["--direct_running_mode=in_memory", *args])) as pipeline:
            assert_that(bigquery_blocks(pipeline, layout, rules, **options), gather)
        return pickle.load(file)


def _rows(blocks):
    """All rows by their numbers."""
    found = {}
    for block in blocks:
        assert block.num_rows_read == block.num_rows + len(block.problems)
        columns = {key: column.to_pylist() for key, column in block.columns.items()}
        for position, number in enumerate(block.rows.tolist()):
            assert number not in found
            found[number] = {key: values[position] for key, values in columns.items()}
    return found


def _tuples(blocks):
    return sorted(tuple(row.values()) for row in _rows(blocks).values())


def test_rows_become_typed_columns(connector):
    connector.rows = USERS

    blocks = _read(_layouts()["user"], gcs_location="gs://bucket/temp")

    assert connector.arguments == {
        "method": "EXPORT",
        "table": "my-project:d.users",
        "gcs_location": "gs://bucket/temp",
    }
    assert sorted(_rows(blocks).values(), key=lambda row: row["#id"]) == [
        {"#id": "ann", "age": 20, "score": 0.5, "tags": ["a", "b"]},
        {"#id": "bob", "age": -1, "score": 2.0, "tags": []},
    ]
    assert {block.unit for block in blocks} == {0}
    assert all(np.all(np.diff(block.rows) > 0) for block in blocks)


def test_a_query_is_in_standard_sql_unless_it_says_otherwise(connector):
    connector.rows = KNOWS
    layouts = _layouts()

    _read(layouts["knows"], gcs_location="gs://is/not/used")

    assert connector.arguments == {
        "method": "DIRECT_READ",
        "query": "SELECT *\n FROM d.knows",
        "use_standard_sql": True,
        "flatten_results": False,
    }
    assert bigquery_unit(layouts["knows"]).path == "'SELECT * FROM d.knows'"
    _read(_layouts(SCHEMA.replace("SELECT *", "#legacySQL"))["knows"])
    assert connector.arguments["use_standard_sql"] is False


def test_edges_are_numbered_by_what_they_hold_whatever_their_order(connector):
    layout = _layouts()["knows"]
    connector.rows = KNOWS
    first = _rows(_read(layout))
    connector.rows = KNOWS[::-1]

    again = _rows(_read(layout, num_partitions=1))

    assert again == first
    assert sorted(map(tuple, (row.values() for row in first.values()))) == [
        ("ann", "bob", 5), ("ann", "bob", 5), ("ann", "bob", 6), ("bob", "ann", 5)
    ]  # fmt: skip
    assert all(0 <= number < 2**63 for number in first)


def test_declared_numbers_are_the_rows_of_edges(connector):
    layout = _layouts()["numbered"]
    connector.rows = [{"id": 2 * i, "source": "ann", "target": "bob"} for i in range(5)]

    rows = _rows(_read(layout, num_partitions=2))

    assert connector.arguments["selected_fields"] == ["id", "source", "target"]
    assert rows == {2 * i: {"#source": "ann", "#target": "bob"} for i in range(5)}


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([3, 1, 3], "`#id` must be different for every edge; got 3 2 times in d.numbered"),
        ([3, -1], "`id` must be at least 0 in an edge table; got -1 in d.numbered"),
    ],
)
def test_declared_numbers_must_tell_edges_apart(connector, numbers, message):
    connector.rows = [{"id": number, "source": "ann", "target": "bob"} for number in numbers]

    with pytest.raises(Exception, match=message):
        _read(_layouts()["numbered"])


BAD = {"id": "cat", "age": "x", "score": 1.0, "tags": []}


def test_a_bad_row_is_refused_and_shown(connector):
    connector.rows = [*USERS, BAD]

    with pytest.raises(
        Exception, match=r"`age` must be of type int64; got 'x' in the row {'id': 'cat', .*} in my-project:d.us"
    ):
        _read(_layouts()["user"])


def test_a_bad_row_is_dropped_and_counted(connector):
    connector.rows = [*USERS, BAD, {**BAD, "age": 1, "score": None}, {**BAD, "id": None}]

    blocks = _read(_layouts()["user"], DROP)

    problems = [problem for block in blocks for problem in block.problems]
    assert sum(block.num_rows_read for block in blocks) == 5
    assert [row[0] for row in _tuples(blocks)] == ["ann", "bob"]
    assert sorted((problem.column, problem.rule) for problem in problems) == [
        ("age", "type"), ("id", "missing"), ("score", "missing")
    ]  # fmt: skip
    assert all(problem.file == "my-project:d.users" for problem in problems)
    assert any("got NULL in the row {'id': 'cat', 'age': 1, 'score': None" in problem.message for problem in problems)


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        ("dtype: DT_INT64", [decimal.Decimal(5), decimal.Decimal(7)], [5, 7]),
        ("dtype: DT_INT64", [dt.datetime(1970, 1, 2, tzinfo=dt.timezone.utc)], [86400]),
        ("dtype: DT_INT64", [1, "2"], [1, 2]),
        ("dtype: DT_STRING", [b"\xc3\xa4", b"x"], ["x", "ä"]),
        ("dtype: DT_BOOL", [True, False], [False, True]),
        ("dtype: DT_FLOAT shape { dim { size: 2 } }", [[1.0, 2.0], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
    ],
)
def test_types_of_the_service_become_the_declared_ones(connector, declared, values, expected):
    schema = f"""node_sets {{ key: "x" value {{ features {{ key: "f" value {{ {declared} }} }}
      metadata {{ bigquery {{ sql: "SELECT" }} }} }} }}"""
    connector.rows = [{"id": str(i), "f": value} for i, value in enumerate(values)]

    assert sorted(row["f"] for row in _rows(_read(_layouts(schema)["x"])).values()) == expected


def test_a_missing_column_is_named(connector):
    connector.rows = [{"id": "ann", "score": 1.0, "tags": []}]

    with pytest.raises(Exception, match=r"`age` must be one column .* got none among \['id', 'score', 'tags'\]"):
        _read(_layouts()["user"])


def test_a_packed_column_is_split(connector):
    schema = """node_sets { key: "x" value {
      features { key: "a" value { dtype: DT_INT64 } } features { key: "b" value { dtype: DT_FLOAT } }
      metadata { bigquery { table_spec { dataset: "d" table: "t" } read_method: DIRECT_READ }
                 extra { key: "decoder.packed" value: "{a}:{b}" } } } }"""
    connector.rows = [{"id": "u", "packed": "3:0.5"}]

    assert list(_rows(_read(_layouts(schema)["x"])).values()) == [{"#id": "u", "a": 3, "b": 0.5}]
    assert connector.arguments["selected_fields"] == ["id", "packed"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "must have a table_spec or sql; got neither for nodes/user"),
        ('sql: " "', "`sql` must be a query; got ' ' for nodes/user"),
        ('table_spec { table: "t" }', "`table_spec` must name a dataset; got none for nodes/user"),
        ('table_spec { dataset: "t" }', "`table_spec` must name a table"),
    ],
)
def test_a_source_that_is_none_is_refused(source, message):
    declared = 'table_spec { project: "my-project" dataset: "d" table: "users" }'
    layout = _layouts(SCHEMA.replace(f"bigquery {{ {declared} }}", f"bigquery {{ {source} }}"))["user"]

    with pytest.raises(ValueError, match=message):
        bigquery_blocks(beam.Pipeline(), layout)


@pytest.mark.parametrize("read", [list_units, read_table])
def test_readers_of_files_say_that_beam_is_needed(read):
    with pytest.raises(
        ValueError, match=r"must be read on Beam; .* nodes/user, my-project:d.users. Run the stage on Beam, or"
    ):
        read(_layouts()["user"])


def test_different_rows_hash_differently():
    texts = pa.array(["a", "b", "", "1:a", "a"], pa.large_string())
    lists = pa.array([["a"], [], ["a", ""], ["a"], ["a"]], pa.large_list(pa.large_string()))
    floats = pa.array([0.0, -0.0, 1.0, 0.0, 0.0], pa.float32())
    fixed = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4, 5, 6, 7, 8, 1, 2], pa.int64()), 2)

    numbers = hash_rows({"t": texts, "l": lists, "f": floats, "x": fixed})
    alone = hash_rows({"t": texts.slice(2)})

    assert len(set(numbers.tolist())) == 4
    assert numbers[0] == numbers[4]
    assert alone.tolist() == [hash_rows({"t": texts})[i] for i in (2, 3, 4)]
    # A constant of the format: edges keep their numbers from one release to the next.
    assert hash_rows({"t": texts})[0] == 4785233599041736008
    assert hash_rows({"t": texts.slice(0, 0)}).tolist() == []


def test_beams_own_connector_reads_what_the_service_exports(monkeypatch, tmp_path):
    fields = [("id", "string"), ("age", ["null", "long"]), ("score", "double")]
    avro = {
        "type": "record",
        "name": "Root",
        "fields": [
            *({"name": name, "type": kind} for name, kind in fields),
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }

    class FakeService(bigquery_tools.BigQueryWrapper):
        def __init__(self, *args, **kwargs):
            pass

        @staticmethod
        def _bigquery_client(_options):
            return None

        @classmethod
        def from_pipeline_options(cls, options):
            return cls()

        def get_table(self, project_id, dataset_id, table_id):
            assert (project_id, dataset_id, table_id) == ("my-project", "d", "users")
            return types.SimpleNamespace(schema=types.SimpleNamespace(fields=[]), numBytes=100)

        def perform_extract_job(self, destination, job_id, table_reference, destination_format, **options):
            path = destination[0].replace("*", "0")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                fastavro.writer(file, avro, [{**row, "score": float(row["score"])} for row in USERS])

        def wait_for_bq_job(self, job_reference, *args, **kwargs):
            pass

    monkeypatch.setattr(bigquery_tools, "BigQueryWrapper", FakeService)

    blocks = _read(_layouts()["user"], gcs_location=str(tmp_path))

    assert _tuples(blocks) == [("ann", 20, 0.5, ["a", "b"]), ("bob", -1, 2.0, [])]
    assert list(tmp_path.rglob("*.json")) == []
