import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from tensorflow.python.framework import kernels

import tfx_gnn.graph as tfgnn
from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.graph.ops.sorted_aggregation import SUMMABLE_DTYPES, SortedEdges
from tfx_gnn.graph.tensor.sorted_adjacency import SortedAdjacency

FEW = settings(max_examples=4)


@pytest.fixture
def sorted_edges():
    """Edges 0>0, 2>0, 2>1 from three nodes to two."""
    return SortedEdges(SortedAdjacency.from_indices(("a", [0, 2, 2]), ("b", [0, 0, 1])))


def test_values_are_copied_and_summed_at_either_end(run, sorted_edges):
    senders, receivers = tf.constant([1.0, 2.0, 4.0]), tf.constant([8.0, 16.0])
    edges = tf.constant([1.0, 2.0, 4.0])

    assert run(lambda x: sorted_edges.copy(SOURCE, x), senders).numpy().tolist() == [1.0, 4.0, 4.0]
    assert run(lambda x: sorted_edges.copy(TARGET, x), receivers).numpy().tolist() == [8.0, 8.0, 16.0]
    assert run(lambda x: sorted_edges.sum(SOURCE, x, 3), edges).numpy().tolist() == [1.0, 0.0, 6.0]
    assert run(lambda x: sorted_edges.sum(TARGET, x, 2), edges).numpy().tolist() == [3.0, 4.0]
    assert run(lambda x: sorted_edges.sum_neighbors(SOURCE, x, 3), receivers).numpy().tolist() == [8.0, 0.0, 24.0]
    assert run(lambda x: sorted_edges.sum_neighbors(TARGET, x, 2), senders).numpy().tolist() == [5.0, 4.0]


def test_static_shapes_are_known(sorted_edges):
    def shape(function, spec, *sizes):
        traced = tf.function(lambda value: function(value, *sizes)).get_concrete_function(spec)
        return traced.structured_outputs.shape.as_list()

    nodes, edges = tf.TensorSpec([3, 5], tf.float32), tf.TensorSpec([3, 4, 5], tf.float32)

    assert shape(lambda x: sorted_edges.copy(SOURCE, x), nodes) == [3, 5]
    assert shape(lambda x, n: sorted_edges.sum(SOURCE, x, n), edges, 3) == [3, 4, 5]
    assert shape(lambda x, n: sorted_edges.sum(SOURCE, x, n), edges, tf.constant(3)) == [3, 4, 5]
    assert shape(lambda x, n: sorted_edges.sum_neighbors(TARGET, x, n), nodes, tf.constant(2, tf.int64)) == [2, 5]


@pytest.mark.parametrize("op", ["SparseSegmentSumWithNumSegments", "UnsortedSegmentSum", "GatherV2"])
def test_operations_have_kernels_wherever_they_may_run(op):
    found = {
        (kernel.device_type, tf.as_dtype(dtype))
        for kernel in kernels.get_registered_kernels_for_op(op).kernel
        for constraint in kernel.constraint
        if constraint.name in ("T", "Tparams")
        for dtype in constraint.allowed_values.list.type
    }
    devices = {"CPU", "GPU"} & {device for device, _ in found}

    assert "CPU" in devices
    assert {(device, dtype) for device in devices for dtype in SUMMABLE_DTYPES} <= found


def derivatives(function, *values):
    """Returns a result, its gradient and its second derivative, of a function that is not linear."""
    with tf.GradientTape() as second:
        second.watch(values)
        with tf.GradientTape() as first:
            first.watch(values)
            result = function(*values)
            loss = tf.reduce_sum(tf.sin(result))
        gradients = first.gradient(loss, values, unconnected_gradients="zero")
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        steepness = tf.add_n([tf.reduce_sum(gradient**2) for gradient in gradients])
    curvatures = second.gradient(steepness, values, unconnected_gradients="zero")
    return result, gradients, [tf.convert_to_tensor(curvature) for curvature in curvatures]


def assert_close(ours, expected):
    for one, other in zip(tf.nest.flatten(ours), tf.nest.flatten(expected), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def along_edges(graph, x):
    """Uses every way along an edge set from a node set to itself."""
    scores = tfgnn.broadcast_node_to_edges(graph, "aa", SOURCE, feature_value=x) + tfgnn.broadcast_node_to_edges(
        graph, "aa", TARGET, feature_value=x**2
    )
    weights = tfgnn.softmax(graph, TARGET, edge_set_name="aa", feature_value=scores)
    return tf.concat(
        [
            tfgnn.pool(graph, TARGET, edge_set_name="aa", reduce_type="sum|mean|max_no_inf", feature_value=weights),
            tfgnn.pool(graph, SOURCE, edge_set_name="aa", reduce_type="mean|sum", feature_value=scores),
            tfgnn.pool_edges_to_node(graph, "aa", SOURCE, "mean", feature_value=scores),
            tfgnn.pool_neighbors_to_node(graph, "aa", TARGET, reduce_type="mean|sum", feature_value=x),
            tfgnn.pool_neighbors_to_node(graph, "aa", SOURCE, reduce_type="sum", feature_value=x),
            tfgnn.pool_neighbors_to_node(graph, "aa", SOURCE, from_tag=SOURCE, reduce_type="mean", feature_value=x),
            tfgnn.pool_neighbors_to_node(graph, "aa", TARGET, reduce_type="mean|max_no_inf", feature_value=x),
        ],
        axis=1,
    )


def by_each_operation(graph, x):
    """Uses each of the operations that `along_edges` consists of, at either end, once."""
    edges = [tfgnn.broadcast_node_to_edges(graph, "aa", tag, feature_value=x) for tag in (SOURCE, TARGET)]
    values = edges[0] * edges[1]
    return tf.concat(
        [
            *(tfgnn.pool_edges_to_node(graph, "aa", tag, "sum", feature_value=values) for tag in (SOURCE, TARGET)),
            *(
                tfgnn.pool_neighbors_to_node(graph, "aa", tag, reduce_type="sum", feature_value=x**2)
                for tag in (SOURCE, TARGET)
            ),
            tfgnn.pool_edges_to_node(graph, "aa", TARGET, "max_no_inf", feature_value=edges[0]),
        ],
        axis=1,
    )


def compute(graph):
    return derivatives(lambda x: along_edges(graph, x), graph.node_sets["a"]["vector"] / 4)


def test_values_and_gradients_agree_with_the_unsorted_path(graph_plans, planned_graph):
    spec = sort_edges(planned_graph).spec.relax(num_components=True, num_nodes=True, num_edges=True)
    traced = tf.function(compute, input_signature=[spec], autograph=False)

    @FEW
    @given(graph_plans())
    def check(plan):
        graph = numeric(plan.build(tfgnn))
        expected = compute(graph)
        assert_close(compute(sort_edges(graph)), expected)
        assert_close(traced(sort_edges(graph)), expected)

    check()


def numeric(graph):
    return graph.replace_features(
        context={},
        node_sets={name: {"vector": piece["vector"]} for name, piece in graph.node_sets.items()},
        edge_sets={name: {} for name in graph.edge_sets},
    )


@pytest.fixture(scope="module", name="planned_graph")
def planned_graph_fixture(graph_plan_type):
    plan = graph_plan_type(
        {"a": [4, 0, 3], "b": [1, 2, 3]}, {"ab": [2, 0, 5], "ba": [0, 0, 4], "aa": [5, 0, 6]}, seed=5
    )
    return numeric(plan.build(tfgnn))


def test_xla_computes_the_same(planned_graph):
    compiled = tf.function(compute, jit_compile=True)

    assert_close(compiled(sort_edges(planned_graph)), compute(planned_graph))


def test_gradients_may_be_taken_outside_of_functions(planned_graph):
    graph, x = sort_edges(planned_graph), planned_graph.node_sets["a"]["vector"]
    relaxed = graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)
    compiled = tf.function(lambda x: by_each_operation(graph, x), jit_compile=True, autograph=False)
    traced = tf.function(by_each_operation, input_signature=[relaxed, tf.TensorSpec([None, 2])])
    expected = derivatives(lambda x: by_each_operation(planned_graph, x), x)

    assert_close(derivatives(compiled, x), expected)
    assert_close(derivatives(lambda x: traced(graph, x), x), expected)


def test_one_function_runs_inside_and_outside_of_compiled_ones(planned_graph):
    graph = sort_edges(planned_graph)
    x = graph.node_sets["a"]["vector"]
    expected = by_each_operation(planned_graph, x)
    inner = tf.function(lambda x: by_each_operation(graph, x))
    compiled = tf.function(lambda x: inner(x) + by_each_operation(graph, x), jit_compile=True)

    outer = tf.function(lambda x: compiled(x) + by_each_operation(graph, x))

    assert_close(compiled(x), 2 * expected)
    assert_close(outer(x), 3 * expected)
    assert_close(inner(x), expected)


def test_xla_gets_static_shapes_from_specs(planned_graph):
    graph = sort_edges(planned_graph)
    leaves = tf.nest.flatten(graph, expand_composites=True)
    compiled = tf.function(
        lambda *leaves: compute(tf.nest.pack_sequence_as(graph, leaves, expand_composites=True))[1], jit_compile=True
    )
    specs = [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in leaves]

    assert "<=" not in compiled.experimental_get_compiler_ir(*specs)(stage="hlo")


@pytest.mark.parametrize("jit_compile", [False, True], ids=["traced", "xla"])
def test_gradients_of_lookups_in_the_result_are_dense(planned_graph, jit_compile):
    def gradient(graph, x, edge):
        with tf.GradientTape() as tape:
            tape.watch(x)
            pooled = tfgnn.pool_neighbors_to_node(graph, "aa", TARGET, reduce_type="sum", feature_value=x)
            copied = tfgnn.broadcast_node_to_edges(graph, "aa", SOURCE, feature_value=x)
            loss = tf.reduce_sum(tf.gather(pooled, [0, 3, 3]) ** 2) + tf.reduce_sum(
                tf.gather(copied, [edge, edge]) ** 2
            )
        return tf.convert_to_tensor(tape.gradient(loss, x))

    x = planned_graph.node_sets["a"]["vector"]
    order = np.argsort(planned_graph.edge_sets["aa"].adjacency.target, kind="stable")

    ours = tf.function(gradient, jit_compile=jit_compile)(sort_edges(planned_graph), x, 1)

    assert_close(ours, gradient(planned_graph, x, order[1]))


@pytest.mark.parametrize(
    "dtype", [tf.bfloat16, tf.float16, tf.float64, tf.int8, tf.int32, tf.int64], ids=lambda dtype: dtype.name
)
@pytest.mark.parametrize("shape", [[], [0], [2, 3]], ids=str)
def test_every_dtype_and_shape_is_pooled(planned_graph, dtype, shape):
    x = tf.cast(tf.reshape(tf.range(7 * int(np.prod(shape))) % 5, [7, *shape]), dtype)

    def pooled(graph):
        edges = tfgnn.broadcast_node_to_edges(graph, "aa", SOURCE, feature_value=x)
        return [
            tfgnn.pool_neighbors_to_node(graph, "aa", SOURCE, reduce_type="sum", feature_value=x),
            *(
                tfgnn.pool_edges_to_node(graph, "aa", tag, reduce_type, feature_value=edges)
                for tag in (SOURCE, TARGET)
                for reduce_type in ("sum", "mean", "prod", "max", "min", "max_no_inf", "min_no_inf")
            ),
        ]

    for ours, expected in zip(pooled(sort_edges(planned_graph)), pooled(planned_graph), strict=True):
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(tf.cast(ours, tf.float32), tf.cast(expected, tf.float32), rtol=1e-2)


def test_features_that_have_no_sums_are_copied(planned_graph):
    graph = sort_edges(planned_graph)
    expected = graph.edge_sets["aa"].adjacency.source.numpy()

    strings = tfgnn.broadcast_node_to_edges(graph, "aa", SOURCE, feature_value=tf.strings.as_string(tf.range(7)))
    ragged = tfgnn.broadcast_node_to_edges(graph, "aa", SOURCE, feature_value=tf.ragged.range(tf.range(7)))
    numbers = tfgnn.broadcast_node_to_edges(graph, "aa", SOURCE, feature_value=list(range(7)))

    assert [int(value) for value in strings.numpy()] == list(expected)
    assert ragged.row_lengths().numpy().tolist() == list(expected)
    assert numbers.numpy().tolist() == list(expected)


def test_ragged_values_are_pooled(planned_graph):
    ragged = tf.ragged.range(tf.range(11) % 3)

    def pooled(graph, order):
        return tfgnn.pool_edges_to_node(graph, "aa", TARGET, "sum", feature_value=tf.gather(ragged, order)).to_list()

    order = np.argsort(planned_graph.edge_sets["aa"].adjacency.target, kind="stable")

    assert pooled(sort_edges(planned_graph), order) == pooled(planned_graph, np.arange(11))


@pytest.mark.parametrize("names", [["ba", "aa"], ["aa"]], ids=str)
@pytest.mark.parametrize("sorted_names", [["ba", "aa"], ["aa"]], ids=str)
def test_several_edge_sets_count_as_one(planned_graph, names, sorted_names):
    def pooled(graph):
        values = [
            tfgnn.broadcast_node_to_edges(graph, name, SOURCE, feature_value=graph.node_sets[name[0]]["vector"])
            for name in names
        ]
        return [
            tfgnn.pool(graph, TARGET, edge_set_name=names, reduce_type="sum|mean", feature_value=values),
            *tfgnn.softmax(graph, TARGET, edge_set_name=names, feature_value=values),
        ]

    ours = pooled(sort_edges(planned_graph, sorted_names))[0]

    assert_close(ours, pooled(planned_graph)[0])


def test_neighbors_along_several_edge_sets_count_as_one(planned_graph):
    twice = tfgnn.GraphTensor.from_pieces(
        context=planned_graph.context,
        node_sets=planned_graph.node_sets,
        edge_sets={**planned_graph.edge_sets, "again": planned_graph.edge_sets["aa"]},
    )

    def pooled(graph, reduce_type):
        return tfgnn.pool_neighbors_to_node(
            graph, ["aa", "again"], TARGET, reduce_type=reduce_type, feature_name="vector"
        )

    assert_close(pooled(sort_edges(twice), "sum|mean"), pooled(twice, "sum|mean"))


def test_degrees_are_the_same(planned_graph):
    for tag in (SOURCE, TARGET):
        ours = tfgnn.node_degree(sort_edges(planned_graph), "aa", tag)
        assert_close(ours, tfgnn.node_degree(planned_graph, "aa", tag))


def test_scalars_cannot_be_reduced_twice(planned_graph):
    with pytest.raises(ValueError, match="requires all their results to have the same known rank >= 2"):
        tfgnn.pool_neighbors_to_node(
            sort_edges(planned_graph), "aa", TARGET, reduce_type="sum|mean", feature_value=tf.zeros([7])
        )
    with pytest.raises(KeyError, match="got 'total'"):
        tfgnn.pool_neighbors_to_node(
            sort_edges(planned_graph), "aa", TARGET, reduce_type="total", feature_value=tf.zeros([7])
        )


def test_an_embedding_table_gets_a_sparse_gradient_as_before(planned_graph):
    table = tf.Variable(tf.ones([7, 2]))

    with tf.GradientTape() as tape:
        copied = tfgnn.broadcast_node_to_edges(sort_edges(planned_graph), "aa", SOURCE, feature_value=table)

    assert isinstance(tape.gradient(copied, table), tf.IndexedSlices)


@pytest.mark.parametrize("jit_compile", [False, True], ids=["traced", "xla"])
@pytest.mark.parametrize("captured", [False, True], ids=["argument", "captured"])
def test_gradients_flow_through_loops(planned_graph, jit_compile, captured):
    def gradient(graph, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = tf.while_loop(
                lambda i, _: i < 3,
                lambda i, y: (
                    i + 1,
                    tfgnn.pool_neighbors_to_node(graph, "aa", TARGET, reduce_type="mean", feature_value=tf.sin(y) + y),
                ),
                (0, x),
                maximum_iterations=3,
            )[1]
            loss = tf.reduce_sum(result**2)
        return tf.convert_to_tensor(tape.gradient(loss, x))

    graph, x = sort_edges(planned_graph), planned_graph.node_sets["a"]["vector"]
    if captured:
        ours = tf.function(lambda x: gradient(graph, x), jit_compile=jit_compile)(x)
    else:
        ours = tf.function(gradient, jit_compile=jit_compile)(graph, x)

    assert_close(ours, gradient(planned_graph, x))


def test_a_saved_function_that_holds_a_graph_keeps_its_gradient(planned_graph, tmp_path):
    graph, x = sort_edges(planned_graph), planned_graph.node_sets["a"]["vector"]
    module = tf.Module()
    module.along_edges = tf.function(lambda x: by_each_operation(graph, x), input_signature=[tf.TensorSpec([7, 2])])

    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = loaded.along_edges(x)
        loss = tf.reduce_sum(tf.sin(result))

    expected = derivatives(lambda x: by_each_operation(planned_graph, x), x)
    assert_close([result, tape.gradient(loss, x)], [expected[0], expected[1][0]])
