import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.graph.tensor import run_time_checks as validation_mode
from tfx_gnn.graph.tensor.adjacency import Adjacency, AdjacencySpec, HyperAdjacency, HyperAdjacencySpec


@pytest.fixture
def runtime_checks():
    validation_mode.enable_graph_tensor_validation_at_runtime()
    yield
    validation_mode.disable_graph_tensor_validation_at_runtime()


def test_ends_are_found_by_name_and_by_tag():
    adjacency = Adjacency.from_indices(("paper", [0, 2]), ("author", [1, 1]))

    assert adjacency.source.numpy().tolist() == [0, 2]
    assert adjacency[TARGET].numpy().tolist() == [1, 1]
    assert (adjacency.source_name, adjacency.target_name) == ("paper", "author")
    assert adjacency.node_set_name(SOURCE) == "paper"
    assert adjacency.spec == AdjacencySpec.from_incident_node_sets("paper", "author", tf.TensorSpec([2], tf.int32))
    assert adjacency.spec.total_size == 2
    assert repr(adjacency) == (
        "Adjacency(source=('paper', <tf.Tensor: shape=(2,), dtype=tf.int32>), "
        "target=('author', <tf.Tensor: shape=(2,), dtype=tf.int32>))"
    )


def test_hyper_edges_have_any_tags():
    adjacency = HyperAdjacency.from_indices({0: ("a", [1]), 1: ("b", [2]), 7: ("a", [0])})

    indices = adjacency.get_indices_dict()

    assert {tag: (name, index.numpy().tolist()) for tag, (name, index) in indices.items()} == {
        0: ("a", [1]),
        1: ("b", [2]),
        7: ("a", [0]),
    }
    assert adjacency.spec.get_index_specs_dict()[7] == ("a", tf.TensorSpec([1], tf.int32))
    with pytest.raises(KeyError):
        adjacency[3]
    with pytest.raises(KeyError):
        adjacency.spec.node_set_name(3)


def test_ends_are_ordered_by_tag():
    adjacency = HyperAdjacency.from_indices({11: ("a", [1]), 2: ("b", [2])})

    assert list(adjacency.get_indices_dict()) == [2, 11]


def test_mixed_index_dtypes_become_int64_where_checks_are_off():
    ends = ("a", np.array([0])), ("a", tf.constant([0], tf.int32))

    with pytest.raises(ValueError, match=r"\(0, a\) and \(1, a\) must have the same dtype; got int64 and int32"):
        Adjacency.from_indices(*ends)
    validation_mode.disable_graph_tensor_validation()
    try:
        adjacency = Adjacency.from_indices(*ends)
    finally:
        validation_mode.enable_graph_tensor_validation()

    assert adjacency.indices_dtype == tf.int64
    assert adjacency.target.dtype == tf.int64


def test_mixed_row_splits_become_int64():
    narrow = tf.ragged.constant([[0], [0, 1]], row_splits_dtype=tf.int32)
    wide = tf.ragged.constant([[0], [0, 1]], row_splits_dtype=tf.int64)

    mixed = Adjacency.from_indices(("a", narrow), ("a", wide))

    assert mixed.row_splits_dtype == mixed.source.row_splits.dtype == tf.int64
    assert Adjacency.from_indices(("a", narrow), ("a", narrow)).row_splits_dtype == tf.int32


def test_edges_of_no_graph_are_edges():
    adjacency = Adjacency.from_indices(("a", tf.zeros([0], tf.int32)), ("a", tf.zeros([0], tf.int32)))

    assert adjacency.spec.total_size == 0


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ([0, 1], [0], r"Adjacency indices are not compatible: \(0, a\) and \(1, b\)"),
        (
            tf.ragged.constant([[0], [1]]),
            [[0], [1]],
            r"Adjacency indices are not compatible: \(0, a\) and \(1, b\) must be both dense, or both ragged",
        ),
        (
            tf.ragged.constant([[[0]], [[1], [0]]], ragged_rank=1),
            tf.ragged.constant([[[0]], [[1], [0]]], ragged_rank=1),
            r"Adjacency indices \(0, a\) as ragged tensor must have flat values rank 1; got 2",
        ),
        ([0.5], [0], r"Adjacency indices \(0, a\) must have tf.int32 or tf.int64 dtype; got <dtype: 'float32'>"),
        (0, 0, "Field rank must be greater than the batch rank"),
    ],
)
def test_indices_that_cannot_be_edges_are_refused(source, target, message):
    with pytest.raises(ValueError, match=message):
        Adjacency.from_indices(("a", source), ("b", target))


def test_tags_are_integers():
    with pytest.raises(ValueError, match="Node set tag must be integer; got 'source'"):
        HyperAdjacency.from_indices({"source": ("a", [0])})
    with pytest.raises(ValueError, match=r"Node set tag must be integer; got 1\.5"):
        HyperAdjacencySpec.from_incident_node_sets({1.5: "a"})
    adjacency = HyperAdjacency.from_indices({0: ("a", [0])})
    for look_up in (adjacency.__getitem__, adjacency.node_set_name, adjacency.spec.__getitem__):
        with pytest.raises(ValueError, match="Node set tag must be integer; got '0'"):
            look_up("0")


def test_edges_have_ends():
    with pytest.raises(ValueError, match="`indices` must contain at least one entry"):
        HyperAdjacency.from_indices({})
    with pytest.raises(ValueError, match="`indices` must contain at least one entry"):
        HyperAdjacencySpec.from_incident_node_sets({})


def test_what_has_no_name_is_refused():
    with pytest.raises(TypeError, match="Positional arguments are not supported"):
        Adjacency.from_indices(("a", [0]), ("b", [0]), "b")
    with pytest.raises(TypeError, match="Positional arguments are not supported"):
        HyperAdjacency.from_indices({0: ("a", [0])}, "b")


def test_ragged_ends_are_compared_at_run_time(runtime_checks):
    source, target = tf.ragged.constant([[0], [0, 1]]), tf.ragged.constant([[0], [0]])

    with pytest.raises(ValueError, match=r"\(0, a\) and \(1, b\)"):
        Adjacency.from_indices(("a", source), ("b", target))
    Adjacency.from_indices(("a", source), ("b", target), validate=False)


def test_ragged_ends_are_compared_on_demand():
    source, target = tf.ragged.constant([[0], [0, 1]]), tf.ragged.constant([[0], [0]])

    @tf.function(input_signature=[source._type_spec, target._type_spec])
    def num_sources(source, target):
        return tf.size(Adjacency.from_indices(("a", source), ("b", target), validate=True).source)

    with pytest.raises(ValueError, match="must have the same number of edges in each graph"):
        Adjacency.from_indices(("a", source), ("b", target), validate=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have the same number of edges in each graph"):
        num_sources(source, target)
    assert num_sources(source, source) == 3


def test_merging_shifts_indices_by_the_nodes_of_earlier_graphs(run):
    ragged = tf.ragged.constant([[0, 1], [], [2]], dtype=tf.int32)
    dense = tf.constant([[0, 1], [1, 0], [2, 2]])

    def merge(source, target):
        ends = (HyperAdjacency.from_indices({0: ("a", end)}) for end in (source, target))
        return [end.merge_batch({"a": tf.constant([0, 2, 4])})[0] for end in ends]

    merged = run(merge, ragged, dense)

    assert merged[0].numpy().tolist() == [0, 1, 6]
    assert merged[1].numpy().tolist() == [0, 1, 3, 2, 6, 6]


def test_merging_works_for_two_batch_dimensions(run):
    index = tf.ragged.constant([[[0], [1, 1]], [[0, 2], []]], dtype=tf.int32)

    def merge(index):
        return Adjacency.from_indices(("a", index), ("a", index)).merge_batch({"a": tf.constant([0, 1, 3, 6])}).source

    assert run(merge, index).numpy().tolist() == [0, 2, 2, 3, 5]


def test_relaxed_specs_forget_the_number_of_edges():
    spec = AdjacencySpec.from_incident_node_sets("a", "b", tf.TensorSpec([3], tf.int64))

    assert spec.relax() == spec
    assert spec.relax(num_edges=True).source == tf.TensorSpec([None], tf.int64)
    assert spec.relax(num_edges=True).total_size is None
    with pytest.raises(ValueError, match=r"requires a scalar Adjacency, .* `Adjacency\.rank=0`, but got `rank=1`"):
        spec._batch(2).relax(num_edges=True)
