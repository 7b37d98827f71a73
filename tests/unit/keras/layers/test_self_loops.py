import numpy as np
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import AddSelfLoops


def test_loops_are_added_and_the_model_is_made_again(again):
    graph = tfx_gnn.homogeneous([0], [1], node_features=[[1.0], [2.0]])
    inputs = tf_keras.Input(type_spec=graph.spec.relax(num_nodes=True, num_edges=True))
    with_loops = AddSelfLoops("edges")(inputs)
    model = tf_keras.Model(inputs, with_loops.edge_sets["edges"].adjacency.source)

    np.testing.assert_array_equal(model(graph), [0, 0, 1])
    np.testing.assert_array_equal(again(model)(graph), [0, 0, 1])
