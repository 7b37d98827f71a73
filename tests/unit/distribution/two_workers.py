"""Input under MultiWorkerMirroredStrategy, one of two real processes: prints what this worker got as JSON.

Arguments: a folder with files of numbers: "first" (0 to 5), "second" (6 to 11), "all" (0 to 11), and "a", "b", "c",
of four each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import sharding_policies
import tensorflow as tf

import tfx_gnn
from tfx_gnn.distribution.cluster import cluster_role
from tfx_gnn.distribution.distributed_datasets import (
    choose_dataset_sharding,
    distribute,
    distribute_batches,
    per_replica_batch_size,
)
from tfx_gnn.distribution.iteration import endless, num_replicas_with_data, predict_in_order
from tfx_gnn.distribution.options import StrategyOptions
from tfx_gnn.distribution.sharding import choose_sharding, num_input_pipelines, shard_files, shard_records
from tfx_gnn.distribution.strategies import make_strategy

folder = sys.argv[1]
TWO_FILES, ONE_FILE = [f"{folder}/first", f"{folder}/second"], [f"{folder}/all"]
GLOBAL_BATCH = 4

strategy = make_strategy(StrategyOptions(kind="multi_worker_mirrored"))
role = cluster_role()
results: dict[str, object] = {
    "role": [role.task_type, role.task_id, role.num_workers, role.is_chief, role.is_alone],
    "num_replicas": strategy.num_replicas_in_sync,
    "num_pipelines": num_input_pipelines(strategy),
}


def numbers(paths):
    return tf.data.TFRecordDataset(paths), lambda text: tf.strings.to_number(text, tf.int64)


def local(values):
    """What this worker's replica has."""
    return strategy.experimental_local_results(values)[0].numpy().tolist()


def batches_of(dataset, asked):
    sharding = choose_dataset_sharding(dataset, num_pipelines=num_input_pipelines(strategy), asked=asked)
    return [local(batch) for batch in distribute_batches(strategy, dataset, sharding)], sharding.policy


# Two files of six records, both orders of operations.
records, parse = numbers(TWO_FILES)
results["file, batch first"] = batches_of(records.batch(GLOBAL_BATCH).map(parse), "file")
results["file, batch last"] = batches_of(records.map(parse).batch(GLOBAL_BATCH), "file")
results["auto, two files"] = batches_of(records.map(parse).batch(GLOBAL_BATCH), "auto")

# One file of twelve records.
records, parse = numbers(ONE_FILE)
for asked in ("data", "off", "auto"):
    results[f"{asked}, one file"] = batches_of(records.map(parse).batch(GLOBAL_BATCH), asked)
results["auto, no file"] = batches_of(tf.data.Dataset.range(12).batch(GLOBAL_BATCH), "auto")


def refusal(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except ValueError as error:
        return str(error)
    return ""


too_few, no_files = records.map(parse).batch(GLOBAL_BATCH), tf.data.Dataset.range(12).batch(GLOBAL_BATCH)
results["refusal: too few files"] = refusal(choose_dataset_sharding, too_few, num_pipelines=2, asked="file")
results["refusal: no files"] = refusal(choose_dataset_sharding, no_files, num_pipelines=2, asked="file")


# Datasets from functions; sharded before anything is read.
def per_replica(paths, asked):
    sharding = choose_sharding(num_files=len(paths), num_pipelines=2, asked=asked)

    def dataset_fn(context):
        records = tf.data.TFRecordDataset(shard_files(paths, context, sharding))
        batch_size = per_replica_batch_size(GLOBAL_BATCH, context.num_replicas_in_sync)
        return shard_records(records, context, sharding).map(parse).batch(batch_size).prefetch(2)

    return [local(batch) for batch in distribute(strategy, dataset_fn)]


results["function, by file"] = per_replica(TWO_FILES, "auto")
results["function, by data"] = per_replica(ONE_FILE, "auto")
# Worker 1 has no third batch; TensorFlow makes up one without rows.
results["uneven"] = [
    local(batch)
    for batch in distribute(strategy, lambda context: tf.data.Dataset.range(4 - 2 * context.input_pipeline_id).batch(1))
]


# Graphs of static shapes: worker 0 has three, worker 1 one, in padded batches of at most two graphs.
def padded(first, num_real):
    nodes = tfx_gnn.NodeSet.from_fields(
        sizes=tf.stack([num_real, 3 - num_real]), features={"x": tf.fill([3], tf.cast(first, tf.float32))}
    )
    edges = tfx_gnn.EdgeSet.from_fields(
        sizes=tf.constant([1, 1]),
        adjacency=tfx_gnn.Adjacency.from_indices(("a", tf.constant([0, 2])), ("a", tf.constant([0, 2]))),
    )
    graph = tfx_gnn.GraphTensor.from_pieces(node_sets={"a": nodes}, edge_sets={"e": edges})
    weights = tf.cast(tf.range(2) < tf.cast(num_real > 0, tf.int32), tf.float32)
    return graph, weights


def as_static(first):
    return padded(first, tf.constant(2))


EMPTY = padded(tf.constant(0), tf.constant(0))


def graphs(context):
    mine = tf.data.Dataset.range(1 + 10 * context.input_pipeline_id, 4 + 8 * context.input_pipeline_id).map(as_static)
    return endless(mine, EMPTY)


results["refusal: padded graphs that end"] = refusal(
    distribute, strategy, lambda _: tf.data.Dataset.range(2).map(as_static)
)


def weighted_mean(element):
    graph, weights = element
    results["static shapes"] = [graph.node_sets["a"]["x"].shape.as_list(), weights.shape.as_list()]
    sums = tfx_gnn.pool(graph, tfx_gnn.CONTEXT, node_set_name="a", reduce_type="sum", feature_name="x")
    context = tf.distribute.get_replica_context()
    total, count = context.all_reduce("SUM", [tf.reduce_sum(sums * weights), tf.reduce_sum(weights)])
    return total / count


@tf.function(autograph=False)
def step(iterator):
    element, has_data = next(iterator)
    num_real = num_replicas_with_data(strategy, has_data)
    return num_real, tf.cond(
        num_real > 0,
        lambda: strategy.experimental_local_results(strategy.run(weighted_mean, args=(element,)))[0],
        lambda: tf.zeros([]),
    )


iterator = iter(distribute(strategy, graphs))
results["graphs"] = [[float(value) for value in step(iterator)] for _ in range(4)]

# The policies of datasets, by source.
results["policies"] = sharding_policies.results(strategy, Path(folder), role.task_id)
by_hand = sharding_policies.with_policy(tf.data.Dataset.range(12).batch(GLOBAL_BATCH), "OFF")
results["refusal: own rows in order"] = refusal(predict_in_order, strategy, lambda x: x, by_hand)
for_one = choose_sharding(num_files=1, num_pipelines=1)
results["refusal: decided for one"] = refusal(distribute_batches, strategy, no_files, for_one)
sixes = sharding_policies.with_policy(tf.data.TFRecordDataset(TWO_FILES).map(parse).batch(GLOBAL_BATCH), "FILE")
results["files in order"] = predict_in_order(strategy, lambda x: 2 * x, sixes).tolist()

# Nine rows on two workers, the last batch uneven.
results["in order"] = predict_in_order(strategy, lambda x: 2 * x, tf.data.Dataset.range(9).batch(GLOBAL_BATCH)).tolist()

sys.stdout.write(json.dumps(results) + "\n")
