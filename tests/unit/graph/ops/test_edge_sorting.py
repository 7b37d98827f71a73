import warnings

import pytest
import tensorflow as tf
from hypothesis import given, settings

import tfx_gnn.graph as tfgnn
from tfx_gnn.graph.graph_constants import SOURCE
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.graph.tensor.sorted_adjacency import SortedAdjacency


def make_graph():
    """Components of 2 and 3 nodes; edges 1>1 0>0 1>0 | 4>4 2>3 3>2, in this order, with features."""
    return tfgnn.GraphTensor.from_pieces(
        context=tfgnn.Context.from_fields(features={"c": [1.0, 2.0]}),
        node_sets={
            "n": tfgnn.NodeSet.from_fields(sizes=[2, 3], features={"x": [[1.0], [2.0], [3.0], [4.0], [5.0]]}),
            "_readout": tfgnn.NodeSet.from_fields(sizes=[1, 1]),
        },
        edge_sets={
            "e": tfgnn.EdgeSet.from_fields(
                sizes=[3, 3],
                features={
                    "w": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
                    "name": ["a", "b", "c", "d", "e", "f"],
                    "ragged": tf.ragged.constant([[1], [], [3, 3], [4], [5], []]),
                },
                adjacency=tfgnn.Adjacency.from_indices(("n", [1, 0, 1, 4, 2, 3]), ("n", [1, 0, 0, 4, 3, 2])),
            ),
            "_readout/seed": tfgnn.EdgeSet.from_fields(
                sizes=[1, 1], adjacency=tfgnn.Adjacency.from_indices(("n", [1, 2]), ("_readout", [0, 1]))
            ),
        },
    )


@pytest.fixture(name="graph")
def graph_fixture():
    return make_graph()


def is_sorted(graph, name="e"):
    return isinstance(graph.edge_sets[name].adjacency, SortedAdjacency)


def test_edges_are_ordered_by_target_with_their_features(run, graph):
    edges = run(sort_edges, graph).edge_sets["e"]

    assert edges.adjacency.target.numpy().tolist() == [0, 0, 1, 2, 3, 4]
    assert edges.adjacency.source.numpy().tolist() == [0, 1, 1, 3, 2, 4]
    assert edges.adjacency.order_by_source.numpy().tolist() == [0, 1, 2, 4, 3, 5]
    assert edges["w"].numpy().tolist() == [2.0, 3.0, 1.0, 6.0, 5.0, 4.0]
    assert edges["name"].numpy().tolist() == [b"b", b"c", b"a", b"f", b"e", b"d"]
    assert edges["ragged"].to_list() == [[], [3, 3], [1], [], [5], [4]]
    assert edges.sizes.numpy().tolist() == [3, 3]


def test_sorting_compiles(graph):
    numeric = graph.remove_features(edge_sets={"e": ["name", "ragged"]})

    edges = tf.function(sort_edges, jit_compile=True)(numeric).edge_sets["e"]

    assert edges.adjacency.in_order_of(SOURCE)[0].numpy().tolist() == [0, 0, 1, 3, 2, 4]
    assert edges["w"].numpy().tolist() == [2.0, 3.0, 1.0, 6.0, 5.0, 4.0]


def test_auxiliary_edges_stay_as_they_are_unless_named(graph):
    by_default = sort_edges(graph)
    named = sort_edges(graph, ["_readout/seed"])

    assert is_sorted(by_default)
    assert not is_sorted(by_default, "_readout/seed")
    assert is_sorted(named, "_readout/seed")
    assert not is_sorted(named)
    assert tfgnn.structured_readout(
        sort_edges(by_default, ["_readout/seed"]), "seed", feature_name="x"
    ).numpy().tolist() == [
        [2.0],
        [3.0],
    ]


def test_sorted_edges_stay_as_they_are(graph):
    once = sort_edges(graph)

    assert sort_edges(once).edge_sets["e"] is once.edge_sets["e"]


def test_dtypes_and_static_sizes_are_kept(graph):
    graph = graph.with_indices_dtype(tf.int64).with_row_splits_dtype(tf.int32)

    spec = sort_edges(graph).spec

    assert (spec.indices_dtype, spec.row_splits_dtype) == (tf.int64, tf.int32)
    assert spec.edge_sets_spec["e"].total_size == 6
    assert spec.edge_sets_spec["e"].adjacency_spec.without_order() == graph.spec.edge_sets_spec["e"].adjacency_spec


def test_hyperedges_cannot_be_sorted(graph):
    hyper = tfgnn.EdgeSet.from_fields(sizes=[1, 0], adjacency=tfgnn.HyperAdjacency.from_indices({0: ("n", [0])}))
    graph = tfgnn.GraphTensor.from_pieces(
        context=graph.context, node_sets=graph.node_sets, edge_sets={**graph.edge_sets, "h": hyper}
    )

    assert is_sorted(sort_edges(graph))
    assert sort_edges(graph).edge_sets["h"] is hyper
    with pytest.raises(ValueError, match="one source and one target; got 'h', whose adjacency is a HyperAdjacency"):
        sort_edges(graph, ["h"])


@pytest.mark.parametrize("names", [["e", "none"], "e"])
def test_bad_names_are_refused(graph, names):
    with pytest.raises(ValueError, match=r"must be a collection of edge sets of the graph; got .*Known are \['_rea"):
        sort_edges(graph, names)


def test_batches_are_refused(graph):
    batch = tf.data.Dataset.from_tensors(graph).batch(1).get_single_element()

    with pytest.raises(ValueError, match=r"sort_edges\(\).*rank=1"):
        sort_edges(batch)


def test_changed_features_keep_the_order(graph):
    graph = sort_edges(graph)

    assert is_sorted(graph.replace_features(node_sets={"n": {}}, edge_sets={"e": {"y": tf.zeros([6])}}))
    assert is_sorted(graph.remove_features(edge_sets={"e": ["w"]}, context=["c"]))
    assert is_sorted(graph.with_indices_dtype(tf.int64))
    assert is_sorted(graph.merge_batch_to_components())


def test_changed_edges_lose_the_order(graph):
    graph = sort_edges(graph)
    constraints = tfgnn.SizeConstraints(3, {"n": 8, "_readout": 3}, {"e": 9, "_readout/seed": 3}, {"_readout": 1})
    batch = tf.data.Dataset.from_tensors(graph).batch(1).get_single_element()
    line_graph = tfgnn.convert_to_line_graph(
        sort_edges(make_graph()), connect_with_original_nodes=True, non_backtracking=True
    )
    changed = {
        "padded": tfgnn.pad_to_total_sizes(graph, constraints)[0],
        "masked": tfgnn.mask_edges(graph, "e", tf.constant([True] * 5 + [False])),
        "with loops": tfgnn.add_self_loops(graph, "e"),
        "reordered": tfgnn.reorder_nodes(graph, {"n": [1, 0, 4, 3, 2]}),
        "merged": batch.merge_batch_to_components(),
    }

    assert [name for name, other in changed.items() if is_sorted(other)] == []
    assert changed["padded"].edge_sets["e"].adjacency.target.numpy().tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7]
    assert changed["reordered"].edge_sets["e"].adjacency.target.numpy().tolist() == [1, 1, 0, 4, 3, 2]
    assert not any(isinstance(edges.adjacency, SortedAdjacency) for edges in line_graph.edge_sets.values())


def test_sorted_graphs_are_written_and_declared_like_others(graph):
    one = tfgnn.homogeneous(
        [1, 0], [1, 0], node_features={"x": [[1.0], [2.0]]}, edge_features={"w": [3.0, 4.0]}
    ).with_indices_dtype(tf.int64)
    schema = tfgnn.create_schema_pb_from_graph_spec(one)

    example = tfgnn.write_example(sort_edges(one)).features.feature

    assert list(example["edges/edges.#source"].int64_list.value) == [0, 1]
    assert list(example["edges/edges.w"].float_list.value) == [4.0, 3.0]
    assert tfgnn.create_schema_pb_from_graph_spec(sort_edges(one)) == schema
    tfgnn.check_compatible_with_schema_pb(sort_edges(one), schema)
    assert str(sort_edges(graph)).count("SortedAdjacency(") == 1


def test_sorted_graphs_are_elements_of_datasets(graph):
    graphs = tf.data.Dataset.from_tensors(graph).map(sort_edges).repeat(3)

    batches = list(graphs.batch(2))
    again = next(iter(graphs.batch(3).unbatch().cache()))

    assert is_sorted(next(iter(graphs)))
    assert [batch.shape.as_list() for batch in batches] == [[2], [1]]
    assert is_sorted(again)
    assert again.edge_sets["e"].adjacency.order_by_source.numpy().tolist() == [0, 1, 2, 4, 3, 5]


def test_sorted_graphs_are_batched_by_size():
    graph = sort_edges(tfgnn.homogeneous([2, 0, 1], [1, 1, 0], node_features=[[1.0], [2.0], [4.0]]))
    graphs = tfgnn.dataset_from_generator(lambda: iter([graph] * 3))

    batches = list(tfgnn.dynamic_batch(graphs, tfgnn.SizeConstraints(3, {"nodes": 7}, {"edges": 6})))

    assert [batch.shape.as_list() for batch in batches] == [[2], [1]]
    assert batches[0].edge_sets["edges"].adjacency.order_by_source.to_list() == [[2, 0, 1], [2, 0, 1]]


def test_a_signature_may_ask_for_sorted_edges(graph, tmp_path):
    spec = sort_edges(graph).spec.relax(num_components=True, num_nodes=True, num_edges=True)
    module = tf.Module()
    module.pool = tf.function(
        lambda graph: tfgnn.pool_neighbors_to_node(graph, "e", SOURCE, reduce_type="sum", feature_name="x"),
        input_signature=[spec],
    )

    with warnings.catch_warnings():
        # True, and harmless: a function that takes graphs is loaded where tfx_gnn is.
        warnings.filterwarnings("ignore", "Encoding a StructuredValue with type tfx_gnn")
        tf.saved_model.save(module, str(tmp_path))
    pooled = tf.saved_model.load(str(tmp_path)).pool(sort_edges(graph))

    assert pooled.numpy().tolist() == [[1.0], [3.0], [4.0], [3.0], [5.0]]


def test_the_graph_stays_the_same(graph_plans):
    traced = tf.function(sort_edges, reduce_retracing=True)

    def edges(graph, name):
        edge_set = graph.edge_sets[name]
        component = [c for c, size in enumerate(edge_set.sizes.numpy()) for _ in range(size)]
        columns = [edge_set.adjacency.source.numpy(), edge_set.adjacency.target.numpy(), edge_set["count"].numpy()]
        return list(zip(component, *(column.tolist() for column in columns), strict=True))

    @settings(max_examples=20)
    @given(graph_plans())
    def check(plan):
        graph = plan.build(tfgnn)
        for result in (sort_edges(graph), traced(graph)):
            for name in graph.edge_sets:
                assert edges(result, name) == sorted(edges(graph, name), key=lambda edge: edge[2])
                tf.debugging.assert_equal(result.edge_sets[name].sizes, graph.edge_sets[name].sizes)

    check()
