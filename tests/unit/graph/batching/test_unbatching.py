from __future__ import annotations

import itertools

import pytest
import tensorflow as tf

import tfx_gnn

SOURCE, TARGET = tfx_gnn.SOURCE, tfx_gnn.TARGET


def make_graph(num_nodes, first, source=(), target=(), faces=()):
    """One component; nodes are numbered from `first`, and have ragged words."""
    nodes = tf.range(first, first + num_nodes)
    return tfx_gnn.GraphTensor.from_pieces(
        context=tfx_gnn.Context.from_fields(
            features={"label": tf.constant([first]), "tags": tf.ragged.constant([[b"t"] * (first % 3)], tf.string)}
        ),
        node_sets={
            "atoms": tfx_gnn.NodeSet.from_fields(
                sizes=[num_nodes],
                features={
                    "x": nodes,
                    "words": tf.RaggedTensor.from_row_lengths(
                        tf.repeat(nodes, nodes % 3), tf.cast(nodes % 3, tf.int64)
                    ),
                    "pairs": tf.RaggedTensor.from_uniform_row_length(
                        tf.RaggedTensor.from_row_lengths(
                            tf.repeat(nodes, 2), tf.cast(tf.tile([2, 0], [num_nodes]), tf.int64)
                        ),
                        2,
                        nrows=num_nodes,
                    ),
                },
            )
        },
        edge_sets={
            "bonds": tfx_gnn.EdgeSet.from_fields(
                sizes=[len(source)],
                features={"w": tf.cast(tf.range(len(source)), tf.float32)},
                adjacency=tfx_gnn.Adjacency.from_indices(
                    ("atoms", tf.constant(source, tf.int32)), ("atoms", tf.constant(target, tf.int32))
                ),
            ),
            "faces": tfx_gnn.EdgeSet.from_fields(
                sizes=[len(faces)],
                adjacency=tfx_gnn.HyperAdjacency.from_indices(
                    {corner: ("atoms", tf.constant([face[corner] for face in faces], tf.int32)) for corner in range(3)}
                ),
            ),
        },
    )


EMPTY = [0, 0, [], []]
GRAPHS = {
    "three graphs": ([3, 10, [0, 1], [1, 2], [(0, 1, 2)]], [2, 20, [1], [0]], [4, 30, [3, 0, 2], [0, 1, 1]]),
    "empty first": (EMPTY, [2, 20, [1], [0]]),
    "empty in the middle": ([2, 20, [1], [0]], EMPTY, EMPTY, [1, 7]),
    "empty last": ([3, 10, [0], [2], [(2, 1, 0)]], EMPTY),
    "all empty": (EMPTY, EMPTY),
    "one graph": ([3, 10, [0], [2]],),
}


def batch_of(plans):
    return batch_graphs([make_graph(*plan) for plan in plans])


def batch_graphs(graphs):
    return next(iter(tfx_gnn.dataset_from_generator(lambda: iter(graphs)).batch(len(graphs))))


@pytest.mark.parametrize("jit_compile", [None, False, True], ids=["eager", "traced", "xla"])
def test_ids_and_offsets_tell_the_component_of_each_item(jit_compile):
    graph = tfx_gnn.GraphTensor.from_pieces(
        node_sets={"atoms": tfx_gnn.NodeSet.from_fields(sizes=[3, 2, 4], features={"x": tf.zeros([9])})},
        edge_sets={
            "bonds": tfx_gnn.EdgeSet.from_fields(
                sizes=[0, 2, 1], adjacency=tfx_gnn.Adjacency.from_indices(("atoms", [3, 3, 5]), ("atoms", [4, 4, 5]))
            )
        },
    )

    def ids_and_offsets(graph):
        answers = [
            function(graph, **{f"{kind}_set_name": name})
            for kind, name in (("node", "atoms"), ("edge", "bonds"))
            for function in (tfx_gnn.component_ids, tfx_gnn.component_offsets)
        ]
        assert [answer.shape.as_list() for answer in answers] == [[9], [4], [3], [4]]
        return answers

    run = ids_and_offsets if jit_compile is None else tf.function(ids_and_offsets, jit_compile=jit_compile)
    answers = [answer.numpy().tolist() for answer in run(graph)]

    assert answers == [[0, 0, 0, 1, 1, 2, 2, 2, 2], [0, 3, 5, 9], [1, 1, 2], [0, 0, 2, 3]]


@pytest.mark.parametrize("function", [tfx_gnn.component_ids, tfx_gnn.component_offsets])
def test_ids_and_offsets_are_of_one_set(function):
    graph = make_graph(1, 5)

    with pytest.raises(ValueError, match=r"takes exactly one of `node_set_name` and `edge_set_name`; got 'atoms' and"):
        function(graph, node_set_name="atoms", edge_set_name="bonds")
    with pytest.raises(KeyError, match="mols"):
        function(graph, node_set_name="mols")
    with pytest.raises(ValueError, match="rank=1"):
        function(batch_of([EMPTY]), node_set_name="atoms")


@pytest.mark.parametrize("plans", GRAPHS.values(), ids=GRAPHS)
def test_unmerging_is_the_inverse_of_merging(plans, plain):
    batch = batch_of(plans)
    merged = batch.merge_batch_to_components()

    unmerged = tfx_gnn.unmerge_components(merged)

    assert plain(unmerged) == plain(batch)
    assert plain(unmerged.merge_batch_to_components()) == plain(merged)
    assert unmerged.spec.with_shape([None]).is_compatible_with(batch)


def test_unmerging_is_the_same_without_static_sizes(plain):
    spec = make_graph(*EMPTY).spec.relax(num_components=True, num_nodes=True, num_edges=True)
    traced = tf.function(tfx_gnn.unmerge_components, input_signature=[spec])

    for plans in GRAPHS.values():
        batch = batch_of(plans)
        assert plain(traced(batch.merge_batch_to_components())) == plain(batch)


@pytest.mark.parametrize("plans", GRAPHS.values(), ids=GRAPHS)
def test_splitting_gives_back_the_graphs_that_were_merged(plans, plain):
    graphs = [make_graph(*plan) for plan in plans]

    split = tfx_gnn.split_components(batch_of(plans).merge_batch_to_components())

    assert [plain(graph) for graph in split] == [plain(graph) for graph in graphs]
    assert [graph.spec for graph in split] == [graph.spec for graph in graphs]


def test_unmerging_compiles_with_xla_if_sizes_are_static(plain):
    plans = ([3, 10, [0, 1], [1, 2]], [2, 20, [1], [0]])
    merged = batch_of(plans).merge_batch_to_components()
    merged = merged.remove_features(["tags"], {"atoms": ["words", "pairs"]})

    unmerged = tf.function(tfx_gnn.unmerge_components, jit_compile=True)(merged)

    assert unmerged.edge_sets["bonds"].adjacency[TARGET].to_list() == [[1, 2], [0]]
    assert plain(unmerged) == plain(tfx_gnn.unmerge_components(merged))


def test_padding_components_become_graphs_too(plain):
    merged = batch_of(GRAPHS["three graphs"]).merge_batch_to_components()
    constraints = tfx_gnn.SizeConstraints(5, {"atoms": 12}, {"bonds": 8, "faces": 1}, {"atoms": 1})
    padded, mask = tfx_gnn.pad_to_total_sizes(merged, constraints)

    unmerged = tfx_gnn.unmerge_components(padded)

    assert unmerged.node_sets["atoms"].sizes.numpy().tolist() == [[3], [2], [4], [2], [1]]
    assert unmerged.edge_sets["bonds"].sizes.numpy().tolist() == [[2], [1], [3], [2], [0]]
    real = tfx_gnn.split_components(padded, component_mask=mask)
    assert [plain(graph) for graph in real] == [plain(make_graph(*plan)) for plan in GRAPHS["three graphs"]]
    # The two padding edges join both padding components.
    with pytest.raises(ValueError, match="If these are padding components, give the mask"):
        tfx_gnn.split_components(padded)


def test_one_padding_component_is_split_off_like_any_other(plain):
    merged = batch_of(GRAPHS["three graphs"]).merge_batch_to_components()
    padded, _ = tfx_gnn.pad_to_total_sizes(merged, tfx_gnn.SizeConstraints(4, {"atoms": 12}, {"bonds": 8, "faces": 1}))

    graphs = tfx_gnn.split_components(padded)

    assert [plain(graph) for graph in graphs[:3]] == [plain(make_graph(*plan)) for plan in GRAPHS["three graphs"]]
    assert graphs[3].node_sets["atoms"]["x"].numpy().tolist() == [0, 0, 0]
    assert graphs[3].edge_sets["bonds"].adjacency[SOURCE].numpy().tolist() == [0, 2]


def test_index_features_count_from_their_component_again():
    nodes = tfx_gnn.NodeSet.from_fields(sizes=[2, 0, 3], features={"twin": [1, -1, 2, 4, 3]})
    context = tfx_gnn.Context.from_fields(features={"root": tf.constant([0, -1, 4], tf.int64)})
    graph = tfx_gnn.GraphTensor.from_pieces(context, node_sets={"a": nodes})
    declared = {"context": {"root": "a"}, "nodes/a": {"twin": "a"}}

    batch = tfx_gnn.unmerge_components(graph, index_features=declared)
    parts = tfx_gnn.split_components(graph, index_features=declared)

    assert batch.node_sets["a"]["twin"].to_list() == [[1, -1], [], [0, 2, 1]]
    assert [part.node_sets["a"]["twin"].numpy().tolist() for part in parts] == [[1, -1], [], [0, 2, 1]]
    assert [part.context["root"].numpy().tolist() for part in parts] == [[0], [-1], [2]]
    again = batch.merge_batch_to_components(index_features=declared)
    assert again.node_sets["a"]["twin"].numpy().tolist() == [1, -1, 2, 4, 3]


def test_index_features_of_padding_are_split_off_with_it():
    nodes = tfx_gnn.NodeSet.from_fields(sizes=[1, 1], features={"twin": [0, 1]})
    graph = tfx_gnn.GraphTensor.from_pieces(node_sets={"a": nodes})
    budget = tfx_gnn.SizeConstraints(5, {"a": 4}, {})
    declared = {"nodes/a": {"twin": "a"}}

    padded, mask = tfx_gnn.pad_to_total_sizes(graph, budget, index_features=declared)
    parts = tfx_gnn.split_components(padded, component_mask=mask, index_features=declared)

    assert [part.node_sets["a"]["twin"].numpy().tolist() for part in parts] == [[0], [0]]


def test_index_features_are_checked_in_the_parts_that_are_returned():
    nodes = tfx_gnn.NodeSet.from_fields(sizes=[2, 0, 2], features={"twin": [0, 9, 2, 3]})
    context = tfx_gnn.Context.from_fields(features={"root": tf.constant([1, 1, 2], tf.int64)})
    graph = tfx_gnn.GraphTensor.from_pieces(context, node_sets={"a": nodes})

    [part] = tfx_gnn.split_components(
        graph, component_mask=[False, False, True], index_features={"nodes/a": {"twin": "a"}}
    )

    assert part.node_sets["a"]["twin"].numpy().tolist() == [0, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'twin' of 'nodes/a' must hold indices .* got \[9\]"):
        tfx_gnn.split_components(graph, component_mask=[True, False, True], index_features={"nodes/a": {"twin": "a"}})
    # The second component has no nodes: its root is another graph's, unless it may be padding.
    with pytest.raises(tf.errors.InvalidArgumentError, match="'root' of 'context' must hold indices"):
        tfx_gnn.split_components(graph, component_mask=[True] * 3, index_features={"context": {"root": "a"}})


def test_a_graph_without_components_has_no_parts():
    graph = tfx_gnn.GraphTensor.from_pieces(
        node_sets={"atoms": tfx_gnn.NodeSet.from_fields(sizes=tf.zeros([0], tf.int32), features={"x": tf.zeros([0])})}
    )

    assert tfx_gnn.split_components(graph) == []
    assert tfx_gnn.unmerge_components(graph).shape == [0]
    assert tfx_gnn.unmerge_components(graph).unstack() == []
    assert tfx_gnn.component_ids(graph, node_set_name="atoms").numpy().tolist() == []
    assert tfx_gnn.component_offsets(graph, node_set_name="atoms").numpy().tolist() == [0]


def test_components_of_graphs_with_several_become_graphs_each():
    pairs = [make_graph(*plan) for plan in GRAPHS["three graphs"][:2]]
    two = batch_graphs(pairs).merge_batch_to_components()
    batch = batch_graphs([two, two])

    assert tfx_gnn.unmerge_components(batch.merge_batch_to_components()).shape == [4]
    assert [len(graph.context.sizes) for graph in batch] == [2, 2]


def test_sorted_edges_stay_sorted(plain):
    merged = tfx_gnn.sort_edges(batch_of(GRAPHS["three graphs"]).merge_batch_to_components())

    for graph in (*tfx_gnn.split_components(merged), *tfx_gnn.unmerge_components(merged)):
        adjacency = graph.edge_sets["bonds"].adjacency
        expected = tfx_gnn.sort_edges(graph).edge_sets["bonds"].adjacency
        assert isinstance(adjacency, tfx_gnn.SortedAdjacency)
        assert plain(adjacency.order_by_source) == plain(expected.order_by_source)
        assert plain(adjacency.in_order_of(SOURCE)) == plain(expected.in_order_of(SOURCE))


def test_edges_between_components_are_refused(validation_at_runtime):
    graph = tfx_gnn.GraphTensor.from_pieces(
        node_sets={"atoms": tfx_gnn.NodeSet.from_fields(sizes=[1, 1])},
        edge_sets={
            "bonds": tfx_gnn.EdgeSet.from_fields(
                sizes=[1, 0], adjacency=tfx_gnn.Adjacency.from_indices(("atoms", [0]), ("atoms", [1]))
            )
        },
    )

    with pytest.raises(ValueError, match="bonds must join nodes of the same component"):
        tfx_gnn.split_components(graph)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be less than the number of nodes"):
        tfx_gnn.unmerge_components(graph)


@pytest.fixture
def validation_at_runtime():
    tfx_gnn.enable_graph_tensor_validation_at_runtime()
    yield
    tfx_gnn.disable_graph_tensor_validation_at_runtime()


def test_what_cannot_be_split_is_refused():
    with pytest.raises(ValueError, match="rank=1"):
        tfx_gnn.split_components(batch_of([EMPTY]))
    with pytest.raises(ValueError, match=r"one bool per graph component; got int64 of shape=\(1,\) for 1 components"):
        tfx_gnn.split_components(make_graph(1, 5), component_mask=[1])
    with pytest.raises(ValueError, match="must have known values"):
        tf.function(tfx_gnn.split_components)(make_graph(1, 5))


def test_iterating_over_a_merged_batch_gives_the_graphs(plain):
    graphs = [make_graph(*plan) for plan in itertools.chain(*GRAPHS.values())]
    batch = batch_of([*itertools.chain(*GRAPHS.values())])

    assert [plain(graph) for graph in batch] == [plain(graph) for graph in graphs]
