import collections
import json
from pathlib import Path

import apache_beam as beam
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import text_format
from tfx_bsl.public import tfxio

from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.records.tfmd_schema import make_tfmd_schema
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.transform.tables import TableBatches, plan_table_reading

TABLES = {
    "graph_schema.pbtxt": """
        node_sets { key: "item" value {
            features { key: "value" value { dtype: DT_FLOAT } }
            features { key: "big" value { dtype: DT_UINT64 } }
            features { key: "is_new" value { dtype: DT_BOOL } }
            features { key: "pair" value { dtype: DT_INT32 shape { dim { size: 2 } } } }
            features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } }
            features { key: "color" value { dtype: DT_INT64 } }
            metadata { filename: "items-*.csv"
                extra { key: "decoder.packed" value: "{pair[,]}:{words[;]}" } } } }
        edge_sets { key: "link" value { source: "item" target: "item"
            features { key: "weight" value { dtype: DT_FLOAT } }
            metadata { filename: "links.csv" } } }""",
    "items-0.csv": """id,value,big,is_new,color,packed
a,1,18446744073709551615,true,red,"1,2:p;q"
b,2.5,7,false,red,"3,4:"
""",
    "items-1.csv": """id,value,big,is_new,color,packed
c,4,8,true,,"5,6:r"
a,9,9,true,,"7,8:"
""",
    "links.csv": "source,target,weight\na,b,1\nb,x,2\na,b,3\ny,c,4\nc,c,5\n",
}
EXAMPLES_SCHEMA = """
    context { features { key: "year" value { dtype: DT_INT64 } } }
    node_sets { key: "item" value {
        features { key: "#id" value { dtype: DT_STRING } }
        features { key: "value" value { dtype: DT_FLOAT } }
        features { key: "big" value { dtype: DT_UINT64 } }
        features { key: "is_new" value { dtype: DT_BOOL } }
        features { key: "pair" value { dtype: DT_INT32 shape { dim { size: 2 } } } }
        features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } }
        features { key: "rank" value { dtype: DT_INT64 } } } }
    node_sets { key: "_readout" value { features { key: "color" value { dtype: DT_INT64 } } } }
    edge_sets { key: "link" value { source: "item" target: "item"
        features { key: "#id" value { dtype: DT_INT64 } }
        features { key: "weight" value { dtype: DT_FLOAT } } } }"""
LAYOUT = graph_layout(text_format.Parse(EXAMPLES_SCHEMA, graph_schema_pb2.GraphSchema()))
NODE_KEYS = [f"nodes/item.{name}" for name in ("#id", "value", "big", "is_new", "pair", "words")]
KEYS = [*NODE_KEYS, "edges/link.weight"]
KEEP = RowRules(
    duplicate_nodes="keep_first", duplicate_edges="keep_first", dangling_edges="drop", max_dropped_share=0.9
)


@pytest.fixture
def tables_dir(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    for name, content in TABLES.items():
        (folder / name).write_text(content)
    return folder


def read(tables_dir, keys, rules=None):
    """Values of each key in the record batches of the tables."""
    schema = tfxio.TFExampleBeamRecord(physical_format="tfrecord", schema=make_tfmd_schema(LAYOUT)).ArrowSchema()
    reading = plan_table_reading(str(tables_dir), LAYOUT, keys, rules or RowRules())
    found = collections.defaultdict(list)
    out = str(tables_dir / "values")
    with make_pipeline() as pipeline:
        values = pipeline | TableBatches(reading, schema) | beam.Map(_values, schema)
        _ = values | beam.combiners.ToList() | beam.Map(json.dumps) | beam.io.WriteToText(out, shard_name_template="")
    for batch in sorted(json.loads(Path(out).read_text()), key=str):
        for key, of_batch in batch.items():
            found[key] += of_batch
    return dict(found)


def _values(batch, schema):
    assert batch.schema.equals(schema)
    (row,) = batch.to_pylist()
    return {key: [v.decode() if isinstance(v, bytes) else v for v in of_key] for key, of_key in row.items() if of_key}


def test_rows_become_items_of_the_examples(tables_dir):
    found = read(tables_dir, KEYS)

    assert found == {
        "nodes/item.#size": [2, 2],
        "nodes/item.#id": ["a", "b", "c", "a"],
        "nodes/item.value": [1.0, 2.5, 4.0, 9.0],
        # tf.Examples hold the bits of a number that is too large for them.
        "nodes/item.big": [-1, 7, 8, 9],
        "nodes/item.is_new": [1, 0, 1, 1],
        "nodes/item.pair": [1, 2, 3, 4, 5, 6, 7, 8],
        "nodes/item.words": ["p", "q", "r"],
        "nodes/item.words.d1": [2, 0, 1, 0],
        "edges/link.#size": [5],
        "edges/link.weight": [1.0, 2.0, 3.0, 4.0, 5.0],
    }


def test_rules_that_drop_rows_hold_as_when_sampling(tables_dir):
    found = read(tables_dir, KEYS, KEEP)

    assert sorted(found["nodes/item.#id"]) == ["a", "b", "c"]
    assert sorted(found["nodes/item.value"]) == [1.0, 2.5, 4.0]
    assert sorted(found["edges/link.weight"]) == [1.0, 5.0]


def test_nodes_may_be_read_for_their_ids_alone(tables_dir):
    found = read(tables_dir, ["edges/link.weight"], RowRules(dangling_edges="drop", max_dropped_share=0.5))

    assert sorted(found["edges/link.weight"]) == [1.0, 3.0, 5.0]
    assert set(found) == {"edges/link.weight", "edges/link.#size"}


def test_rows_that_are_wrong_in_a_column_of_no_statistic_are_dropped_too(tables_dir):
    rules = RowRules(invalid_rows="drop", max_dropped_share=1.0)
    (tables_dir / "items-0.csv").write_text(TABLES["items-0.csv"].replace("true,red", "true,1"))

    found = read(tables_dir, ["nodes/item.value"], rules)

    assert found == {"nodes/item.#size": [1], "nodes/item.value": [1.0]}


def test_labels_and_splits_are_not_even_read(tables_dir):
    reading = plan_table_reading(str(tables_dir), LAYOUT, NODE_KEYS, RowRules())

    assert set(reading.layouts) == {"nodes/item"}
    assert set(reading.layouts["nodes/item"].columns) == {"#id", "value", "big", "is_new", "pair", "words"}


def test_contexts_and_readouts_are_left_to_the_examples(tables_dir):
    reading = plan_table_reading(
        str(tables_dir), LAYOUT, ["context/year", "nodes/_readout.color", "nodes/item.value"], RowRules()
    )

    assert reading.keys == {"nodes/item.value"}


def test_tables_of_other_data_are_refused(tables_dir):
    path = tables_dir / "graph_schema.pbtxt"
    path.write_text(path.read_text().replace('"item"', '"person"'))

    message = r"must have a table of every set .* got \['edges/link', 'nodes/person'\] .* without node set 'item'"
    with pytest.raises(ValueError, match=message):
        plan_table_reading(str(tables_dir), LAYOUT, ["nodes/item.value"], RowRules())


@pytest.mark.parametrize("key", ["nodes/item.rank", "edges/link.#id"])
def test_a_feature_that_was_made_while_sampling_is_named(tables_dir, key):
    name = key.rpartition(".")[2]

    with pytest.raises(ValueError, match=f"must have every feature .* got '{name}' of .* lacks, as it was made while"):
        plan_table_reading(str(tables_dir), LAYOUT, [key], RowRules())


@pytest.mark.parametrize(
    ("declared", "found"), [("DT_STRING", r"string of shape \(\)"), ("DT_INT64", r"int64 of shape \(\)")]
)
def test_a_feature_of_another_type_is_refused(tables_dir, declared, found):
    path = tables_dir / "graph_schema.pbtxt"
    path.write_text(path.read_text().replace('"value" value { dtype: DT_FLOAT', f'"value" value {{ dtype: {declared}'))

    with pytest.raises(ValueError, match=f"got {found} for 'value' of node set 'item' .* examples have float32"):
        plan_table_reading(str(tables_dir), LAYOUT, ["nodes/item.value"], RowRules())


def test_a_row_that_cannot_be_used_is_named(tables_dir):
    (tables_dir / "items-1.csv").write_text(TABLES["items-1.csv"].replace("c,4,", "c,four,"))

    with pytest.raises(Exception, match=r"`value` must .* got 'four' in .*items-1.csv, line 2"):
        read(tables_dir, ["nodes/item.value"])


def test_statistics_are_of_all_rows_and_of_the_examples_contexts_and_labels(tables_dir, write_examples, read_examples):
    example = {
        "context/year": [2000],
        "nodes/item.#size": [1], "nodes/item.#id": ["a"], "nodes/item.value": [1.0], "nodes/item.big": [1],
        "nodes/item.is_new": [0], "nodes/item.rank": [3], "nodes/item.pair": [1, 2],
        "nodes/item.words": ["p"], "nodes/item.words.d1": [1],
        "nodes/_readout.#size": [1], "nodes/_readout.color": [7],
        "edges/link.#size": [0], "edges/link.#id": [], "edges/link.weight": [],
        "edges/link.#source": [], "edges/link.#target": [],
    }  # fmt: skip
    other = {**example, "context/year": [2004], "nodes/_readout.color": [8]}
    folder = tables_dir.parent
    examples_dir = write_examples(str(folder / "examples"), {"train": [[example, other]]}, EXAMPLES_SCHEMA)

    transform_graphs(
        examples_dir=examples_dir,
        graph_schema_dir=examples_dir,
        transform_graph_dir=str(folder / "transform_graph"),
        transformed_examples_dir=str(folder / "transformed"),
        transformed_graph_schema_dir=str(folder / "schema"),
        options=GraphTransformOptions(preprocessing_fn=f"{__name__}:statistics_of_everything", analyze="tables"),
        tables_dir=str(tables_dir),
    )

    first, _ = read_examples(str(folder / "transformed"), "train")
    # (1 + 2.5 + 4 + 9) / 4; the weights are 1 to 5; the examples have the years 2000 and 2004.
    assert first["nodes/item.mean"] == [4.125]
    assert first["nodes/item.word"] == [0]
    assert first["context/heaviest"] == [5.0]
    assert first["context/year"] == [2002.0]
    assert first["nodes/_readout.color"] == [1]


def statistics_of_everything(graph):
    item, readout = graph.node_sets["item"], graph.node_sets["_readout"]
    year = tf.cast(graph.context["year"], tf.float32)
    words = tft.vocabulary(item["words"], vocab_filename="words")
    return graph.replace_features(
        context={
            "year": tf.zeros_like(year) + tft.mean(year),
            "heaviest": tf.zeros_like(year) + tft.max(graph.edge_sets["link"]["weight"]),
        },
        node_sets={
            "item": {
                "mean": tf.zeros_like(item["value"]) + tft.mean(item["value"]),
                # In the tables "p", "q" and "r" occur once each; the last of them comes first.
                "word": tft.apply_vocabulary(tf.fill(tf.shape(item["value"]), "r"), words),
            },
            "_readout": {"color": tft.max(readout["color"]) - readout["color"]},
        },
        edge_sets={"link": {}},
    )


@pytest.mark.parametrize(("analyze", "tables_dir"), [("tables", ""), ("unique_items", "somewhere")])
def test_tables_go_with_their_mode(analyze, tables_dir):
    with pytest.raises(ValueError, match="`tables_dir` must be given with analyze='tables', and only then"):
        transform_graphs(
            examples_dir="",
            graph_schema_dir="",
            transform_graph_dir="",
            transformed_examples_dir="",
            transformed_graph_schema_dir="",
            options=GraphTransformOptions(preprocessing_fn="any:function", analyze=analyze),
            tables_dir=tables_dir,
        )


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match=r"`analyze` must be one of \['unique_items', .* got 'everything'"):
        GraphTransformOptions(preprocessing_fn="any:function", analyze="everything")
