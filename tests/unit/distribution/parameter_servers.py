"""Input under ParameterServerStrategy, run by a chief, a worker and a parameter server: prints what came of it as JSON.

Real processes: the servers of a strategy cannot be stopped, nor used by another strategy.
"""

from __future__ import annotations

import json
import sys

import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.distribution.cluster import cluster_role, serve
from tfx_gnn.distribution.distributed_datasets import distribute, distribute_batches
from tfx_gnn.distribution.flat_elements import flatten_elements
from tfx_gnn.distribution.options import StrategyOptions
from tfx_gnn.distribution.sharding import num_input_pipelines
from tfx_gnn.distribution.strategies import make_strategy
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written


def main():
    role = cluster_role()
    if role.serves:
        serve(role)

    strategy = make_strategy(StrategyOptions(kind="parameter_server", num_parameter_partitions=2))
    results: dict[str, object] = {
        "role": [role.task_type, role.num_workers, role.num_ps, role.is_chief],
        "num_pipelines": num_input_pipelines(strategy),
    }

    with strategy.scope():
        table, small = tf.Variable(tf.zeros([1024, 256])), tf.Variable(tf.zeros([1024, 2]))
    results["parts"] = [int(tf.size(part)) for part in table.variables]
    results["small"] = type(small).__name__

    def graph_of(number):
        nodes = tfx_gnn.NodeSet.from_fields(
            sizes=tf.constant([2]),
            features={"x": tf.fill([2], tf.cast(number, tf.float32)), "words": tf.ragged.constant([["a", "b"], []])},
        )
        return tfx_gnn.GraphTensor.from_pieces(node_sets={"a": nodes}), {"weight": tf.constant(1.0)}

    def graphs():
        return tf.data.Dataset.range(1, 4).map(graph_of)

    flat, restore = flatten_elements(graphs())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    per_worker = iter(distribute(strategy, lambda _: flatten_elements(graphs())[0].repeat()))

    @tf.function
    def sum_step(iterator):
        def sum_of_element(element):
            graph, rest = restore(element)
            words = tf.strings.reduce_join(graph.node_sets["a"]["words"].flat_values)
            return tf.reduce_sum(graph.node_sets["a"]["x"]) * rest["weight"], words

        return strategy.run(sum_of_element, args=(next(iterator),))

    scheduled = [coordinator.schedule(sum_step, args=(per_worker,)) for _ in range(4)]
    coordinator.join()
    results["sums"] = [float(value.fetch()[0]) for value in scheduled]
    results["words"] = scheduled[0].fetch()[1].decode()

    refusals = {
        "batches": lambda: distribute_batches(strategy, graphs().batch(2)),
        "made before": lambda: distribute(strategy, lambda _: flat.repeat()),
        "random": lambda: distribute(
            strategy, lambda _: flat.map(lambda element: tf.random.uniform([]) + element["1"])
        ),
    }
    for name, refused in refusals.items():
        try:
            refused()
        except ValueError as error:
            results[f"refusal: {name}"] = str(error)

    # Keras' own loop takes a function, too.
    def labelled(_):
        return tf.data.Dataset.from_tensors(([[1.0]], [[2.0]])).repeat()

    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(1,))])
        model.compile(tf_keras.optimizers.SGD(0.1), "mse")
    creator = tf_keras.utils.experimental.DatasetCreator(labelled)
    results["loss"] = [float(x) for x in model.fit(creator, epochs=2, steps_per_epoch=5, verbose=0).history["loss"]]

    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    with libraries_traced_as_written():
        main()
