import itertools

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.graph.adjacency import Adjacency
from tfx_gnn.graph.batch_packing import pack_batches
from tfx_gnn.graph.context import Context
from tfx_gnn.graph.edge_set import EdgeSet
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.node_set import NodeSet
from tfx_gnn.graph.padding import pad_to_total_sizes
from tfx_gnn.graph.size_checks import satisfies_size_constraints
from tfx_gnn.graph.size_constraints import SizeConstraints


@tf.function
def make_graph(name, num_nodes, num_edges):
    ends = tf.zeros([num_edges], tf.int32)
    return GraphTensor.from_pieces(
        context=Context.from_fields(features={"name": name[tf.newaxis]}),
        node_sets={"a": NodeSet.from_fields(sizes=num_nodes[tf.newaxis], features={"x": tf.repeat(name, num_nodes)})},
        edge_sets={
            "e": EdgeSet.from_fields(
                sizes=num_edges[tf.newaxis], adjacency=Adjacency.from_indices(("a", ends), ("a", ends))
            )
        },
    )


def graphs(*sizes):
    """A data set of graphs named by their position, of the given (nodes, edges)."""
    table = tf.constant(sizes, tf.int32, shape=[len(sizes), 2])
    return (
        tf.data.Dataset.from_tensor_slices(table)
        .enumerate()
        .map(lambda name, size: make_graph(tf.cast(name, tf.int32), size[0], size[1]))
    )


def budget(components, nodes, edges, **minima):
    return SizeConstraints(components, {"a": nodes}, {"e": edges}, minima)


def names(batches):
    return [graph.context["name"].numpy().reshape([-1]).tolist() for graph in batches]


def test_the_graph_that_leaves_the_budget_even_comes_next():
    dataset = graphs((4, 1), (4, 1), (1, 4), (1, 4))

    batches = list(pack_batches(dataset, budget(3, 6, 5), window=4))

    # After graph 0, with 4 nodes and 1 edge, graph 2 evens out the rest; graph 1 would not even fit.
    assert names(batches) == [[0, 2], [1, 3]]
    assert batches[0].shape == [2]
    assert batches[0].node_sets["a"]["x"].to_list() == [[0, 0, 0, 0], [2]]
    assert batches[0].edge_sets["e"].adjacency.source.to_list() == [[0], [0, 0, 0, 0]]


def test_a_window_of_one_graph_keeps_the_order():
    dataset = graphs((4, 1), (4, 1), (1, 4), (1, 4))

    assert names(pack_batches(dataset, budget(3, 6, 5), window=1)) == [[0], [1, 2], [3]]


def test_every_batch_pads_to_the_budget():
    constraints = budget(4, 9, 12)
    dataset = graphs(*[(1 + i % 4, (5 * i) % 7) for i in range(23)])

    batches = list(pack_batches(dataset, constraints, window=8))

    assert sorted(itertools.chain(*names(batches))) == list(range(23))
    for graph in batches:
        padded, mask = pad_to_total_sizes(graph.merge_batch_to_components(), constraints)
        assert padded.node_sets["a"].total_size.numpy() == 9
        assert mask.numpy().tolist().count(True) == graph.shape[0]


def test_packing_is_the_same_in_each_pass():
    dataset = pack_batches(graphs(*[(1 + i % 4, i % 5) for i in range(17)]), budget(4, 9, 12), window=4)

    assert names(dataset) == names(dataset)


# Each makes a pipeline of its own.
@settings(max_examples=4)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=30),
    st.tuples(st.integers(2, 5), st.integers(6, 12), st.integers(5, 12)),
    st.sampled_from([1, 3]),
)
def test_no_graph_is_lost_and_every_batch_fits(sizes, limits, window):
    constraints = budget(*limits)

    batches = list(pack_batches(graphs(*sizes), constraints, window=window))

    assert sorted(itertools.chain(*names(batches))) == list(range(len(sizes)))
    assert all(bool(satisfies_size_constraints(graph, constraints)) for graph in batches)


def test_a_long_batch_outgrows_the_window():
    batches = list(pack_batches(graphs(*[(1, 0)] * 20), budget(16, 20, 1), window=2))

    assert [len(batch) for batch in names(batches)] == [15, 5]


def test_endless_data_sets_stay_endless():
    dataset = pack_batches(graphs((2, 1), (1, 2)).repeat(), budget(3, 6, 5), window=2)

    assert len(list(dataset.take(5))) == 5


def test_a_graph_that_never_fits_is_refused():
    dataset = pack_batches(graphs((1, 0), (9, 1)), budget(3, 6, 5), window=2)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"does not fit even alone.*nodes/a.*1 9 1.*3 6 5"):
        list(dataset)


def test_a_graph_with_too_few_nodes_is_refused():
    dataset = pack_batches(graphs((1, 0)), budget(3, 6, 5, a=2), window=2)

    with pytest.raises(tf.errors.InvalidArgumentError, match="does not fit even alone"):
        list(dataset)


def test_graphs_that_never_fit_go_to_the_callback():
    seen = tf.Variable(0)
    dataset = graphs((1, 0), (9, 1), (2, 2), (1, 9))

    batches = pack_batches(
        dataset, budget(3, 6, 5), window=2, on_oversized=lambda graph: seen.assign_add(graph.context["name"][0])
    )

    assert names(batches) == [[0, 2]]
    assert seen.numpy() == 1 + 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pack_batches(graphs((1, 1)), budget(3, 6, 5), window=0), "`window` must be at least 1; got 0"),
        (lambda: pack_batches(graphs((1, 1)).batch(2), budget(3, 6, 5)), "requires a scalar GraphTensor"),
        (lambda: pack_batches(tf.data.Dataset.range(3), budget(3, 6, 5)), "The element of dataset must be GraphTensor"),
        (lambda: pack_batches(graphs((1, 1)), SizeConstraints(3, {}, {"e": 5})), "<a> nodes must be specified"),
        (
            lambda: pack_batches(graphs((1, 1)), budget(3, 6, 5, b=1)),
            r"`size_constraints` must name sets of the graphs only; got \['b'\]",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
