import re

import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.stages.example_check import BrokenRuleError, check_example
from tfx_gnn.stages.graph_layout import graph_layout

LAYOUT = graph_layout(
    text_format.Parse(
        """
        context { features { key: "year" value { dtype: DT_INT64 } } }
        node_sets { key: "a" value {
            features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
            features { key: "w" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
        edge_sets { key: "e" value { source: "a" target: "a" } }
        """,
        graph_schema_pb2.GraphSchema(),
    )
)
GOOD = {
    "context/year": [1999],
    "nodes/a.#size": [2],
    "nodes/a.x": [1.0, 2.0, 3.0, 4.0],
    "nodes/a.w": ["p", "q", "r"],
    "nodes/a.w.d1": [3, 0],
    "edges/e.#size": [1],
    "edges/e.#source": [0],
    "edges/e.#target": [1],
}


@pytest.fixture
def check(make_record):
    return lambda content: check_example(tf.train.Example.FromString(make_record(content)).features.feature, LAYOUT)


def test_an_example_by_its_schema_passes(check):
    check(GOOD)


def test_sets_without_size_are_empty_and_need_no_features(check):
    check({"context/year": [1999]})
    check({"context/year": [1999], "nodes/a.#size": [], "nodes/a.x": [], "edges/e.#size": [0]})


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("nodes/a.x", None, "'nodes/a.x' is there; got no such key"),
        ("context/year", None, "'context/year' is there; got no such key"),
        ("nodes/a.x", [1, 2, 3, 4], "'nodes/a.x' is a float_list; got a int64_list"),
        ("nodes/a.x", [1.0, 2.0, 3.0], r"shape \[2\] for each of 2 items, 4 values in all; got 3 values"),
        ("nodes/a.w.d1", [2, 0], "3 values"),
        ("nodes/a.w.d1", [3], "a row length, at least 0, for each of 2 rows; got 1 lengths"),
        ("nodes/a.w.d1", [4, -1], "a row length, at least 0, for each of 2 rows"),
        ("nodes/a.#size", None, "'nodes/a.#size' counts the items of node set 'a'; got none beside 3 values"),
        ("nodes/a.#size", [1, 1], r"'nodes/a.#size' is one number, at least 0; got \[1, 1\]"),
        ("nodes/a.#size", [-1], r"'nodes/a.#size' is one number, at least 0; got \[-1\]"),
        ("edges/e.#source", [], "'edges/e.#source' has one node index for each of the edges; got 0 values for 1"),
        ("edges/e.#target", [2], "'edges/e.#target' points into node set 'a'; got index 2 with 2 nodes"),
        ("edges/e.#target", [-1], "'edges/e.#target' points into node set 'a'; got index -1 with 2 nodes"),
        ("nodes/a.y", [1.0], "every key is declared in the graph schema; got undeclared 'nodes/a.y'"),
    ],
)
def test_a_broken_rule_is_named(check, key, values, message):
    content = {**GOOD, key: values}
    if values is None:
        del content[key]

    with pytest.raises(BrokenRuleError) as error:
        check(content)

    text = error.value.message("record 7 of f.gz")
    assert re.search(message, text)
    assert " in record 7 of f.gz. " in text
