"""Graphs that are padded while they are parsed, held against padding them afterwards."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.graph.batching.padding import FeatureDefaultValues, pad_to_total_sizes
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.codec.example_parsing import parse_and_merge, parse_merge_and_pad
from tfx_gnn.graph.tensor.adjacency import AdjacencySpec
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, EdgeSetSpec, NodeSetSpec

SIZE = tf.TensorSpec([1], tf.int32)
SPEC = GraphTensorSpec.from_piece_specs(
    ContextSpec.from_field_specs(
        features_spec={
            "y": tf.TensorSpec([1], tf.int64),
            "v": tf.TensorSpec([1, 2]),
            "r": tf.RaggedTensorSpec([1, None]),
        },
        sizes_spec=SIZE,
    ),
    {
        "a": NodeSetSpec.from_field_specs(
            features_spec={
                "x": tf.TensorSpec([None, 2]),
                "id": tf.TensorSpec([None], tf.string),
                "r": tf.RaggedTensorSpec([None, None]),
                "nothing": tf.TensorSpec([None, 0]),
                "flag": tf.TensorSpec([None], tf.bool),
            },
            sizes_spec=SIZE,
        ),
        "b": NodeSetSpec.from_field_specs(sizes_spec=SIZE),
    },
    {
        "e": EdgeSetSpec.from_field_specs(
            features_spec={"w": tf.TensorSpec([None])},
            sizes_spec=SIZE,
            adjacency_spec=AdjacencySpec.from_incident_node_sets("a", "b"),
        ),
        "back": EdgeSetSpec.from_field_specs(
            sizes_spec=SIZE, adjacency_spec=AdjacencySpec.from_incident_node_sets("b", "a")
        ),
    },
)
PADDING_VALUES = FeatureDefaultValues(
    context={"y": -1}, node_sets={"a": {"x": 9.5, "id": "none"}}, edge_sets={"e": {"w": -2.0}}
)


def make_example(num_a, num_b, num_edges, num_back, *, label=7, **changes):
    """A graph of given sizes, whose values count up."""
    rows = [i % 3 for i in range(num_a)]
    features = {
        "context/y": [label],
        "context/v": [0.5, 1.5],
        "context/r": [1.0] * (label % 3),
        "context/r.d1": [label % 3],
        "nodes/a.#size": [num_a],
        "nodes/a.x": [float(i) for i in range(2 * num_a)],
        "nodes/a.id": [b"%d" % i for i in range(num_a)],
        "nodes/a.r": [float(i) for i in range(sum(rows))],
        "nodes/a.r.d1": rows,
        "nodes/a.flag": [i % 2 for i in range(num_a)],
        "nodes/b.#size": [num_b],
        "edges/e.#size": [num_edges],
        "edges/e.#source": [i % num_a for i in range(num_edges)],
        "edges/e.#target": [i % num_b for i in range(num_edges)],
        "edges/e.w": [float(i) for i in range(num_edges)],
        "edges/back.#size": [num_back],
        "edges/back.#source": [i % num_b for i in range(num_back)],
        "edges/back.#target": [i % num_a for i in range(num_back)],
        **changes,
    }
    example = tf.train.Example()
    for key, values in features.items():
        feature = example.features.feature[key]
        for value in values:
            kind = {float: feature.float_list, int: feature.int64_list, bytes: feature.bytes_list}[type(value)]
            kind.value.append(value)
    return example.SerializeToString()


BATCH = [make_example(2, 1, 3, 0), make_example(1, 2, 1, 2), make_example(3, 3, 0, 1)]
ROOM = SizeConstraints(4, {"a": 9, "b": 8}, {"e": 9, "back": 5})


def of_any_number(function):
    """Traces a function for any number of examples, as for packed batches, and as it is written."""
    return tf.function(function, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)


WAYS = {"eager": lambda function: function, "traced": tf.function, "any number": of_any_number}


def _caller(wrap):
    return lambda function, serialized: wrap(function)(tf.constant(serialized))


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def call(request):
    return _caller(request.param)


def in_two_ways(name, values):
    """Gives each value for any number of examples, and either eagerly or in a function for their number."""
    cases = {
        f"{way}-{number}": (_caller(WAYS[way]), *(value if isinstance(value, tuple) else (value,)))
        for number, value in enumerate(values)
        for way in ("any number", ("eager", "traced")[number % 2])
    }
    return pytest.mark.parametrize(name, cases.values(), ids=cases)


def fields(graph):
    """All fields of a graph but its node indices, as lists."""
    pieces = {"context": graph.context, **graph.node_sets, **graph.edge_sets}
    described = {(name, "sizes"): piece.sizes for name, piece in pieces.items()}
    described |= {(name, key): value for name, piece in pieces.items() for key, value in piece.features.items()}
    return {
        key: value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()
        for key, value in described.items()
    }


def indices(graph):
    return {
        (name, tag): index.numpy()
        for name, edge_set in graph.edge_sets.items()
        for tag, (_, index) in edge_set.adjacency.get_indices_dict().items()
    }


def check_against_padding_afterwards(serialized, constraints, spec=SPEC, wrap=lambda function: function, **options):
    graph, mask = wrap(lambda records: parse_merge_and_pad(spec, records, constraints, **options))(serialized)
    merged = parse_and_merge(spec, serialized)
    wanted, wanted_mask = pad_to_total_sizes(merged, constraints, **options)

    assert fields(graph) == fields(wanted)
    assert mask.numpy().tolist() == wanted_mask.numpy().tolist()
    assert graph.spec == wanted.spec
    for (name, tag), index in indices(graph).items():
        num_real = int(merged.edge_sets[name].total_size)
        end = merged.edge_sets[name].adjacency.node_set_name(tag)
        first, total = int(merged.node_sets[end].total_size), int(wanted.node_sets[end].total_size)
        fake = index[num_real:]
        assert index[:num_real].tolist() == indices(merged)[name, tag].tolist()
        assert (np.diff(fake) >= 0).all()
        assert ((first <= fake) & (fake < total)).all()
        # No node gets two edges more than another.
        counts = np.bincount(fake - first, minlength=total - first)
        assert len(fake) == 0 or counts.max() - counts.min() <= 1


@pytest.mark.parametrize("wrap", [lambda function: function, of_any_number], ids=["eager", "any number"])
def test_padding_is_the_same_as_afterwards(wrap):
    check_against_padding_afterwards(tf.constant(BATCH), ROOM, wrap=wrap)
    check_against_padding_afterwards(tf.constant(BATCH), ROOM, wrap=wrap, padding_values=PADDING_VALUES)
    check_against_padding_afterwards(tf.constant(BATCH), ROOM, wrap=wrap, spec=SPEC.with_indices_dtype(tf.int64))


def test_a_padded_graph_by_hand(call):
    graph, mask = call(lambda serialized: parse_merge_and_pad(SPEC, serialized, ROOM), BATCH)

    assert mask.numpy().tolist() == [True, True, True, False]
    assert graph.node_sets["a"].sizes.numpy().tolist() == [2, 1, 3, 3]
    assert graph.node_sets["a"]["id"].numpy().tolist() == [b"0", b"1", b"0", b"0", b"1", b"2", b"", b"", b""]
    assert graph.context["y"].numpy().tolist() == [7, 7, 7, 0]
    assert graph.edge_sets["e"].sizes.numpy().tolist() == [3, 1, 0, 5]
    # Three nodes are padding in set "a" (6, 7, 8), two in "b" (6, 7).
    assert graph.edge_sets["e"].adjacency.source.numpy().tolist() == [0, 1, 0, 2, 6, 6, 7, 7, 8]
    assert graph.edge_sets["e"].adjacency.target.numpy().tolist() == [0, 0, 0, 1, 6, 6, 6, 7, 7]
    assert graph.edge_sets["back"].adjacency.source.numpy().tolist() == [1, 2, 3, 6, 7]


def test_each_padding_component_gets_what_is_demanded(call):
    constraints = SizeConstraints(6, {"a": 12, "b": 9}, {"e": 9, "back": 5}, {"a": 1, "b": 1})

    graph, mask = call(lambda serialized: parse_merge_and_pad(SPEC, serialized, constraints), BATCH)

    assert graph.node_sets["a"].sizes.numpy().tolist() == [2, 1, 3, 4, 1, 1]
    assert mask.numpy().tolist() == [True, True, True, False, False, False]
    check_against_padding_afterwards(tf.constant(BATCH), constraints)


def test_a_graph_that_fills_its_room_gets_an_empty_component():
    exact = SizeConstraints(4, {"a": 6, "b": 6}, {"e": 4, "back": 3})

    check_against_padding_afterwards(tf.constant(BATCH), exact)
    check_against_padding_afterwards(tf.constant(BATCH), exact, wrap=of_any_number)


def test_a_graph_that_fills_all_components_gets_none():
    exact = SizeConstraints(3, {"a": 6, "b": 6}, {"e": 4, "back": 3}, {"a": 1})

    check_against_padding_afterwards(tf.constant(BATCH), exact)
    check_against_padding_afterwards(tf.constant(BATCH), exact, wrap=of_any_number)


PLENTY = SizeConstraints(5, {"a": 20, "b": 17}, {"e": 16, "back": 18}, {"a": 1})
pad_to_plenty = of_any_number(lambda serialized: parse_merge_and_pad(SPEC, serialized, PLENTY))


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(*[st.integers(1, 4)] * 4), min_size=1, max_size=4))
def test_batches_of_varying_number_are_padded_by_one_function(sizes):
    serialized = tf.constant([make_example(*size) for size in sizes])

    check_against_padding_afterwards(serialized, PLENTY, wrap=lambda _: pad_to_plenty)


def test_no_operation_of_padding_afterwards_is_traced_for_any_number():
    traced = of_any_number(lambda serialized: parse_merge_and_pad(SPEC, serialized, ROOM)).get_concrete_function()

    wanted, _ = pad_to_total_sizes(parse_and_merge(SPEC, tf.constant(BATCH)), ROOM)
    # Padding edges are those of RaggedRange, which only the fast way has.
    assert "RaggedRange" in {operation.type for operation in traced.graph.get_operations()}
    assert traced.structured_outputs[0].spec == wanted.spec


@settings(max_examples=8)
@given(st.lists(st.tuples(*[st.integers(1, 4)] * 4), min_size=1, max_size=4), st.tuples(*[st.integers(0, 40)] * 4))
def test_padding_edges_are_spread_evenly(sizes, more):
    serialized = tf.constant([make_example(*size) for size in sizes])
    totals = np.sum(sizes, axis=0)
    # Where edges are to be added, so are nodes.
    more = np.maximum(more, [1, 1, 0, 0])
    a, b, edges, back = (totals + more).tolist()

    constraints = SizeConstraints(len(sizes) + 1, {"a": a, "b": b}, {"e": edges, "back": back})
    check_against_padding_afterwards(serialized, constraints)


@in_two_ways(
    ("call", "constraints", "message"),
    [
        (ROOM._replace(total_num_nodes={"a": 5, "b": 8}), "Could not pad <a> as it already has more nodes"),
        (ROOM._replace(total_num_edges={"e": 9, "back": 2}), "Could not pad <back> as it already has more edges"),
        (
            ROOM._replace(total_num_nodes={"a": 6, "b": 8}),
            "Could not create fake incident edges for the node set a",
        ),
        (
            ROOM._replace(min_nodes_per_component={"b": 2}),
            r"Some graph components have fewer <b> nodes than it is required .*min_nodes_per_component",
        ),
        (
            ROOM._replace(total_num_components=9, min_nodes_per_component={"a": 1}),
            "Could not pad <a> as it already has more nodes",
        ),
        (
            ROOM._replace(total_num_components=2),
            "Could not pad graph as it already has more graph components",
        ),
        (
            ROOM._replace(total_num_components=3, total_num_edges={"e": 9, "back": 3}),
            "at least one graph component must be added",
        ),
    ],
)
def test_graphs_that_do_not_fit_are_refused(call, constraints, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(lambda serialized: parse_merge_and_pad(SPEC, serialized, constraints), BATCH)


@in_two_ways(
    ("call", "wrong"),
    [
        make_example(1, 1, 1, 1, **{"nodes/a.#size": [2]}),
        make_example(1, 1, 1, 1, **{"nodes/a.#size": [2**31]}),
        make_example(1, 1, 1, 1, **{"edges/e.#source": [1]}),
        make_example(1, 1, 1, 1, **{"edges/e.#source": [-1]}),
        make_example(1, 1, 1, 1, **{"edges/e.#source": [2**32]}),
    ],
)
def test_wrong_examples_are_refused(call, wrong):
    with pytest.raises(tf.errors.InvalidArgumentError, match="`serialized` must hold"):
        call(lambda serialized: parse_merge_and_pad(SPEC, serialized, ROOM), [BATCH[0], wrong])


def test_features_that_examples_lack_get_default_values():
    example = make_example(2, 1, 0, 0, **{"nodes/a.id": []})

    graph, _ = parse_merge_and_pad(
        SPEC, tf.constant([example, BATCH[1]]), ROOM, default_values={"nodes/a.id": b"?"}, padding_values=PADDING_VALUES
    )

    assert graph.node_sets["a"]["id"].numpy().tolist()[:5] == [b"?", b"?", b"0", b"none", b"none"]


def test_sizes_that_are_not_static_are_padded_afterwards():
    constraints = ROOM._replace(total_num_components=tf.constant(4))
    parse = of_any_number(lambda serialized: parse_merge_and_pad(SPEC, serialized, constraints))

    graph, mask = parse(tf.constant(BATCH))

    wanted, _ = pad_to_total_sizes(parse_and_merge(SPEC, tf.constant(BATCH)), constraints)
    assert fields(graph) == fields(wanted)
    assert mask.numpy().tolist() == [True, True, True, False]


def test_a_budget_that_lacks_a_set_is_refused():
    with pytest.raises(ValueError, match="<b> nodes must be specified"):
        parse_merge_and_pad(SPEC, tf.constant(BATCH), ROOM._replace(total_num_nodes={"a": 9}))
    with pytest.raises(ValueError, match="must name features of the graph"):
        parse_merge_and_pad(SPEC, tf.constant(BATCH), ROOM, padding_values=FeatureDefaultValues(context={"z": 1}))
