"""Train steps on trees of fixed size and on the same subgraphs, on whatever accelerator TensorFlow finds.

All places of the trees are taken, and no node is in two of them, so both have the same nodes. Writes one JSON object
for each pair of networks, with medians in milliseconds:

    python benchmarks/ego_on_accelerator.py
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.graph.batching.ego_batches import EgoHop, EgoTrees, ego_batch
from tfx_gnn.models import NodeClassification, model_fns

#: Fan-outs, seeds in a batch, and width of the states.
CASES = (((8, 4), 128, 64), ((8, 4), 1024, 256), ((15, 10), 1024, 256))
PAIRS = (("ego_sage", "graph_sage"), ("ego_gat", "gat_v2"))
NUM_CLASSES, NUM_FEATURES = 5, 64
_ROUNDS, _STEPS_PER_ROUND = 4, 10


def batches(batch_size: int, fan_outs: Sequence[int]) -> tuple[tfx_gnn.GraphTensor, tfx_gnn.GraphTensor]:
    """Makes a batch of subgraphs, and the batch of their trees."""
    widths = list(itertools.accumulate(fan_outs, lambda width, fan_out: width * fan_out, initial=1))
    firsts = list(itertools.accumulate(widths, initial=0))
    starts = np.arange(batch_size)[:, np.newaxis] * sum(widths)
    parents = [starts + firsts[hop] + np.repeat(np.arange(widths[hop]), k) for hop, k in enumerate(fan_outs)]
    children = [starts + firsts[hop + 1] + np.arange(widths[hop + 1]) for hop in range(len(fan_outs))]
    sources, targets = (tf.constant(np.concatenate(ends, axis=1), tf.int32) for ends in (parents, children))
    ones = tf.ones([batch_size], tf.int32)
    values = np.random.default_rng(0).normal(size=[batch_size * sum(widths), NUM_FEATURES]).astype(np.float32)
    papers = tfx_gnn.NodeSet.from_fields(sizes=ones * sum(widths), features={"x": values})
    edges = tfx_gnn.Adjacency.from_indices(("paper", tf.reshape(sources, [-1])), ("paper", tf.reshape(targets, [-1])))
    seeds = tfx_gnn.Adjacency.from_indices(
        ("paper", tf.constant(starts[:, 0], tf.int32)), ("_readout", tf.range(batch_size))
    )

    def graph(context: Mapping[str, tf.Tensor]) -> tfx_gnn.GraphTensor:
        return tfx_gnn.GraphTensor.from_pieces(
            context=tfx_gnn.Context.from_fields(features=dict(context), sizes=ones),
            node_sets={"paper": papers, "_readout": tfx_gnn.NodeSet.from_fields(sizes=ones)},
            edge_sets={
                "cites": tfx_gnn.EdgeSet.from_fields(sizes=ones * sources.shape[1], adjacency=edges),
                "_readout/seed": tfx_gnn.EdgeSet.from_fields(sizes=ones, adjacency=seeds),
            },
        )

    hops = tuple(
        EgoHop(feature=f"hop_{hop}", relation="cites", node_set="paper", fan_out=k) for hop, k in enumerate(fan_outs)
    )
    positions = {hop.feature: tf.constant(found, tf.int64) for hop, found in zip(hops, children, strict=True)}
    trees = EgoTrees(seed_node_set="paper", hops=hops)
    return tfx_gnn.sort_edges(graph({})), ego_batch(graph(positions), trees, batch_size)[0]


def train_step(
    name: str, graph: tfx_gnn.GraphTensor, *, units: int, num_layers: int, in_xla: bool
) -> Callable[[], object]:
    """Returns a function that runs one step of a ready network."""
    objective = NodeClassification(label_feature="topic", num_classes=NUM_CLASSES).objective()
    of_graphs = {} if name.startswith("ego") else {"receiver_tags": [tfx_gnn.SOURCE], "num_layers": num_layers}
    model = getattr(model_fns, name)(graph.spec, objective=objective, hyperparameters={"units": units, **of_graphs})
    model.compile(optimizer=tf_keras.optimizers.Adam(1e-3), **objective.compile_arguments())
    num_seeds = graph.node_sets["_readout"].spec.total_size
    labels, weights = tf.range(num_seeds, dtype=tf.int64) % NUM_CLASSES, tf.ones([num_seeds])
    model.optimizer.build(model.trainable_variables)

    @functools.partial(tf.function, jit_compile=in_xla, autograph=False)
    def step(graph: tfx_gnn.GraphTensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return model.train_step((graph, labels, weights))["loss"]

    return lambda: step(graph, labels, weights)


def milliseconds(steps: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Runs all in turn; returns the median time of a step."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(_ROUNDS + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(_STEPS_PER_ROUND):
                loss = step()
            float(loss)  # type: ignore[arg-type] - waits for the device
            if number:
                times[name].append((time.perf_counter() - start) / _STEPS_PER_ROUND * 1e3)
    return {name: round(statistics.median(found), 3) for name, found in times.items()}


def main() -> None:
    """Measures all cases."""
    _write({"devices": [device.name for device in tf.config.list_logical_devices()]})
    for (fan_outs, batch_size, units), policy, in_xla in itertools.product(
        CASES, ("float32", "mixed_bfloat16"), (False, True)
    ):
        tf_keras.mixed_precision.set_global_policy(policy)
        subgraphs, trees = batches(batch_size, fan_outs)
        for of_trees, of_graphs in PAIRS:
            options = {"units": units, "num_layers": len(fan_outs), "in_xla": in_xla}
            found = milliseconds(
                {
                    of_trees: train_step(of_trees, trees, **options),
                    of_graphs: train_step(of_graphs, subgraphs, **options),
                }
            )
            ratio = round(found[of_graphs] / found[of_trees], 2)
            case = {"fan_outs": fan_outs, "batch_size": batch_size, "units": units, "policy": policy, "in_xla": in_xla}
            _write({**case, **found, "ratio": ratio})


def _write(row: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
