import functools
import itertools

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.graph.batching.padding import pad_to_total_sizes
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.codec import batch_packing
from tfx_gnn.graph.codec.batch_packing import pack_batches
from tfx_gnn.graph.codec.example_parsing import parse_merge_and_pad
from tfx_gnn.graph.tensor.adjacency import Adjacency, AdjacencySpec
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, EdgeSetSpec, NodeSetSpec
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet


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


SIZES = [(1 + i % 4, (5 * i) % 7) for i in range(23)]
CONSTRAINTS = budget(4, 9, 12)


@functools.cache
def packed_graphs():
    return pack_batches(graphs(*SIZES), CONSTRAINTS, window=4)


def test_every_batch_pads_to_the_budget():
    batches = list(packed_graphs())

    assert sorted(itertools.chain(*names(batches))) == list(range(23))
    for graph in batches:
        padded, mask = pad_to_total_sizes(graph.merge_batch_to_components(), CONSTRAINTS)
        assert padded.node_sets["a"].total_size.numpy() == 9
        assert mask.numpy().tolist().count(True) == graph.shape[0]


def test_packing_is_the_same_in_each_pass():
    assert names(packed_graphs()) == names(packed_graphs())


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


SIZE = tf.TensorSpec([1], tf.int32)
SPEC = GraphTensorSpec.from_piece_specs(
    ContextSpec.from_field_specs(features_spec={"name": tf.TensorSpec([1], tf.int64)}, sizes_spec=SIZE),
    {"a": NodeSetSpec.from_field_specs(features_spec={"x": tf.TensorSpec([None])}, sizes_spec=SIZE)},
    {
        "e": EdgeSetSpec.from_field_specs(
            sizes_spec=SIZE, adjacency_spec=AdjacencySpec.from_incident_node_sets("a", "a")
        )
    },
)


def examples(*sizes, prefix=""):
    """The same graphs as `graphs`, serialized."""
    records = []
    for name, (num_nodes, num_edges) in enumerate(sizes):
        example = tf.train.Example()
        for key, values in {
            "context/name": [name],
            "nodes/a.#size": [num_nodes],
            "nodes/a.x": [0.5] * num_nodes,
            "edges/e.#size": [num_edges],
            "edges/e.#source": [0] * num_edges,
            "edges/e.#target": [0] * num_edges,
        }.items():
            feature = example.features.feature[f"{prefix}{key}"]
            (feature.float_list if key.endswith("x") else feature.int64_list).value.extend(values)
        records.append(example.SerializeToString())
    return tf.data.Dataset.from_tensor_slices(tf.constant(records, tf.string, shape=[len(records)]))


def names_of_examples(batches):
    return [
        [tf.train.Example.FromString(record).features.feature["context/name"].int64_list.value[0] for record in batch]
        for batch in batches.as_numpy_iterator()
    ]


@functools.cache
def packed_examples():
    return pack_batches(examples(*SIZES), CONSTRAINTS, window=4, spec=SPEC)


def test_serialized_graphs_are_packed_as_graphs_are():
    packed = packed_examples()

    assert packed.element_spec == tf.TensorSpec([None], tf.string)
    parsed = packed.map(lambda batch: parse_merge_and_pad(SPEC, batch, CONSTRAINTS))
    by_graph = names(packed_graphs())
    assert [tf.boolean_mask(graph.context["name"], is_real).numpy().tolist() for graph, is_real in parsed] == by_graph


# Packing is traced once for each of the limits, not for each list of sizes.
_drawn = []


@functools.cache
def _packed_by(limits):
    records = tf.data.Dataset.from_generator(lambda: iter(_drawn), output_signature=tf.TensorSpec([], tf.string))
    return pack_batches(records, budget(*limits), window=3, spec=SPEC)


@settings(max_examples=8)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=30),
    st.sampled_from([(2, 6, 5), (5, 12, 12), (4, 7, 11)]),
)
def test_no_graph_is_lost_and_every_batch_fits(sizes, limits):
    _drawn[:] = list(examples(*sizes).as_numpy_iterator())

    batches = names_of_examples(_packed_by(limits))

    assert sorted(itertools.chain(*batches)) == list(range(len(sizes)))
    for batch in batches:
        num_nodes, num_edges = (sum(sizes[name][kind] for name in batch) for kind in (0, 1))
        # What is not full has a component of padding, with a node if that has edges.
        is_full = (num_nodes, num_edges) == limits[1:]
        assert len(batch) <= limits[0]
        assert num_nodes <= limits[1]
        assert num_edges <= limits[2]
        assert is_full or len(batch) < limits[0]
        assert num_nodes < limits[1] or num_edges == limits[2]


@pytest.mark.parametrize("chunk_size", [1, 5])
def test_no_graph_is_lost_between_the_steps_of_packing(monkeypatch, chunk_size):
    monkeypatch.setattr(batch_packing, "_MIN_EXAMPLES", chunk_size)

    packed = pack_batches(examples(*SIZES), CONSTRAINTS, window=1, spec=SPEC)

    # A window of one graph leaves no choice, so that the order shows what came when.
    assert list(itertools.chain(*names_of_examples(packed))) == list(range(len(SIZES)))


def test_packing_serialized_graphs_is_the_same_in_each_pass():
    dataset = packed_examples()

    assert [batch.tolist() for batch in dataset.as_numpy_iterator()] == [
        batch.tolist() for batch in dataset.as_numpy_iterator()
    ]


def test_keys_of_serialized_graphs_may_have_a_prefix():
    dataset = pack_batches(examples(*SIZES[:5], prefix="q/"), budget(9, 30, 30), spec=SPEC, prefix="q/")

    assert [batch.shape for batch in dataset.as_numpy_iterator()] == [(5,)]


def test_a_serialized_graph_that_never_fits_is_refused():
    dataset = pack_batches(examples((1, 0), (9, 1)), budget(3, 6, 5), window=2, spec=SPEC)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"does not fit even alone.*nodes/a.*1 9 1.*3 6 5"):
        list(dataset)


def test_serialized_graphs_that_never_fit_go_to_the_callback():
    seen = tf.Variable(0)

    def count(serialized):
        seen.assign_add(tf.cast(tf.strings.length(serialized) > 0, tf.int32))

    dataset = pack_batches(
        examples((1, 0), (9, 1), (2, 2), (1, 9)), budget(3, 6, 5), window=2, spec=SPEC, on_oversized=count
    )

    assert [batch.shape for batch in dataset.as_numpy_iterator()] == [(2,)]
    assert seen.numpy() == 2


def test_graphs_of_any_number_of_components_are_measured():
    relaxed = SPEC.relax(num_components=True)

    dataset = pack_batches(examples(*SIZES), budget(4, 9, 12, a=1), window=4, spec=relaxed)

    assert sum(len(batch) for batch in dataset.as_numpy_iterator()) == len(SIZES)


def test_a_spec_goes_with_serialized_graphs_only():
    with pytest.raises(ValueError, match=r"`dataset` must hold serialized tf\.Examples"):
        pack_batches(graphs((1, 1)), budget(3, 6, 5), spec=SPEC)
