from __future__ import annotations

import copy
from collections.abc import Iterable, Sized

import numpy as np
import pytest
import tensorflow as tf

import tfx_gnn


def make_graph(num_nodes, *, ragged=True):
    x = tf.range(num_nodes * 10, num_nodes * 10 + num_nodes)
    words = tf.RaggedTensor.from_row_lengths(tf.repeat(x, x % 2), tf.cast(x % 2, tf.int64))
    edge = tf.ones([num_nodes], tf.int32) * (num_nodes - 1)
    return tfx_gnn.GraphTensor.from_pieces(
        context=tfx_gnn.Context.from_fields(features={"label": [num_nodes]}),
        node_sets={
            "atoms": tfx_gnn.NodeSet.from_fields(
                sizes=[num_nodes], features={"x": x, **({"words": words} if ragged else {})}
            )
        },
        edge_sets={
            "bonds": tfx_gnn.EdgeSet.from_fields(
                sizes=[num_nodes],
                adjacency=tfx_gnn.HyperAdjacency.from_indices({0: ("atoms", edge), 2: ("atoms", 0 * edge)}),
            )
        },
    )


GRAPHS = [make_graph(num_nodes) for num_nodes in (3, 0, 2, 4)]
RAGGED = next(iter(tfx_gnn.dataset_from_generator(lambda: iter(GRAPHS)).batch(4)))
DENSE_GRAPHS = [make_graph(2, ragged=False)] * 6
DENSE = next(iter(tf.data.Dataset.from_tensors(DENSE_GRAPHS[0]).repeat(6).batch(3, drop_remainder=True).batch(2)))


def labels(graph):
    return graph.context["label"].numpy().tolist()


@pytest.mark.parametrize(
    "index", [0, 1, 3, -1, -4, np.int64(2), np.array(2), tf.constant(-2), tf.constant(1, tf.int64)]
)
def test_an_index_gives_one_graph(index, plain):
    graph = RAGGED[index]

    assert plain(graph) == plain(GRAPHS[int(index)])
    assert graph.spec.is_compatible_with(GRAPHS[int(index)])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (slice(1, 3), [1, 2]),
        (slice(None), [0, 1, 2, 3]),
        (slice(None, None, -1), [3, 2, 1, 0]),
        (slice(3, 1), []),
        (slice(-2, 100), [2, 3]),
        ([2, -1, 2], [2, 3, 2]),
        ([], []),
        (np.array([0]), [0]),
        (tf.constant([3, 0]), [3, 0]),
        ([True, False, False, True], [0, 3]),
        (np.array([False] * 4), []),
        (tf.constant([False, True, True, False]), [1, 2]),
    ],
)
def test_slices_masks_and_vectors_give_batches(key, expected, plain):
    batch = RAGGED[key]

    assert batch.rank == 1
    assert [plain(graph) for graph in batch] == [plain(GRAPHS[position]) for position in expected]
    assert [plain(graph) for graph in batch.unstack()] == [plain(graph) for graph in batch]


@pytest.mark.parametrize(
    ("key", "expected"),
    [(slice(None, None, -1), [3, 2, 1, 0]), ([-1, 0], [3, 0]), ([False, True, False, True], [1, 3])],
)
def test_a_traced_function_takes_the_same_graphs(key, expected, plain):
    @tf.function
    def take(batch):
        return batch[key], batch[expected[1]]

    batch, graph = take(RAGGED)

    assert [plain(graph) for graph in batch] == [plain(GRAPHS[position]) for position in expected]
    assert plain(graph) == plain(GRAPHS[expected[1]])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_dense_batches_keep_static_shapes_and_compile(jit_compile, plain):
    take = tf.function(lambda batch, index: batch[index], jit_compile=jit_compile)

    assert DENSE.shape == [2, 3]
    assert DENSE[1].shape == [3]
    one = take(take(DENSE, tf.constant(1)), tf.constant(-1))
    some = take(DENSE, tf.constant([1, 0, 1]))

    assert plain(one) == plain(DENSE_GRAPHS[0])
    assert some.shape == [3, 3]
    assert some.node_sets["atoms"]["x"].shape == [3, 3, 2]
    assert [[plain(graph) for graph in row] for row in DENSE] == [[plain(DENSE_GRAPHS[0])] * 3] * 2


def test_uniform_dimensions_of_ragged_fields_are_kept():
    batches = tfx_gnn.dataset_from_generator(lambda: iter(GRAPHS)).batch(2, drop_remainder=True).batch(2)
    nested = next(iter(batches))

    assert nested.node_sets["atoms"]["words"].shape.as_list() == [2, 2, None, None]
    assert nested[[1, 0]].node_sets["atoms"]["words"].shape.as_list() == [2, 2, None, None]
    assert nested[1].node_sets["atoms"]["x"].to_list() == [[20, 21], [40, 41, 42, 43]]
    assert labels(nested[[1, 0]]) == [[[2], [4]], [[3], [0]]]
    assert nested[[1, 0]].spec.is_compatible_with(nested)


@pytest.mark.parametrize("index", [4, -5, [0, 4], np.array([-5])])
def test_an_index_outside_of_the_batch_is_refused(index):
    with pytest.raises(IndexError, match=r"must have i in \[-4, 4\), for a batch of 4 graphs; got (4|-5)"):
        RAGGED[index]


def test_an_index_outside_of_a_batch_of_unknown_size_is_refused_at_run_time():
    take = tf.function(
        lambda batch, i: batch[i], input_signature=[RAGGED.spec.with_shape([None]), tf.TensorSpec([], tf.int32)]
    )

    assert labels(take(RAGGED, -1)) == [4]
    with pytest.raises(tf.errors.InvalidArgumentError, match="for a batch of n graphs"):
        take(RAGGED, 4)


def test_a_mask_has_a_bool_per_graph():
    with pytest.raises(IndexError, match="one bool per graph of the batch; got 3 for 4 graphs"):
        RAGGED[[True, False, True]]


@pytest.mark.parametrize("key", ["atoms", (0, 1), 1.5, True, None, [[0]], [0.5], ["a"]])
def test_other_keys_are_refused(key):
    with pytest.raises(TypeError, match=r"`graph\[...\]` takes an integer, a slice, a bool mask"):
        RAGGED[key]


@pytest.mark.parametrize("ask", [lambda graph: graph[0], lambda graph: graph.unstack(), list])
def test_a_scalar_graph_is_no_batch(ask):
    with pytest.raises(TypeError, match="must be a batch for indexing"):
        ask(GRAPHS[0])


def test_a_graph_is_no_sequence():
    pieces = [GRAPHS[0].context, GRAPHS[0].node_sets["atoms"], GRAPHS[0].edge_sets["bonds"]]
    for value in (GRAPHS[0], RAGGED, RAGGED[:0], *pieces, pieces[-1].adjacency):
        assert not isinstance(value, (Iterable, Sized)), type(value)
        assert value, type(value)
        with pytest.raises(TypeError, match="has no len"):
            len(value)


def test_a_loop_ends_with_the_batch_and_begins_anew(plain):
    batch = RAGGED[:3]

    for _ in range(2):
        assert [plain(graph) for graph in batch] == [plain(graph) for graph in GRAPHS[:3]]
    assert plain(batch[1]) == plain(GRAPHS[1])
    assert plain(batch[-1]) == plain(GRAPHS[2])
    assert list(RAGGED[:0]) == []


@pytest.mark.parametrize("take", [list, lambda batch: batch.unstack(), lambda batch: [batch[1]]])
def test_graphs_are_connected_to_the_batch_for_a_tape(take):
    weight = tf.Variable([1.0])
    batch = RAGGED.replace_features(context={"w": tf.ones([4, 1])})
    unfinished = iter(batch)
    next(unfinished), next(unfinished)

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(batch.context["w"])
        loss = tf.add_n([tf.reduce_sum(weight * graph.context["w"] ** 2) for graph in take(batch)])

    expected = [0.0, 2.0, 0.0, 0.0] if len(take(batch)) == 1 else [2.0] * 4
    assert tf.convert_to_tensor(tape.gradient(loss, batch.context["w"]))[:, 0].numpy().tolist() == expected


def test_what_a_loop_has_taken_is_not_copied():
    batch = RAGGED[:]
    iterator = iter(batch)
    next(iterator), next(iterator)

    assert "_unstacked" in batch.__dict__
    assert "_unstacked" not in copy.copy(batch).__dict__


@pytest.mark.parametrize("take", [list, lambda batch: batch.unstack()])
def test_a_loop_while_tracing_must_know_the_size(take):
    def count(batch):
        return tf.constant(len(take(batch)))

    assert tf.function(count)(RAGGED) == 4
    with pytest.raises(TypeError, match="must have a static batch size"):
        tf.function(count, input_signature=[RAGGED.spec.with_shape([None])])(RAGGED)
