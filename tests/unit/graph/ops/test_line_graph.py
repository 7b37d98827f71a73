import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfx_gnn.graph as lib
from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.graph.ops.line_graph import convert_to_line_graph


def make_graph(source=(0, 1, 2), target=(1, 2, 0), library=lib):
    return library.homogeneous(
        tf.constant(source),
        tf.constant(target),
        node_features=tf.constant([[1.0], [2.0], [3.0]]),
        edge_features={"w": tf.range(len(source))},
    )


def pairs(graph, name="edges=>edges"):
    adjacency = graph.edge_sets[name].adjacency
    return list(zip(adjacency.source.numpy().tolist(), adjacency.target.numpy().tolist(), strict=True))


def test_edges_of_a_triangle_form_a_triangle(run):
    lines = run(convert_to_line_graph, make_graph())

    assert lines.node_sets["edges"]["w"].numpy().tolist() == [0, 1, 2]
    assert pairs(lines) == [(2, 0), (0, 1), (1, 2)]
    assert lines.edge_sets["edges=>edges"].sizes.numpy().tolist() == [3]


UNDIRECTED = ((0, 1, 1, 2), (1, 0, 2, 1))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(1, 0), (0, 1), (0, 2), (3, 1), (3, 2), (2, 3)]),
        ({"non_backtracking": True}, [(0, 2), (3, 1)]),
        ({"connect_to": TARGET, "non_backtracking": True}, [(0, 3), (3, 0)]),
        ({"connect_from": SOURCE, "connect_to": TARGET}, [(0, 1), (1, 0), (1, 3), (2, 0), (2, 3), (3, 2)]),
    ],
)
def test_ends_and_backtracking_select_pairs(run, options, expected):
    lines = run(lambda graph: convert_to_line_graph(graph, **options), make_graph(*UNDIRECTED))

    assert pairs(lines) == expected


def test_connections_get_the_features_of_the_shared_node():
    lines = convert_to_line_graph(make_graph(), use_node_features_as_line_graph_edge_features=True)

    assert lines.edge_sets["edges=>edges"]["hidden_state"].numpy().tolist() == [[1.0], [2.0], [3.0]]


def test_original_nodes_and_readout_are_kept():
    graph = lib.add_readout_from_first_node(make_graph(), "seed", node_set_name="nodes")

    lines = convert_to_line_graph(graph, connect_with_original_nodes=True)

    assert set(lines.node_sets) == {"edges", "original/nodes", "_readout"}
    assert pairs(lines, "original/to/edges") == [(0, 0), (1, 1), (2, 2)]
    assert pairs(lines, "original/from/edges") == [(0, 1), (1, 2), (2, 0)]
    assert lib.structured_readout(lines, "seed", feature_name="hidden_state").numpy().tolist() == [[1.0]]


@settings(max_examples=12)
@given(
    data=st.data(),
    connect_from=st.sampled_from([0, 1]),
    connect_to=st.sampled_from([0, 1]),
    non_backtracking=st.booleans(),
    with_nodes=st.booleans(),
)
def test_agrees_with_the_oracle(
    oracle, plain, graph_plans, *, data, connect_from, connect_to, non_backtracking, with_nodes
):
    plan = data.draw(graph_plans(min_components=1))

    def results(library):
        return plain(
            library.convert_to_line_graph(
                plan.build(library),
                connect_from=connect_from,
                connect_to=connect_to,
                non_backtracking=non_backtracking,
                connect_with_original_nodes=with_nodes,
                use_node_features_as_line_graph_edge_features=True,
            )
        )

    assert results(lib) == results(oracle)


def with_node_set(name):
    graph = make_graph()
    return lib.GraphTensor.from_pieces(
        context=graph.context,
        node_sets={**graph.node_sets, name: lib.NodeSet.from_fields(sizes=[3])},
        edge_sets=graph.edge_sets,
    )


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        (with_node_set("_shadow/edges"), {}, "auxiliary node set '_shadow/edges'"),
        (with_node_set("_readout"), {}, "Pass `connect_with_original_nodes=True` to keep readout sets"),
        (make_graph(), {"connect_from": 2}, "Expected tag .* got: 2"),
        (make_graph(), {"connect_to": "x"}, "Expected tag .* got: x"),
    ],
)
def test_what_has_no_line_graph_is_refused(graph, options, message):
    with pytest.raises(ValueError, match=message):
        convert_to_line_graph(graph, **options)


def test_hyperedges_of_a_source_and_a_target_are_ordinary():
    graph = make_graph()
    adjacency = graph.edge_sets["edges"].adjacency
    hyper = lib.GraphTensor.from_pieces(
        node_sets=graph.node_sets,
        edge_sets={
            "edges": lib.EdgeSet.from_fields(
                sizes=[3], adjacency=lib.HyperAdjacency.from_indices(adjacency.get_indices_dict())
            )
        },
    )

    lines = convert_to_line_graph(hyper, connect_with_original_nodes=True)

    assert pairs(lines) == [(2, 0), (0, 1), (1, 2)]
    assert isinstance(lines.edge_sets["original/to/edges"].adjacency, lib.Adjacency)


def test_hyperedges_and_batches_are_refused():
    hyper = lib.GraphTensor.from_pieces(
        node_sets={"a": lib.NodeSet.from_fields(sizes=[1])},
        edge_sets={
            "e": lib.EdgeSet.from_fields(
                sizes=[1], adjacency=lib.HyperAdjacency.from_indices({tag: ("a", [0]) for tag in range(3)})
            )
        },
    )
    batch = tf.data.Dataset.from_tensors(make_graph()).batch(1).get_single_element()

    with pytest.raises(ValueError, match=r"edges of one source and one target; got tags \[0, 1, 2\]"):
        convert_to_line_graph(hyper)
    with pytest.raises(ValueError, match="requires a scalar GraphTensor"):
        convert_to_line_graph(batch)
