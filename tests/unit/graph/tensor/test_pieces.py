"""Contexts, node sets and edge sets: what they share is tested once for all."""

import functools
import re

import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor import run_time_checks as validation_mode
from tfx_gnn.graph.tensor.adjacency import Adjacency, AdjacencySpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, EdgeSetSpec, NodeSetSpec
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet


@pytest.fixture
def runtime_checks():
    validation_mode.enable_graph_tensor_validation_at_runtime()
    yield
    validation_mode.disable_graph_tensor_validation_at_runtime()


def edge_set(sizes, index, features=None):
    adjacency = Adjacency.from_indices(("a", index), ("a", index))
    return EdgeSet.from_fields(features=features, sizes=sizes, adjacency=adjacency)


def test_features_and_sizes_are_kept():
    nodes = NodeSet.from_fields(features={"x": [1.0, 2.0, 3.0]}, sizes=[2, 1])

    assert nodes["x"].numpy().tolist() == [1.0, 2.0, 3.0]
    assert dict(nodes.features).keys() == {"x"}
    assert nodes.sizes.numpy().tolist() == [2, 1]
    assert nodes.shape == []
    assert nodes.rank == 0
    assert repr(nodes) == "NodeSet(features={'x': <tf.Tensor: shape=(3,), dtype=tf.float32>}, sizes=[2 1])"
    with pytest.raises(KeyError):
        nodes["y"]


def test_a_dict_of_features_is_free_to_be_changed():
    nodes = NodeSet.from_fields(features={"x": [1.0]}, sizes=[1])

    features = nodes.get_features_dict()
    del features["x"]

    assert "x" in nodes.features


@pytest.mark.parametrize(
    ("sizes", "num_components", "total_num_components", "total_size"),
    [
        ([], 0, 0, 0),
        ([4, 0, 1], 3, 3, 5),
        ([[4, 0], [1, 1]], [2, 2], 4, 6),
        (tf.ragged.constant([[4], [], [1, 2]], dtype=tf.int32), [1, 0, 2], 3, 7),
        ([[[1], [2]]], [[1, 1]], 2, 3),
    ],
)
def test_components_and_items_are_counted(run, sizes, num_components, total_num_components, total_size):
    sizes = tf.constant(sizes, tf.int32) if isinstance(sizes, list) else sizes

    def count(sizes):
        nodes = NodeSet.from_fields(sizes=sizes)
        return nodes.num_components, nodes.total_num_components, nodes.total_size

    counts = run(count, sizes)

    assert [count.numpy().tolist() for count in counts] == [num_components, total_num_components, total_size]
    assert {count.dtype for count in counts} == {tf.int32}


@pytest.mark.parametrize(
    ("features_spec", "sizes_shape", "total_size", "total_num_components"),
    [
        ({}, [1], None, 1),
        ({"x": tf.TensorSpec([None, 4])}, [None], None, None),
        ({"x": tf.TensorSpec([5, 4])}, [2], 5, 2),
        ({"x": tf.RaggedTensorSpec([5, None])}, [2], 5, 2),
        ({"x": tf.TensorSpec([2, 5])}, [2, 1], 10, 2),
        ({"x": tf.RaggedTensorSpec([2, 5, None])}, [2, 1], 10, 2),
        ({"x": tf.RaggedTensorSpec([2, None])}, [2, 1], None, 2),
        ({"x": tf.TensorSpec([None, 5])}, [None, 1], None, None),
    ],
)
def test_static_counts_are_derived(features_spec, sizes_shape, total_size, total_num_components):
    spec = NodeSetSpec.from_field_specs(features_spec=features_spec, sizes_spec=tf.TensorSpec(sizes_shape, tf.int32))

    assert spec.total_size == total_size
    assert spec.total_num_components == total_num_components


def test_edges_without_features_are_counted_by_their_ends():
    spec = EdgeSetSpec.from_field_specs(
        sizes_spec=tf.TensorSpec([1], tf.int32),
        adjacency_spec=AdjacencySpec.from_incident_node_sets("a", "a", tf.TensorSpec([4], tf.int32)),
    )

    assert spec.total_size == 4


def test_static_sizes_become_constants_in_functions():
    @tf.function
    def count(nodes):
        return tf.get_static_value(nodes.total_size), tf.get_static_value(nodes.total_num_components)

    nodes = NodeSet.from_fields(features={"x": tf.zeros([3, 2])}, sizes=[1, 2])

    assert [int(value) for value in count(nodes)] == [3, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NodeSet.from_fields(sizes=3), "Field rank must be greater than the batch rank"),
        (lambda: NodeSet.from_fields(sizes=[3.0]), "`sizes` dtype must be int32 or int64; got <dtype: 'float32'>"),
        (
            lambda: NodeSet.from_fields(sizes=[2], features={"x": [1, 2], "y": [1, 2, 3]}),
            r'Features "x" and "y" have shapes with incompatible items dimension \(dim=0\): 2 != 3\.',
        ),
        (
            lambda: NodeSet.from_fields(sizes=[[2], [2]], features={"x": [1, 2]}),
            r"Field rank must be greater than the batch rank: field shape=\(2,\), batch_rank=1",
        ),
        (
            lambda: NodeSet.from_fields(sizes=[[2], [2]], features={"x": [[1, 2]] * 3}),
            "Fields batch dimensions do not match",
        ),
        (
            lambda: NodeSet.from_fields(sizes=[[1]], features={"x": [[1, 2]], "y": [[1]]}),
            r"incompatible items dimension \(dim=1\): 2 != 1",
        ),
        (
            lambda: edge_set([2], [0, 0, 0], {"w": [1, 2]}),
            '"end 0" and "w" have shapes with incompatible items dimension',
        ),
        (lambda: Context.from_fields(features={"x": 1}), "Field rank must be greater than the batch rank"),
        (
            lambda: Context.from_fields(sizes=[1], shape=[1]),
            "`sizes` must have one dimension more than `shape`",
        ),
        (
            lambda: NodeSetSpec.from_field_specs(sizes_spec=tf.TensorSpec([1], tf.float32)),
            "`sizes_spec` dtype must be int32 or int64",
        ),
        (
            lambda: ContextSpec.from_field_specs(features_spec={"x": tf.TensorSpec([])}),
            "Field rank must be greater than the batch rank",
        ),
    ],
)
def test_fields_that_do_not_fit_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Context.from_fields(features={"a": [1, 2], "b": [1, 2, 3]}),
            'Features "a" and "b" have shapes with incompatible items dimension (dim=0): 2 != 3.',
        ),
        (
            lambda: NodeSet.from_fields(sizes=[[3]], features={"a": [1]}),
            "Field rank must be greater than the batch rank: field shape=(1,), batch_rank=1",
        ),
        (
            lambda: NodeSet.from_fields(sizes=[[3], [2]], features={"x": [[1, 2]]}),
            "Fields batch dimensions do not match: batch_rank=1, 1st field shape: (1, 2), 2nd field shape: (2, 1)",
        ),
        (
            lambda: EdgeSet.from_fields(sizes=3, adjacency=Adjacency.from_indices(("a", [0]), ("a", [0]))),
            "Field rank must be greater than the batch rank: field shape=(), batch_rank=0",
        ),
    ],
)
def test_refusals_that_programs_read_are_worded_as_in_tf_gnn(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


@pytest.mark.parametrize(
    "make", [lambda: Context.from_fields(features=[1, 2]), lambda: NodeSet.from_fields(sizes=[1], features=["x"])]
)
def test_features_without_names_are_refused(make):
    with pytest.raises(TypeError, match="`features` must map names to values of all items; got a list"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: NodeSet.from_fields({"x": [1]}, sizes=[1]),
        lambda: Context.from_fields({"x": [1]}),
        lambda: EdgeSet.from_fields({}, sizes=[1], adjacency=Adjacency.from_indices(("a", [0]), ("a", [0]))),
    ],
)
def test_what_has_no_name_is_refused(make):
    with pytest.raises(TypeError, match="Positional arguments are not supported"):
        make()


def test_an_edge_set_needs_an_adjacency():
    with pytest.raises(TypeError, match="`adjacency` must be an Adjacency or HyperAdjacency; got tuple"):
        EdgeSet.from_fields(sizes=[1], adjacency=([0], [0]))
    with pytest.raises(TypeError, match="`adjacency_spec` must be an AdjacencySpec"):
        EdgeSetSpec.from_field_specs(sizes_spec=tf.TensorSpec([1], tf.int32), adjacency_spec="a->b")


@pytest.mark.parametrize(
    "make",
    [
        lambda: NodeSet.from_fields(sizes=[3], features={"x": [1, 2]}),
        lambda: NodeSet.from_fields(sizes=[[2], [1]], features={"x": tf.ragged.constant([[1], [1, 2]])}),
        lambda: Context.from_fields(sizes=[1], features={"x": [1, 2]}),
        lambda: NodeSet.from_fields(sizes=[2], features={"x": [1, 2]}).replace_features({"x": [1]}),
    ],
)
def test_items_that_the_sizes_do_not_count_are_found_at_run_time(runtime_checks, make):
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="The number of graph items for feature x is incompatible with piece `sizes`",
    ):
        make()


def test_edges_that_the_sizes_do_not_count_are_found_at_run_time(runtime_checks):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Adjacency has number of edges which is incompatible with EdgeSet `sizes`"
    ):
        edge_set([3], [0, 0])


def test_assertions_can_be_left_out(runtime_checks):
    nodes = NodeSet.from_fields(sizes=[3], features={"x": [1, 2]}, validate=False)

    assert nodes["x"].shape == [2]
    with pytest.raises(ValueError, match="incompatible items dimension"):
        NodeSet.from_fields(sizes=[3], features={"x": [1, 2], "y": [1]}, validate=False)


def test_assertions_are_made_on_demand():
    make = functools.partial(NodeSet.from_fields, sizes=[3], features={"x": [1, 2]})

    with pytest.raises(tf.errors.InvalidArgumentError, match="number of graph items for feature x is incompatible"):
        make(validate=True)
    assert make()["x"].shape == [2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Adjacency has number of edges which is incompatible"):
        EdgeSet.from_fields(
            sizes=[2],
            features={"w": [1.0, 2.0]},
            adjacency=Adjacency.from_indices(("a", [0]), ("a", [0])),
            validate=True,
        )


def test_no_checks_are_made_where_they_are_off_process_wide():
    validation_mode.disable_graph_tensor_validation()
    try:
        nodes = NodeSet.from_fields(sizes=[3], features={"x": [1, 2], "y": [1]}, validate=True)
    finally:
        validation_mode.enable_graph_tensor_validation()

    assert nodes["y"].shape == [1]


def test_sizes_of_a_context_are_cast_and_fit_the_batch_shape():
    context = Context.from_fields(sizes=[1, 1], indices_dtype=tf.int64)

    assert context.sizes.dtype == context.indices_dtype == tf.int64
    with pytest.raises(ValueError, match=r"The `sizes` .* `rank != shape.rank \+ 1`; got sizes.shape=\(1,\)"):
        Context.from_fields(sizes=[1], shape=[1])
    with pytest.raises(ValueError, match="The `sizes` is not compatible with the `shape`"):
        Context.from_fields(sizes=[[1]], shape=[2])


def test_the_least_ragged_feature_tells_the_number_of_components():
    ragged, dense = tf.ragged.constant([[1], [2]]), tf.constant([[3], [4]])

    context = Context.from_fields(features={"a": ragged, "b": dense}, shape=[2])
    spec = ContextSpec.from_field_specs(features_spec={"a": ragged._type_spec, "b": tf.TensorSpec([2, 1])}, shape=[2])

    assert context.sizes.shape == spec.sizes_spec.shape == [2, 1]
    assert context.spec.total_num_components == spec.total_num_components == 2


def test_features_are_replaced_all_together():
    nodes = NodeSet.from_fields(sizes=[2], features={"x": [1, 2], "y": [3, 4]})

    replaced = nodes.replace_features({"z": [5, 6]})

    assert list(replaced.features) == ["z"]
    assert replaced.sizes is nodes.sizes
    edges = edge_set([2], [0, 1], {"w": [1, 2]}).replace_features({})
    assert edges.adjacency.source.numpy().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, []),
        ({"features": {"x": [7, 8]}}, [1, 1]),
        ({"features": {"x": [[7, 8]]}, "shape": [1]}, [[1, 1]]),
        ({"features": {"x": tf.ragged.constant([[7], []])}}, [1, 1]),
        ({"features": {"x": tf.ragged.constant([[7], [8, 9]])}, "shape": [2]}, [[1], [1, 1]]),
        ({"shape": [2]}, [[], []]),
        ({"sizes": [1, 1, 1]}, [1, 1, 1]),
    ],
)
def test_components_of_a_context_come_from_its_features(arguments, expected):
    sizes = Context.from_fields(**arguments).sizes

    assert (sizes.to_list() if isinstance(sizes, tf.RaggedTensor) else sizes.numpy().tolist()) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, tf.TensorSpec([0], tf.int32)),
        ({"features_spec": {"x": tf.TensorSpec([None, 3])}}, tf.TensorSpec([None], tf.int32)),
        ({"features_spec": {"x": tf.RaggedTensorSpec([2, None])}}, tf.TensorSpec([2], tf.int32)),
        (
            {"features_spec": {"x": tf.RaggedTensorSpec([2, None])}, "shape": [2]},
            tf.RaggedTensorSpec([2, None], tf.int32),
        ),
        ({"shape": [None], "indices_dtype": tf.int64}, tf.TensorSpec([None, 0], tf.int64)),
    ],
)
def test_components_of_a_context_spec_come_from_its_features(arguments, expected):
    assert ContextSpec.from_field_specs(**arguments).sizes_spec == expected


def test_context_sizes_follow_features_without_static_shape():
    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.RaggedTensorSpec([None, None])])
    def count(dense, ragged):
        flat = Context.from_fields(features={"x": dense}).sizes
        batched = Context.from_fields(features={"x": ragged}, shape=[None]).sizes
        return flat, batched

    flat, batched = count(tf.ones([3, 2]), tf.ragged.constant([[1.0], []]))

    assert flat.numpy().tolist() == [1, 1, 1]
    assert batched.to_list() == [[1], []]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_dtypes_of_sizes_and_row_splits_can_be_changed(dtype):
    nodes = NodeSet.from_fields(sizes=[2], features={"r": tf.ragged.constant([[1], []]), "x": tf.constant([1, 2])})

    changed = nodes.with_indices_dtype(dtype).with_row_splits_dtype(dtype)

    assert changed.sizes.dtype == changed.indices_dtype == changed.spec.indices_dtype == dtype
    assert changed["r"].row_splits.dtype == changed.row_splits_dtype == dtype
    assert changed["x"].dtype == tf.int32
    assert nodes.spec.with_indices_dtype(dtype).with_row_splits_dtype(dtype) == changed.spec


def test_other_dtypes_cannot_be_indices_or_row_splits():
    nodes = NodeSet.from_fields(sizes=[2])

    with pytest.raises(ValueError, match="indices dtype must be int32 or int64"):
        nodes.with_indices_dtype(tf.float32)
    with pytest.raises(ValueError, match="row_splits dtype must be int32 or int64"):
        nodes.spec.with_row_splits_dtype(tf.uint8)


@pytest.mark.parametrize(
    ("relax", "features", "sizes"),
    [
        ({}, [3, 4], [1]),
        ({"num_nodes": True}, [None, 4], [1]),
        ({"num_components": True}, [3, 4], [None]),
    ],
)
def test_relaxed_specs_forget_sizes(relax, features, sizes):
    spec = NodeSetSpec.from_field_specs(
        features_spec={"x": tf.TensorSpec([3, 4]), "r": tf.RaggedTensorSpec([3, None], row_splits_dtype=tf.int32)},
        sizes_spec=tf.TensorSpec([1], tf.int32),
    )

    relaxed = spec.relax(**relax)

    assert relaxed["x"].shape.as_list() == features
    assert relaxed["r"].shape.as_list() == [features[0], None]
    assert relaxed.sizes_spec.shape.as_list() == sizes
    assert relaxed.row_splits_dtype == tf.int32
    assert relaxed.is_compatible_with(spec)


def test_batch_shapes_are_made_static():
    spec = NodeSetSpec.from_field_specs(
        features_spec={"x": tf.RaggedTensorSpec([None, None, 4], ragged_rank=1)},
        sizes_spec=tf.TensorSpec([None, 1], tf.int32),
    )

    assert spec.with_shape([5])["x"].shape.as_list() == [5, None, 4]
    assert spec.with_shape([5]).sizes_spec.shape == [5, 1]
    with pytest.raises(ValueError, match="`new_shape` must have the rank of the spec"):
        spec.with_shape([5, 5])
    with pytest.raises(ValueError, match="`new_shape` must be compatible"):
        spec.with_shape([5]).with_shape([6])
    nodes = NodeSet.from_fields(sizes=[[1], [2]], features={"x": tf.ragged.constant([[1], [2, 3]])})
    assert nodes.set_shape([2]) is nodes
