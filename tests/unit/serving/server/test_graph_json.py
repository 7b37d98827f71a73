"""Graphs as JSON, and the tf.Examples that they stand for."""

import pytest
import tensorflow as tf

from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.serving.server.graph_json import example_of_graph
from tfx_gnn.serving.server.refusals import Refusal

SCHEMA = parse_schema("""
context { features { key: "year" value { dtype: DT_INT32 } } }
node_sets { key: "user" value {
  features { key: "#id" value { dtype: DT_INT64 } }
  features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } }
  features { key: "is_new" value { dtype: DT_BOOL } } } }
node_sets { key: "item" value { features { key: "at" value { dtype: DT_FLOAT shape { dim { size: 2 } } } } } }
node_sets { key: "_readout" value {} }
edge_sets { key: "buys" value { source: "user" target: "item" features { key: "n" value { dtype: DT_UINT64 } } } }
edge_sets { key: "_readout/source" value { source: "user" target: "_readout" } }
edge_sets { key: "_readout/target" value { source: "item" target: "_readout" } }
""")
GRAPH = {
    "context": {"year": 2020},
    "node_sets": {
        "user": {"tags": [["a", {"b64": "/w=="}], []], "is_new": [True, False]},
        "item": {"at": [[0.5, 1]]},
    },
    "edge_sets": {"buys": {"source": [1], "target": [0], "n": [2**64 - 1]}},
    "readout": {"source": [0, 1], "target": [0, 0]},
}


def write(graph):
    return example_of_graph(graph, SCHEMA, ("source", "target"), "instances[0]")


def test_values_are_flat_with_row_lengths_and_sizes():
    features = tf.train.Example.FromString(write(GRAPH)).features.feature

    found = {
        key: list(getattr(value, value.WhichOneof("kind")).value) if value.WhichOneof("kind") else []
        for key, value in features.items()
    }
    assert found == {
        "context/year": [2020],
        "nodes/user.#size": [2],
        "nodes/user.#id": [-1, -1],
        "nodes/user.tags": [b"a", b"\xff"],
        "nodes/user.tags.d1": [2, 0],
        "nodes/user.is_new": [1, 0],
        "nodes/item.#size": [1],
        "nodes/item.at": [0.5, 1.0],
        "nodes/_readout.#size": [2],
        "edges/buys.#size": [1],
        "edges/buys.#source": [1],
        "edges/buys.#target": [0],
        "edges/buys.n": [-1],
        "edges/_readout/source.#size": [2],
        "edges/_readout/source.#source": [0, 1],
        "edges/_readout/source.#target": [0, 1],
        "edges/_readout/target.#size": [2],
        "edges/_readout/target.#source": [0, 0],
        "edges/_readout/target.#target": [0, 1],
    }


def test_null_is_what_the_schema_declares_for_a_missing_value():
    schema = parse_schema("""
    context { features { key: "year" value { dtype: DT_INT32 } }
              metadata { extra { key: "default.year" value: "-1" } } }
    node_sets { key: "user" value {
      features { key: "at" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
      features { key: "city" value { dtype: DT_STRING } }
      features { key: "is_new" value { dtype: DT_BOOL } }
      features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } }
      metadata { extra { key: "default.at" value: "-8" } extra { key: "default.city" value: "<no value>" }
                 extra { key: "default.is_new" value: "false" } extra { key: "default.tags" value: "" } } } }
    """)
    user = {"at": [None, [1, 2]], "city": ["Bern", None], "is_new": [None, True], "tags": [None, ["a"]]}

    graph = {"context": {"year": None}, "node_sets": {"user": user}}
    features = tf.train.Example.FromString(example_of_graph(graph, schema, (), "it")).features.feature

    assert list(features["context/year"].int64_list.value) == [-1]
    assert list(features["nodes/user.at"].float_list.value) == [-8, -8, 1, 2]
    assert list(features["nodes/user.city"].bytes_list.value) == [b"Bern", b"<no value>"]
    assert list(features["nodes/user.is_new"].int64_list.value) == [0, 1]
    assert list(features["nodes/user.tags.d1"].int64_list.value) == [0, 1]


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("context", {"year": None}, "must hold an integer .*got None"),
        ("context", {}, r"`instances\[0\].context` must have feature 'year'"),
        ("context", {"year": 2**31}, "must hold an integer in the range of int32 for each item; got 2147483648"),
        ("context", {"year": True}, "must hold an integer .*got True"),
        ("edge_sets", {"buys": {"source": [0], "n": [1]}}, "must have 'source' and 'target'.* Add 'target'"),
        (
            "edge_sets",
            {"buys": {"source": [2], "target": [0], "n": [1]}},
            r"buys.source\[0\]` .*got 2",
        ),
        ("edge_sets", {"buys": {"source": [0, 1], "target": [0], "n": [1, 1]}}, "buys.target` must have one position"),
        (
            "edge_sets",
            {"buys": {"source": [0], "target": [0], "n": [1, 1]}},
            "buys.n` must have one value",
        ),
        ("readout", {"source": [0], "target": [0, 0]}, r"`instances\[0\].readout` must have as many of each"),
        ("readout", {"source": 0}, "must have 'target'"),
        ("node_sets", [], "must be node sets, a JSON object"),
        ("node_sets", {"item": {"at": [[1.0]]}}, "item.at` must hold lists of 2 values at depth 1"),
        ("node_sets", {"item": {"at": 3}}, "item.at` must be a list; got 3"),
        ("node_sets", {"item": {"#size": -1}}, "#size` must be a number of nodes or edges; got -1"),
        ("node_sets", {"user": {"tags": [["\ud800"]], "is_new": [False]}}, "half of a surrogate pair"),
        ("node_sets", {"user": {"tags": [[]], "is_new": [2]}}, "is_new` must hold true or false for each item; got 2"),
    ],
)
def test_graph_that_is_not_of_the_schema_is_refused(part, value, message):
    with pytest.raises(Refusal, match=message) as refused:
        write({**GRAPH, part: value})

    assert refused.value.status == 400
