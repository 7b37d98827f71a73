import datetime as dt
import decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import tfx_gnn_pipelines.tasks.debian_sections
from tfx_gnn.graph.schema.feature_defaults import time_features
from tfx_gnn.graph.schema.schema_io import parse_schema, read_schema, write_schema
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.schema_inference import ColumnEvidence, infer_schema, schema_notes


def _write_examples(path, *examples):
    kinds = {bytes: "bytes_list", float: "float_list", int: "int64_list"}
    lists = {bytes: tf.train.BytesList, float: tf.train.FloatList, int: tf.train.Int64List}
    with tf.io.TFRecordWriter(str(path)) as writer:
        for example in examples:
            features = {
                name: tf.train.Feature(**{kinds[type(values[0])]: lists[type(values[0])](value=values)})
                for name, values in example.items()
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


@pytest.fixture
def folder(tmp_path):
    """Tables of each format, without a schema."""
    (tmp_path / "users.csv").write_text(
        "id,age,score,code,ok,empty\nann,20,0.5,007,true,\nbob,,1,12,false,\ncid,30,nan,x,TRUE,\n"
    )
    items = {
        "number": pa.array([7, 12], pa.int32()),
        "price": pa.array([1.5, None], pa.float64()),
        "box": pa.array([[1, 2], [3, 4]], pa.list_(pa.int16())),
        "names": pa.array([["a"], []], pa.list_(pa.string())),
        "struct": pa.array([{"a": 1}, {"a": 2}]),
        "#size": pa.array([1, 2]),
    }
    pq.write_table(pa.table(items), tmp_path / "items.parquet")
    _write_examples(
        tmp_path / "buys-00000-of-00002.tfrecord",
        {"#source": [b"ann"], "#target": [7], "weight": [1.0], "days": [1, 2]},
        {"#source": [b"bob"], "#target": [7], "weight": [2.0]},
    )
    _write_examples(tmp_path / "buys-00001-of-00002.tfrecord", {"#source": [b"bob"], "#target": [12], "rare": [5]})
    (tmp_path / "graph.csv").write_text("title,size\nshop,5\n")
    return tmp_path


TABLES = {
    "node_tables": {"user": "users.csv", "item": "items.parquet"},
    "edge_tables": {"buys": ("user", "item", "buys@2.tfrecord")},
    "context_table": "graph.csv",
    "id_columns": {"item": "number"},
}

EXPECTED = """
context {
  features { key: "size" value { dtype: DT_INT64 } }
  features { key: "title" value { dtype: DT_STRING } }
  metadata { filename: "graph.csv" cardinality: 1 }
}
node_sets { key: "item" value {
  description: "Column '#size' is left out: names that begin with # are reserved. Column 'struct' is left out: no feature holds values of type struct<a: int64>."
  features { key: "#id" value { dtype: DT_INT64 } }
  features { key: "box" value { dtype: DT_INT16 shape { dim { size: 2 } } } }
  features { key: "names" value { dtype: DT_STRING shape { dim { size: -1 } } } }
  features { key: "price" value {
    description: "Rows without a value: 1 of 2; declare what it stands for under the key \\"default.price\\"."
    dtype: DT_FLOAT } }
  metadata { extra { key: "id_column" value: "number" } filename: "items.parquet" cardinality: 2 } } }
node_sets { key: "user" value {
  description: "Column 'empty' is left out: it has no values."
  features { key: "age" value {
    description: "Rows without a value: 1 of 3; declare what it stands for under the key \\"default.age\\"."
    dtype: DT_INT64 } }
  features { key: "code" value { dtype: DT_STRING } }
  features { key: "ok" value { dtype: DT_BOOL } }
  features { key: "score" value {
    description: "Values that are not finite 32-bit floats, which are refused: 1. Correct or empty them." dtype: DT_FLOAT } }
  metadata { filename: "users.csv" cardinality: 3 } } }
edge_sets { key: "buys" value {
  source: "user" target: "item"
  features { key: "days" value { dtype: DT_INT64 shape { dim { size: -1 } } } }
  features { key: "rare" value {
    description: "Rows without a value: 2 of 3; declare what it stands for under the key \\"default.rare\\"."
    dtype: DT_INT64 } }
  features { key: "weight" value {
    description: "Rows without a value: 1 of 3; declare what it stands for under the key \\"default.weight\\"."
    dtype: DT_FLOAT } }
  metadata { filename: "buys@2.tfrecord" cardinality: 3 } } }
"""  # noqa: E501


def test_tables_of_all_formats_speak_for_a_schema(folder):
    schema = infer_schema(tables_dir=str(folder), **TABLES)

    # An id column of int32 is one of integers, too.
    assert schema == parse_schema(EXPECTED)
    assert list(schema_notes(schema))[:2] == [
        ("node set 'item'", schema.node_sets["item"].description),
        ("node set 'item', feature 'price'", schema.node_sets["item"].features["price"].description),
    ]
    assert str(infer_schema(tables_dir=str(folder), **TABLES)) == str(schema)


def test_a_completed_schema_reads_the_tables_that_it_was_inferred_from(folder):
    (folder / "users.csv").write_text("id,age,score\nann,20,0.5\nbob,,1\n")
    schema = infer_schema(tables_dir=str(folder), **TABLES)
    for holder, name in (
        (schema.node_sets["user"], "age"),
        (schema.node_sets["item"], "price"),
        (schema.edge_sets["buys"], "rare"),
        (schema.edge_sets["buys"], "weight"),
    ):
        holder.metadata.extra.add(key=f"default.{name}", value="-1")
    write_schema(schema, str(folder / "graph_schema.pbtxt"))

    tables = read_tables(str(folder))

    assert tables.node_tables["user"].features["age"].to_pylist() == [20, -1]
    assert tables.node_tables["item"].ids.to_pylist() == [7, 12]
    assert tables.node_tables["item"].features["names"].to_pylist() == [["a"], []]
    assert tables.edge_tables["buys"].features["rare"].to_pylist() == [-1, -1, 5]
    assert tables.edge_tables["buys"].targets.tolist() == [0, 0, 1]


def test_the_schema_of_the_quickstart_follows_from_its_tables():
    folder = str(Path(tfx_gnn_pipelines.tasks.debian_sections.__file__).parent / "data")
    written = read_schema(f"{folder}/graph_schema.pbtxt")
    sets = {**written.node_sets, **written.edge_sets}
    columns = {
        end: {
            name: entry.value
            for name, declared in sets.items()
            for entry in declared.metadata.extra
            if entry.key == f"{end}_column"
        }
        for end in ("id", "source", "target")
    }

    inferred = infer_schema(
        tables_dir=folder,
        node_tables={name: node_set.metadata.filename for name, node_set in written.node_sets.items()},
        edge_tables={
            name: (edge_set.source, edge_set.target, edge_set.metadata.filename)
            for name, edge_set in written.edge_sets.items()
        },
        id_columns=columns["id"],
        source_columns=columns["source"],
        target_columns=columns["target"],
    )

    def dtypes(schema):
        holders = [*schema.node_sets.items(), *schema.edge_sets.items()]
        return {(name, key): feature.dtype for name, holder in holders for key, feature in holder.features.items()}

    # The column of splits is in the table and no feature of the written schema.
    assert dtypes(inferred).keys() - dtypes(written).keys() == {("package", "split")}
    assert {key: dtypes(inferred)[key] for key in dtypes(written)} == dtypes(written)


def test_broken_records_are_counted_and_shards_are_one_table(tmp_path):
    (tmp_path / "1.csv").write_text("id,x\na,1\nb,1,2\n")
    (tmp_path / "2.csv").write_text("id,x\nc,1.5\n")

    node_set = infer_schema(tables_dir=str(tmp_path), node_tables={"n": "*.csv"}).node_sets["n"]

    assert node_set.description == "Records that cannot be read: 1."
    assert node_set.metadata.cardinality == 2
    assert node_set.features["x"].dtype == tf.float32.as_datatype_enum


def test_notes_of_a_context_have_a_place(tmp_path):
    (tmp_path / "n.csv").write_text("id\na\n")
    (tmp_path / "c.csv").write_text("x,y\n,1\n")

    schema = infer_schema(tables_dir=str(tmp_path), node_tables={"n": "n.csv"}, context_table="c.csv")

    assert list(schema_notes(schema)) == [("context", "Column 'x' is left out: it has no values.")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"node_tables": {"user": "none.csv"}, "edge_tables": {}, "id_columns": {}},
            "`filename` must name a file that exists; got '.*none.csv'",
        ),
        (
            {"node_tables": {"user": "users.txt"}, "edge_tables": {}, "id_columns": {}},
            "must name a table as .csv, .tsv, .parquet or .tfrecord; got",
        ),
        ({"edge_tables": {"e": ("user", "x", "e.csv")}}, r"node sets of `node_tables`, .*; got 'x' in 'e'"),
        ({"id_columns": {}}, r"`id_columns` must name .*; got none of \['id', '#id'\] among .* in items.parquet"),
        ({"id_columns": {"item": "nr"}}, r"got none of \['nr'\] among"),
        ({"id_columns": {"x": "y"}}, r"`id_columns` must name sets .* \['item', 'user'\]; got 'x'"),
        ({"source_columns": {"x": "y"}}, r"`source_columns` must name sets .* \['buys'\]; got 'x'"),
        ({"target_columns": {"buys": "y"}}, r"`target_columns` must name .*; got none of \['y'\]"),
    ],
)
def test_tables_that_are_not_there_are_named(folder, changes, message):
    with pytest.raises(ValueError, match=message):
        infer_schema(tables_dir=str(folder), **{**TABLES, **changes})


@pytest.mark.parametrize("name", ["_readout", "_readout/user"])
@pytest.mark.parametrize("kind", ["node_tables", "edge_tables"])
def test_the_name_of_readouts_is_refused(folder, kind, name):
    table = "users.csv" if kind == "node_tables" else ("user", "user", "buys.csv")

    with pytest.raises(ValueError, match=f"^`{kind}` must not name a set _readout, which is .*; got '{name}'"):
        infer_schema(tables_dir=str(folder), **{**TABLES, kind: {**TABLES[kind], name: table}})


def test_files_of_a_table_have_the_same_columns(tmp_path):
    (tmp_path / "1.csv").write_text("id,x\na,1\n")
    (tmp_path / "2.csv").write_text("id,y\nc,1.5\n")

    with pytest.raises(ValueError, match=r"2.csv` must have each column once, .*got \['id', 'y'\], and \['id', 'x'\]"):
        infer_schema(tables_dir=str(tmp_path), node_tables={"n": "*.csv"})


def test_files_outside_of_the_tables_folder_are_refused_by_default(tmp_path):
    (tmp_path / "n.csv").write_text("id\nx\n")
    (tmp_path / "tables").mkdir()

    with pytest.raises(ValueError, match=r"inside of the tables folder; got '\.\./n.csv' for node set 'n'"):
        infer_schema(tables_dir=str(tmp_path / "tables"), node_tables={"n": "../n.csv"})
    assert infer_schema(node_tables={"n": str(tmp_path / "n.csv")}).node_sets["n"].metadata.cardinality == 1


def _cells(*blocks):
    evidence = ColumnEvidence()
    for block in blocks:
        texts = [None if text is None else text if isinstance(text, bytes) else text.encode() for text in block]
        evidence.add(pa.array(texts, pa.large_binary()), are_cells=True)
    return evidence


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        (["1", "-2", "0"], pa.int64()),
        ([str(2**63 - 1), str(-(2**63))], pa.int64()),
        ([str(2**63)], pa.large_string()),
        (["007"], pa.large_string()),
        (["+1"], pa.large_string()),
        (["1", "2.5"], pa.float32()),
        (["1e5", "-.5", "3"], pa.float32()),
        (["2.5", "007"], pa.large_string()),
        (["2.5", "12345678901234567890"], pa.large_string()),
        (["true", "False"], pa.bool_()),
        (["true", "1"], pa.large_string()),
        (["1", "x"], pa.large_string()),
        (["", "1"], pa.large_string()),
        ([b"\xff", "1"], pa.large_string()),
        ([" 1"], pa.large_string()),
        ([None, "4", None], pa.int64()),
    ],
)
def test_cells_are_of_the_type_that_all_of_them_are(cells, dtype):
    together, one_by_one = _cells(cells), _cells(*([cell] for cell in cells))

    assert together.dtype == one_by_one.dtype == dtype
    assert together.shape == ()
    assert (together.num_rows, together.num_missing) == (len(cells), cells.count(None))


def test_numbers_that_are_not_finite_are_counted():
    assert _cells(["1.5", "nan", "inf"], ["1e300"]).num_infinite == 3
    evidence = ColumnEvidence()
    evidence.add(pa.array([1.0, float("nan"), None, 1e300], pa.float64()))
    # NaN among floats is how pandas writes that there is no value.
    assert (evidence.num_infinite, evidence.num_missing, evidence.num_nan) == (1, 2, 1)


def test_nan_in_a_parquet_file_is_no_value_and_is_counted(tmp_path):
    pq.write_table(pa.table({"id": ["a", "b", "c"], "size": [1.0, float("nan"), None]}), tmp_path / "users.parquet")

    schema = infer_schema(node_tables={"users": "users.parquet"}, tables_dir=str(tmp_path))

    assert schema.node_sets["users"].features["size"].description == (
        'Rows without a value: 2 of 3; declare what it stands for under the key "default.size". NaN in 1 of them.'
    )


def test_a_column_without_values_has_no_type():
    assert _cells([None, None]).dtype is None
    assert ColumnEvidence().dtype is None


@pytest.mark.parametrize(
    ("arrays", "dtype"),
    [
        ([pa.array([1], pa.int8())], pa.int8()),
        ([pa.array([1], pa.int8()), pa.array([1], pa.uint16())], pa.int64()),
        ([pa.array([1.0], pa.float64())], pa.float32()),
        ([pa.array([1], pa.int64()), pa.array([1.0], pa.float32())], pa.float32()),
        ([pa.array(["x"])], pa.large_string()),
        ([pa.array([b"x"])], pa.large_string()),
        ([pa.array(["x"]).dictionary_encode()], pa.large_string()),
        ([pa.array([0.5]).dictionary_encode()], pa.float32()),
        ([pa.array([True])], pa.bool_()),
        ([pa.array([dt.date(2020, 1, 1)])], pa.int64()),
        ([pa.array([decimal.Decimal(5)])], pa.int64()),
        ([pa.array([decimal.Decimal("5.1")])], pa.float32()),
        ([pa.array([{"a": 1}])], None),
        ([pa.array(["x"]), pa.array([1])], None),
        ([pa.array([None]), pa.array([1])], pa.int64()),
    ],
)
def test_types_become_those_that_a_feature_has(arrays, dtype):
    evidence = ColumnEvidence()
    for array in arrays:
        evidence.add(array)

    assert evidence.dtype == dtype


@pytest.mark.parametrize(
    ("arrays", "shape"),
    [
        ([pa.array([[1, 2], [3, 4]])], (2,)),
        ([pa.array([[1, 2]]), pa.array([[3]])], (-1,)),
        ([pa.array([[], []], pa.list_(pa.int64()))], (-1,)),
        ([pa.array([[1, 2]], pa.list_(pa.int64(), 2))], (2,)),
        ([pa.array([[1, 2], None], pa.large_list(pa.int64()))], (2,)),
        ([pa.array([[[1, 2, 3]], [[4, 5, 6]]])], (1, 3)),
        ([pa.array([[[1, 2, 3]], [[4, 5]]])], None),
    ],
)
def test_lists_of_one_length_have_a_shape_and_others_any_number_of_values(arrays, shape):
    evidence = ColumnEvidence()
    for array in arrays:
        evidence.add(array)

    assert evidence.dtype == pa.int64()
    assert evidence.shape == shape


@pytest.mark.parametrize("text", ["0x10", "1_000", "+5", "007", "9223372036854775808", "\u0667", " 7", "1,000"])
def test_what_is_read_as_no_number_without_loss_is_inferred_as_text(text):
    evidence = ColumnEvidence()

    evidence.add(pa.array([b"1", text.encode()], pa.large_binary()), are_cells=True)

    assert evidence.dtype == pa.large_string()


@pytest.mark.parametrize(("digits", "scale", "is_said"), [(20, 2, True), (25, 0, True), (12, 2, False), (18, 0, False)])
def test_decimals_that_become_floats_with_fewer_digits_are_counted(tmp_path, digits, scale, is_said):
    values = [decimal.Decimal("9" * digits).scaleb(-scale), decimal.Decimal(5), None]
    table = pa.table({"id": ["a", "b", "c"], "balance": pa.array(values, pa.decimal128(38, scale))})
    pq.write_table(table, tmp_path / "accounts.parquet")

    schema = infer_schema(node_tables={"accounts": "accounts.parquet"}, tables_dir=str(tmp_path))

    note = schema.node_sets["accounts"].features["balance"].description
    assert ("Decimals of more than 15 digits, which are rounded to floats: 1. If they are names" in note) == is_said


def test_time_stamps_and_dates_are_declared_as_times(tmp_path):
    day = dt.date(2026, 1, 1)
    items = {"id": ["a"], "made": pa.array([day]), "sold": pa.array([1], pa.timestamp("us")), "size": [3]}
    pq.write_table(pa.table(items), tmp_path / "items.parquet")

    schema = infer_schema(tables_dir=str(tmp_path), node_tables={"item": "items.parquet"}, edge_tables={})

    assert time_features(schema.node_sets["item"]) == {"made", "sold"}
