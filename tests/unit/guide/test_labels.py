"""TF-GNN's input pipeline guide, "Splitting the labels out of the graph"."""

import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn


@pytest.fixture(scope="module")
def merged(data):
    def make(**options):
        spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.parse_schema(data.schema_text(**options)))
        records = [data.record(i, **options) for i in range(3)]
        return tfgnn.parse_example(spec, tf.constant(records)).merge_batch_to_components()

    return make


def split_from_the_readout_node_set(graph):
    labels = tfgnn.keras.layers.Readout(node_set_name="_readout", feature_name="class_id")(graph)
    graph = graph.remove_features(node_sets={"_readout": ["class_id"]})
    assert "class_id" not in graph.node_sets["_readout"].features
    return graph, labels


def split_from_the_seed(graph):
    labels = tfgnn.keras.layers.StructuredReadout("seed", feature_name="class_id")(graph)
    graph = graph.remove_features(node_sets={"docs": ["class_id"]})
    assert "class_id" not in graph.node_sets["docs"].features
    return graph, labels


def split_from_the_first_node(graph):
    labels = tfgnn.keras.layers.ReadoutFirstNode(node_set_name="docs", feature_name="class_id")(graph)
    graph = graph.remove_features(node_sets={"docs": ["class_id"]})
    assert "class_id" not in graph.node_sets["docs"].features
    return graph, labels


@pytest.mark.parametrize(
    ("split", "options"),
    [
        (split_from_the_readout_node_set, {"label_on": "_readout"}),
        (split_from_the_seed, {"label_on": "docs"}),
        (split_from_the_first_node, {"label_on": "docs", "readout": False}),
    ],
)
def test_labels_are_read_and_removed(merged, split, options):
    graph = merged(**options)
    symbolic = tf_keras.layers.Input(type_spec=graph.spec.relax(num_components=True, num_nodes=True, num_edges=True))
    model = tf_keras.Model(symbolic, split(symbolic))

    for result, labels in (split(graph), model(graph)):
        assert labels.numpy().tolist() == [0, 1, 0]
        assert not any("class_id" in node_set.features for node_set in result.node_sets.values())
        assert result.node_sets["docs"]["id"].shape == [15]
