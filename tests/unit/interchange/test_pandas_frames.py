from __future__ import annotations

import datetime as dt
import re

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import tfx_gnn as tfgnn
from tfx_gnn import from_pandas, to_pandas

USERS = pd.DataFrame(
    {
        "age": [31, 45, 28],
        "score": np.array([0.5, 1.5, 2.5], np.float32),
        "name": ["Ann", "Bö", ""],
        "is_new": [True, False, True],
        "embedding": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        "tags": [["a", "b"], [], ["c"]],
    },
    index=["ann", "bob", "cy"],
)
PRODUCTS = pd.DataFrame({"price": [9.5, 3.25]})
ORDERS = pd.DataFrame({"source": ["bob", "bob", "ann"], "target": [1, 0, 1], "amount": [2, 1, 1]})


@pytest.fixture
def graph():
    return from_pandas(
        {"users": USERS, "products": PRODUCTS},
        {"orders": ("users", "products", ORDERS)},
        {"shop": "north", "year": 2026},
    )


def test_frames_become_a_graph_with_their_dtypes_and_ids(graph):
    users = graph.node_sets["users"]

    assert (graph.rank, int(graph.num_components)) == (0, 1)
    assert users["#id"].numpy().tolist() == [b"ann", b"bob", b"cy"]
    assert {name: feature.dtype.name for name, feature in users.get_features_dict().items()} == {
        "#id": "string",
        "age": "int64",
        "score": "float32",
        "name": "string",
        "is_new": "bool",
        "embedding": "float64",
        "tags": "string",
    }
    assert users["embedding"].shape == [3, 2]
    assert users["tags"].to_list() == [[b"a", b"b"], [], [b"c"]]
    assert users["name"].numpy()[1].decode() == "Bö"
    adjacency = graph.edge_sets["orders"].adjacency
    assert (adjacency.source_name, adjacency.target_name) == ("users", "products")
    assert (adjacency.source.numpy().tolist(), adjacency.target.numpy().tolist()) == ([1, 1, 0], [1, 0, 1])
    assert graph.context["shop"].numpy().tolist() == [b"north"]
    # An index that counts from 0 is no id.
    assert set(graph.node_sets["products"].features) == {"price"}


def test_the_graph_gives_the_frames_again(graph):
    frames = to_pandas(graph)

    pd.testing.assert_frame_equal(
        frames.node_sets["users"].drop(columns=["embedding", "tags"])[["age", "score", "name", "is_new"]],
        USERS[["age", "score", "name", "is_new"]],
    )
    assert [list(row) for row in frames.node_sets["users"]["tags"]] == USERS["tags"].tolist()
    pd.testing.assert_frame_equal(frames.node_sets["products"], PRODUCTS)
    assert frames.edge_sets["orders"][:2] == ("users", "products")
    pd.testing.assert_frame_equal(frames.edge_sets["orders"].frame, ORDERS)
    assert frames.context == {"shop": "north", "year": 2026}


def test_the_frames_give_the_graph_again(graph):
    again = from_pandas(*to_pandas(graph))

    assert again.spec == graph.spec
    for name, feature in graph.node_sets["users"].get_features_dict().items():
        equal = again.node_sets["users"][name] == feature
        assert bool(tf.reduce_all(equal.flat_values if hasattr(equal, "flat_values") else equal)), name


def test_the_graph_is_batched_and_written_like_any_other(graph):
    written = tfgnn.write_example(graph)
    parsed = tfgnn.parse_single_example(graph.spec, written.SerializeToString())

    assert parsed.node_sets["users"]["age"].numpy().tolist() == [31, 45, 28]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series(["b", "a"], dtype="category"), [b"b", b"a"]),
        (pd.Series([2, 1], dtype="category"), [2, 1]),
        (pd.Series([1, 2], dtype="Int64"), [1, 2]),
        (pd.Series([True, False], dtype="boolean"), [True, False]),
        (pd.Series(["x", "y"], dtype="string"), [b"x", b"y"]),
        (pd.Series(pd.to_datetime(["1970-01-01 00:00:01", "1970-01-02 00:00:00"])), [1_000_000, 86_400_000_000]),
        (pd.Series(pd.to_datetime(["1970-01-01 02:00", "1970-01-01 03:00"]).tz_localize("Europe/Berlin")),
         [3_600_000_000, 7_200_000_000]),
        (pd.Series([dt.date(1970, 1, 2), dt.date(1970, 1, 1)]), [86_400_000_000, 0]),
        (pd.Series([b"\xff", b""]), [b"\xff", b""]),
    ],
    ids=["texts", "numbers", "Int64", "boolean", "string", "times", "zone", "dates", "bytes"],
)  # fmt: skip
def test_types_of_pandas_become_those_of_tensors(column, expected):
    graph = from_pandas({"a": pd.DataFrame({"x": column})}, {})

    assert graph.node_sets["a"]["x"].numpy().tolist() == expected


def test_an_empty_graph_and_sets_without_rows_are_graphs():
    none = pd.DataFrame({"source": pd.Series([], dtype=int), "target": pd.Series([], dtype=int)})
    graph = from_pandas({"a": pd.DataFrame(index=range(0))}, {"e": ("a", "a", none)})

    assert int(graph.node_sets["a"].total_size) == 0
    assert len(to_pandas(graph).edge_sets["e"].frame) == 0


def test_node_sets_may_have_no_features():
    graph = from_pandas({"a": pd.DataFrame(index=["x", "y"])}, {})

    assert graph.node_sets["a"].sizes.numpy().tolist() == [2]


def _edges(**columns):
    return {"e": ("a", "a", pd.DataFrame(columns))}


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ({"x": [1.0, None, None]}, {}, None),
        ({"x": ["u", None, float("nan")]}, {}, "got 2 rows without one in 'x' of node set 'a'"),
        ({"x": pd.Series([1, None, 3], dtype="Int64")}, {}, "got 1 rows without one in 'x' of node set 'a'"),
        ({"x": pd.to_datetime(["2026-01-01", None, None])}, {}, "got 2 rows without one"),
        ({"x": ["u", 1, 2]}, {}, "got int, str in 'x' of node set 'a'. Convert the column first."),
        ({"x": [{}, {}, {}]}, {}, "got dict"),
        ({"x": [[1], ["u"], [2]]}, {}, "lists of one kind of value; got int64, string"),
        ({"x": [1, 2, 3]}, _edges(source=[0], target=[7]), r"got 1 of 1 targets of 'e' that are not in 'a', such as 7"),
        ({"x": [1, 2, 3]}, _edges(source=["0"], target=[1]), "the index has int64, the column object"),
        ({"x": [1, 2, 3]}, _edges(src=[0], target=[1]), r"with \['src', 'target'\]. Rename them: .*'source'"),
        ({"x": [1, 2, 3]}, {"e": ("a", "b", pd.DataFrame())}, r"got 'b' as target of 'e'. Name one of \['a'\]"),
    ],
)  # fmt: skip
def test_mistakes_say_what_where_and_what_to_do(nodes, edges, message):
    def make():
        return from_pandas({"a": pd.DataFrame(nodes)}, edges)

    if message is None:
        # NaN is a number.
        assert np.isnan(make().node_sets["a"]["x"].numpy()).tolist() == [False, True, True]
        return
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (["x", "y", "x"], "got 1 that occur more often in 'a', such as 'x'"),
        (pd.MultiIndex.from_tuples([(1, 2), (3, 4), (5, 6)]), "got an index of 2 levels in 'a'"),
        (["x", None, "y"], "got 1 rows without one in '#id' of node set 'a'"),
    ],
)
def test_ids_occur_once(index, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        from_pandas({"a": pd.DataFrame({"x": [1, 2, 3]}, index=index)}, {})


def test_batches_and_merged_graphs_are_refused(graph):
    batch = next(iter(tf.data.Dataset.from_tensors(graph).repeat(2).batch(2)))

    with pytest.raises(ValueError, match=r"one graph with values; got one of rank 1. .* graph\[0\]"):
        to_pandas(batch)
    with pytest.raises(ValueError, match="one component; got 2"):
        to_pandas(batch.merge_batch_to_components())
