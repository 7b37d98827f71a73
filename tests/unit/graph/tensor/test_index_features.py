"""Features that hold indices of nodes, when a batch is merged."""

import pytest
import tensorflow as tf

import tfx_gnn


def mesh(num_nodes, faces, **context):
    """A graph of one node set with index features of every set."""
    return tfx_gnn.GraphTensor.from_pieces(
        tfx_gnn.Context.from_fields(
            features={name: tf.constant(value, tf.int64)[tf.newaxis] for name, value in context.items()}
        ),
        node_sets={
            "points": tfx_gnn.NodeSet.from_fields(
                sizes=[num_nodes], features={"twin": tf.range(num_nodes - 1, -1, -1, tf.int32)}
            ),
            "faces": tfx_gnn.NodeSet.from_fields(
                sizes=[len(faces)],
                features={
                    "corners": tf.constant(faces, tf.int64, shape=[len(faces), 3]),
                    "near": tf.ragged.constant([face[:1] * (face[0] + 1) for face in faces], dtype=tf.int64),
                },
            ),
        },
        edge_sets={
            "in": tfx_gnn.EdgeSet.from_fields(
                sizes=[1],
                features={"between": tf.constant([[num_nodes - 1, 0]], tf.int64)},
                adjacency=tfx_gnn.Adjacency.from_indices(("points", [0]), ("faces", [0])),
            )
        },
    )


DECLARED = {
    "context": {"root": "points"},
    "nodes/points": {"twin": "points"},
    "nodes/faces": {"corners": "points", "near": "points"},
    "edges/in": {"between": ("points", "faces")},
}
GRAPHS = [mesh(3, [[0, 1, 2]], root=2), mesh(4, [[1, 2, 3], [0, 0, 0]], root=-1)]


def batch(graphs):
    spec = graphs[0].spec.relax(num_nodes=True, num_edges=True)
    dataset = tf.data.Dataset.from_generator(lambda: iter(graphs), output_signature=spec)
    return next(iter(dataset.batch(len(graphs))))


def values(graph):
    return {
        "root": graph.context["root"].numpy().tolist(),
        "twin": graph.node_sets["points"]["twin"].numpy().tolist(),
        "corners": graph.node_sets["faces"]["corners"].numpy().tolist(),
        "near": graph.node_sets["faces"]["near"].to_list(),
        "between": graph.edge_sets["in"]["between"].numpy().tolist(),
    }


SHIFTED = {
    "root": [2, -1],
    "twin": [2, 1, 0, 6, 5, 4, 3],
    "corners": [[0, 1, 2], [4, 5, 6], [3, 3, 3]],
    "near": [[0], [4, 4], [3]],
    "between": [[2, 0], [6, 1]],
}


def test_declared_features_count_from_the_first_node_of_the_merged_graph():
    merged = batch(GRAPHS).merge_batch_to_components(index_features=DECLARED)

    assert values(merged) == SHIFTED
    assert merged.node_sets["points"]["twin"].dtype == tf.int32


def test_other_features_never_change_whatever_their_names():
    graphs = [mesh(9, [[0, 1, 2]], root=0, index_fund=fund) for fund in ([7, 8], [1, 20])]

    undeclared = batch(graphs).merge_batch_to_components(index_features={"context": {"root": "points"}})
    declared = batch(graphs[:1] * 2).merge_batch_to_components(index_features={"context": {"index_fund": "points"}})

    assert undeclared.context["index_fund"].numpy().tolist() == [[7, 8], [1, 20]]
    assert undeclared.context["root"].numpy().tolist() == [0, 9]
    assert declared.context["index_fund"].numpy().tolist() == [[7, 8], [16, 17]]
    assert batch(graphs).merge_batch_to_components().context["root"].numpy().tolist() == [0, 0]


def test_merging_in_a_dataset_gives_the_same_with_the_same_static_shapes():
    graphs = batch(GRAPHS)
    dataset = tf.data.Dataset.from_tensors(graphs)

    plain = dataset.map(lambda graph: graph.merge_batch_to_components())
    shifted = dataset.map(lambda graph: graph.merge_batch_to_components(index_features=DECLARED))

    assert values(next(iter(shifted))) == SHIFTED
    assert shifted.element_spec == plain.element_spec


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (mesh(3, [[0, 1, 3]], root=0), r"index feature 'corners' of 'nodes/faces'.* in 'points', or -1 .*got \[3\]"),
        (mesh(3, [[0, 1, 2]], root=-2), r"'root' of 'context' must hold indices .* got \[-2\]"),
    ],
    ids=["node-of-the-next-graph", "negative"],
)
def test_node_of_another_graph_is_refused(graph, message):
    graphs = batch([graph, GRAPHS[1]])
    merge = tf.function(lambda graph: graph.merge_batch_to_components(index_features=DECLARED))

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        graphs.merge_batch_to_components(index_features=DECLARED)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must hold indices of nodes of the same graph"):
        merge(graphs)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"context": {"roots": "points"}}, "must name features of the graph.* got 'roots' of 'context'"),
        ({"nodes/points": {"twin": "corners"}}, r"must refer to node sets of the graph; got \['corners'\]"),
        ({"edges/in": {"between": ("points",)}}, "one node set for each column"),
    ],
)
def test_features_that_a_graph_lacks_are_refused(features, message):
    with pytest.raises(ValueError, match=message):
        batch(GRAPHS).merge_batch_to_components(index_features=features)
