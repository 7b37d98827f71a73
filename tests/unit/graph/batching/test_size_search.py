import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph as lib
from tfx_gnn.graph.batching.padding import pad_to_total_sizes
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.batching.size_search import find_tight_size_constraints


def make_graph(num_nodes, num_edges, library=lib, num_components=1):
    sizes = [num_nodes] + [0] * (num_components - 1)
    zeros = tf.zeros([num_edges], tf.int32)
    return library.GraphTensor.from_pieces(
        node_sets={"docs": library.NodeSet.from_fields(sizes=sizes, features={"x": tf.zeros([num_nodes])})},
        edge_sets={
            "cites": library.EdgeSet.from_fields(
                sizes=[num_edges] + [0] * (num_components - 1),
                adjacency=library.Adjacency.from_indices(("docs", zeros), ("docs", zeros)),
            )
        },
    )


def make_dataset(*sizes, library=lib):
    spec = make_graph(1, 1, library).spec.relax(num_nodes=True, num_edges=True)
    graphs = [make_graph(*size, library) for size in sizes]
    return tf.data.Dataset.from_generator(lambda: iter(graphs), output_signature=spec)


@pytest.mark.parametrize(
    ("batch_size", "expected"), [(None, (2, 7, 6)), (1, (2, 7, 6)), (2, (3, 13, 12)), (3, (4, 19, 18))]
)
def test_maxima_are_multiplied_and_room_is_added(batch_size, expected):
    found = find_tight_size_constraints(
        make_dataset((4, 3), (5, 6), (6, 2)), target_batch_size=batch_size, min_nodes_per_component={"docs": 1}
    )

    assert found == SizeConstraints(expected[0], {"docs": expected[1]}, {"cites": expected[2]}, {"docs": 1})
    assert all(type(size) is int for size in (found[0], *found[1].values(), *found[2].values()))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_the_batch_size_may_be_a_tensor(dtype):
    found = find_tight_size_constraints(make_dataset((4, 3)), target_batch_size=tf.constant(2, dtype))

    assert found == SizeConstraints(3, {"docs": 9}, {"cites": 6})


def test_batches_are_measured_by_their_sums():
    found = find_tight_size_constraints(make_dataset((4, 3), (5, 6), (6, 2)).batch(2))

    assert found == SizeConstraints(3, {"docs": 10}, {"cites": 9})


def test_static_sizes_need_no_room():
    graph = make_graph(3, 2)

    found = find_tight_size_constraints(
        tf.data.Dataset.from_tensors(graph).repeat(4), target_batch_size=2, min_nodes_per_component={"docs": 2}
    )

    assert found == SizeConstraints(2, {"docs": 6}, {"cites": 4}, {"docs": 2})


def test_latent_node_sets_are_never_static():
    graph = lib.GraphTensor.from_pieces(node_sets={"latent": lib.NodeSet.from_fields(sizes=[3])})

    found = find_tight_size_constraints(tf.data.Dataset.from_tensors(graph))

    assert found == SizeConstraints(2, {"latent": 3}, {})


def test_an_empty_dataset_gives_the_smallest_integers():
    found = find_tight_size_constraints(make_dataset())

    assert found.total_num_edges == {"cites": tf.int64.min}


def test_constraints_are_found_inside_a_function():
    dataset = make_dataset((4, 3), (5, 6))

    found = tf.function(lambda: find_tight_size_constraints(dataset, target_batch_size=2))()

    assert int(found.total_num_components) == 3
    assert int(found.total_num_nodes["docs"]) == 11


@settings(max_examples=15)
@given(
    sizes=st.lists(st.tuples(st.integers(2, 6), st.integers(0, 6)), min_size=1, max_size=4),
    batch_size=st.integers(1, 3),
    demand=st.integers(0, 2),
)
def test_every_batch_fits(sizes, batch_size, demand):
    dataset = make_dataset(*sizes)
    found = find_tight_size_constraints(dataset, target_batch_size=batch_size, min_nodes_per_component={"docs": demand})

    for batch in dataset.shuffle(9).batch(batch_size):
        padded, _ = pad_to_total_sizes(batch.merge_batch_to_components(), found)
        assert padded.spec.total_num_components == found.total_num_components


@settings(max_examples=15)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 6), st.just(0)), min_size=1, max_size=4),
    batch_size=st.integers(1, 3),
    demand=st.none() | st.integers(0, 2),
)
def test_agrees_with_the_oracle(oracle, sizes, batch_size, demand):
    options = {"target_batch_size": batch_size}
    if demand is not None:
        options["min_nodes_per_component"] = {"docs": demand}

    ours = find_tight_size_constraints(make_dataset(*sizes), **options)
    theirs = oracle.find_tight_size_constraints(make_dataset(*sizes, library=oracle), **options)

    assert tuple(ours) == tuple(theirs)


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        (tf.data.Dataset.range(3), {}, "element of dataset must be GraphTensor; got TensorSpec"),
        (tf.data.Dataset.from_tensors(make_graph(1, 1)).repeat(), {}, "dataset must be finite"),
        (make_dataset((1, 1)), {"target_batch_size": 0}, "`target_batch_size` must be at least 1; got 0"),
    ],
)
def test_bad_arguments_are_refused(dataset, options, message):
    with pytest.raises(ValueError, match=message):
        find_tight_size_constraints(dataset, **options)
