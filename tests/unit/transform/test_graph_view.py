import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.transform.graph_view import UnknownNameError, graph_view_from_ragged, ragged_from_graph_view

LAYOUT = graph_layout(
    text_format.Parse(
        """
        context { features { key: "year" value { dtype: DT_INT64 } } }
        node_sets { key: "a" value {
            features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
            features { key: "w" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
        node_sets { key: "b" value { } }
        edge_sets { key: "e" value { source: "a" target: "b" features { key: "n" value { dtype: DT_INT64 } } } }
        """,
        graph_schema_pb2.GraphSchema(),
    )
)

# Three graphs: two nodes of "a", one of "b", two edges; nothing at all, without `#size`; one of each.
TENSORS = {
    "context/year": tf.ragged.constant([[1999], [2000], [2001]], dtype=tf.int64),
    "nodes/a.#size": tf.ragged.constant([[2], [], [1]], dtype=tf.int64),
    "nodes/a.x": tf.RaggedTensor.from_row_splits(
        [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], tf.constant([0, 2, 2, 3], tf.int64)
    ),
    "nodes/a.w": tf.ragged.constant([[["p"], []], [], [["q", "r"]]], dtype=tf.string),
    "nodes/b.#size": tf.ragged.constant([[1], [0], [1]], dtype=tf.int64),
    "edges/e.#size": tf.ragged.constant([[2], [], [1]], dtype=tf.int64),
    "edges/e.#source": tf.ragged.constant([[0, 1], [], [0]], dtype=tf.int64),
    "edges/e.#target": tf.ragged.constant([[0, 0], [], [0]], dtype=tf.int64),
    "edges/e.n": tf.ragged.constant([[7, 8], [], [9]], dtype=tf.int64),
}


@pytest.fixture
def graph():
    return graph_view_from_ragged(TENSORS, LAYOUT)


def test_features_of_all_graphs_lie_one_below_the_other(graph):
    assert graph.node_sets["a"]["x"].numpy().tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert graph.node_sets["a"].features["w"].to_list() == [[b"p"], [], [b"q", b"r"]]
    assert graph.edge_sets["e"]["n"].numpy().tolist() == [7, 8, 9]
    assert graph.context["year"].numpy().tolist() == [1999, 2000, 2001]
    assert dict(graph.node_sets["b"]) == {}


def test_sizes_tell_where_graphs_begin(graph):
    assert graph.node_sets["a"].sizes.numpy().tolist() == [2, 0, 1]
    assert graph.node_sets["a"].row_splits.numpy().tolist() == [0, 2, 2, 3]
    assert graph.node_sets["b"].total_size.numpy() == 2
    assert graph.context.sizes.numpy().tolist() == [1, 1, 1]


def test_ends_of_edges_are_positions_in_the_flat_tensors(graph):
    adjacency = graph.edge_sets["e"].adjacency

    assert (adjacency.source_name, adjacency.target_name) == ("a", "b")
    assert adjacency.source.numpy().tolist() == [0, 1, 2]
    assert adjacency.target.numpy().tolist() == [0, 0, 1]


def test_sets_that_are_named_get_exactly_the_given_features(graph):
    replaced = graph.replace_features(
        node_sets={"a": {"sum": tf.reduce_sum(graph.node_sets["a"]["x"], axis=1)}}, edge_sets={"e": {}}
    )

    assert sorted(replaced.node_sets["a"]) == ["sum"]
    assert sorted(replaced.edge_sets["e"]) == []
    assert sorted(replaced.context) == ["year"]
    assert sorted(graph.node_sets["a"]) == ["w", "x"]


def test_sparse_rows_become_ragged_ones(graph):
    sparse = tf.RaggedTensor.from_row_splits([7.0, 8.0], [0, 2, 2, 2]).to_sparse()

    rows = graph.replace_features(node_sets={"a": {"y": sparse}}).node_sets["a"]["y"]

    assert rows.to_list() == [[7.0, 8.0], [], []]


def test_features_are_cut_back_into_graphs(graph):
    replaced = graph.replace_features(
        context={}, node_sets={"b": {"y": tf.constant([10, 20], tf.int64)}}, edge_sets={"e": {}}
    )

    ragged = ragged_from_graph_view(replaced)

    assert {key: value.to_list() for key, value in ragged.items()} == {
        "nodes/a.x": [[[1.0, 2.0], [3.0, 4.0]], [], [[5.0, 6.0]]],
        "nodes/a.w": [[[b"p"], []], [], [[b"q", b"r"]]],
        "nodes/b.y": [[10], [], [20]],
    }


def test_context_features_are_cut_into_one_row_a_graph(graph):
    replaced = graph.replace_features(context={"new": tf.constant([[1.0], [2.0], [3.0]])})

    assert ragged_from_graph_view(replaced)["context/new"].to_list() == [[[1.0]], [[2.0]], [[3.0]]]


def test_the_text_form_shows_sets_and_shapes(graph):
    assert "node set 'a': w: string[3, None], x: float32[3, 2]" in repr(graph)


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (lambda g: g.node_sets["c"], r"`name` must be a node set of the graph; got 'c'. The graph has \['a', 'b'\]."),
        (lambda g: g.edge_sets["c"], r"must be an edge set of the graph; got 'c'. The graph has \['e'\]."),
        (lambda g: g.node_sets["a"]["z"], r"`name` must be a feature of node set 'a'; got 'z'. It has \['w', 'x'\]."),
        (lambda g: g.context["z"], r"must be a feature of the context; got 'z'. It has \['year'\]."),
        (lambda g: g.replace_features(node_sets={"c": {}}), "must be a node set of the graph; got 'c'"),
    ],
)
def test_an_unknown_name_is_answered_by_the_known_ones(graph, look, message):
    with pytest.raises(UnknownNameError, match=message) as caught:
        look(graph)

    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        (
            "#size",
            tf.zeros([3]),
            ValueError,
            "must not start with '#', except '#id'; got feature '#size' of node set 'a'",
        ),
        ("y", 1.0, TypeError, "must be a tensor; got float for feature 'y' of node set 'a'"),
        ("y", tf.sparse.from_dense([1.0]), TypeError, "must be a tensor; got SparseTensor for feature 'y'"),
        ("", tf.zeros([3]), ValueError, "`name` must not be empty; got feature '' of node set 'a'"),
        ("y", tf.zeros([3], tf.int32), TypeError, "must be int64, float32 or string, as in tf.Examples; got int32"),
        ("y", tf.zeros([]), ValueError, r"must have shape \[total_items, ...\]; got shape \(\) for feature 'y'"),
    ],
)
def test_a_feature_that_examples_cannot_hold_is_refused(graph, name, value, error, message):
    with pytest.raises(error, match=message):
        graph.replace_features(node_sets={"a": {name: value}})
