"""Input on one machine with several devices: prints what came of each case as JSON.

A process of its own, because TensorFlow parts a CPU into logical devices only before it is used first. Five of
them make strategies of two, three and five replicas. Argument: a folder with the record file "all" (0 to 11).
"""

from __future__ import annotations

import contextlib
import json
import sys
from unittest import mock

import numpy as np
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.distribution.distributed_datasets import (
    distribute,
    distribute_batches,
    per_replica_batch_size,
    values_per_replica,
)
from tfx_gnn.distribution.iteration import fill_last_step, make_steps, predict_in_order
from tfx_gnn.distribution.options import StrategyOptions
from tfx_gnn.distribution.strategies import make_strategy

folder = sys.argv[1]
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 5
)
results: dict[str, object] = {}


def mirrored(num_replicas):
    return make_strategy(StrategyOptions(kind="mirrored", devices=tuple(f"CPU:{i}" for i in range(num_replicas))))


def local(strategy, values):
    """What each replica has."""
    return [value.numpy().tolist() for value in strategy.experimental_local_results(values)]


def steps_of(strategy, dataset):
    return [local(strategy, values) for values in distribute_batches(strategy, dataset)]


two = mirrored(2)
Range = tf.data.Dataset.range

results["6 in 4 over 2"] = steps_of(two, Range(6).batch(4))
results["4 in 4 over 5"] = steps_of(mirrored(5), Range(4).batch(4))
results["8 in 4 over 3"] = steps_of(mirrored(3), Range(8).batch(4))

pairs = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100).batch(16)
distributed = distribute_batches(two, pairs)
results["is a dataset"] = isinstance(distributed, tf.data.Dataset)
results["class"] = type(distributed).__name__


def prefetched(dataset):
    """Buffer sizes of what is prefetched, as a list."""
    variant = tf.data.experimental.to_variant(dataset)
    serialized = tf.raw_ops.DatasetToGraphV2(input_dataset=variant).numpy()
    nodes = {node.name: node for node in tf.compat.v1.GraphDef.FromString(serialized).node}
    sizes = [nodes[node.input[1]] for node in nodes.values() if node.op.startswith("PrefetchDataset")]
    return [int(tf.make_ndarray(size.attr["value"].tensor)) for size in sizes]


results["prefetched"] = prefetched(distributed._cloned_datasets[0])
results["prefetched, from function"] = prefetched(distribute(two, lambda _: Range(4).batch(2))._datasets[0])

calls = []


def dataset_fn(context):
    calls.append([context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync])
    return Range(8).batch(per_replica_batch_size(4, context.num_replicas_in_sync)).prefetch(2)


results["function"] = [local(two, values) for values in distribute(two, dataset_fn)]
results["calls"] = calls

iterator = iter(distribute_batches(two, Range(8).batch(4)))
results["next"] = [local(two, next(iterator)), local(two, iterator.get_next())]
results["optional at the end"] = bool(iterator.get_next_as_optional().has_value())
try:
    iterator.get_next()
except tf.errors.OutOfRangeError as error:
    results["past the end"] = type(error).__name__


@tf.function
def leaves_a_loop(dataset):
    total = tf.zeros([], tf.int64)
    for values in dataset:
        total += tf.reduce_sum(two.experimental_local_results(values)[0])
        if total > 0:
            break
    return total


try:
    leaves_a_loop(distribute_batches(two, Range(8).batch(4)))
except Exception as error:  # noqa: BLE001 - whatever it is, it is refused
    results["break"] = type(error).__name__

seen = []


def remember(values):
    tf.numpy_function(lambda rows: seen.append(rows.tolist()), [values], [])


iterator = iter(distribute_batches(two, Range(9).batch(4)))
steps = make_steps(two, remember, steps_per_loop=5)
results["steps in loops"] = [int(steps(iterator)), int(steps(iterator))]
results["seen"] = sorted(seen)
optional_steps = []
iterator = iter(distribute_batches(two, Range(9).batch(4)))
while (optional := iterator.get_next_as_optional()).has_value():
    optional_steps.append(local(two, optional.get_value()))
results["optional"] = optional_steps


@tf.function(input_signature=[distributed.element_spec])
def doubled(pair):
    return two.run(lambda pair: 2 * pair[0], args=(pair,))


results["element spec"] = [
    [str(spec.shape), spec.dtype.name] for part in distributed.element_spec for spec in part._value_specs
]
results["signature"] = [np.shape(rows) for rows in local(two, doubled(next(iter(distributed))))]

# Rows of fixed number, for which TensorFlow drops the third batch; then with a last step that is filled up.
odd = Range(6).batch(2, drop_remainder=True)
results["dropped"] = [local(two, values) for values in distribute(two, lambda _: odd)]
filled = distribute(two, lambda _: fill_last_step(odd, 2, tf.constant([-1, -1], tf.int64)))
results["filled"] = [[local(two, values), local(two, flags)] for values, flags in filled]


def graph_of(number, num_components=1):
    nodes = tfx_gnn.NodeSet.from_fields(
        sizes=tf.constant([2] * num_components),
        features={"x": tf.fill([2 * num_components], tf.cast(number, tf.float32))},
    )
    return tfx_gnn.GraphTensor.from_pieces(node_sets={"a": nodes})


def loss_of(element):
    (graph, weight), _ = element
    context = tf.distribute.get_replica_context()
    total, count = context.all_reduce("SUM", [tf.reduce_sum(graph.node_sets["a"]["x"]) * weight, weight])
    return total / count


graphs = Range(1, 4).map(lambda number: (graph_of(number), tf.constant(1.0)))
empty = (graph_of(0), tf.constant(0.0))
filled_graphs = distribute(two, lambda _: fill_last_step(graphs, 2, empty))
mean_loss = tf.function(lambda element: two.run(loss_of, args=(element,)))
results["loss"] = [local(two, mean_loss(element)) for element in filled_graphs]
# Three graphs for two replicas, then one: the second replica gets an empty batch of graphs.
batched_graphs = Range(1, 5).map(graph_of).batch(3)


def sum_of(graph):
    merged = graph.merge_batch_to_components()
    return tf.reduce_sum(merged.node_sets["a"]["x"])


sums = tf.function(lambda graph: two.run(sum_of, args=(graph,)))
results["batched graphs"] = [local(two, sums(graph)) for graph in distribute_batches(two, batched_graphs)]

with open(f"{folder}/vocabulary", "w", encoding="utf-8") as vocabulary:
    vocabulary.write("\n".join("abcdf"))
with two.scope():
    lookups = [tf_keras.layers.StringLookup(vocabulary=source) for source in (list("abcdf"), f"{folder}/vocabulary")]
letters = tf.data.Dataset.from_tensor_slices(["a", "c", "e"]).repeat().batch(3)
results["looked up"] = [
    local(two, next(iter(distribute(two, lambda _, lookup=lookup: letters.map(lookup))))) for lookup in lookups
]

results["in order"] = predict_in_order(two, lambda x: 2 * x, Range(24).batch(6)).tolist()
results["in order, uneven"] = predict_in_order(mirrored(3), lambda x: 2 * x, Range(7).batch(4)).tolist()

distributed_values = values_per_replica(two, tf.constant)
results["values"] = local(two, tf.function(lambda values: two.run(lambda x: x, (values,)))(distributed_values))


def four_numbers():
    yield np.arange(4)


whole = tf.data.Dataset.from_generator(four_numbers, output_signature=tf.TensorSpec([4], tf.int64))
results["generator"] = [local(two, values) for values in two.experimental_distribute_dataset(whole)]

# TensorFlow's own answers, at the first element.
records = tf.data.TFRecordDataset([f"{folder}/all"]).batch(4)
for name, dataset in {"too few files": records, "no files": Range(12).batch(4)}.items():
    try:
        sharded = tf.raw_ops.AutoShardDataset(
            input_dataset=tf.data.experimental.to_variant(dataset),
            num_workers=2,
            index=0,
            output_types=[dataset.element_spec.dtype],
            output_shapes=[dataset.element_spec.shape],
            auto_shard_policy=int(tf.data.experimental.AutoShardPolicy.FILE.value),
        )
        list(tf.data.experimental.from_variant(sharded, dataset.element_spec))
    except tf.errors.OpError as error:
        results[f"tensorflow: {name}"] = [type(error).__name__, str(error)]


# A TPU that is none: TPUStrategy is a MirroredStrategy of four devices.
with contextlib.ExitStack() as patches:
    connected = []
    for place, name, value in [
        (tf.distribute.cluster_resolver, "TPUClusterResolver", lambda tpu: f"resolved {tpu}"),
        (tf.config, "experimental_connect_to_cluster", connected.append),
        (tf.tpu.experimental, "initialize_tpu_system", connected.append),
        (tf.distribute, "TPUStrategy", lambda _: mirrored(4)),
    ]:
        patches.enter_context(mock.patch.object(place, name, value))
    tpu = make_strategy(StrategyOptions(kind="tpu", tpu="my-tpu"))
    results["tpu"] = [tpu.num_replicas_in_sync, connected]
    padded = distribute(tpu, lambda _: fill_last_step(graphs, 4, empty))
    specs = [spec for part in tf.nest.flatten(padded.element_spec) for spec in part._value_specs]
    results["tpu, static"] = [
        tensor.shape.is_fully_defined() for spec in specs for tensor in tf.nest.flatten(spec, expand_composites=True)
    ]
    results["tpu, steps"] = [local(tpu, flags) for _, flags in padded]


sys.stdout.write(json.dumps(results) + "\n")
