import pytest
import tensorflow as tf

from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.graph.tensor.adjacency import Adjacency, AdjacencySpec
from tfx_gnn.graph.tensor.sorted_adjacency import SortedAdjacency, SortedAdjacencySpec


@pytest.fixture
def adjacency():
    return SortedAdjacency.from_indices(("a", [2, 0, 2]), ("b", [0, 1, 1]))


def test_edges_are_known_in_the_order_of_either_end(adjacency):
    senders, targets = adjacency.in_order_of(TARGET)
    receivers, sources = adjacency.in_order_of(SOURCE)

    assert (senders.numpy().tolist(), targets.numpy().tolist()) == ([2, 0, 2], [0, 1, 1])
    assert (receivers.numpy().tolist(), sources.numpy().tolist()) == ([1, 0, 1], [0, 2, 2])
    assert adjacency.order_by_source.numpy().tolist() == [1, 0, 2]


def test_it_is_an_adjacency_with_two_ends(adjacency):
    assert isinstance(adjacency, Adjacency)
    assert (adjacency.source_name, adjacency.target_name) == ("a", "b")
    assert sorted(adjacency.get_indices_dict()) == [SOURCE, TARGET]
    assert adjacency.get_indices_dict()[SOURCE][1].numpy().tolist() == [2, 0, 2]
    assert repr(adjacency).startswith("SortedAdjacency(source=('a', ")


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_edges_that_are_not_in_order_are_refused(wrap):
    make = wrap(lambda target: SortedAdjacency.from_indices(("a", [0, 0]), ("b", target)).target)

    with pytest.raises(tf.errors.InvalidArgumentError, match="must hold indices in ascending order"):
        make(tf.constant([1, 0]))


def test_bad_indices_are_refused():
    with pytest.raises(ValueError, match="must be vectors, of one graph"):
        SortedAdjacency.from_indices(("a", [[0]]), ("b", [[0]]))
    with pytest.raises(ValueError, match=r"must have tf.int32 or tf.int64 dtype; got .*float"):
        SortedAdjacency.from_indices(("a", [0.0]), ("b", [0.0]))
    with pytest.raises(ValueError, match="Adjacency indices are not compatible"):
        SortedAdjacency.from_indices(("a", [0]), ("b", [0, 1]))
    with pytest.raises(TypeError, match="Positional arguments"):
        SortedAdjacency.from_indices(("a", [0]), ("b", [0]), "c")


def test_dtypes_are_cast_in_all_orders(adjacency):
    cast = adjacency.with_indices_dtype(tf.int64)

    assert isinstance(cast, SortedAdjacency)
    assert {part.dtype for part in tf.nest.flatten(cast, expand_composites=True)} == {tf.int64}
    assert cast.spec == adjacency.spec.with_indices_dtype(tf.int64)


def test_the_spec_describes_the_value_and_can_be_relaxed(adjacency):
    spec = SortedAdjacencySpec.from_incident_node_sets("a", "b", tf.TensorSpec([3], tf.int32))

    relaxed = adjacency.spec.relax(num_edges=True)

    assert adjacency.spec == spec
    assert spec.total_size == 3
    assert relaxed == SortedAdjacencySpec.from_incident_node_sets("a", "b")
    assert {part.shape.as_list()[0] for part in tf.nest.flatten(relaxed, expand_composites=True)} == {None}
    assert relaxed.is_compatible_with(adjacency)
    assert spec.without_order() == adjacency.without_order().spec


def test_the_order_can_be_dropped(adjacency):
    plain = adjacency.without_order()

    assert type(plain) is Adjacency
    assert plain.spec == AdjacencySpec.from_incident_node_sets("a", "b", tf.TensorSpec([3], tf.int32))
    assert plain.source.numpy().tolist() == [2, 0, 2]


def test_a_batch_that_is_merged_is_an_ordinary_adjacency(adjacency):
    other = SortedAdjacency.from_indices(("a", [1]), ("b", [0]))
    graphs = [adjacency, other]
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(graphs), output_signature=SortedAdjacencySpec.from_incident_node_sets("a", "b")
    )

    batch = dataset.batch(2).get_single_element()
    merged = batch.merge_batch({"a": tf.constant([0, 3]), "b": tf.constant([0, 2])})
    apart = list(dataset.batch(2).unbatch())

    assert isinstance(batch, SortedAdjacency)
    assert batch.in_order_of(SOURCE)[1].to_list() == [[0, 2, 2], [1]]
    assert type(merged) is Adjacency
    assert merged.source.numpy().tolist() == [2, 0, 2, 4]
    assert merged.target.numpy().tolist() == [0, 1, 1, 2]
    assert [piece.order_by_source.numpy().tolist() for piece in apart] == [[1, 0, 2], [0]]


def test_tf_nest_keeps_the_order(adjacency):
    copy = tf.nest.map_structure(tf.identity, adjacency, expand_composites=True)

    assert isinstance(copy, SortedAdjacency)
    assert copy.in_order_of(SOURCE)[0].numpy().tolist() == [1, 0, 1]
