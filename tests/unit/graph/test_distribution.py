"""Graphs under the strategies of tf.distribute.

Strategies over several logical devices need a process whose TensorFlow has not started yet.
"""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import collections, socket
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

import tfx_gnn


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def make_graph(number):
    # Graph n has n nodes with features n and rows of one value, and edges from all to the last.
    size = tf.cast(number, tf.int32)[tf.newaxis]
    nodes = tfx_gnn.NodeSet.from_fields(
        sizes=size,
        features={
            "x": tf.fill(size, tf.cast(number, tf.float32)),
            "r": tf.RaggedTensor.from_row_splits(tf.fill(size, 1.0), tf.range(number + 1)),
        },
    )
    edges = tfx_gnn.EdgeSet.from_fields(
        sizes=size,
        adjacency=tfx_gnn.Adjacency.from_indices(("a", tf.range(size[0])), ("a", tf.fill(size, size[0] - 1))),
    )
    return tfx_gnn.GraphTensor.from_pieces(node_sets={"a": nodes}, edge_sets={"e": edges})


def batches(size):
    return tf.data.Dataset.range(1, 5).map(make_graph).batch(size, drop_remainder=True)


SPEC = batches(2).element_spec


def total(graph):
    # Sums what each node gets along its edges, and all ragged values.
    graph = graph.merge_batch_to_components()
    received = tfx_gnn.pool(
        graph, tfx_gnn.TARGET, edge_set_name="e", reduce_type="sum",
        feature_value=tfx_gnn.broadcast(graph, tfx_gnn.SOURCE, edge_set_name="e", feature_name="x"),
    )
    return tf.reduce_sum(received) + 100.0 * tf.reduce_sum(graph.node_sets["a"]["r"].flat_values)


def run(strategy):
    @tf.function
    def step(iterator):
        return strategy.run(total, args=(next(iterator),))

    def results(dataset):
        iterator = iter(dataset)
        found = []
        for _ in range(4 // 2 // strategy.num_replicas_in_sync):
            found += [float(value) for value in strategy.experimental_local_results(step(iterator))]
        return found

    global_batch = 2 * strategy.num_replicas_in_sync
    return (
        results(strategy.experimental_distribute_dataset(batches(global_batch))),
        results(strategy.distribute_datasets_from_function(lambda _: batches(2))),
    )


print("OneDevice", *run(tf.distribute.OneDeviceStrategy("cpu:1")))
print("Mirrored", *run(tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])))
print("MultiWorker", *run(tf.distribute.MultiWorkerMirroredStrategy()))

cluster = {"worker": [f"localhost:{free_port()}"], "ps": [f"localhost:{free_port()}"]}
servers = [tf.distribute.Server(cluster, job_name=name, protocol="grpc", start=True) for name in cluster]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def dataset_fn():
    return strategy.distribute_datasets_from_function(lambda _: batches(2).map(tfx_gnn.graph_to_flat_tensors))


@tf.function
def step(iterator):
    return strategy.run(lambda flat: total(tfx_gnn.graph_from_flat_tensors(SPEC, flat)), args=(next(iterator),))


iterator = iter(coordinator.create_per_worker_dataset(dataset_fn))
scheduled = [coordinator.schedule(step, args=(iterator,)) for _ in range(2)]
coordinator.join()
print("ParameterServer", sorted(float(strategy.experimental_local_results(value.fetch())[0]) for value in scheduled))
"""


def test_strategies_compute_with_graphs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    completed = subprocess.run(
        [sys.executable, "-W", "ignore", str(program)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert completed.returncode == 0, completed.stderr[-4000:]
    # The last node of graph n gets n times n; graphs 1 and 2 are together, and 3 and 4.
    one_by_one = "[305.0, 725.0]"
    assert completed.stdout.splitlines() == [
        f"OneDevice {one_by_one} {one_by_one}",
        f"Mirrored {one_by_one} {one_by_one}",
        f"MultiWorker {one_by_one} {one_by_one}",
        f"ParameterServer {one_by_one}",
    ]
