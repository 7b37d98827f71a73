import apache_beam as beam
import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.stages import transform_unique_items
from tfx_gnn.stages.beam_pipeline import make_pipeline
from tfx_gnn.stages.graph_layout import graph_layout
from tfx_gnn.stages.record_files import record_files
from tfx_gnn.stages.transform_unique_items import UniqueItemExamples

LAYOUT = graph_layout(
    text_format.Parse(
        """
        context { features { key: "year" value { dtype: DT_INT64 } } }
        node_sets { key: "a" value {
            features { key: "#id" value { dtype: DT_STRING } }
            features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
            features { key: "w" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
        node_sets { key: "_seed" value { features { key: "label" value { dtype: DT_STRING } } } }
        edge_sets { key: "e" value { source: "a" target: "a"
            features { key: "#id" value { dtype: DT_INT64 } }
            features { key: "n" value { dtype: DT_INT64 } } } }
        """,
        graph_schema_pb2.GraphSchema(),
    )
)


def example(ids, edges, label):
    """Nodes named by letters; x is the letter's number, twice, and w the letter, as often."""
    return {
        "context/year": [2000],
        "nodes/a.#size": [len(ids)],
        "nodes/a.#id": list(ids),
        "nodes/a.x": [float(ord(name) - ord("a")) for name in ids for _ in range(2)],
        "nodes/a.w": [name for name in ids for _ in range(ord(name) - ord("a"))],
        "nodes/a.w.d1": [ord(name) - ord("a") for name in ids],
        "nodes/_seed.#size": [1],
        "nodes/_seed.label": [label],
        "edges/e.#size": [len(edges)],
        "edges/e.#id": edges,
        "edges/e.#source": [0] * len(edges),
        "edges/e.#target": [0] * len(edges),
        "edges/e.n": [100 + edge for edge in edges],
    }


@pytest.fixture
def unique_items(tmp_path, write_examples):
    """Runs the steps on splits of examples; gives the values of each key, item by item, of all examples."""

    def run(splits, keys):
        files = record_files(write_examples(str(tmp_path / "examples"), splits, None))
        out = str(tmp_path / "out")
        with make_pipeline() as pipeline:
            records = pipeline | beam.Create(files) | UniqueItemExamples(LAYOUT, keys)
            _ = records | beam.io.WriteToTFRecord(out)
        found = []
        for record in tf.data.TFRecordDataset(tf.io.gfile.glob(out + "*")).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            found.append({key: list(getattr(one, one.WhichOneof("kind")).value) for key, one in features.items()})
        return found

    return run


def joined(examples, key):
    return sorted(value for content in examples for value in content.get(key, []))


def test_each_identity_occurs_once_over_all_files(unique_items):
    splits = {
        "train": [[example("ab", [1, 2], "p"), example("ba", [2], "q")], [example("bcb", [2, 3], "p")]],
        "val": [[example("", [], "r")]],
    }

    found = unique_items(splits, ["nodes/a.#id", "nodes/a.x", "edges/e.n"])

    assert joined(found, "nodes/a.#id") == [b"a", b"b", b"c"]
    assert joined(found, "nodes/a.x") == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    assert joined(found, "edges/e.n") == [101, 102, 103]
    assert sum(joined(found, "nodes/a.#size")) == 3
    assert {key for content in found for key in content} == {
        "nodes/a.#size", "nodes/a.#id", "nodes/a.x", "edges/e.#size", "edges/e.n",
    }  # fmt: skip


def test_values_of_an_item_stay_together(unique_items):
    found = unique_items({"train": [[example("cab", [], "p"), example("bd", [], "p")]]}, ["nodes/a.w", "nodes/a.#id"])

    (content,) = found
    values = iter(content["nodes/a.w"])
    by_id = {
        name: [next(values) for _ in range(length)]
        for name, length in zip(content["nodes/a.#id"], content["nodes/a.w.d1"], strict=True)
    }
    assert by_id == {b"a": [], b"b": [b"b"], b"c": [b"c"] * 2, b"d": [b"d"] * 3}


def test_what_has_no_identity_counts_once_in_each_example(unique_items):
    splits = {"train": [[example("a", [1], "p"), example("a", [1], "q")], [example("a", [1], "p")]]}

    found = unique_items(splits, ["nodes/_seed.label", "context/year"])

    assert joined(found, "nodes/_seed.label") == [b"p", b"p", b"q"]
    assert joined(found, "context/year") == [2000, 2000, 2000]
    assert joined(found, "nodes/_seed.#size") == [1, 1, 1]


def test_items_are_packed(unique_items, monkeypatch):
    monkeypatch.setattr(transform_unique_items, "ITEMS_PER_EXAMPLE", 4)
    edges = list(range(10))

    found = unique_items({"train": [[example("a", edges, "p")]]}, ["edges/e.n"])

    assert sorted(content["edges/e.#size"] for content in found) == [[2], [4], [4]]
    assert joined(found, "edges/e.n") == [100 + edge for edge in edges]


def test_forgetting_identities_changes_nothing(unique_items, monkeypatch):
    monkeypatch.setattr(transform_unique_items, "_MAX_REMEMBERED", 2)

    found = unique_items({"train": [[example("abcabcabc", [], "p")]]}, ["nodes/a.#id"])

    assert joined(found, "nodes/a.#id") == [b"a", b"b", b"c"]


def test_without_statistics_nothing_is_read(unique_items):
    assert unique_items({"train": [[example("a", [1], "p")]]}, []) == []


def test_an_item_without_identity_is_named(unique_items):
    broken = {**example("ab", [], "p"), "nodes/a.#id": ["a"]}

    with pytest.raises(
        Exception, match="tells every item's identity; got 1 for 2 items in record 1 of graphs-00000-of"
    ):
        unique_items({"train": [[example("a", [], "p"), broken]]}, ["nodes/a.x"])
