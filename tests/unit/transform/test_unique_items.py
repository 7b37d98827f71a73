import itertools
import json

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.records import examples_folder
from tfx_gnn.records.examples_folder import record_files
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.transform import unique_items as unique_items_module
from tfx_gnn.transform.unique_items import (
    EXAMPLES,
    IDENTITIES,
    REPRESENTATIVES,
    ItemBlock,
    SeenItems,
    UniqueItems,
    keep_first,
)

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

    def run(splits, keys, layout=LAYOUT, num_buckets=1):
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        files = record_files(write_examples(str(folder / "examples"), splits, None))
        out = str(folder / "out")
        with make_pipeline() as pipeline:
            results = pipeline | beam.Create(files) | UniqueItems(layout, keys, num_buckets=num_buckets)
            _ = results[EXAMPLES] | beam.io.WriteToTFRecord(out)
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
    assert sum(joined(found, "nodes/_seed.#size")) == 3


def test_items_are_packed(unique_items, monkeypatch):
    monkeypatch.setattr(unique_items_module, "ITEMS_PER_EXAMPLE", 4)
    edges = list(range(10))

    found = unique_items({"train": [[example("a", edges, "p")]]}, ["edges/e.n"])

    assert sorted(content["edges/e.#size"] for content in found) == [[2], [4], [4]]
    assert joined(found, "edges/e.n") == [100 + edge for edge in edges]


def test_forgetting_identities_changes_nothing(unique_items, monkeypatch):
    monkeypatch.setattr(unique_items_module, "_MAX_REMEMBERED", 2)

    found = unique_items({"train": [[example("abcabcabc", [], "p")]]}, ["nodes/a.#id"])

    assert joined(found, "nodes/a.#id") == [b"a", b"b", b"c"]


def test_without_statistics_nothing_is_read(unique_items):
    assert unique_items({"train": [[example("a", [1], "p")]]}, []) == []


def test_an_item_without_identity_is_named(unique_items):
    broken = {**example("ab", [], "p"), "nodes/a.#id": ["a"]}

    with pytest.raises(Exception, match="identifies every item; got 1 for 2 items in record 1 of graphs-00000-of"):
        unique_items({"train": [[example("a", [], "p"), broken]]}, ["nodes/a.x"])


def by_name(layout_text):
    return graph_layout(text_format.Parse(layout_text, graph_schema_pb2.GraphSchema()))


WITHOUT_EDGE_IDS = by_name(
    """
    node_sets { key: "a" value { features { key: "#id" value { dtype: DT_STRING } } } }
    edge_sets { key: "e" value { source: "a" target: "a"
        features { key: "n" value { dtype: DT_INT64 } }
        features { key: "w" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
    """
)


def edges(ids, *rows):
    """Edges by letters of their ends, with a number and words."""
    return {
        "nodes/a.#size": [len(ids)],
        "nodes/a.#id": list(ids),
        "edges/e.#size": [len(rows)],
        "edges/e.#source": [ids.index(ends[0]) for ends, _, _ in rows],
        "edges/e.#target": [ids.index(ends[1]) for ends, _, _ in rows],
        "edges/e.n": [number for _, number, _ in rows],
        "edges/e.w": [word for _, _, words in rows for word in words.split()],
        "edges/e.w.d1": [len(words.split()) for _, _, words in rows],
    }


def test_edges_without_id_are_known_by_their_nodes_and_features(unique_items):
    splits = {
        "train": [
            # The order of nodes and edges does not matter, the direction and every feature do.
            [edges("abc", ("ab", 1, "x"), ("bc", 2, "")), edges("cba", ("bc", 2, ""), ("ab", 1, "x"))],
            [edges("ab", ("ab", 1, "x"), ("ba", 1, "x"), ("ab", 5, "x"), ("ab", 1, "x x"))],
        ]
    }

    found = unique_items(splits, ["edges/e.n"], WITHOUT_EDGE_IDS)

    assert joined(found, "edges/e.n") == [1, 1, 1, 2, 5]


def test_parallel_equal_edges_keep_their_number(unique_items):
    twice = [("ab", 1, ""), ("ba", 9, ""), ("ab", 1, "")]
    splits = {"train": [[edges("ab", *twice), edges("ab", *twice[:1])], [edges("ba", *twice)]]}

    found = unique_items(splits, ["edges/e.n"], WITHOUT_EDGE_IDS)

    assert joined(found, "edges/e.n") == [1, 1, 9]


def test_edges_between_nodes_without_id_count_in_each_example(unique_items, caplog):
    layout = by_name(
        """
        node_sets { key: "a" value { features { key: "#id" value { dtype: DT_STRING } } } }
        node_sets { key: "b" value {} }
        edge_sets { key: "e" value { source: "a" target: "b" features { key: "n" value { dtype: DT_INT64 } } } }
        """
    )
    content = {
        "nodes/a.#size": [1], "nodes/a.#id": ["x"], "nodes/b.#size": [1],
        "edges/e.#size": [1], "edges/e.#source": [0], "edges/e.#target": [0], "edges/e.n": [7],
    }  # fmt: skip
    with caplog.at_level("INFO"):
        found = unique_items({"train": [[content, content]]}, ["edges/e.n", "nodes/a.#id"], layout)

    assert joined(found, "edges/e.n") == [7, 7]
    assert joined(found, "nodes/a.#id") == [b"x"]
    assert (
        "Each occurrence of an item of 'edges/e' counts in statistics: neither the edges nor the nodes at both of their"
        in caplog.text
    )


def test_the_first_of_different_items_stands_for_all_and_they_are_told(unique_items, caplog):
    def place_dependent(ids, *numbers):
        return {**example(ids, [], "p"), "nodes/a.x": [value for number in numbers for value in (number, number)]}

    splits = {
        "train": [
            [place_dependent("ab", 5.0, 1.0), place_dependent("ba", 1.0, 3.0)],
            [place_dependent("cab", 8.0, 2.0, 4.0)],
        ]
    }

    for num_buckets in (1, 8):
        caplog.clear()
        found = unique_items(splits, ["nodes/a.x"], num_buckets=num_buckets)

        assert joined(found, "nodes/a.x") == [1.0, 1.0, 5.0, 5.0, 8.0, 8.0]
        assert "2 of 'nodes/a' differ, such as b'a'." in caplog.text


def test_items_that_count_elsewhere_are_left_out(write_examples, tmp_path):
    files = record_files(write_examples(str(tmp_path), {"train": [[example("abc", [4, 5], "p")]]}, None))
    keys = ["nodes/a.x", "edges/e.n"]

    def run(out, known):
        with make_pipeline() as pipeline:
            elsewhere = pipeline | "Elsewhere" >> beam.Create(known) if known else None
            results = pipeline | beam.Create(files) | UniqueItems(LAYOUT, keys, num_buckets=4, known=elsewhere)
            lines = results[IDENTITIES] | beam.MapTuple(lambda prefix, hashes: json.dumps([prefix, hashes.tolist()]))
            _ = lines | beam.io.WriteToText(str(tmp_path / out))
        found = {"nodes/a": [], "edges/e": []}
        for path in tmp_path.glob(f"{out}*"):
            for line in path.read_text().splitlines():
                prefix, hashes = json.loads(line)
                found[prefix] += hashes
        return {prefix: np.array(sorted(hashes), np.uint64) for prefix, hashes in found.items()}

    first = run("first", [])
    rest = run(
        "rest", [("nodes/a", first["nodes/a"][:2]), ("edges/e", first["edges/e"]), ("nodes/z", first["nodes/a"])]
    )

    assert {prefix: len(hashes) for prefix, hashes in first.items()} == {"nodes/a": 3, "edges/e": 2}
    assert rest["nodes/a"].tolist() == first["nodes/a"][2:].tolist()
    assert not len(rest["edges/e"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes/a.x": [1.0]}, r"'nodes/a.x' has 4 values, by `#size` and shape; got 1 in record 1 of"),
        ({"nodes/a.x": [1, 2, 3, 4]}, r"'nodes/a.x' is a float_list; got a int64_list in record 1 of"),
        ({"nodes/a.#size": [2, 2]}, r"'nodes/a.#size' is one number, at least 0; got \[2, 2\] in record 1 of"),
        ({"nodes/a.w.d1": [1]}, r"'nodes/a.w.d1' has 2 values, by `#size` and shape; got 1 in record 1 of"),
        ({"nodes/a.#size": []}, r"identifies every item; got 2 for 0 items in record 1 of"),
    ],
)  # fmt: skip
def test_examples_that_break_a_rule_are_named(unique_items, change, message):
    with pytest.raises(Exception, match=message):
        unique_items(
            {"train": [[example("a", [1], "p"), {**example("ab", [], "p"), **change}]]}, ["nodes/a.x", "nodes/a.w"]
        )


def test_an_edge_to_no_node_is_named(unique_items):
    broken = {**edges("ab", ("ab", 1, "")), "edges/e.#target": [2]}

    with pytest.raises(Exception, match=r"'edges/e.#target' points into node set 'a'; got \[2\] in record 0 of"):
        unique_items({"train": [[broken]]}, ["edges/e.n"], WITHOUT_EDGE_IDS)


def test_a_record_that_is_no_example_is_named(tmp_path):
    examples_folder.write_split_shard(str(tmp_path), "train", 0, 1, [b"", b"nonsense"])

    with (
        pytest.raises(Exception, match=r"every record is a tf\.Example; got 8 other bytes in record 1 of"),
        make_pipeline() as pipeline,
    ):
        _ = pipeline | beam.Create(record_files(str(tmp_path))) | UniqueItems(LAYOUT, ["nodes/a.x"])


def test_edges_without_any_feature_have_places(write_examples, tmp_path):
    layout = by_name(
        """
        node_sets { key: "a" value { features { key: "#id" value { dtype: DT_STRING } } } }
        edge_sets { key: "e" value { source: "a" target: "a" } }
        """
    )
    shards = [[edges("ab", ("ab", 0, "")), edges("ba", ("ba", 0, ""), ("ab", 0, ""))], [edges("bc", ("bc", 0, ""))]]
    files = record_files(write_examples(str(tmp_path), {"train": shards}, None))
    with make_pipeline() as pipeline:
        results = pipeline | beam.Create(files) | UniqueItems(layout, (), summarizes=True)
        lines = results[REPRESENTATIVES] | beam.MapTuple(
            lambda file, places: json.dumps([*file, places[0], places[1].tolist()])
        )
        _ = lines | beam.io.WriteToText(str(tmp_path / "places"))

    found = [json.loads(line) for path in tmp_path.glob("places*") for line in path.read_text().splitlines()]
    assert sorted(found) == [
        ["train", 0, "edges/e", [0, 1]],
        ["train", 0, "nodes/a", [0, 1]],
        ["train", 1, "edges/e", [0]],
        ["train", 1, "nodes/a", [1]],
    ]


def hashes(*values):
    return np.array(values, np.uint64)


def block(origin, identities, contents, differing=()):
    items = {
        "x": pa.array(contents),
        "#identity": pa.array(hashes(*identities)),
        "#content": pa.array(hashes(*contents)),
        "#place": pa.array(np.arange(len(identities))),
    }
    return ItemBlock(
        origin=origin,
        items=pa.RecordBatch.from_arrays(list(items.values()), list(items)) if identities else None,
        identities=hashes(*differing),
    )


def test_the_first_of_each_identity_is_new():
    seen = SeenItems()

    rows, differing = seen.add(hashes(5, 3, 5, 9, 3), hashes(1, 1, 1, 1, 2))
    assert (rows.tolist(), differing.tolist()) == ([0, 1, 3], [3])

    rows, differing = seen.add(hashes(9, 4, 5), hashes(1, 1, 7))
    assert (rows.tolist(), differing.tolist()) == ([1], [5])

    rows, differing = seen.add(hashes(), hashes())
    assert (rows.tolist(), differing.tolist()) == ([], [])


def test_what_is_forgotten_is_new_again(monkeypatch):
    monkeypatch.setattr(unique_items_module, "_MAX_REMEMBERED", 2)
    seen = SeenItems()

    seen.add(hashes(1, 2), hashes(0, 0))
    seen.add(hashes(3), hashes(0))

    assert seen.add(hashes(1, 3), hashes(0, 0))[0].tolist() == [0]


def test_the_order_of_blocks_does_not_matter():
    blocks = [
        block(("train", 0, 0), [7, 8], [70, 80]),
        block(("train", 0, 1), [7, 9], [70, 90]),
        block(("train", 1, 0), [8, 6], [81, 60]),
        block(("train", 2, 0), [], [], differing=[6]),
        ItemBlock(items=None, identities=hashes(9)),
    ]

    for order in itertools.permutations(blocks):
        kept = keep_first(order)

        assert kept.items.column(0).to_pylist() == [70, 80, 60]
        assert kept.identities.tolist() == [7, 8, 6]
        assert kept.places.tolist() == [0, 1, 1]
        assert [kept.files[owner] for owner in kept.owners] == [("train", 0), ("train", 0), ("train", 1)]
        assert (kept.num_differing, kept.differing_row) == (2, 1)


def test_nothing_is_kept_of_items_that_count_elsewhere():
    assert keep_first([ItemBlock(items=None, identities=hashes(9))]) is None
    assert keep_first([block(("a", 0, 0), [9], [1]), ItemBlock(items=None, identities=hashes(9))]).items.num_rows == 0
