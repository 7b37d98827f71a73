import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import PadToTotalSizes

CONSTRAINTS = tfx_gnn.SizeConstraints(
    total_num_components=4,
    total_num_nodes={"a": 6, "b": 5, "_readout": 4},
    total_num_edges={"ab": 4, "_readout/seed": 3},
    min_nodes_per_component={"_readout": 1},
)


def test_a_graph_is_padded_and_masked(graph):
    padded, mask = PadToTotalSizes(CONSTRAINTS)(graph)

    assert mask.numpy().tolist() == [True, True, False, False]
    assert padded.node_sets["_readout"].sizes.numpy().tolist() == [1, 1, 1, 1]
    assert padded.edge_sets["ab"].sizes.numpy().tolist() == [2, 1, 1, 0]


def test_padding_values_are_used(graph):
    values = tfx_gnn.FeatureDefaultValues(node_sets={"_readout": {"label": -1}})

    padded, _ = PadToTotalSizes(CONSTRAINTS, padding_values=values)(graph)

    assert padded.node_sets["_readout"]["label"].numpy().tolist() == [0, 1, -1, -1]


def test_index_features_of_padding_refer_to_padding():
    nodes = tfx_gnn.NodeSet.from_fields(sizes=[2], features={"next": [[1, 0], [0, 0]]})
    graph = tfx_gnn.GraphTensor.from_pieces(
        node_sets={"a": nodes, "b": tfx_gnn.NodeSet.from_fields(sizes=[1], features={"y": [5.0]})}
    )
    budget = tfx_gnn.SizeConstraints(2, {"a": 3, "b": 4}, {})
    layer = PadToTotalSizes(budget, index_features={"nodes/a": {"next": ("a", "b")}})

    padded, _ = PadToTotalSizes.from_config(json.loads(json.dumps(layer.get_config())))(graph)

    assert padded.node_sets["a"]["next"].numpy().tolist() == [[1, 0], [0, 0], [2, 1]]


def test_shapes_are_static_in_a_functional_model(graph, spec):
    inputs = tf_keras.Input(type_spec=spec)
    padded, mask = PadToTotalSizes(CONSTRAINTS)(inputs)
    model = tf_keras.Model(inputs, (padded, mask))

    dataset = tf.data.Dataset.from_tensors(graph).map(model)

    assert padded.spec.total_num_components == 4
    assert dataset.element_spec[0].node_sets_spec["a"].total_size == 6
    assert dataset.element_spec[1].shape.as_list() == [4]


def test_eager_tensors_are_kept_as_integers():
    sizes = CONSTRAINTS._replace(total_num_components=tf.constant(4), min_nodes_per_component=())

    config = PadToTotalSizes(sizes).get_config()

    assert config["sizes_constraints"]["total_num_components"] == 4
    assert type(config["sizes_constraints"]["total_num_components"]) is int


def test_symbolic_sizes_work_but_have_no_config(graph):
    @tf.function
    def pad(size):
        layer = PadToTotalSizes(CONSTRAINTS._replace(total_num_components=size))
        with pytest.raises(NotImplementedError, match="sizes_constraints convertible to int"):
            layer.get_config()
        return layer(graph)[1]

    assert pad(tf.constant(4)).numpy().tolist() == [True, True, False, False]


@pytest.mark.parametrize("validate", [True, False])
def test_graphs_that_do_not_fit_are_refused_if_checked(graph, validate):
    layer = PadToTotalSizes(CONSTRAINTS._replace(total_num_components=1), validate=validate)

    with pytest.raises(tf.errors.InvalidArgumentError, match="more graph components" if validate else "."):
        layer(graph)


def test_a_model_is_made_again(graph, spec, again):
    values = tfx_gnn.FeatureDefaultValues(node_sets={"_readout": {"label": -1}})
    inputs = tf_keras.Input(type_spec=spec)
    padded, mask = PadToTotalSizes(CONSTRAINTS, padding_values=values)(inputs)
    model = tf_keras.Model(inputs, [padded.node_sets["_readout"]["label"], mask])

    label, mask = again(model)(graph)

    np.testing.assert_array_equal(label, [0, 1, -1, -1])
    np.testing.assert_array_equal(mask, [True, True, False, False])
