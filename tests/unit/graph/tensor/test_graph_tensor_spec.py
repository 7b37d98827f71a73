import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor.adjacency import Adjacency, AdjacencySpec
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, EdgeSetSpec, NodeSetSpec
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet

ONE_COMPONENT = tf.TensorSpec([1], tf.int32)


def chain(num_nodes):
    """A graph of nodes 0 -> 1 -> 2 ... with feature x = node index, w = 10 * source, and a label."""
    num_nodes = tf.convert_to_tensor(num_nodes, tf.int32)
    source = tf.range(num_nodes - 1)
    return GraphTensor.from_pieces(
        context=Context.from_fields(features={"y": num_nodes[tf.newaxis]}),
        node_sets={
            "a": NodeSet.from_fields(
                sizes=num_nodes[tf.newaxis],
                features={
                    "x": tf.range(num_nodes),
                    "r": tf.RaggedTensor.from_row_lengths(tf.range(num_nodes), tf.ones([num_nodes], tf.int32)),
                },
            ),
            "empty": NodeSet.from_fields(sizes=[0]),
        },
        edge_sets={
            "next": EdgeSet.from_fields(
                sizes=num_nodes[tf.newaxis] - 1,
                features={"w": tf.cast(10 * source, tf.float32)},
                adjacency=Adjacency.from_indices(("a", source), ("a", source + 1)),
            )
        },
    )


def chains(*sizes):
    return tf.data.Dataset.from_tensor_slices(list(sizes)).map(chain)


def test_a_batch_merges_into_components(run):
    batch = next(iter(chains(2, 1, 3).batch(3)))

    def merge(batch):
        return batch.merge_batch_to_components()

    # Batched specs cannot be relaxed: the traced case gets its unknown sizes from the dataset.
    merged = merge(batch) if run.__name__ == "<lambda>" else next(iter(chains(2, 1, 3).batch(3).map(merge)))

    assert merged.shape == []
    assert merged.num_components.numpy() == 3
    assert merged.context["y"].numpy().tolist() == [2, 1, 3]
    assert merged.node_sets["a"].sizes.numpy().tolist() == [2, 1, 3]
    assert merged.node_sets["a"]["x"].numpy().tolist() == [0, 1, 0, 0, 1, 2]
    assert merged.node_sets["a"]["r"].to_list() == [[0], [1], [0], [0], [1], [2]]
    assert merged.node_sets["empty"].sizes.numpy().tolist() == [0, 0, 0]
    assert merged.edge_sets["next"].sizes.numpy().tolist() == [1, 0, 2]
    assert merged.edge_sets["next"]["w"].numpy().tolist() == [0.0, 0.0, 10.0]
    assert merged.edge_sets["next"].adjacency.source.numpy().tolist() == [0, 3, 4]
    assert merged.edge_sets["next"].adjacency.target.numpy().tolist() == [1, 4, 5]


def test_a_merged_graph_is_left_as_it_is(graph):
    assert graph.merge_batch_to_components() is graph


def test_a_batch_of_equal_graphs_keeps_static_sizes():
    batched = chain(3).spec._batch(4)

    @tf.function(input_signature=[batched])
    def merge(graph):
        return graph.merge_batch_to_components()

    spec = merge.get_concrete_function().structured_outputs.spec

    assert spec.total_num_components == 4
    assert spec.node_sets_spec["a"].total_size == 12
    assert spec.node_sets_spec["a"]["x"] == tf.TensorSpec([12], tf.int32)
    assert spec.edge_sets_spec["next"].adjacency_spec.source == tf.TensorSpec([8], tf.int32)


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_batches_of_batches_merge(drop_remainder):
    batches = chains(1, 2, 3, 4).batch(2, drop_remainder=True).batch(2, drop_remainder=drop_remainder)

    graph = next(iter(batches))
    merged = graph.merge_batch_to_components()

    assert graph.shape == [2, 2]
    assert graph.num_components.numpy().tolist() == [[1, 1], [1, 1]]
    assert merged.node_sets["a"].sizes.numpy().tolist() == [1, 2, 3, 4]
    assert merged.edge_sets["next"].adjacency.target.numpy().tolist() == [2, 4, 5, 7, 8, 9]


def test_incomplete_batches_cannot_be_batched_again():
    with pytest.raises(NotImplementedError, match="drop_remainder=True"):
        chains(1, 2).batch(2).batch(1)


@pytest.mark.parametrize("sizes", [(2, 1, 3), (2, 2, 2)])
def test_datasets_batch_and_unbatch(sizes):
    dataset = chains(*sizes)

    restored = list(dataset.batch(2).unbatch())

    assert [graph.node_sets["a"]["x"].numpy().tolist() for graph in restored] == [list(range(size)) for size in sizes]
    assert [graph.edge_sets["next"].adjacency.target.numpy().tolist() for graph in restored] == [
        list(range(1, size)) for size in sizes
    ]
    assert dataset.batch(2).unbatch().element_spec == dataset.element_spec


def test_equal_graphs_batch_into_dense_tensors():
    dataset = tf.data.Dataset.from_tensors(chain(2)).repeat(3).batch(3, drop_remainder=True)

    graph = next(iter(dataset))

    assert graph.node_sets["a"]["x"].numpy().tolist() == [[0, 1]] * 3
    assert graph.spec == dataset.element_spec


def test_dense_batches_of_unknown_size_survive_datasets():
    spec = NodeSetSpec.from_field_specs(
        features_spec={"x": tf.TensorSpec([2, None], tf.float32)}, sizes_spec=tf.TensorSpec([2, 1], tf.int32)
    )
    graph_spec = GraphTensorSpec.from_piece_specs(node_sets_spec={"a": spec})
    source = GraphTensor.from_pieces(
        node_sets={"a": NodeSet.from_fields(sizes=[[3], [3]], features={"x": tf.ones([2, 3])})}
    )
    dataset = tf.data.Dataset.from_tensors(source).repeat(2)
    relaxed = tf.data.Dataset.from_generator(lambda: iter(dataset), output_signature=graph_spec)

    assert next(iter(relaxed)).node_sets["a"]["x"].shape == [2, 3]
    assert [graph.node_sets["a"]["x"].shape.as_list() for graph in relaxed.unbatch()] == [[3]] * 4
    assert next(iter(relaxed.batch(2))).merge_batch_to_components().node_sets["a"]["x"].shape == [12]


def test_datasets_cache_shuffle_and_filter(tmp_path):
    dataset = chains(1, 2, 3).cache(str(tmp_path / "cache")).shuffle(3, seed=1)
    dataset = dataset.filter(lambda graph: graph.node_sets["a"].total_size > 1)

    for _ in range(2):
        assert sorted(int(graph.node_sets["a"].total_size) for graph in dataset) == [2, 3]


@pytest.mark.filterwarnings("ignore:Encoding a StructuredValue")
def test_datasets_are_saved_and_loaded(tmp_path):
    chains(2, 3).save(str(tmp_path / "data"))

    loaded = tf.data.Dataset.load(str(tmp_path / "data"))

    assert loaded.element_spec == chains(2, 3).element_spec
    assert [graph.node_sets["a"]["x"].shape.as_list() for graph in loaded] == [[2], [3]]


def test_functions_trace_once_for_graphs_of_one_spec():
    @tf.function(reduce_retracing=True)
    def double(graph):
        features = {"x": 2 * graph.node_sets["a"]["x"]}
        return graph.replace_features(node_sets={"a": features})

    for size in (2, 3, 4, 5):
        result = double(chain(size))

    assert result.node_sets["a"]["x"].numpy().tolist() == [0, 2, 4, 6, 8]
    assert double.experimental_get_tracing_count() <= 3


def test_compiled_functions_take_graphs(graph):
    @tf.function(jit_compile=True)
    def total(graph):
        return tf.reduce_sum(graph.node_sets["a"]["x"]) + tf.reduce_sum(graph.edge_sets["ab"]["w"])

    assert total(graph.remove_features(node_sets={"a": ["id", "r"]})).numpy() == 12.0


def test_loops_carry_graphs(graph):
    @tf.function
    def repeat(graph):
        for _ in tf.range(3):
            features = {"x": 2.0 * graph.node_sets["b"]["x"]}
            graph = graph.replace_features(node_sets={"b": features})
        return graph

    assert repeat(graph).node_sets["b"]["x"].numpy().tolist() == [40.0, 48.0]


def test_map_fn_takes_graphs_one_by_one():
    batch = next(iter(chains(2, 1, 3).batch(3)))

    sums = tf.map_fn(lambda graph: tf.reduce_sum(graph.node_sets["a"]["x"]), batch, fn_output_signature=tf.int32)

    assert sums.numpy().tolist() == [1, 0, 3]


def test_nest_takes_graphs_apart_and_rebuilds_them(graph):
    negated = tf.nest.map_structure(
        lambda value: -value if value.dtype == tf.float32 else value, graph, expand_composites=True
    )

    assert negated.node_sets["b"]["x"].numpy().tolist() == [-5.0, -6.0]
    assert negated.spec == graph.spec
    tf.nest.assert_same_structure(negated, graph, expand_composites=True)
    dense = graph.remove_features(node_sets={"a": ["r"]})
    assert tf.nest.map_structure(lambda _: None, dense, expand_composites=True).context["c"] is None


@pytest.mark.filterwarnings("ignore:Encoding a StructuredValue")
def test_saved_models_take_and_return_graphs(tmp_path, graph):
    module = tf.Module()
    spec = graph.spec.relax(num_nodes=True)
    module.double = tf.function(
        lambda graph: graph.replace_features(context={"c": 2.0 * graph.context["c"]}), input_signature=[spec]
    )
    tf.saved_model.save(module, str(tmp_path / "model"))

    result = tf.saved_model.load(str(tmp_path / "model")).double(graph)

    assert isinstance(result, GraphTensor)
    assert result.context["c"].numpy().tolist() == [20.0, 40.0]
    assert result.edge_sets["ab"].adjacency.source_name == "a"


def test_strategies_distribute_graphs():
    strategy = tf.distribute.MirroredStrategy(["cpu:0"])

    @tf.function
    def step(graph):
        return tf.reduce_sum(graph.merge_batch_to_components().node_sets["a"]["x"])

    dataset = strategy.experimental_distribute_dataset(chains(1, 2, 3).batch(3))

    assert [int(strategy.run(step, args=(graph,))) for graph in dataset] == [0 + 1 + 3]


def test_specs_of_values_are_those_made_from_specs():
    spec = GraphTensorSpec.from_piece_specs(
        context_spec=ContextSpec.from_field_specs(features_spec={"y": tf.TensorSpec([1], tf.int32)}),
        node_sets_spec={
            "a": NodeSetSpec.from_field_specs(
                features_spec={"x": tf.TensorSpec([3], tf.int32), "r": tf.RaggedTensorSpec([3, None], tf.int32)},
                sizes_spec=ONE_COMPONENT,
            ),
            "empty": NodeSetSpec.from_field_specs(sizes_spec=ONE_COMPONENT),
        },
        edge_sets_spec={
            "next": EdgeSetSpec.from_field_specs(
                features_spec={"w": tf.TensorSpec([2])},
                sizes_spec=ONE_COMPONENT,
                adjacency_spec=AdjacencySpec.from_incident_node_sets("a", "a", tf.TensorSpec([2], tf.int32)),
            )
        },
    )

    assert chain(3).with_row_splits_dtype(tf.int64).spec == spec
    assert spec.is_compatible_with(chain(3).with_row_splits_dtype(tf.int64))
    assert not spec.is_compatible_with(chain(4))
    assert spec.value_type is GraphTensor
    assert (spec.rank, spec.shape, spec.total_num_components) == (0, [], 1)
    assert spec.context_spec["y"] == tf.TensorSpec([1], tf.int32)
    assert spec.node_sets_spec["a"].total_size == 3
    assert spec.edge_sets_spec["next"].adjacency_spec.source_name == "a"


def test_relaxed_specs_fit_graphs_of_other_sizes():
    relaxed = chain(3).spec.relax(num_nodes=True, num_edges=True)

    assert relaxed.is_compatible_with(chain(7))
    assert not relaxed.relax(num_components=True).node_sets_spec["a"].sizes_spec.shape.is_fully_defined()
    with pytest.raises(ValueError, match=r"requires a scalar GraphTensor, .* `GraphTensor\.rank=0`, but got `rank=1`"):
        relaxed._batch(2).relax(num_nodes=True)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ({"node_sets_spec": {"a": chain(1).spec}}, "Node set a has to be instance of NodeSetSpec"),
        (
            {
                "context_spec": ContextSpec.from_field_specs(features_spec={"y": tf.TensorSpec([2])}),
                "node_sets_spec": {"a": NodeSetSpec.from_field_specs(sizes_spec=ONE_COMPONENT)},
            },
            "Context feature 'y' must have one value per graph component",
        ),
        (
            {
                "node_sets_spec": {
                    "a": NodeSetSpec.from_field_specs(sizes_spec=ONE_COMPONENT),
                    "b": NodeSetSpec.from_field_specs(sizes_spec=tf.TensorSpec([2, 1], tf.int32)),
                }
            },
            "All pieces of a graph must have the same batch rank",
        ),
    ],
)
def test_piece_specs_that_do_not_fit_are_refused(pieces, message):
    with pytest.raises(ValueError, match=message):
        GraphTensorSpec.from_piece_specs(**pieces)


def test_a_scalar_graph_cannot_be_unbatched():
    with pytest.raises(ValueError, match=r"Could not unbatch scalar \(rank=0\)"):
        chain(2).spec._unbatch()


def test_batch_dimensions_are_replaced():
    batch = chain(3).spec._batch(2)

    replaced = batch.with_shape([None])

    assert replaced == chain(3).spec._batch(None)
    assert replaced.with_shape([2]) == batch
    assert replaced.total_num_components is None


def test_only_the_outermost_batch_dimension_may_be_unknown():
    batch = chain(3).spec._batch(2)._batch(2)

    assert batch.with_shape([None, 2]).shape.as_list() == [None, 2]
    with pytest.raises(ValueError, match=r"All shape dimensions except the outermost must be fully defined"):
        batch.with_shape([2, None])
    with pytest.raises(ValueError, match=r"must be fully defined; got shape=\(2, None\)"):
        NodeSetSpec.from_field_specs(sizes_spec=tf.TensorSpec([2, None, 1], tf.int32))
    with pytest.raises(ValueError, match=r"must be fully defined; got shape=\(2, None\)"):
        NodeSet.from_fields(sizes=tf.ragged.constant([[[1], [2]], [[3]]], ragged_rank=1))
