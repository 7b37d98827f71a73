import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph
from tfx_gnn.graph.batching.padding import FeatureDefaultValues, pad_to_total_sizes
from tfx_gnn.graph.batching.size_checks import (
    assert_satisfies_size_constraints,
    assert_satisfies_total_sizes,
    satisfies_size_constraints,
    satisfies_total_sizes,
)
from tfx_gnn.graph.batching.size_constraints import SizeConstraints, with_room_for_padding


def make_graph(node_sizes=(2, 2), edge_sizes=(1, 2)):
    """Node sets "a" with features and "latent" without, both of `node_sizes`; edges from a to latent."""
    library = tfx_gnn.graph
    num_nodes, num_edges = sum(node_sizes), sum(edge_sizes)
    sizes = tf.constant(node_sizes, tf.int32, [len(node_sizes)])
    zeros = tf.zeros([num_edges], tf.int32)
    return library.GraphTensor.from_pieces(
        context=library.Context.from_fields(features={"c": tf.range(len(node_sizes)) + 10}),
        node_sets={
            "a": library.NodeSet.from_fields(
                sizes=sizes,
                features={
                    "x": tf.range(num_nodes) + 1,
                    "name": tf.fill([num_nodes], "n"),
                    "ragged": tf.RaggedTensor.from_row_lengths(tf.range(2 * num_nodes), tf.fill([num_nodes], 2)),
                },
            ),
            "latent": library.NodeSet.from_fields(sizes=sizes),
        },
        edge_sets={
            "e": library.EdgeSet.from_fields(
                sizes=tf.constant(edge_sizes, tf.int32, [len(edge_sizes)]),
                features={"w": tf.ones([num_edges, 2]), "flag": tf.ones([num_edges], tf.bool)},
                adjacency=library.Adjacency.from_indices(("a", zeros), ("latent", zeros)),
            )
        },
    )


def constraints(components, a, latent, edges, minima=()):
    return SizeConstraints(components, {"a": a, "latent": latent}, {"e": edges}, minima)


@functools.cache
def _traced_without_static_sizes(function):
    spec = make_graph().spec.relax(num_components=True, num_nodes=True, num_edges=True)

    @tf.function(input_signature=[spec, tf.TensorSpec([5], tf.int32)])
    def call(graph, sizes):
        components, a, latent, edges, minimum = tf.unstack(sizes)
        return function(graph, constraints(components, a, latent, edges, {"a": minimum}))

    return call


def call_traced(function, graph, sizes):
    """Calls a function of a graph and constraints, which is traced once for all sizes of both."""
    minimum = dict(sizes.min_nodes_per_component).get("a", 0)
    nodes = sizes.total_num_nodes
    numbers = [sizes.total_num_components, nodes["a"], nodes["latent"], sizes.total_num_edges["e"], minimum]
    return _traced_without_static_sizes(function)(graph, tf.constant(numbers))


either_way = pytest.mark.parametrize(
    "call", [lambda function, *args: function(*args), call_traced], ids=["eager", "traced"]
)


def test_surplus_goes_to_the_first_padding_component(run):
    padded, mask = run(lambda graph: pad_to_total_sizes(graph, constraints(5, 9, 6, 10, {"a": 1})), make_graph())

    assert mask.numpy().tolist() == [True, True, False, False, False]
    assert padded.context.sizes.numpy().tolist() == [1, 1, 1, 1, 1]
    assert padded.node_sets["a"].sizes.numpy().tolist() == [2, 2, 3, 1, 1]
    assert padded.node_sets["latent"].sizes.numpy().tolist() == [2, 2, 2, 0, 0]
    assert padded.edge_sets["e"].sizes.numpy().tolist() == [1, 2, 7, 0, 0]


def test_padding_items_hold_zero_false_empty(run):
    padded, _ = run(lambda graph: pad_to_total_sizes(graph, constraints(3, 6, 5, 4)), make_graph())

    nodes, edges = padded.node_sets["a"], padded.edge_sets["e"]
    assert nodes["x"].numpy().tolist() == [1, 2, 3, 4, 0, 0]
    assert nodes["name"].numpy().tolist() == [b"n"] * 4 + [b""] * 2
    assert nodes["ragged"].to_list() == [[0, 1], [2, 3], [4, 5], [6, 7], [], []]
    assert edges["w"].numpy().tolist() == [[1.0, 1.0]] * 3 + [[0.0, 0.0]]
    assert edges["flag"].numpy().tolist() == [True, True, True, False]
    assert padded.context["c"].numpy().tolist() == [10, 11, 0]


def test_padding_items_hold_the_given_scalars():
    padded, _ = pad_to_total_sizes(
        make_graph(),
        constraints(3, 5, 5, 4),
        padding_values=FeatureDefaultValues(
            context={"c": 7}, node_sets={"a": {"x": -1, "name": "pad"}}, edge_sets={"e": {"w": 0.5}}
        ),
    )

    assert padded.context["c"].numpy().tolist() == [10, 11, 7]
    assert padded.node_sets["a"]["x"].numpy().tolist() == [1, 2, 3, 4, -1]
    assert padded.node_sets["a"]["name"].numpy().tolist()[-1] == b"pad"
    assert padded.edge_sets["e"]["w"].numpy().tolist()[-1] == [0.5, 0.5]


def test_ragged_features_with_uniform_inner_dimensions_are_padded_with_empty_rows():
    library = tfx_gnn.graph
    ragged = tf.RaggedTensor.from_uniform_row_length(tf.ragged.constant([[1], [2, 3]]), 2)
    graph = library.GraphTensor.from_pieces(
        node_sets={"a": library.NodeSet.from_fields(sizes=[1], features={"r": ragged})}
    )

    padded, _ = pad_to_total_sizes(graph, SizeConstraints(2, {"a": 3}, {}))

    assert padded.node_sets["a"]["r"].to_list() == [[[1], [2, 3]], [[], []], [[], []]]


@either_way
@pytest.mark.parametrize(
    ("num_edges", "sources", "targets"),
    [
        (0, [], []),
        (1, [4], [4]),
        (2, [4, 8], [4, 6]),
        (3, [4, 6, 8], [4, 5, 6]),
        (5, [4, 5, 6, 7, 8], [4, 4, 5, 6, 6]),
        (7, [4, 4, 5, 6, 7, 8, 8], [4, 4, 5, 5, 6, 6, 6]),
    ],
)
def test_padding_edges_spread_over_all_padding_nodes(call, num_edges, sources, targets):
    padded, _ = call(pad_to_total_sizes, make_graph(), constraints(3, 9, 7, 3 + num_edges))

    adjacency = padded.edge_sets["e"].adjacency
    assert adjacency.source.numpy().tolist() == [0, 0, 0, *sources]
    assert adjacency.target.numpy().tolist() == [0, 0, 0, *targets]


def test_many_padding_edges_do_not_overflow():
    padded, _ = pad_to_total_sizes(make_graph(), constraints(3, 100_004, 5, 100_003))

    source = padded.edge_sets["e"].adjacency.source.numpy()[3:]
    assert source.min() == 4
    assert source.max() == 100_003
    assert (np.diff(source) >= 0).all()


def test_a_full_graph_is_returned_unchanged(run, plain):
    graph = make_graph()

    padded, mask = run(lambda graph: pad_to_total_sizes(graph, constraints(2, 4, 4, 3)), graph)

    assert plain(padded) == plain(graph)
    assert mask.numpy().tolist() == [True, True]


def test_padding_twice_is_padding_once(plain):
    sizes = constraints(4, 9, 8, 7)

    once, _ = pad_to_total_sizes(make_graph(), sizes)
    twice, mask = pad_to_total_sizes(once, sizes)

    assert plain(twice) == plain(once)
    assert mask.numpy().tolist() == [True] * 4


def test_components_may_be_added_without_nodes():
    padded, mask = pad_to_total_sizes(make_graph(), constraints(3, 4, 4, 3))

    assert padded.node_sets["a"].sizes.numpy().tolist() == [2, 2, 0]
    assert mask.numpy().tolist() == [True, True, False]


@pytest.mark.parametrize("sizes", [constraints(2, 2, 2, 2), constraints(0, 0, 0, 0)])
def test_a_graph_without_components_is_padded(run, sizes):
    padded, mask = run(lambda graph: pad_to_total_sizes(graph, sizes), make_graph((), ()))

    assert mask.numpy().tolist() == [False] * sizes.total_num_components
    assert padded.node_sets["a"]["x"].shape == [sizes.total_num_nodes["a"]]


def test_padded_shapes_are_static():
    specs = []

    @tf.function(input_signature=[make_graph().spec.relax(num_components=True, num_nodes=True, num_edges=True)])
    def pad(graph):
        padded, mask = pad_to_total_sizes(graph, constraints(3, 5, 6, 4))
        specs.append((padded.spec, mask.shape.as_list()))
        return mask

    pad(make_graph())

    spec, mask_shape = specs[0]
    assert mask_shape == [3]
    assert spec.total_num_components == 3
    assert spec.node_sets_spec["a"].total_size == 5
    assert spec.edge_sets_spec["e"].total_size == 4
    assert spec.edge_sets_spec["e"]["w"].shape.as_list() == [4, 2]
    assert spec.node_sets_spec["a"]["ragged"].shape.as_list() == [5, None]
    assert spec.node_sets_spec["latent"].sizes_spec.shape.as_list() == [3]
    assert spec.edge_sets_spec["e"].adjacency_spec.source.shape.as_list() == [4]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_constraints_may_be_tensors(dtype):
    sizes = SizeConstraints(
        tf.constant(3, dtype),
        {"a": tf.constant(5, dtype), "latent": 5},
        {"e": tf.constant(4, dtype)},
        {"a": tf.constant(1, dtype)},
    )

    padded, mask = tf.function(pad_to_total_sizes)(make_graph(), sizes)

    assert padded.node_sets["a"].sizes.numpy().tolist() == [2, 2, 1]
    assert mask.numpy().tolist() == [True, True, False]


def test_indices_keep_their_dtype():
    padded, _ = pad_to_total_sizes(make_graph().with_indices_dtype(tf.int64), constraints(3, 5, 5, 4))

    assert padded.indices_dtype == tf.int64
    assert padded.edge_sets["e"].adjacency.source.dtype == tf.int64


def test_xla_accepts_padding_of_static_sizes():
    graph = make_graph().remove_features(node_sets={"a": ["name", "ragged"]})

    @tf.function(jit_compile=True, input_signature=[graph.spec])
    def pad(graph):
        padded, mask = pad_to_total_sizes(graph, constraints(3, 5, 5, 4))
        return padded.node_sets["a"]["x"], padded.edge_sets["e"].adjacency.source, mask

    features, source, mask = pad(graph)

    assert features.numpy().tolist() == [1, 2, 3, 4, 0]
    assert source.numpy().tolist() == [0, 0, 0, 4]
    assert mask.numpy().tolist() == [True, True, False]


REFUSED = [
    (constraints(1, 9, 9, 9), "already has more graph components"),
    (constraints(3, 3, 5, 4), "Could not pad <a> as it already has more nodes"),
    (constraints(3, 5, 5, 2), "Could not pad <e> as it already has more edges"),
    (constraints(2, 5, 4, 3), "Could not pad <a> nodes. To do this, at least one graph component must be added"),
    (constraints(2, 4, 4, 4), "Could not pad <e> edges. To do this, at least one graph component must be added"),
    (constraints(3, 4, 5, 4), "Could not create fake incident edges for the node set a"),
    (constraints(3, 5, 4, 4), "Could not create fake incident edges for the node set latent"),
    (constraints(3, 9, 9, 4, {"a": 3}), "Some graph components has fewer <a> than it is allowed"),
    (
        constraints(4, 5, 9, 4, {"a": 1}),
        "at least (1|the required number of) nodes should be added to each fake component",
    ),
]


@either_way
@pytest.mark.parametrize(("sizes", "message"), REFUSED)
def test_a_graph_that_does_not_fit_is_refused(call, sizes, message):
    graph = make_graph()

    assert not call(satisfies_size_constraints, graph, sizes)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(pad_to_total_sizes, graph, sizes)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        assert_satisfies_size_constraints(graph, sizes)


@either_way
@pytest.mark.parametrize(
    "sizes",
    [constraints(2, 4, 4, 3), constraints(3, 4, 4, 3), constraints(3, 5, 5, 4), constraints(4, 6, 4, 3, {"a": 1})],
)
def test_a_graph_that_fits_satisfies(call, sizes):
    assert call(satisfies_size_constraints, make_graph(), sizes)


def test_sizes_are_compared_in_a_function_whose_constraints_are_static(run):
    sizes = constraints(4, 5, 9, 4, {"a": 1})

    assert run(lambda graph: satisfies_size_constraints(graph, constraints(4, 6, 4, 3, {"a": 1})), make_graph())
    assert not run(lambda graph: satisfies_size_constraints(graph, sizes), make_graph())
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least 1 nodes should be added to each fake"):
        run(lambda graph: pad_to_total_sizes(graph, sizes)[1], make_graph())


@pytest.mark.parametrize(
    ("sizes", "fits"),
    [
        (constraints(6, 12, 12, 9), True),
        (constraints(6, 12, 12, 10), False),
        (constraints(7, 13, 13, 10), True),
        (constraints(7, 13, 13, 10, {"a": 3}), False),
        (constraints(7, 14, 13, 10, {"a": 2}), True),
    ],
)
@pytest.mark.parametrize("row_lengths", ["uniform", "ragged"])
def test_a_batch_is_judged_by_its_sums(sizes, fits, row_lengths):
    graph = make_graph()
    batch = tf.data.Dataset.from_tensors(graph).repeat(3)
    if row_lengths == "ragged":
        relaxed = graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)
        batch = tf.data.Dataset.from_generator(lambda: iter([graph] * 3), output_signature=relaxed)
    batch = batch.batch(3).get_single_element()

    assert bool(satisfies_total_sizes(batch, sizes)) is fits
    if fits:
        assert assert_satisfies_total_sizes(batch, sizes) == []


def test_static_answers_are_constants():
    graph = make_graph().replace_features(node_sets={"latent": {"x": tf.zeros([4])}})
    answers = []

    @tf.function(input_signature=[graph.spec])
    def trace(graph):
        possible = satisfies_total_sizes(graph, constraints(2, 4, 4, 3))
        impossible = satisfies_total_sizes(graph, constraints(1, 4, 4, 3))
        answers.extend([tf.get_static_value(possible), tf.get_static_value(impossible)])
        with pytest.raises(tf.errors.InvalidArgumentError, match="more graph components"):
            assert_satisfies_total_sizes(graph, constraints(1, 4, 4, 3))
        return 0

    trace(graph)

    assert answers == [True, False]


@pytest.mark.parametrize("components", [0, 1])
def test_a_static_number_of_components_that_is_too_large_is_found_while_tracing(components):
    graph = make_graph()
    relaxed = graph.spec.relax(num_nodes=True, num_edges=True)
    sizes = constraints(components, 9, 9, 9)

    @tf.function(input_signature=[relaxed])
    def trace(graph):
        assert tf.get_static_value(satisfies_total_sizes(graph, sizes)) == np.False_
        with pytest.raises(tf.errors.InvalidArgumentError, match="more graph components"):
            pad_to_total_sizes(graph, sizes)
        return 0

    trace(graph)


def test_the_predicate_filters_a_dataset():
    graphs = tf.data.Dataset.from_tensors(make_graph()).repeat(2)

    kept = graphs.filter(lambda graph: satisfies_total_sizes(graph, total_sizes=constraints(3, 5, 5, 4)))
    skipped = graphs.filter(lambda graph: satisfies_total_sizes(graph, total_sizes=constraints(3, 4, 5, 4)))

    assert len(list(kept)) == 2
    assert list(skipped) == []


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (SizeConstraints(3, {"a": 5}, {"e": 4}), r"total number of <latent> nodes must be specified"),
        (SizeConstraints(3, {"a": 5, "latent": 5}, {}), r"total number of <e> edges must be specified"),
    ],
)
def test_constraints_must_name_every_set(sizes, message):
    with pytest.raises(ValueError, match=message):
        satisfies_size_constraints(make_graph(), sizes)
    with pytest.raises(ValueError, match=message):
        pad_to_total_sizes(make_graph(), sizes, validate=False)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (FeatureDefaultValues(context={"q": 7}), ValueError, r"got \['q'\] for context"),
        (FeatureDefaultValues(node_sets={"q": {"x": 7}}), ValueError, "got node set 'q'"),
        (FeatureDefaultValues(edge_sets={"e": {"q": 7}}), ValueError, r"got \['q'\] for edge set 'e'"),
        (FeatureDefaultValues(node_sets={"a": {"x": [7]}}), ValueError, r"must be scalar, got shape=\(1,\)"),
        (FeatureDefaultValues(node_sets={"a": {"x": 7.5}}), TypeError, "7.5"),
    ],
)
def test_bad_padding_values_are_refused(values, error, message):
    with pytest.raises(error, match=message):
        pad_to_total_sizes(make_graph(), constraints(3, 5, 5, 4), padding_values=values)


def test_a_batch_of_graphs_cannot_be_padded():
    batch = tf.data.Dataset.from_tensors(make_graph()).batch(1).get_single_element()

    with pytest.raises(ValueError, match=r"pad_to_total_sizes\(\) requires a scalar GraphTensor"):
        pad_to_total_sizes(batch, constraints(3, 5, 5, 4))


@settings(max_examples=20)
@given(data=st.data(), room=st.tuples(*[st.integers(-1, 4)] * 6), minimum=st.integers(0, 2))
def test_agrees_with_the_oracle(oracle, plain, graph_plans, *, data, room, minimum):
    plan = data.draw(graph_plans())

    def results(library):
        graph = plan.build(library)
        sizes = library.SizeConstraints(
            len(plan.node_sizes["a"]) + room[0],
            {"a": sum(plan.node_sizes["a"]) + room[1], "b": sum(plan.node_sizes["b"]) + room[2]},
            {name: sum(plan.edge_sizes[name]) + room[3 + i] for i, name in enumerate(plan.edge_sizes)},
            {"b": minimum},
        )
        fits = bool(library.satisfies_total_sizes(graph, sizes))
        return fits, plain(library.pad_to_total_sizes(graph, sizes)) if fits else None

    assert results(tfx_gnn.graph) == results(oracle)


@settings(max_examples=15)
@given(data=st.data(), batch_size=st.integers(1, 3), minimum=st.integers(0, 2))
def test_the_largest_sizes_with_room_for_padding_fit_every_batch(graph_plans, *, data, batch_size, minimum):
    num_components = data.draw(st.integers(1, 2))
    plans = data.draw(
        st.lists(
            graph_plans(min_components=num_components, max_components=num_components, min_nodes=2),
            min_size=1,
            max_size=2,
        )
    )
    largest = SizeConstraints(
        batch_size * num_components,
        {name: batch_size * max(sum(plan.node_sizes[name]) for plan in plans) for name in ("a", "b")},
        {name: batch_size * max(sum(plan.edge_sizes[name]) for plan in plans) for name in ("ab", "ba", "aa")},
        {"b": minimum},
    )
    sizes = with_room_for_padding(largest, padded_incident_node_sets="ab")

    for plan in plans:
        for num_graphs in range(1, batch_size + 1):
            graphs = tf.data.Dataset.from_tensors(plan.build(tfx_gnn.graph)).repeat(num_graphs)
            merged = graphs.batch(num_graphs).get_single_element().merge_batch_to_components()
            padded, mask = pad_to_total_sizes(merged, sizes)
            assert padded.spec.total_num_components == sizes.total_num_components
            assert int(tf.reduce_sum(tf.cast(mask, tf.int32))) == num_graphs * len(plan.node_sizes["a"])
