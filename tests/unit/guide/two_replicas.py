"""TF-GNN's input pipeline guide, "Distributed training", on two replicas: run as a process of its own.

TensorFlow parts a machine into two devices only before it is used first. Prints what came of it as JSON.
"""

from __future__ import annotations

import json
import sys

import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written

folder = sys.argv[1]
global_batch_size = 6

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
example_input_spec = tfgnn.create_graph_spec_from_schema_pb(tfgnn.read_schema(f"{folder}/graph_schema.pbtxt"))
filename = f"{folder}/data.tfrecord"
single_graphs = tf.data.TFRecordDataset(filename).map(tfgnn.keras.layers.ParseSingleExample(example_input_spec))
size_constraints = tfgnn.find_tight_size_constraints(
    single_graphs, target_batch_size=global_batch_size // 2, min_nodes_per_component={"docs": 1}
)


def make_model(model_input, graph):
    first_docs = tfgnn.keras.layers.ReadoutFirstNode(node_set_name="docs", feature_name="x")(graph)
    model = tf_keras.Model(model_input, tf_keras.layers.Dense(2)(first_docs))
    model.compile(
        tf_keras.optimizers.SGD(0.1),
        tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )
    return model


def _make_dataset(input_context):
    ds = tf.data.TFRecordDataset(filename).shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    # Without end, as static shapes leave no way to tell a replica that there is no more.
    ds = ds.repeat()
    ds = ds.batch(input_context.get_per_replica_batch_size(global_batch_size))
    ds = ds.map(tfgnn.keras.layers.ParseExample(example_input_spec))
    # Apply preprocessing.
    preproc_input = tf_keras.layers.Input(type_spec=ds.element_spec)
    graph = preproc_input.merge_batch_to_components()
    graph, mask = tfgnn.keras.layers.PadToTotalSizes(size_constraints)(graph)
    labels = tfgnn.keras.layers.ReadoutFirstNode(node_set_name="docs", feature_name="class_id")(graph)
    graph = graph.remove_features(node_sets={"docs": ["class_id"]})
    preproc_model = tf_keras.Model(preproc_input, (graph, labels, mask))
    return ds.map(preproc_model)


def main():
    dataset = strategy.distribute_datasets_from_function(_make_dataset)
    per_replica = strategy.experimental_local_results(next(iter(dataset)))

    with strategy.scope():
        model_input = tf_keras.layers.Input(type_spec=per_replica[0][0].spec)
        padded_model = make_model(model_input, model_input)
    history = padded_model.fit(dataset, epochs=3, steps_per_epoch=2, verbose=0).history

    # The other way: batches of graphs, which Keras parts by itself, and which the model merges.
    batches = tf.data.TFRecordDataset(filename).batch(global_batch_size)
    batches = batches.map(tfgnn.keras.layers.ParseExample(example_input_spec))
    batches = batches.map(lambda graph: (graph, graph.node_sets["docs"]["class_id"][:, :1].to_tensor(shape=[None, 1])))
    with strategy.scope():
        model_input = tf_keras.layers.Input(type_spec=batches.element_spec[0])
        merging_model = make_model(model_input, model_input.merge_batch_to_components())
    merging_history = merging_model.fit(batches, epochs=3, verbose=0).history

    # What the guide warns of: merged graphs have no batch dimension that Keras could part.
    merged = batches.map(lambda graph, labels: (graph.merge_batch_to_components(), labels))
    try:
        padded_model.fit(merged, verbose=0)
        refusal = ""
    except ValueError as error:
        refusal = str(error)

    print(  # noqa: T201 - what the test reads
        json.dumps(
            {
                "num_replicas": strategy.num_replicas_in_sync,
                "constraints": size_constraints._asdict(),
                "sizes": [graph.node_sets["docs"].sizes.numpy().tolist() for graph, _, _ in per_replica],
                "labels": [labels.numpy().tolist() for _, labels, _ in per_replica],
                "masks": [mask.numpy().tolist() for _, _, mask in per_replica],
                "static_docs": [graph.spec.node_sets_spec["docs"].total_size for graph, _, _ in per_replica],
                "history": history,
                "merging_history": merging_history,
                "refusal": refusal,
            }
        )
    )


# For speed alone.
with libraries_traced_as_written():
    main()
