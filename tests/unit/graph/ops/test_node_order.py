import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph as lib
from tfx_gnn.graph.ops.node_order import reorder_nodes, shuffle_features_globally, shuffle_nodes


def edges_by_name(graph, edge_set_name="ab"):
    """The edges as pairs of values that stay with the nodes."""
    adjacency = graph.edge_sets[edge_set_name].adjacency
    source = tf.gather(graph.node_sets["a"]["x"], adjacency.source)
    target = tf.gather(graph.node_sets["b"]["x"], adjacency.target)
    return list(zip(source.numpy().tolist(), target.numpy().tolist(), strict=True))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_features_and_edges_follow_the_nodes(run, graph, dtype):
    order = tf.constant([1, 0, 2], dtype)

    reordered = run(lambda graph: reorder_nodes(graph, {"a": order}), graph)

    assert reordered.node_sets["a"]["id"].numpy().tolist() == [b"q", b"p", b"r"]
    assert reordered.node_sets["a"]["r"].to_list() == [[3.0], [1.0, 2.0], []]
    assert reordered.edge_sets["ab"].adjacency.source.numpy().tolist() == [1, 0, 2]
    assert reordered.indices_dtype == tf.int32
    assert edges_by_name(reordered) == edges_by_name(graph)


INDEX_FEATURES = {"context": {"root": "a"}, "nodes/a": {"twin": "a"}, "edges/ab": {"path": ("b", "a"), "near": "a"}}


def graph_with_indices():
    """Two components, the second without nodes of `a`."""
    return lib.GraphTensor.from_pieces(
        lib.Context.from_fields(features={"root": tf.constant([[2, -1], [-1, -1]], tf.int64)}),
        node_sets={
            "a": lib.NodeSet.from_fields(sizes=[3, 0], features={"twin": tf.constant([1, 0, -1])}),
            "b": lib.NodeSet.from_fields(sizes=[1, 1]),
        },
        edge_sets={
            "ab": lib.EdgeSet.from_fields(
                sizes=[1, 0],
                features={
                    "path": tf.constant([[0, 2]], tf.int64),
                    "near": tf.ragged.constant([[0, 2, -1, 1]], dtype=tf.int64),
                },
                adjacency=lib.Adjacency.from_indices(("a", [0]), ("b", [0])),
            )
        },
    )


def test_features_that_hold_indices_follow_the_nodes(run):
    order = {"a": tf.constant([2, 0, 1])}  # node 0 moves to 1, node 1 to 2, node 2 to 0

    reordered = run(lambda graph: reorder_nodes(graph, order, index_features=INDEX_FEATURES), graph_with_indices())

    assert reordered.context["root"].numpy().tolist() == [[0, -1], [-1, -1]]
    assert reordered.node_sets["a"]["twin"].numpy().tolist() == [-1, 2, 1]
    assert reordered.edge_sets["ab"]["path"].numpy().tolist() == [[0, 0]]
    assert reordered.edge_sets["ab"]["near"].to_list() == [[1, 0, -1, 2]]
    undeclared = reorder_nodes(graph_with_indices(), order)
    assert undeclared.context["root"].numpy().tolist() == [[2, -1], [-1, -1]]
    wrong = graph_with_indices().replace_features(node_sets={"a": {"twin": tf.constant([1, 0, 3])}})
    with pytest.raises(tf.errors.InvalidArgumentError, match="must hold indices of nodes of the same graph"):
        run(lambda graph: reorder_nodes(graph, order, index_features={"nodes/a": {"twin": "a"}}), wrong)


def test_features_that_hold_indices_are_shuffled_with_the_nodes():
    graph = graph_with_indices()
    declared = {"nodes/a": {"twin": "a"}}

    twins = [shuffle_nodes(graph, seed=seed, index_features=declared).node_sets["a"]["twin"] for seed in range(4)]

    for twin in (values.numpy().tolist() for values in twins):
        one, other = (position for position, value in enumerate(twin) if value >= 0)
        assert (twin[one], twin[other]) == (other, one)
    with pytest.raises(ValueError, match=r"must name features of the graph.* got 'leaf' of 'context'"):
        shuffle_nodes(graph, index_features={"context": {"leaf": "a"}})


@settings(max_examples=15)
@given(data=st.data())
def test_reordering_agrees_with_the_oracle(oracle, plain, graph_plans, data):
    plan = data.draw(graph_plans())
    order = data.draw(st.permutations(range(sum(plan.node_sizes["a"]))))
    indices = {"a": tf.constant(order, tf.int32, [len(order)])}

    assert plain(lib.reorder_nodes(plan.build(lib), indices)) == plain(
        oracle.reorder_nodes(plan.build(oracle), indices)
    )


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        ({"q": tf.constant([0])}, ValueError, r"non existing node sets: \['q'\]"),
        (
            {"a": tf.constant([[0, 1, 2]])},
            (tf.errors.InvalidArgumentError, ValueError),
            "rank=1; got int32",
        ),
        (
            {"a": tf.constant([0.0, 1.0, 2.0])},
            (tf.errors.InvalidArgumentError, TypeError),
            "got float32",
        ),
        ({"a": tf.constant([1, 0])}, tf.errors.InvalidArgumentError, "Indices for a must have shape"),
        ({"a": tf.constant([1, 1, 2])}, tf.errors.InvalidArgumentError, r"Indices for a are not valid .* permutation"),
        ({"a": tf.constant([0, 1, 3])}, tf.errors.InvalidArgumentError, r"Indices for a are not valid .* permutation"),
    ],
)
def test_indices_must_be_permutations(run, graph, indices, error, message):
    with pytest.raises(error, match=message):
        run(lambda graph: reorder_nodes(graph, indices).node_sets["a"]["x"], graph)


def test_nodes_are_shuffled_within_their_component(run):
    num_nodes = 40
    graph = lib.GraphTensor.from_pieces(
        node_sets={
            "a": lib.NodeSet.from_fields(sizes=[30, 10], features={"x": tf.range(num_nodes)}),
            "b": lib.NodeSet.from_fields(sizes=[1, 1], features={"x": tf.constant([7, 8])}),
            "_readout": lib.NodeSet.from_fields(sizes=[20, 20], features={"x": tf.range(num_nodes)}),
        },
        edge_sets={
            "ab": lib.EdgeSet.from_fields(
                sizes=[2, 1], adjacency=lib.Adjacency.from_indices(("a", [3, 5, 33]), ("b", [0, 0, 1]))
            )
        },
    )

    shuffled = run(lambda graph: shuffle_nodes(graph, seed=3), graph)

    order = shuffled.node_sets["a"]["x"].numpy().tolist()
    assert order != list(range(num_nodes))
    assert sorted(order[:30]) == list(range(30))
    assert sorted(order[30:]) == list(range(30, 40))
    assert edges_by_name(shuffled) == [(3, 7), (5, 7), (33, 8)]
    assert shuffled.node_sets["_readout"]["x"].numpy().tolist() == list(range(num_nodes))


def test_only_the_named_node_sets_are_shuffled(graph):
    shuffled = shuffle_nodes(graph, node_sets=["b"])

    assert shuffled.node_sets["a"]["id"].numpy().tolist() == [b"p", b"q", b"r"]
    with pytest.raises(ValueError, match=r"`node_sets` contains non existing node sets: \['q'\]"):
        shuffle_nodes(graph, node_sets=["q"])


def test_each_feature_is_shuffled_over_all_its_items(run, graph):
    shuffled = run(lambda graph: shuffle_features_globally(graph, seed=1), graph)

    assert sorted(shuffled.node_sets["a"]["x"].numpy().tolist()) == [1.0, 2.0, 3.0]
    assert sorted(map(len, shuffled.node_sets["a"]["r"].to_list())) == [0, 1, 2]
    assert sorted(shuffled.context["c"].numpy().tolist()) == [10.0, 20.0]
    assert sorted(shuffled.edge_sets["ab"]["w"].numpy().tolist()) == [1.0, 2.0, 3.0]
    assert shuffled.edge_sets["ab"].adjacency.source.numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("shuffle", ["shuffle_features_globally", "shuffle_nodes"])
def test_a_seed_gives_the_order_of_the_oracle(oracle, plain, shuffle):
    def results(library):
        tf.random.set_seed(11)
        graph = library.GraphTensor.from_pieces(
            node_sets={
                "a": library.NodeSet.from_fields(
                    sizes=tf.constant([5, 4]),
                    features={
                        "x": tf.range(9.0),
                        "r": tf.RaggedTensor.from_row_lengths(tf.range(12), [2, 0, 1, 3, 0, 2, 1, 1, 2]),
                    },
                )
            }
        )
        return plain(getattr(library, shuffle)(graph, seed=4))

    assert results(lib) == results(oracle)


def test_features_are_shuffled_independently():
    items = 50
    graph = lib.GraphTensor.from_pieces(
        node_sets={"a": lib.NodeSet.from_fields(sizes=[items], features={"x": tf.range(items), "y": tf.range(items)})}
    )

    nodes = shuffle_features_globally(graph).node_sets["a"]

    assert nodes["x"].numpy().tolist() != nodes["y"].numpy().tolist()


def test_a_batch_of_graphs_is_refused(graph):
    batch = tf.data.Dataset.from_tensors(graph).batch(1).get_single_element()

    for call in (
        lambda: reorder_nodes(batch, {}),
        lambda: shuffle_nodes(batch),
        lambda: shuffle_features_globally(batch),
    ):
        with pytest.raises(ValueError, match="requires a scalar GraphTensor"):
            call()
