import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph as lib
from tfx_gnn.graph.batching import dynamic_batching
from tfx_gnn.graph.batching.dynamic_batch_sampler import DynamicBatchSampler
from tfx_gnn.graph.batching.dynamic_batching import batch_by_size, dynamic_batch
from tfx_gnn.graph.batching.padding import pad_to_total_sizes
from tfx_gnn.graph.batching.size_checks import satisfies_size_constraints
from tfx_gnn.graph.batching.size_constraints import SizeConstraints


def make_graph(index, num_nodes, num_edges, *, has_features=False):
    zeros = tf.zeros([num_edges], tf.int32)
    features = {
        "x": tf.fill([num_nodes, 2], float(index)),
        "r": tf.RaggedTensor.from_row_lengths(tf.range(num_nodes), tf.ones([num_nodes], tf.int64)),
        "name": tf.fill([num_nodes], "n"),
    }
    return lib.GraphTensor.from_pieces(
        context=lib.Context.from_fields(features={"index": tf.constant([index])}),
        node_sets={
            "a": lib.NodeSet.from_fields(sizes=[num_nodes], features=features if has_features else {}),
            "latent": lib.NodeSet.from_fields(sizes=[1]),
        },
        edge_sets={
            "e": lib.EdgeSet.from_fields(
                sizes=[num_edges], adjacency=lib.Adjacency.from_indices(("a", zeros), ("a", zeros))
            )
        },
    )


def make_dataset(*sizes, has_features=False):
    spec = make_graph(0, 1, 1, has_features=has_features).spec.relax(num_nodes=True, num_edges=True)
    graphs = [make_graph(index, *size, has_features=has_features) for index, size in enumerate(sizes)]
    return tf.data.Dataset.from_generator(lambda: iter(graphs), output_signature=spec)


def constraints(components=9, a=9, latent=9, e=9, **more):
    return SizeConstraints(components, {"a": a, "latent": latent}, {"e": e}, **more)


@functools.cache
def _make_pipeline(limits):
    """Gives the batches of whatever graphs the list holds when they are read."""
    graphs = []
    spec = make_graph(0, 1, 1).spec.relax(num_nodes=True, num_edges=True)
    dataset = tf.data.Dataset.from_generator(lambda: iter(graphs), output_signature=spec)
    return graphs, dynamic_batch(dataset, constraints(**dict(limits)))


def batched(*sizes, components=9, a=9, latent=9, e=9, min_nodes_per_component=()):
    """Batches graphs of these sizes; graphs of other sizes with the same constraints share the traced functions."""
    limits = {"components": components, "a": a, "latent": latent, "e": e}
    graphs, batches = _make_pipeline((*limits.items(), ("min_nodes_per_component", min_nodes_per_component)))
    graphs[:] = [make_graph(index, *size) for index, size in enumerate(sizes)]
    return batches


def indices(batches):
    return [batch.context["index"].numpy().ravel().tolist() for batch in batches]


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        ([(4, 0), (4, 0), (4, 0)], {"a": 9}, [[0, 1], [2]]),
        ([(4, 0), (6, 0), (1, 0), (1, 0)], {"a": 9}, [[0], [1, 2, 3]]),
        ([(1, 4), (1, 5), (1, 1)], {"e": 9}, [[0, 1], [2]]),
        ([(1, 0)] * 5, {"components": 3}, [[0, 1], [2, 3], [4]]),
        ([(1, 0)] * 5, {"latent": 2}, [[0, 1], [2, 3], [4]]),
        ([(3, 1), (3, 1), (3, 1)], {"a": 9, "e": 9}, [[0, 1], [2]]),
        ([], {}, []),
    ],
    ids=["nodes", "largest first", "edges", "components", "latent nodes", "a node for padding edges", "none"],
)
def test_as_many_graphs_are_batched_as_fit(sizes, limits, expected):
    assert indices(batched(*sizes, **limits)) == expected


def test_padding_components_may_demand_nodes():
    batches = batched((2, 0), (3, 0), (3, 0), components=4, min_nodes_per_component=(("a", 2),))

    # Two graphs leave two components to be added, of two nodes each; one leaves three.
    assert indices(batches) == [[0, 1], [2]]


@pytest.mark.parametrize("chunk_size", [1, 4, 256])
def test_chunks_do_not_show(monkeypatch, chunk_size):
    monkeypatch.setattr(dynamic_batching, "_CHUNK_SIZE", chunk_size)
    sizes = [(n % 4, n % 3) for n in range(11)]

    batches = list(dynamic_batch(make_dataset(*sizes), constraints()))

    assert [i for batch in indices(batches) for i in batch] == list(range(11))
    for batch in batches:
        assert bool(satisfies_size_constraints(batch, constraints()))
    assert indices(batches) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]


def test_values_stay_with_their_graphs_and_the_type_is_that_of_ordinary_batches():
    dataset = make_dataset((2, 1), (3, 2), has_features=True)

    batches = dynamic_batch(dataset, constraints())

    graph = batches.get_single_element()
    nodes = graph.node_sets["a"]
    assert nodes["x"].to_list() == [[[0.0, 0.0]] * 2, [[1.0, 1.0]] * 3]
    assert nodes["r"].to_list() == [[[0], [1]], [[0], [1], [2]]]
    assert nodes["name"].to_list() == [[b"n"] * 2, [b"n"] * 3]
    assert graph.edge_sets["e"].adjacency.source.to_list() == [[0], [0, 0]]
    assert batches.element_spec == dataset.batch(2).element_spec


def test_an_infinite_dataset_stays_infinite():
    batches = dynamic_batch(make_dataset((4, 0), (3, 0)).repeat(), constraints(a=9))

    assert indices(batches.take(2)) == [[0, 1], [0, 1]]
    assert batches.cardinality() == tf.data.INFINITE_CARDINALITY


def test_the_number_of_batches_is_unknown():
    batches = batched((4, 0), (3, 0))

    assert batches.cardinality() == tf.data.UNKNOWN_CARDINALITY


def test_hyperedges_and_several_components_are_batched():
    graph = lib.GraphTensor.from_pieces(
        node_sets={"a": lib.NodeSet.from_fields(sizes=[1, 1], features={"x": tf.constant([1, 2])})},
        edge_sets={
            "e": lib.EdgeSet.from_fields(
                sizes=[1, 0], adjacency=lib.HyperAdjacency.from_indices({tag: ("a", [0]) for tag in range(3)})
            )
        },
    )
    spec = graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)
    dataset = tf.data.Dataset.from_generator(lambda: iter([graph] * 3), output_signature=spec)

    batches = list(dynamic_batch(dataset, SizeConstraints(5, {"a": 9}, {"e": 9})))

    assert [batch.shape[0] for batch in batches] == [2, 1]
    assert batches[0].edge_sets["e"].adjacency[2].to_list() == [[0], [0]]


@settings(max_examples=5)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda s: s if s[0] else (0, 0)), max_size=8),
    demand=st.sampled_from([0, 0, 1]),
)
def test_batches_are_padded_and_agree_with_a_plain_loop(sizes, demand):
    minima = (("latent", demand),)
    limits = constraints(components=4, a=8, latent=6, e=9, min_nodes_per_component=dict(minima))

    batches = list(batched(*sizes, components=4, a=8, latent=6, min_nodes_per_component=minima))

    expected, current = [], []
    for index, (nodes, edges) in enumerate(sizes):
        joined = [*current, (index, nodes, edges)]
        total = [sum(column) for column in zip(*joined, strict=True)][1:]
        num_fake = 4 - len(joined)
        fits = (
            num_fake > 0
            and total[0] <= 8
            and len(joined) + demand * num_fake <= 6
            and total[1] <= 9
            and (total[1] == 9 or total[0] < 8)
        )
        if not fits:
            expected.append([graph[0] for graph in current])
            joined = joined[-1:]
        current = joined
    if current:
        expected.append([graph[0] for graph in current])
    assert indices(batches) == expected
    for batch in batches:
        padded, mask = pad_to_total_sizes(batch.merge_batch_to_components(), limits)
        assert padded.spec.total_num_components == 4
        assert np.sum(mask) == batch.shape[0]


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((10, 0), "Could not pad <a> as it already has more nodes then it is allowed"),
        ((1, 10), "Could not pad <e> as it already has more edges then it is allowed"),
    ],
)
def test_a_graph_too_large_for_any_batch_is_an_error(size, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        list(batched((1, 1), size))


def test_a_graph_with_too_many_components_is_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError, match="graph components then it is allowed"):
        list(batched((1, 1), components=0))


def test_a_graph_with_too_few_nodes_is_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Some graph components has fewer <a> than it is allowed"):
        list(batched((0, 0), min_nodes_per_component=(("a", 1),)))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (SizeConstraints(9, {"a": 9}, {"e": 9}), r"`constraints.total_num_nodes\[<latent>\]`"),
        (
            SizeConstraints(9, {"a": 9, "latent": 9, "q": 1}, {"e": 9}),
            r"existing node set names. Invalid keys: \[<q>\]",
        ),
        (
            SizeConstraints(9, {"a": 9, "latent": 9}, {}),
            r"number of <e> edges must be specified as `constraints.total_num_edges\[<e>\]`",
        ),
        (constraints(min_nodes_per_component={"q": 1}), r"`constraints.min_nodes_per_component` keys .* \[<q>\]"),
    ],
)
def test_constraints_must_name_the_sets_of_the_graphs(limits, message):
    with pytest.raises(ValueError, match=message):
        dynamic_batch(make_dataset((1, 1)), limits)


def test_only_scalar_graphs_are_batched():
    with pytest.raises(ValueError, match=r"dynamic_batch\(\) requires a scalar GraphTensor"):
        dynamic_batch(make_dataset((1, 1)).batch(1), constraints())
    with pytest.raises(ValueError, match="element of dataset must be GraphTensor"):
        dynamic_batch(tf.data.Dataset.range(3), constraints())


@pytest.mark.parametrize(
    ("num_nodes", "max_num", "options", "expected"),
    [
        ([400, 100, 101, 102, 103], 300, {"set_name": "a"}, ([[0], [1, 2], [3, 4]], 0)),
        # Each graph also has a latent node.
        ([400, 100, 101, 102, 103], 206, {}, ([[0], [1, 2], [3], [4]], 0)),
        ([2, 100, 3], 5, {"set_name": "a", "skip_too_big": True}, ([[0], [2]], 1)),
        ([7, 8, 9], 5, {"set_name": "a", "skip_too_big": True}, ([], 3)),
        ([0, 0, 3], 2, {"set_name": "a"}, ([[0, 1], [2]], 0)),
        ([9, 1, 9, 1, 1], 1, {"set_name": "a", "skip_too_big": True, "num_steps": 2}, ([[1], [3]], 2)),
    ],
    ids=["one node set", "all node sets", "one too big", "all too big", "empty graphs", "few steps"],
)
def test_graphs_are_batched_up_to_a_number_of_nodes(monkeypatch, num_nodes, max_num, options, expected):
    monkeypatch.setattr(dynamic_batching, "_CHUNK_SIZE", 2)
    dataset = make_dataset(*[(size, 1) for size in num_nodes])
    skipped = tf.Variable(0, dtype=tf.int64)

    batches = batch_by_size(dataset, max_num, num_skipped=skipped, **options)

    assert (indices(batches), int(skipped)) == expected
    assert batches.element_spec == dataset.batch(2).element_spec


def test_batches_by_edges_hold_the_same_examples_as_those_of_the_sampler(monkeypatch):
    monkeypatch.setattr(dynamic_batching, "_CHUNK_SIZE", 16)
    num_edges = np.random.default_rng(0).integers(0, 9, 80).tolist()

    batches = batch_by_size(make_dataset(*[(1, size) for size in num_edges]), 7, mode="edge", skip_too_big=True)

    expected = DynamicBatchSampler(num_edges, 7, skip_too_big=True)
    assert indices(batches) == [batch.tolist() for batch in expected]


def test_batches_by_size_of_infinite_graphs_can_be_limited():
    batches = batch_by_size(make_dataset((4, 0), (3, 0)).repeat(), 7, set_name="a", num_steps=3)

    assert indices(batches) == [[0, 1]] * 3
    assert batches.cardinality() == 3


@pytest.mark.parametrize(
    ("max_num", "options", "message"),
    [
        (0, {}, "`max_num` must be a whole number of at least 1; got 0"),
        (5, {"mode": "graph"}, "`mode` must be 'node' or 'edge'; got 'graph'"),
        (5, {"num_steps": 0}, "`num_steps` must be a whole number of at least 1; got 0"),
        (5, {"set_name": "e"}, r"`set_name` must be one of the node sets \['a', 'latent'\]; got 'e'"),
        (5, {"mode": "edge", "set_name": "a"}, r"`set_name` must be one of the edge sets \['e'\]; got 'a'"),
    ],
)
def test_unsuitable_limits_of_batches_by_size_are_refused(max_num, options, message):
    with pytest.raises(ValueError, match=message):
        batch_by_size(make_dataset((1, 0)), max_num, **options)


def test_other_elements_and_counters_are_refused():
    with pytest.raises(ValueError, match="must be GraphTensor"):
        batch_by_size(tf.data.Dataset.range(3), 5)
    with pytest.raises(ValueError, match=r"scalar"):
        batch_by_size(make_dataset((1, 0)).batch(2), 5)
    with pytest.raises(ValueError, match="`num_skipped` must be an int64 scalar variable; got dtype=int32"):
        batch_by_size(make_dataset((1, 0)), 5, num_skipped=tf.Variable(0))
    nodes_only = lib.GraphTensor.from_pieces(node_sets={"a": lib.NodeSet.from_fields(sizes=[1])})
    with pytest.raises(ValueError, match="`mode` must name items that the graphs have; got 'edge'"):
        batch_by_size(tf.data.Dataset.from_tensors(nodes_only), 5, mode="edge")
