"""Node sets that share the weights of a network."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.models import model_fns
from tfx_gnn.models.shared_sets import JoinSharedSets, SplitSharedStates, shared_edge_sets
from tfx_gnn.models.tasks import GraphMatching, NodeClassification

GROUPS = (("s", "t"),)
TASK = GraphMatching(label_feature="alike", left=("s",), right=("t",), scoring="difference")


def ring(size):
    return list(range(size)), [(i + 1) % size for i in range(size)]


def pairs(*sizes):
    """Rings of the given (left, right) sizes, whose values count up, as one graph with a component for each pair."""
    data = [
        tfx_gnn.GraphData(
            x_s=np.arange(left * 2, dtype=np.float32).reshape(-1, 2),
            x_t=np.arange(right * 2, dtype=np.float32).reshape(-1, 2),
            e_s=np.array(ring(left), np.int64),
            e_t=np.array(ring(right), np.int64),
            alike=int(left == right),
        )
        for left, right in sizes
    ]
    layout = tfx_gnn.GraphLayout(
        node_sets={"s": {"x": "x_s"}, "t": {"x": "x_t"}},
        edge_sets={
            "s_bond": tfx_gnn.EdgeLayout(source="s", target="s", index="e_s"),
            "t_bond": tfx_gnn.EdgeLayout(source="t", target="t", index="e_t"),
        },
        context={"alike": "alike"},
    )
    return tfx_gnn.collate(data, layout=layout).to_graph_tensor(layout)


def test_the_second_sets_become_further_components():
    graph = pairs((2, 1), (0, 3))

    joined = JoinSharedSets(GROUPS, [("s_bond", "t_bond")])(graph)

    assert sorted(joined.node_sets) == ["s"]
    assert joined.node_sets["s"].sizes.numpy().tolist() == [2, 0, 1, 3]
    assert joined.node_sets["s"]["x"].numpy()[:, 0].tolist() == [0, 2, 0, 0, 2, 4]
    assert joined.edge_sets["s_bond"].sizes.numpy().tolist() == [2, 0, 1, 3]
    assert joined.edge_sets["s_bond"].adjacency.source.numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert joined.edge_sets["s_bond"].adjacency.target.numpy().tolist() == [1, 0, 2, 4, 5, 3]
    assert int(joined.num_components) == 4
    tfx_gnn.assert_constraints(joined)


def test_states_come_back_to_their_sets():
    graph = pairs((2, 1), (0, 3))
    joined = JoinSharedSets(GROUPS, [("s_bond", "t_bond")])(graph)
    with_states = joined.replace_features(node_sets={"s": {"hidden_state": 10.0 + joined.node_sets["s"]["x"]}})

    split = SplitSharedStates.from_config(SplitSharedStates(GROUPS).get_config())((graph, with_states))

    for name in ("s", "t"):
        expected = 10.0 + graph.node_sets[name]["x"].numpy()
        assert split.node_sets[name]["hidden_state"].numpy().tolist() == expected.tolist()
    assert split.context["alike"].numpy().tolist() == [0, 0]


@pytest.mark.parametrize("name", ["gcn", "graph_sage", "gat_v2", "mpnn", "gin", "rgcn", "hgt"])
def test_equal_graphs_get_equal_vectors(name):
    graph, _ = TASK.objective().split_off_labels(pairs((3, 3), (2, 4)))
    hyperparameters = {"units": 8, "num_layers": 2, "shared_node_sets": GROUPS}

    model = getattr(model_fns, name)(graph.spec, objective=TASK.objective(), hyperparameters=hyperparameters)

    vectors = tf_keras.Model(model.input, model.get_layer("embeddings").output)(graph).numpy()
    np.testing.assert_allclose(vectors[0, :8], vectors[0, 8:], rtol=1e-5, atol=1e-6)
    assert np.abs(vectors[1, :8] - vectors[1, 8:]).max() > 1e-3
    assert model(graph).shape.as_list() == [2, 2]


def test_padded_pairs_compile_with_xla():
    graph = pairs((3, 2), (1, 1))
    padded, _ = tfx_gnn.pad_to_total_sizes(
        graph, tfx_gnn.SizeConstraints(4, {"s": 6, "t": 6}, {"s_bond": 7, "t_bond": 7})
    )
    inputs, _ = TASK.objective().split_off_labels(padded)
    model = model_fns.graph_sage(
        inputs.spec, objective=TASK.objective(), hyperparameters={"units": 4, "shared_node_sets": GROUPS}
    )

    compiled = tf.function(model, jit_compile=True)(inputs)

    np.testing.assert_allclose(compiled, model(inputs), rtol=1e-4, atol=1e-5)
    assert compiled.shape.as_list() == [4, 2]


def test_several_edge_sets_correspond_in_alphabetical_order():
    spec = pairs((1, 1)).spec
    graph = tfx_gnn.GraphTensor.from_pieces(
        node_sets={name: tfx_gnn.NodeSet.from_fields(sizes=[1], features={"x": [1.0]}) for name in "st"},
        edge_sets={name: edge_set_of(name[0]) for name in ("s_a", "s_b", "t_a", "t_b")},
    )

    assert shared_edge_sets(graph.spec, GROUPS) == (("s_a", "t_a"), ("s_b", "t_b"))
    assert shared_edge_sets(spec, GROUPS) == (("s_bond", "t_bond"),)


def edge_set_of(node_set, other="", features=None):
    nothing = tf.zeros([0], tf.int32)
    return tfx_gnn.EdgeSet.from_fields(
        sizes=[0],
        features=features or {},
        adjacency=tfx_gnn.Adjacency.from_indices((node_set, nothing), (other or node_set, nothing)),
    )


def spec_of(edge_sets, **features):
    return tfx_gnn.GraphTensor.from_pieces(
        node_sets={
            name: tfx_gnn.NodeSet.from_fields(sizes=[1], features=features.get(name, {"x": [1.0]})) for name in "st"
        },
        edge_sets=edge_sets,
    ).spec


@pytest.mark.parametrize(
    ("spec", "groups", "message"),
    [
        (spec_of({}), [["s"]], r"groups of equal length, which name each of the node sets \['s', 't'\]"),
        (spec_of({}), [["s", "u"]], "once; got"),
        (spec_of({}), [["s", "s"]], "once; got"),
        (spec_of({}, t={"x": [1]}), GROUPS, "must join sets with the same features; got .*int32"),
        (spec_of({"both": edge_set_of("s", "t")}), GROUPS, "must not separate the ends of edges; got edge set 'both'"),
        (spec_of({"a": edge_set_of("s")}), GROUPS, r"same edge sets at each place; got \[\['a'\], \[\]\]"),
        (
            spec_of({"a": edge_set_of("s"), "b": edge_set_of("t", features={"w": tf.zeros([0])})}),
            GROUPS,
            "must join sets with the same features; got .*'w'",
        ),
    ],
)
def test_sets_that_differ_are_refused(spec, groups, message):
    with pytest.raises(ValueError, match=message):
        shared_edge_sets(spec, groups)


def test_tasks_about_nodes_share_no_sets():
    task = NodeClassification(label_feature="label", num_classes=2)

    with pytest.raises(ValueError, match="must be left out unless a task is about whole graphs"):
        model_fns.gcn(pairs((1, 1)).spec, objective=task.objective(), hyperparameters={"shared_node_sets": GROUPS})
