import re

import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor import run_time_checks
from tfx_gnn.graph.tensor import run_time_checks as validation_mode
from tfx_gnn.graph.tensor.adjacency import Adjacency, HyperAdjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet

ONE_COMPONENT = tf.TensorSpec([1], tf.int32)


@pytest.fixture
def runtime_checks():
    validation_mode.enable_graph_tensor_validation_at_runtime()
    yield
    validation_mode.disable_graph_tensor_validation_at_runtime()


def test_pieces_are_found_by_name(graph):
    assert list(graph.node_sets) == ["a", "b"]
    assert list(graph.edge_sets) == ["ab", "late", "ba"]
    assert graph.context["c"].numpy().tolist() == [10.0, 20.0]
    assert graph.num_components.numpy() == 2
    assert graph.total_num_components.numpy() == 2
    assert graph.shape == []
    assert graph.rank == 0
    assert (graph.indices_dtype, graph.row_splits_dtype) == (tf.int32, tf.int64)


def test_a_graph_describes_itself():
    graph = GraphTensor.from_pieces(node_sets={"a": NodeSet.from_fields(sizes=[2])})

    assert repr(graph) == (
        "GraphTensor(\n  context=Context(features={}, sizes=[1], shape=(), indices_dtype=tf.int32),\n"
        "  node_set_names=['a'],\n  edge_set_names=[])"
    )
    assert "'a': NodeSet(features={}, sizes=[2])" in str(graph)


def test_nothing_at_all_is_a_graph():
    graph = GraphTensor.from_pieces()

    assert graph.total_num_components.numpy() == 0
    assert graph.spec == GraphTensorSpec.from_piece_specs()


def test_the_first_edge_set_tells_the_number_of_components_and_the_dtypes():
    ragged = tf.ragged.constant([[1]], row_splits_dtype=tf.int64)
    context = Context.from_fields(features={"c": ragged}, indices_dtype=tf.int64)
    narrow = tf.ragged.constant([[1], [2]], row_splits_dtype=tf.int32)
    adjacency = Adjacency.from_indices(("a", [0, 0]), ("a", [0, 0])).with_row_splits_dtype(tf.int32)
    edges = EdgeSet.from_fields(features={"w": narrow}, sizes=[2], adjacency=adjacency)
    nodes = NodeSet.from_fields(features={"w": narrow[:1]}, sizes=[1, 0])

    graph = GraphTensor.from_pieces(context, {"a": nodes}, {"e": edges})
    spec = GraphTensorSpec.from_piece_specs(context.spec, {"a": nodes.spec}, {"e": edges.spec})

    assert graph.context.sizes.numpy().tolist() == [1]
    assert (graph.indices_dtype, graph.row_splits_dtype) == (tf.int32, tf.int32)
    assert spec == graph.spec


def test_a_context_of_other_components_is_refused():
    context = Context.from_fields(features={"c": [1, 2]})
    node_sets = {"a": NodeSet.from_fields(sizes=[1])}

    with pytest.raises(ValueError, match="Context feature 'c' must have one value per graph component"):
        GraphTensor.from_pieces(context, node_sets)
    with pytest.raises(tf.errors.InvalidArgumentError, match="graph items for feature c is incompatible"):
        GraphTensor.from_pieces(context, node_sets, validate=True)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([3], [1]), ([3, 0], [1, 1]), ([[3], [1]], [[1], [1]]), (tf.ragged.constant([[1], [2, 3]]), [[1], [1, 1]])],
)
def test_sets_tell_the_context_how_many_components_there_are(sizes, expected):
    for context in (None, Context.from_fields()):
        graph = GraphTensor.from_pieces(context, {"a": NodeSet.from_fields(sizes=sizes)})

        found = graph.context.sizes
        assert (found.to_list() if isinstance(found, tf.RaggedTensor) else found.numpy().tolist()) == expected


def test_static_component_counts_of_sets_reach_the_context_in_functions():
    @tf.function(input_signature=[tf.TensorSpec([2], tf.int32), tf.TensorSpec([None], tf.int32)])
    def count(static, dynamic):
        known = GraphTensor.from_pieces(node_sets={"a": NodeSet.from_fields(sizes=static)})
        unknown = GraphTensor.from_pieces(node_sets={"a": NodeSet.from_fields(sizes=dynamic)})
        assert (known.spec.total_num_components, unknown.spec.total_num_components) == (2, None)

    count.get_concrete_function()


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ({"node_sets": {"a": None}}, "Node set a has to be instance of NodeSet; got NoneType"),
        ({"edge_sets": {"e": NodeSet.from_fields(sizes=[1])}}, "Edge set e has to be instance of EdgeSet; got NodeSet"),
        ({"context": NodeSet.from_fields(sizes=[1])}, "Context has to be instance of Context"),
        (
            {
                "node_sets": {"a": NodeSet.from_fields(sizes=[1])},
                "edge_sets": {
                    "e": EdgeSet.from_fields(sizes=[1], adjacency=Adjacency.from_indices(("a", [0]), ("b", [0])))
                },
            },
            "The edge set e is incident to the non-existent node set b",
        ),
        (
            {"node_sets": {"a": NodeSet.from_fields(sizes=[1]), "b": NodeSet.from_fields(sizes=[[1], [2]])}},
            "All pieces of a graph must have the same batch rank",
        ),
        (
            {
                "context": Context.from_fields(features={"y": [1, 2]}),
                "node_sets": {"a": NodeSet.from_fields(sizes=[1])},
            },
            "Context feature 'y' must have one value per graph component",
        ),
    ],
)
def test_pieces_that_do_not_fit_are_refused(pieces, message):
    with pytest.raises(ValueError, match=message):
        GraphTensor.from_pieces(**pieces)


def one_edge(source, target, node_sizes=(2,), edge_sizes=(1,), adjacency_type=Adjacency):
    ends = ("a", tf.constant(source)), ("a", tf.constant(target))
    adjacency = Adjacency.from_indices(*ends)
    if adjacency_type is HyperAdjacency:
        adjacency = HyperAdjacency.from_indices(dict(enumerate(ends)))
    return GraphTensor.from_pieces(
        node_sets={"a": NodeSet.from_fields(sizes=list(node_sizes))},
        edge_sets={"e": EdgeSet.from_fields(sizes=list(edge_sizes), adjacency=adjacency)},
    )


@pytest.mark.parametrize("adjacency_type", [Adjacency, HyperAdjacency])
@pytest.mark.parametrize(
    ("source", "target", "sizes", "message"),
    [
        ([0], [2], {}, "The edge set e adjacency indices for the node set a must be less than the number of nodes"),
        ([-1], [0], {}, "must not be negative"),
        (
            [[0], [1]],
            [[0], [1]],
            {"node_sizes": [[2], [1]], "edge_sizes": [[1], [1]]},
            "must be less than the number of nodes",
        ),
    ],
)
@pytest.mark.usefixtures("runtime_checks")
def test_impossible_edges_are_found_at_run_time(source, target, sizes, message, adjacency_type):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        one_edge(source, target, adjacency_type=adjacency_type, **sizes)


BEYOND_ITS_GRAPH = {"source": [[0], [0]], "target": [[2], [0]], "node_sizes": [[2], [1]], "edge_sizes": [[1], [1]]}


@pytest.mark.parametrize("adjacency_type", [Adjacency, HyperAdjacency])
@pytest.mark.usefixtures("runtime_checks")
def test_a_batch_with_a_wrong_index_is_counted_but_not_merged(adjacency_type):
    batch = one_edge(**BEYOND_ITS_GRAPH, adjacency_type=adjacency_type)

    assert int(batch.node_sets["a"].total_size) == 3
    assert int(batch.edge_sets["e"].total_size) == 2
    assert batch.spec.total_num_components == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be less than the number of nodes"):
        batch.merge_batch_to_components()
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be less than the number of nodes"):
        run_time_checks.assert_constraints(batch)


def test_a_batch_is_checked_at_all_ends_where_that_is_asked_for():
    batch = one_edge(**BEYOND_ITS_GRAPH)

    with pytest.raises(tf.errors.InvalidArgumentError, match="must be less than the number of nodes"):
        GraphTensor.from_pieces(batch.context, batch.node_sets, batch.edge_sets, validate=True)


@pytest.mark.usefixtures("runtime_checks")
def test_a_wrong_index_is_found_in_a_traced_merge():
    batch = one_edge(**BEYOND_ITS_GRAPH)
    merge = tf.function(lambda graph: graph.merge_batch_to_components().edge_sets["e"].adjacency.target)

    with pytest.raises(tf.errors.InvalidArgumentError, match="must be less than the number of nodes"):
        merge(batch)


@pytest.mark.usefixtures("runtime_checks")
def test_different_components_pass_until_all_constraints_are_asserted():
    graph = one_edge([0], [0], edge_sizes=[1, 0])

    with pytest.raises(tf.errors.InvalidArgumentError, match="number of components of node set a must be equal"):
        run_time_checks.assert_constraints(graph)


def test_possible_edges_pass_at_run_time(runtime_checks):
    one_edge([[0], [0]], [[1], [0]], node_sizes=[[2], [1]], edge_sizes=[[1], [1]])


def test_features_of_some_sets_are_replaced(graph):
    replaced = graph.replace_features(
        context={}, node_sets={"b": {"z": tf.constant([1, 2])}}, edge_sets={"ab": {"v": tf.zeros([3, 2])}}
    )

    assert list(replaced.context.features) == []
    assert list(replaced.node_sets["a"].features) == ["x", "r", "id"]
    assert list(replaced.node_sets["b"].features) == ["z"]
    assert list(replaced.edge_sets["ab"].features) == ["v"]
    assert replaced.edge_sets["late"]["w"] is graph.edge_sets["late"]["w"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"node_sets": {"x": {}}}, "Some node sets in the `node_sets` are not present in the graph tensor: ['x']"),
        (
            {"edge_sets": {"b": {}, "a": {}}},
            "Some edge sets in the `edge_sets` are not present in the graph tensor: ['a', 'b']",
        ),
    ],
)
def test_features_of_unknown_sets_cannot_be_replaced(graph, arguments, message):
    # The words are part of TF-GNN's tested contract.
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        graph.replace_features(**arguments)


def test_sets_without_names_are_refused():
    with pytest.raises(TypeError, match="`node_sets` must map names to node sets; got a list"):
        GraphTensor.from_pieces(node_sets=[NodeSet.from_fields(sizes=[1])])


def test_features_are_removed(graph):
    removed = graph.remove_features(context=["c"], node_sets={"a": ["x", "r"]}, edge_sets={"ba": ("w",)})

    assert list(removed.context.features) == []
    assert list(removed.node_sets["a"].features) == ["id"]
    assert list(removed.node_sets["b"].features) == ["x"]
    assert list(removed.edge_sets["ba"].features) == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"context": ["z"]}, ValueError, r"GraphTensor has no feature context\['z'\]; it has \['c'\]"),
        ({"node_sets": {"a": ["z"]}}, ValueError, r"GraphTensor has no feature node_sets\['a'\]\['z'\]"),
        ({"edge_sets": {"ab": ["z"]}}, ValueError, r"GraphTensor has no feature edge_sets\['ab'\]\['z'\]"),
        ({"node_sets": {"z": ["x"]}}, KeyError, "z"),
        ({"node_sets": {"a": "id"}}, TypeError, r"must be a sequence of feature names; got 'id'"),
    ],
)
def test_unknown_features_cannot_be_removed(graph, arguments, error, message):
    with pytest.raises(error, match=message):
        graph.remove_features(**arguments)


@pytest.mark.parametrize(("dtypes", "expected"), [((tf.int32, tf.int32), tf.int32), ((tf.int32, tf.int64), tf.int64)])
def test_pieces_agree_on_the_widest_dtypes(dtypes, expected):
    graph = GraphTensor.from_pieces(
        node_sets={
            str(i): NodeSet.from_fields(
                sizes=tf.constant([2], dtype),
                features={"r": tf.ragged.constant([[1], []], row_splits_dtype=dtype)},
            )
            for i, dtype in enumerate(dtypes)
        }
    )

    assert graph.indices_dtype == graph.context.sizes.dtype == graph.node_sets["0"].sizes.dtype == expected
    assert graph.row_splits_dtype == graph.node_sets["0"]["r"].row_splits.dtype == expected
    pieces = {name: node_set.spec for name, node_set in graph.node_sets.items()}
    assert GraphTensorSpec.from_piece_specs(node_sets_spec=pieces) == graph.spec


def test_replacing_features_keeps_the_dtype_of_row_splits(graph):
    narrow = graph.with_row_splits_dtype(tf.int32)

    assert narrow.replace_features(node_sets={"a": {}}).row_splits_dtype == tf.int32
    assert narrow.node_sets["a"]["r"].row_splits.dtype == tf.int32


def test_everything_is_checked_on_demand(graph):
    assert run_time_checks.assert_constraints(graph) is None
    assert run_time_checks.assert_constraints(next(iter(tf.data.Dataset.from_tensors(graph).batch(1)))) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda graph: graph.replace_features(node_sets={"b": {"x": tf.zeros([3])}}),
            "The number of graph items for feature x is incompatible with piece `sizes`",
        ),
        (
            lambda graph: graph.replace_features(context={"c": tf.zeros([1])}),
            "The number of graph items for feature c is incompatible with piece `sizes`",
        ),
    ],
)
@pytest.mark.parametrize("wrap", [lambda function: function, tf.function], ids=["eager", "traced"])
def test_what_does_not_fit_is_found_on_demand(graph, change, message, wrap):
    wrong = change(graph)

    def check(graph):
        run_time_checks.assert_constraints(graph)
        return graph.total_num_components

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        wrap(check)(wrong)
