import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.codec.example_parsing import parse_and_merge, parse_example, parse_single_example
from tfx_gnn.graph.tensor.adjacency import AdjacencySpec
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, EdgeSetSpec, NodeSetSpec

SIZE = tf.TensorSpec([1], tf.int32)


def make_example(**features):
    """Serializes features given as lists, under keys like `nodes_a__x` for `nodes/a.x`."""
    proto = tf.train.Example()
    for name, values in features.items():
        feature = proto.features.feature[key_of(name)]
        kind = {float: feature.float_list, int: feature.int64_list, str: feature.bytes_list}
        for value in values:
            kind[type(value)].value.append(value.encode() if isinstance(value, str) else value)
    return proto.SerializeToString()


def key_of(name):
    set_type, _, rest = name.partition("_")
    return f"{set_type}/{rest.replace('__', '.').replace('_size', '#size').replace('_source', '#source')}".replace(
        "_target", "#target"
    )


def make_spec(node_features=None, edge_features=None, context_features=None, sizes=SIZE):
    return GraphTensorSpec.from_piece_specs(
        ContextSpec.from_field_specs(features_spec=context_features, sizes_spec=sizes),
        {
            "a": NodeSetSpec.from_field_specs(features_spec=node_features, sizes_spec=sizes),
            "b": NodeSetSpec.from_field_specs(sizes_spec=sizes),
        },
        {
            "e": EdgeSetSpec.from_field_specs(
                features_spec=edge_features,
                sizes_spec=sizes,
                adjacency_spec=AdjacencySpec.from_incident_node_sets("a", "b"),
            )
        },
    )


SPEC = make_spec(
    {"x": tf.TensorSpec([None, 2]), "id": tf.TensorSpec([None], tf.string), "r": tf.RaggedTensorSpec([None, None])},
    {"w": tf.TensorSpec([None])},
    {"y": tf.TensorSpec([1], tf.int64)},
)
FIRST = {
    "context_y": [7],
    "nodes_a___size": [2],
    "nodes_a__x": [1.0, 2.0, 3.0, 4.0],
    "nodes_a__id": ["p", "q"],
    "nodes_a__r": [0.5],
    "nodes_a__r.d1": [0, 1],
    "nodes_b___size": [1],
    "edges_e___size": [3],
    "edges_e___source": [0, 1, 1],
    "edges_e___target": [0, 0, 0],
    "edges_e__w": [1.0, 2.0, 3.0],
}
SECOND = {
    "context_y": [8],
    "nodes_a___size": [1],
    "nodes_a__x": [5.0, 6.0],
    "nodes_a__id": ["r"],
    "nodes_a__r": [1.5, 2.5],
    "nodes_a__r.d1": [2],
    "nodes_b___size": [2],
    "edges_e___size": [1],
    "edges_e___source": [0],
    "edges_e___target": [1],
    "edges_e__w": [4.0],
}
EMPTY = {"context_y": [9]}
BATCH = [make_example(**example) for example in (FIRST, SECOND, EMPTY)]


def parse_in_dataset(parse, serialized, spec, **options):
    dataset = tf.data.Dataset.from_tensors(serialized).map(lambda batch: parse(spec, batch, **options))
    return next(iter(dataset))


@functools.cache
def traced_parser(parse):
    return tf.function(lambda serialized: parse(SPEC, serialized), input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.fixture(params=["eager", "in a dataset"])
def call(request):
    if request.param == "eager":
        return lambda parse, serialized, spec, **options: parse(spec, serialized, **options)
    return parse_in_dataset


def test_a_batch_is_read(call):
    graph = call(parse_example, tf.constant(BATCH), SPEC)

    nodes, edges = graph.node_sets["a"], graph.edge_sets["e"]
    assert graph.shape == [3]
    assert graph.context["y"].numpy().tolist() == [[7], [8], [9]]
    assert nodes.sizes.numpy().tolist() == [[2], [1], [0]]
    assert nodes["x"].to_list() == [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], []]
    assert nodes["id"].to_list() == [[b"p", b"q"], [b"r"], []]
    assert nodes["r"].to_list() == [[[], [0.5]], [[1.5, 2.5]], []]
    assert edges["w"].to_list() == [[1.0, 2.0, 3.0], [4.0], []]
    assert edges.adjacency.source.to_list() == [[0, 1, 1], [0], []]
    assert edges.adjacency.target.to_list() == [[0, 0, 0], [1], []]
    assert graph.spec == SPEC._batch(3)


def test_a_single_graph_is_read(call):
    graph = call(parse_single_example, tf.constant(BATCH[1]), SPEC)

    assert graph.shape == []
    assert graph.context["y"].numpy().tolist() == [8]
    assert graph.node_sets["a"]["x"].numpy().tolist() == [[5.0, 6.0]]
    assert graph.node_sets["a"]["r"].to_list() == [[1.5, 2.5]]
    assert graph.edge_sets["e"].adjacency.target.numpy().tolist() == [1]
    assert SPEC.is_compatible_with(graph)


def test_a_batch_is_read_straight_into_one_graph(call):
    graph = call(parse_and_merge, tf.constant(BATCH), SPEC)

    assert graph.shape == []
    assert graph.context["y"].numpy().tolist() == [7, 8, 9]
    assert graph.node_sets["a"].sizes.numpy().tolist() == [2, 1, 0]
    assert graph.node_sets["a"]["x"].numpy().tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert graph.node_sets["a"]["r"].to_list() == [[], [0.5], [1.5, 2.5]]
    assert graph.edge_sets["e"].adjacency.source.numpy().tolist() == [0, 1, 1, 2]
    assert graph.edge_sets["e"].adjacency.target.numpy().tolist() == [0, 0, 0, 2]


@pytest.mark.parametrize("num_examples", [None, 0, 3])
def test_merging_while_reading_has_the_static_shapes_of_merging_afterwards(num_examples):
    @tf.function(input_signature=[tf.TensorSpec([num_examples], tf.string)])
    def parse(serialized):
        fused = parse_and_merge(SPEC, serialized)
        batched = parse_example(SPEC, serialized)
        return fused, batched, batched.merge_batch_to_components()

    fused, batched, merged = parse.get_concrete_function().structured_outputs

    assert fused.spec == merged.spec
    assert batched.spec == SPEC._batch(num_examples)
    assert fused.spec.total_num_components == num_examples


def test_reading_and_batching_can_be_swapped():
    examples = tf.data.Dataset.from_tensor_slices(BATCH)

    batch_first = examples.batch(3, drop_remainder=True).map(lambda batch: parse_example(SPEC, batch))
    parse_first = examples.map(lambda single: parse_single_example(SPEC, single)).batch(3, drop_remainder=True)

    assert batch_first.element_spec == parse_first.element_spec
    for one, other in zip(batch_first, parse_first, strict=True):
        for left, right in zip(
            *(tf.nest.flatten(graph, expand_composites=True) for graph in (one, other)), strict=True
        ):
            np.testing.assert_array_equal(left, right)


def test_no_examples_are_a_batch(call):
    serialized = tf.constant([], tf.string)

    assert call(parse_example, serialized, SPEC).node_sets["a"]["x"].shape.as_list() == [0, None, 2]
    assert call(parse_and_merge, serialized, SPEC).node_sets["a"]["x"].shape == [0, 2]
    assert call(parse_and_merge, serialized, SPEC).edge_sets["e"].adjacency.source.shape == [0]


def test_a_prefix_tells_graphs_of_one_example_apart(call):
    proto = tf.train.Example.FromString(BATCH[1])
    prefixed = tf.train.Example()
    for key, feature in proto.features.feature.items():
        prefixed.features.feature[f"query/{key}"].CopyFrom(feature)

    graph = call(parse_and_merge, tf.constant([prefixed.SerializeToString()]), SPEC, prefix="query/")

    assert graph.node_sets["a"]["id"].numpy().tolist() == [b"r"]


@pytest.mark.parametrize(
    ("dtype", "stored", "expected"),
    [
        (tf.bool, [0, 1, -5], [False, True, True]),
        (tf.int8, [-128, 0, 127], [-128, 0, 127]),
        (tf.uint8, [0, 255], [0, 255]),
        (tf.int32, [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
        (tf.uint64, [-1, 0], [2**64 - 1, 0]),
        (tf.float64, [0.5, 1.5], [0.5, 1.5]),
        (tf.bfloat16, [0.5], [0.5]),
        (tf.half, [0.5], [0.5]),
        (tf.string, ["a", ""], [b"a", b""]),
    ],
)
@pytest.mark.parametrize("static", [True, False])
def test_values_are_cast_to_the_dtype_of_the_spec(dtype, stored, expected, static):
    spec = make_spec({"x": tf.TensorSpec([len(stored) if static else None], dtype)})
    example = make_example(nodes_a___size=[len(stored)], nodes_a__x=stored)

    feature = parse_single_example(spec, tf.constant(example)).node_sets["a"]["x"]

    assert feature.dtype == dtype
    assert feature.numpy().tolist() == expected


@pytest.mark.parametrize("dtype", [tf.complex64, tf.qint8, tf.variant])
def test_dtypes_that_examples_cannot_hold_are_refused(dtype):
    with pytest.raises(TypeError, match=r"Unsupported type .* of field 'nodes/a.x'"):
        parse_example(make_spec({"x": tf.TensorSpec([None], dtype)}), tf.constant(BATCH))


RAGGED = [
    # Shape, values, row lengths by dimension, result for two items.
    ([None, None], [1.0, 2.0], {1: [2, 0]}, [[1.0, 2.0], []]),
    ([None, 2, None], [1.0, 2.0], {2: [0, 1, 1, 0]}, [[[], [1.0]], [[2.0], []]]),
    ([None, None, 2], [1.0, 2.0], {1: [0, 1]}, [[], [[1.0, 2.0]]]),
    ([None, None, None], [1.0, 2.0, 3.0], {1: [1, 2], 2: [0, 2, 1]}, [[[]], [[1.0, 2.0], [3.0]]]),
    ([None, None, 2, None], [1.0], {1: [0, 1], 3: [0, 1]}, [[], [[[], [1.0]]]]),
    ([2, None], [1.0], {1: [0, 1]}, [[], [1.0]]),
    ([2, None, 0], [], {1: [0, 1]}, [[], [[]]]),
    ([None, 0, None], [], {2: []}, [[], []]),
    ([None, 0], [], {}, [[], []]),
]


def make_ragged(shape, values, lengths):
    """A spec with such a feature, and two items with it, serialized."""
    ragged_rank = max(lengths, default=0)
    field = tf.RaggedTensorSpec(shape, ragged_rank=ragged_rank) if lengths else tf.TensorSpec(shape)
    spec = make_spec({"x": field})
    features = {"nodes_a___size": [2], "nodes_a__x": values}
    features.update({f"nodes_a__x.d{dimension}": row for dimension, row in lengths.items()})
    return spec, make_example(**features)


def as_list(value):
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


@pytest.mark.parametrize(("shape", "values", "lengths", "expected"), RAGGED)
def test_ragged_dimensions_come_from_row_lengths(shape, values, lengths, expected):
    spec, example = make_ragged(shape, values, lengths)

    batched = parse_example(spec, tf.constant([example] * 2))
    merged = parse_and_merge(spec, tf.constant([example] * 2))
    single = parse_single_example(spec, tf.constant(example))

    assert as_list(batched.node_sets["a"]["x"]) == [expected] * 2
    assert as_list(merged.node_sets["a"]["x"]) == expected * 2
    assert as_list(single.node_sets["a"]["x"]) == expected
    assert batched.spec == spec._batch(2)


@pytest.mark.parametrize(
    ("case", "parse"), list(zip(RAGGED, itertools.cycle([parse_example, parse_and_merge, parse_single_example])))
)
def test_ragged_dimensions_come_from_row_lengths_in_a_dataset(case, parse):
    shape, values, lengths, expected = case
    spec, example = make_ragged(shape, values, lengths)
    is_single = parse is parse_single_example

    graph = parse_in_dataset(parse, tf.constant(example if is_single else [example] * 2), spec)

    results = {parse_example: [expected] * 2, parse_and_merge: expected * 2, parse_single_example: expected}
    assert as_list(graph.node_sets["a"]["x"]) == results[parse]
    assert parse is not parse_example or graph.spec == spec._batch(2)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_dtypes_of_indices_and_row_splits_are_those_of_the_spec(call, dtype):
    spec = SPEC.with_indices_dtype(dtype).with_row_splits_dtype(dtype)

    for parse in (parse_example, parse_and_merge):
        graph = call(parse, tf.constant(BATCH), spec)
        assert graph.indices_dtype == graph.edge_sets["e"].adjacency.source.dtype == dtype
        assert graph.row_splits_dtype == graph.node_sets["a"]["r"].row_splits.dtype == dtype


VARIABLE = make_spec(
    {"x": tf.TensorSpec([None])}, None, {"y": tf.TensorSpec([None])}, sizes=tf.TensorSpec([None], tf.int32)
)


def test_the_number_of_components_may_vary(call):
    two = make_example(
        context_y=[1.0, 2.0],
        nodes_a___size=[1, 2],
        nodes_a__x=[1.0, 2.0, 3.0],
        nodes_b___size=[0, 1],
        edges_e___size=[0, 1],
        edges_e___source=[2],
        edges_e___target=[0],
    )
    serialized = tf.constant([two, b"", two])

    batched = call(parse_example, serialized, VARIABLE)
    merged = call(parse_and_merge, serialized, VARIABLE)

    assert batched.num_components.numpy().tolist() == [2, 0, 2]
    assert batched.context["y"].to_list() == [[1.0, 2.0], [], [1.0, 2.0]]
    assert batched.node_sets["a"].sizes.to_list() == [[1, 2], [], [1, 2]]
    assert merged.node_sets["a"].sizes.numpy().tolist() == [1, 2, 1, 2]
    assert merged.edge_sets["e"].adjacency.source.numpy().tolist() == [2, 5]
    assert merged.edge_sets["e"].adjacency.target.numpy().tolist() == [0, 1]


def test_a_context_may_stand_alone(call):
    features = {"y": tf.TensorSpec([None, 2]), "r": tf.RaggedTensorSpec([None, None])}
    spec = GraphTensorSpec.from_piece_specs(ContextSpec.from_field_specs(features_spec=features))
    example = make_example(**{"context_y": [1.0, 2.0, 3.0, 4.0], "context_r": [5.0], "context_r.d1": [1, 0]})

    graph = call(parse_and_merge, tf.constant([example, b""]), spec)

    assert graph.context["y"].numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert graph.context["r"].to_list() == [[5.0], []]
    assert graph.total_num_components.numpy() == 2


def test_all_sizes_may_be_static(call):
    spec = GraphTensorSpec.from_piece_specs(
        node_sets_spec={
            "a": NodeSetSpec.from_field_specs(
                features_spec={"x": tf.TensorSpec([3, 2])}, sizes_spec=tf.TensorSpec([2], tf.int32)
            )
        },
        edge_sets_spec={
            "e": EdgeSetSpec.from_field_specs(
                sizes_spec=tf.TensorSpec([2], tf.int32),
                adjacency_spec=AdjacencySpec.from_incident_node_sets("a", "a", tf.TensorSpec([1], tf.int32)),
            )
        },
    )
    example = make_example(
        nodes_a___size=[1, 2],
        nodes_a__x=[float(i) for i in range(6)],
        edges_e___size=[0, 1],
        edges_e___source=[1],
        edges_e___target=[2],
    )

    merged = call(parse_and_merge, tf.constant([example] * 2), spec)

    assert merged.spec.node_sets_spec["a"].total_size == 6
    assert merged.spec.edge_sets_spec["e"].total_size == 2
    assert merged.node_sets["a"].sizes.numpy().tolist() == [1, 2, 1, 2]
    assert merged.edge_sets["e"].adjacency.target.numpy().tolist() == [2, 5]
    assert call(parse_example, tf.constant([example] * 2), spec).spec == spec._batch(2)


PARSERS = [parse_example, parse_and_merge]


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"nodes_a___size": [3]}, "nodes/a.x"),
        ({"nodes_a___size": []}, r"nodes/a.#size|nodes/a.x"),
        ({"nodes_a___size": [-1]}, "nodes/a.#size"),
        ({"nodes_b___size": [2**31]}, "nodes/b.#size"),
        ({"nodes_b___size": [2**63 - 1]}, "nodes/b.#size"),
        ({"nodes_a___size": [1, 1]}, "nodes/a.#size"),
        ({"nodes_a___size": ["2"]}, "nodes/a.#size"),
        ({"nodes_a__x": [1.0, 2.0, 3.0]}, "nodes/a.x"),
        ({"nodes_a__x": []}, "nodes/a.x"),
        ({"nodes_a__x": [1, 2, 3, 4]}, "nodes/a.x"),
        ({"nodes_a__id": ["p"]}, "nodes/a.id"),
        ({"nodes_a__r.d1": [1]}, "nodes/a.r.d1"),
        ({"nodes_a__r.d1": [1, 1]}, "nodes/a.r"),
        ({"nodes_a__r.d1": [2, -1]}, "nodes/a.r.d1"),
        ({"nodes_a__r.d1": []}, "nodes/a.r.d1"),
        ({"edges_e___source": [0, 1]}, "edges/e.#source"),
        ({"edges_e___source": [0, 1, 2]}, "edges/e.#source"),
        ({"edges_e___target": [0, 1, 0]}, "edges/e.#target"),
        ({"edges_e___target": [0, -1, 0]}, "edges/e.#target"),
        ({"edges_e___target": [0, 2**32, 0]}, "edges/e.#target"),
        ({"edges_e__w": [1.0]}, "edges/e.w"),
        ({"context_y": []}, "context/y"),
        ({"context_y": [1, 2]}, "context/y"),
    ],
)
def test_wrong_examples_are_refused_with_the_key(parse, change, key):
    serialized = tf.constant([BATCH[1], make_example(**{**FIRST, **change})])

    with pytest.raises(tf.errors.InvalidArgumentError, match=key):
        parse(SPEC, serialized)
    with pytest.raises(tf.errors.InvalidArgumentError, match=key):
        traced_parser(parse)(serialized)


def test_a_dataset_refuses_wrong_examples():
    wrong = make_example(**{**FIRST, "edges_e___target": [0, 1, 0]})

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"edges/e.#target"):
        parse_in_dataset(parse_and_merge, tf.constant([wrong]), SPEC)


@pytest.mark.parametrize("parse", PARSERS)
def test_the_example_of_the_batch_is_named(parse):
    wrong_count = make_example(**{**FIRST, "nodes_a__id": ["p"]})
    wrong_index = make_example(**{**FIRST, "edges_e___source": [0, 9, 0]})

    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"got another number in feature 'nodes/a.id' of example 1 of the batch",
    ):
        parse(SPEC, tf.constant([BATCH[0], wrong_count]))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"must hold node indices in \[0, number of nodes\); got 9 in feature 'edges/e.#source' of example 2 "
        "of the batch",
    ):
        parse(SPEC, tf.constant([BATCH[0], BATCH[1], wrong_index]))


def test_sizes_must_also_fit_when_they_are_added_up(call):
    spec = GraphTensorSpec.from_piece_specs(node_sets_spec={"a": NodeSetSpec.from_field_specs(sizes_spec=SIZE)})
    large = make_example(nodes_a___size=[2**31 - 1])

    assert call(parse_and_merge, tf.constant([large]), spec).node_sets["a"].sizes.numpy().tolist() == [2**31 - 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"whose sum is at most.*nodes/a.#size"):
        call(parse_and_merge, tf.constant([large, large]), spec)
    wide = spec.with_indices_dtype(tf.int64)
    assert call(parse_and_merge, tf.constant([large, large]), wide).node_sets["a"].total_size.numpy() == 2**32 - 2


@pytest.mark.parametrize("parse", PARSERS)
def test_sets_must_agree_on_the_number_of_components(call, parse):
    example = make_example(nodes_a___size=[0, 0], nodes_b___size=[0], edges_e___size=[0, 0])

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"nodes/b.#size"):
        call(parse, tf.constant([example]), VARIABLE)


def test_garbage_is_no_example(call):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse example input, value: 'garbage'"):
        call(parse_and_merge, tf.constant([BATCH[0], b"garbage"]), SPEC)


def test_garbage_that_is_no_text_is_no_example_either():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must hold tf\.Example protos"):
        parse_and_merge(SPEC, tf.constant([b"\x0a\xff\xbf"]))


def test_checks_can_be_left_out(call):
    wrong = make_example(**{**FIRST, "edges_e___source": [0, 9, 0]})

    graph = call(parse_example, tf.constant([wrong]), SPEC, validate=False)

    assert graph.edge_sets["e"].adjacency.source.to_list() == [[0, 9, 0]]


DEFAULTS = {"nodes/a.x": 0.25, "nodes/a.id": b"?", "edges/e.w": -1.0, "context/y": 5}


@pytest.mark.parametrize("parse", PARSERS)
def test_absent_features_take_their_default(call, parse):
    lacking = {key: value for key, value in FIRST.items() if key not in ("context_y", "nodes_a__id", "nodes_a__x")}
    serialized = tf.constant([BATCH[1], make_example(**lacking), BATCH[2]])

    graph = call(parse, serialized, SPEC, default_values=DEFAULTS)

    if graph.rank:
        graph = graph.merge_batch_to_components()
    assert graph.context["y"].numpy().tolist() == [8, 5, 9]
    assert graph.node_sets["a"]["id"].numpy().tolist() == [b"r", b"?", b"?"]
    assert graph.node_sets["a"]["x"].numpy().tolist() == [[5.0, 6.0], [0.25, 0.25], [0.25, 0.25]]
    assert graph.edge_sets["e"]["w"].numpy().tolist() == [4.0, 1.0, 2.0, 3.0]


def test_a_default_may_have_the_shape_of_an_item(call):
    lacking = make_example(**{key: value for key, value in FIRST.items() if key != "nodes_a__x"})

    graph = call(parse_and_merge, tf.constant([lacking]), SPEC, default_values={"nodes/a.x": [1.0, 2.0]})

    assert graph.node_sets["a"]["x"].numpy().tolist() == [[1.0, 2.0], [1.0, 2.0]]


def test_features_that_are_there_in_part_are_refused_with_a_default_too(call):
    wrong = make_example(**{**FIRST, "nodes_a__id": ["p"]})

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"nodes/a.id"):
        call(parse_and_merge, tf.constant([wrong]), SPEC, default_values=DEFAULTS)


def test_a_string_of_unknown_rank_is_one_example():
    dataset = tf.data.Dataset.range(1).map(lambda _: tf.py_function(lambda: BATCH[0], [], tf.string))

    (graph,) = dataset.map(lambda serialized: parse_single_example(SPEC, serialized))

    assert graph.shape == []
    assert graph.context["y"].numpy().tolist() == FIRST["context_y"]


@pytest.mark.parametrize(
    ("default_values", "message"),
    [
        ({"nodes/a.z": 1}, "`default_values` must name features of the graph; got 'nodes/a.z'. Known are"),
        ({"nodes/a.r": 1.0}, r"`default_values\['nodes/a.r'\]` must be for a feature without ragged dimensions"),
        ({"nodes/a.x": [1.0, 2.0, 3.0]}, r"must be a float32 value of shape \[2\] or a scalar"),
        ({"nodes/a.x": "one"}, "must be a float32 value"),
        ({"nodes/a.id": 1}, "must be a string value"),
        ({"context/y": 1.5}, "must be a int64 value"),
    ],
)
def test_impossible_defaults_are_refused(default_values, message):
    with pytest.raises(ValueError, match=message):
        parse_example(SPEC, tf.constant(BATCH), default_values=default_values)


@pytest.mark.parametrize(("dtype", "value"), [(tf.float16, 1e6), (tf.float64, 1e300)])
def test_defaults_that_would_be_infinite_are_refused(dtype, value):
    spec = make_spec({"h": tf.TensorSpec([None], dtype)})

    with pytest.raises(ValueError, match=rf"must be a {dtype.name} that a tf.Example can hold, at most .*; got"):
        parse_example(spec, tf.constant([b""]), default_values={"nodes/a.h": value})


def test_defaults_that_do_not_fit_their_dtype_are_refused():
    spec = make_spec({"n": tf.TensorSpec([None], tf.int32)})

    with pytest.raises(ValueError, match=r"`default_values\['nodes/a.n'\]` must be a int32, in \[-2147483648, "):
        parse_example(spec, tf.constant([b""]), default_values={"nodes/a.n": 2**40})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: parse_example(SPEC, tf.constant(b"")), ValueError, "`serialized` must be a vector, of rank=1"),
        (lambda: parse_and_merge(SPEC, tf.constant(b"")), ValueError, "`serialized` must be a vector, of rank=1"),
        (lambda: parse_single_example(SPEC, tf.constant([b""])), ValueError, "`serialized` must be a scalar"),
        (lambda: parse_example(SPEC._batch(2), tf.constant(BATCH)), ValueError, "must be the spec of the scalar graph"),
        (lambda: parse_example("spec", tf.constant(BATCH)), TypeError, "`spec` must be a GraphTensorSpec; got str"),
        (
            lambda: parse_example(make_spec({"x": tf.TensorSpec([None, None])}), tf.constant(BATCH)),
            ValueError,
            r"must have static non-leading dimensions; got shape=\(None, None\) of 'nodes/a.x'",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_the_checks_are_part_of_a_saved_model(tmp_path):
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def total(serialized):
        graph = parse_and_merge(SPEC, serialized)
        return tf.reduce_sum(graph.node_sets["a"]["x"])

    module.total = total
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))

    assert loaded.total(tf.constant(BATCH)).numpy() == 21.0
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"nodes/a.id"):
        loaded.total(tf.constant([make_example(**{**FIRST, "nodes_a__id": ["p"]})]))
