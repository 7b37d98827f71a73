"""Index features of components and of padding."""

import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.graph.batching.index_shifts import shift_index_features
from tfx_gnn.graph.batching.padding import pad_to_total_sizes
from tfx_gnn.graph.batching.size_constraints import SizeConstraints

DECLARED = {"context": {"root": "docs"}, "nodes/docs": {"twin": "docs"}}


def docs(sizes, roots, twins):
    return tfx_gnn.GraphTensor.from_pieces(
        tfx_gnn.Context.from_fields(features={"root": tf.constant(roots, tf.int64)}),
        node_sets={
            "docs": tfx_gnn.NodeSet.from_fields(
                sizes=tf.constant(sizes, tf.int32), features={"twin": tf.constant(twins, tf.int32)}
            ),
            "links": tfx_gnn.NodeSet.from_fields(sizes=tf.ones([len(sizes)], tf.int32)),
        },
    )


def values(graph):
    return graph.context["root"].numpy().tolist(), graph.node_sets["docs"]["twin"].numpy().tolist()


@pytest.mark.parametrize(
    ("sizes", "relative", "absolute"),
    [
        ([3, 2], ([2, 0], [2, -1, 0, 1, 0]), ([2, 3], [2, -1, 0, 4, 3])),
        ([0, 2, 0, 1], ([-1, 1, -1, 0], [0, 0, 0]), ([-1, 1, -1, 2], [0, 0, 2])),
        ([], ([], []), ([], [])),
    ],
    ids=["two", "with-empty-ones", "none"],
)
@pytest.mark.parametrize("how", [lambda f: f, tf.function, lambda f: tf.function(f, jit_compile=True)])
def test_forward_and_backward_are_inverse(sizes, relative, absolute, how):
    forward = how(lambda graph: shift_index_features(graph, DECLARED))
    backward = how(lambda graph: shift_index_features(graph, DECLARED, backward=True))

    shifted = forward(docs(sizes, *relative))

    assert values(shifted) == absolute
    assert values(backward(shifted)) == relative


def test_nodes_of_other_components_are_refused_unless_told_otherwise():
    wrong = docs([2, 2], [0, 2], [0, 0, 0, 0])

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'root' of 'context' .* got \[2\]"):
        shift_index_features(wrong, DECLARED)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'twin' of 'nodes/docs' .* got \[0, 0\]"):
        shift_index_features(wrong, {"nodes/docs": {"twin": "docs"}}, backward=True)
    assert values(shift_index_features(wrong, DECLARED, validate=False)) == ([0, 4], [0, 0, 2, 2])


def test_batch_is_refused():
    graphs = next(iter(tf.data.Dataset.from_tensors(docs([1], [0], [0])).batch(1)))

    with pytest.raises(ValueError, match=r"shift_index_features\(\) requires a scalar GraphTensor"):
        shift_index_features(graphs, DECLARED)


def test_padding_refers_to_the_first_padding_node():
    graph = docs([2, 1], [1, -1], [1, 0, 2])
    budget = SizeConstraints(4, {"docs": 5, "links": 2}, {})

    padded, _ = pad_to_total_sizes(graph, budget, index_features=DECLARED)

    # Real values stay. The second padding component has no node of its own.
    assert values(padded) == ([1, -1, 3, 3], [1, 0, 2, 3, 3])
    assert values(shift_index_features(padded, DECLARED, backward=True)) == ([1, -1, 0, -1], [1, 0, 0, 0, 0])


def test_padding_refers_to_no_node_without_padding_nodes():
    padded, _ = pad_to_total_sizes(
        docs([2, 1], [1, -1], [1, 0, 2]), SizeConstraints(4, {"docs": 3, "links": 3}, {}), index_features=DECLARED
    )

    assert values(padded) == ([1, -1, -1, -1], [1, 0, 2])


def test_padding_without_a_declaration_is_zero():
    padded, _ = pad_to_total_sizes(docs([1], [0], [0]), SizeConstraints(2, {"docs": 2, "links": 2}, {}))

    assert values(padded) == ([0, 0], [0, 0])
