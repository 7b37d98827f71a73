from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor.pieces import NodeSet
from tfx_gnn.models.tasks import NodeRegression
from tfx_gnn.models.tasks.label_places import GraphReadout


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", [[1.0, 3.0, 14 / 3], [2.5, 7.0, 0.0]]),
        ("sum|max", [[1.0, 1.0, 9.0, 14.0, 5.0, 8.0], [5.0, 3.0, 7.0, 0.0, 7.0, 0.0]]),
    ],
)
def test_node_sets_are_pooled_one_beside_the_other(library_graph, pooling, expected):
    """Authors come before papers; `_readout` takes no part."""
    layer = GraphReadout.from_config(GraphReadout(pooling).get_config())

    np.testing.assert_allclose(layer(library_graph), expected, rtol=1e-6)


def test_a_task_about_nodes_may_read_all_nodes_of_the_subgraph(seeds):
    task = NodeRegression(label_feature="price", pooling="mean|max")
    objective = task.objective()

    embeddings = objective.output_layers().readout(seeds).numpy()

    states = np.split(seeds.node_sets["item"]["hidden_state"].numpy(), [2, 6])
    np.testing.assert_allclose(embeddings, [[*one.mean(axis=0), *one.max(axis=0)] for one in states], rtol=1e-5)
    assert (objective.reads_seeds, objective.pools_nodes) == (True, True)
    alone = NodeRegression(label_feature="price").objective()
    assert (alone.reads_seeds, alone.pools_nodes) == (True, False)


@pytest.mark.parametrize("pooling", ["mean", "sum", "max"])
def test_a_component_without_nodes_gets_zeros_and_finite_gradients(library_graph, pooling):
    states = tf.constant([[-1.0], [-2.0]])
    layer = GraphReadout(pooling)
    with tf.GradientTape() as tape:
        tape.watch(states)
        graph = library_graph.from_pieces(
            node_sets={"node": NodeSet.from_fields(sizes=[2, 0], features={"hidden_state": states})}
        )
        pooled = layer(graph)

    assert pooled.numpy()[1].tolist() == [0.0]
    assert pooled.numpy()[0, 0] < 0.0
    assert np.isfinite(tape.gradient(pooled, states)).all()


def test_graph_without_states_and_unknown_pooling_are_refused(library_graph):
    with pytest.raises(
        ValueError, match=r"must have a node set with feature 'state'; got node sets \['_readout', 'aut"
    ):
        GraphReadout(feature_name="state")(library_graph)
    with pytest.raises(ValueError, match=r"`pooling` must be one of .* got 'median'"):
        GraphReadout("median")
