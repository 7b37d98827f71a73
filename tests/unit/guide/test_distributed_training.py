"""TF-GNN's input pipeline guide, "Distributed training" and "Training on Cloud TPU"."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written


@pytest.fixture(scope="module", autouse=True)
def fast_tracing():
    with libraries_traced_as_written():
        yield


@pytest.fixture(scope="module")
def on_two_replicas(my_graph):
    """What two_replicas.py tells."""
    script = Path(__file__).with_name("two_replicas.py")
    command = [sys.executable, "-W", "ignore", str(script), str(my_graph(label_on="docs", readout=False))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_each_replica_gets_padded_graphs_of_its_own(on_two_replicas):
    """Three graphs a replica, of 4, 5 and 6 docs, and the padding component."""
    assert on_two_replicas["num_replicas"] == 2
    assert on_two_replicas["constraints"]["total_num_components"] == 4
    assert on_two_replicas["constraints"]["total_num_nodes"]["docs"] == 19
    assert on_two_replicas["constraints"]["total_num_edges"]["cites"] == 18
    assert on_two_replicas["sizes"] == [[4, 5, 6, 4], [4, 5, 6, 4]]
    assert on_two_replicas["masks"] == [[True, True, True, False]] * 2
    assert on_two_replicas["labels"] == [[0, 1, 0, 0], [1, 0, 1, 0]]
    assert on_two_replicas["static_docs"] == [19, 19]


@pytest.mark.parametrize("history", ["history", "merging_history"])
def test_models_are_trained_on_both_kinds_of_datasets(on_two_replicas, history):
    loss = on_two_replicas[history]["loss"]

    assert loss[-1] < loss[0]


def test_keras_cannot_part_merged_graphs_between_replicas(on_two_replicas):
    assert "unbatch scalar (rank=0)" in on_two_replicas["refusal"]


@pytest.fixture(scope="module")
def strategy():
    return tf.distribute.OneDeviceStrategy("CPU:0")


@pytest.fixture(scope="module")
def dataset(my_graph, strategy):
    """The guide's padded dataset, with labels on readout nodes."""
    folder = my_graph()
    example_input_spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.read_schema(f"{folder}/graph_schema.pbtxt"))
    examples = tf.data.TFRecordDataset(filenames=[f"{folder}/data.tfrecord"])
    size_constraints = tfgnn.find_tight_size_constraints(
        examples.map(tfgnn.keras.layers.ParseSingleExample(example_input_spec)),
        target_batch_size=4,
        min_nodes_per_component={"_readout": 1},
    )
    # Readout of padded graphs needs an edge to each readout node, those of padding components included.
    size_constraints.total_num_edges["_readout/seed"] = size_constraints.total_num_nodes["_readout"]

    def _make_dataset(input_context):
        ds = examples.repeat()
        ds = ds.batch(input_context.get_per_replica_batch_size(4))
        ds = ds.map(tfgnn.keras.layers.ParseExample(example_input_spec))
        # Apply preprocessing.
        preproc_input = tf_keras.layers.Input(type_spec=ds.element_spec)
        graph = preproc_input.merge_batch_to_components()
        graph, mask = tfgnn.keras.layers.PadToTotalSizes(size_constraints)(graph)
        # Broadcast from context to align with labels; static, as long as a feature tells the number of nodes.
        mask = tfgnn.broadcast(graph, tfgnn.CONTEXT, node_set_name="_readout", feature_value=mask)
        labels = tfgnn.keras.layers.Readout(node_set_name="_readout", feature_name="class_id")(graph)
        graph = graph.remove_features(node_sets={"_readout": ["class_id"]})
        preproc_model = tf_keras.Model(preproc_input, (graph, labels, mask))
        return ds.map(preproc_model)

    return strategy.distribute_datasets_from_function(_make_dataset)


def test_padding_is_weighted_out_of_loss_and_metrics(dataset, strategy):
    """A constant model, right for class 0: half of the real components, and all of the padding."""
    with strategy.scope():
        model_input_spec, _, _ = dataset.element_spec
        model_input = tf_keras.layers.Input(type_spec=model_input_spec)
        seeds = tfgnn.keras.layers.StructuredReadout("seed", feature_name="x")(model_input)
        constant = tf_keras.layers.Dense(2, kernel_initializer="zeros", bias_initializer=lambda *_, **__: [9.0, -9.0])
        model = tf_keras.Model(model_input, constant(seeds))
        model.compile(
            loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            weighted_metrics=[tf_keras.metrics.SparseCategoricalAccuracy(name="weighted")],
            metrics=[tf_keras.metrics.SparseCategoricalAccuracy(name="plain")],
        )

    result = model.evaluate(dataset, steps=3, verbose=0, return_dict=True)

    graph, labels, mask = next(iter(dataset))
    assert (labels.numpy().tolist(), mask.numpy().tolist()) == ([0, 1, 0, 1, 0], [True] * 4 + [False])
    assert graph.spec.total_num_components == 5
    assert result["weighted"] == pytest.approx(0.5)
    assert result["plain"] == pytest.approx(0.6)


def test_all_tensors_of_a_padded_graph_have_static_shapes_but_ragged_ones(dataset):
    graph_spec, labels_spec, mask_spec = dataset.element_spec

    for features in (
        *(piece.features_spec for piece in graph_spec.node_sets_spec.values()),
        *(piece.features_spec for piece in graph_spec.edge_sets_spec.values()),
    ):
        assert all(feature.shape[0] is not None for feature in features.values())
    assert graph_spec.edge_sets_spec["cites"].adjacency_spec.total_size == 24
    assert (labels_spec.shape, mask_spec.shape) == ([5], [5])


def test_a_model_of_padded_graphs_compiles_for_accelerators(dataset, data):
    """Preprocessing leaves neither strings nor ragged tensors, and the shapes of all others are known."""
    preproc_input = tf_keras.layers.Input(type_spec=dataset.element_spec[0])
    graph = tfgnn.keras.layers.MapFeatures(node_sets_fn=data.node_sets_fn)(preproc_input)
    graph = graph.remove_features(node_sets={"docs": ["words"]})
    preproc_model = tf_keras.Model(preproc_input, graph)
    model_input = tf_keras.layers.Input(type_spec=graph.spec)
    model = tf_keras.Model(model_input, data.gnn_logits(model_input))
    padded = preproc_model(next(iter(dataset))[0])

    logits = tf.function(model, jit_compile=True)(padded)

    tensors = tf.nest.flatten(padded.spec, expand_composites=True)
    assert all(tensor.shape.is_fully_defined() and tensor.dtype != tf.string for tensor in tensors)
    assert not any(isinstance(tensor, tf.RaggedTensorSpec) for tensor in tensors)
    np.testing.assert_allclose(logits, model(padded), rtol=1e-4, atol=1e-5)


def test_a_mask_reaches_nodes_and_edges_by_broadcasting(graphs):
    merged = graphs().batch(3).get_single_element().merge_batch_to_components()
    constraints = tfgnn.find_tight_size_constraints(graphs(), target_batch_size=3, min_nodes_per_component={"docs": 1})

    graph, mask = tfgnn.keras.layers.PadToTotalSizes(constraints)(merged)

    assert graph.node_sets["docs"].sizes.numpy().tolist() == [4, 5, 6, 4]
    assert graph.edge_sets["cites"].sizes.numpy().tolist() == [3, 6, 2, 7]
    assert mask.numpy().tolist() == [True, True, True, False]
    of_docs = tfgnn.broadcast(graph, tfgnn.CONTEXT, node_set_name="docs", feature_value=mask)
    of_cites = tfgnn.broadcast(graph, tfgnn.CONTEXT, edge_set_name="cites", feature_value=mask)
    np.testing.assert_array_equal(of_docs, [True] * 15 + [False] * 4)
    np.testing.assert_array_equal(of_cites, [True] * 11 + [False] * 7)
    # The layer's result is that of the function.
    plain, plain_mask = tfgnn.pad_to_total_sizes(merged, constraints)
    assert tfgnn.graph_tensor_to_values(plain) == tfgnn.graph_tensor_to_values(graph)
    np.testing.assert_array_equal(mask, plain_mask)
