"""Graphs with planted motifs, and networks that learn to see them: what explanations must find is known.

A base graph grows by preferential attachment (Barabasi and Albert); a motif hangs on it by one edge. Nodes have no
features, so that structure alone carries every prediction. Two tasks, after those of GNNExplainer (arXiv:1903.03894)
and PGExplainer (arXiv:2011.04573):

- "graphs": does a graph have a house (a square with a roof, six edges) or a cycle of five nodes? Every edge is there in
  both directions, and weighs what both do.
- "nodes": is the seed in the base graph, or the roof, the middle or the bottom of a house? Edges have a random
  direction.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras
from google.protobuf import text_format

from tfx_gnn.graph import GraphSchema, GraphTensor, GraphTensorSpec, create_graph_spec_from_schema_pb, parse_and_merge
from tfx_gnn.models import GraphClassification, NodeClassification, model_fns
from tfx_gnn.models.tasks import Objective, Task
from tfx_gnn.serving import Explainer
from tfx_gnn.training.export.explanations import explain_graph

_Weights = npt.NDArray[np.float64]

_HOUSE = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4))
_CYCLE = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
_ROLES = (2, 2, 3, 3, 1)
"""Class of each node of a house: middle, middle, bottom, bottom, roof; 0 is the base graph."""

_ITEMS = """
node_sets { key: "node" value {} }
edge_sets { key: "edge" value { source: "node" target: "node" } }
"""
SCHEMAS = {
    "graphs": f'{_ITEMS} context {{ features {{ key: "motif" value {{ dtype: DT_INT64 }} }} }}',
    "nodes": f"""{_ITEMS}
node_sets {{ key: "_readout" value {{ features {{ key: "role" value {{ dtype: DT_INT64 }} }} }} }}
edge_sets {{ key: "_readout/seed" value {{ source: "node" target: "_readout" }} }}
""",
}
HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "graphs": {},
    "nodes": {"normalization": "none", "units": 64, "num_graphs": 8000, "num_steps": 4000},
}
TASKS: dict[str, Task] = {
    "graphs": GraphClassification(label_feature="motif", num_classes=2, pooling="sum"),
    "nodes": NodeClassification(label_feature="role", num_classes=4),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlantedGraph:
    """A graph with a motif.

    Attributes:
        record: serialized tf.Example.
        motif: positions of the motif's edges, of which each is counted once.
        is_house: whether the motif is a house.
        label: class of the graph, or of its seed.
    """

    record: bytes
    motif: frozenset[int]
    is_house: bool
    label: int


def planted_graphs(task: str, count: int, *, seed: int, num_base_nodes: int = 20) -> list[PlantedGraph]:
    """Draws graphs, the same for the same seed.

    Args:
        task: "graphs", for houses and cycles in turn; "nodes", for houses only, the seed being a node of the base
            graph in every fifth graph.
        count: how many.
        seed: of the random numbers.
        num_base_nodes: nodes of the base graph.

    Returns:
        The graphs.
    """
    random = np.random.default_rng(seed)
    return [_planted_graph(task, number, random, num_base_nodes) for number in range(count)]


def _planted_graph(task: str, number: int, random: np.random.Generator, num_base_nodes: int) -> PlantedGraph:
    is_house = task == "nodes" or number % 2 == 0
    edges: list[tuple[int, int]] = []
    ends = [0]
    for node in range(1, num_base_nodes):
        other = int(random.choice(ends))
        edges.append((node, other))
        ends += [node, other]
    motif = [(a + num_base_nodes, b + num_base_nodes) for a, b in (_HOUSE if is_house else _CYCLE)]
    edges += [(int(random.integers(num_base_nodes)), num_base_nodes + int(random.integers(5))), *motif]
    order = random.permutation(len(edges))
    drawn = [edges[i] for i in order]
    if task == "graphs":
        drawn += [edge[::-1] for edge in drawn]
    else:
        drawn = [edge if random.random() < 0.5 else edge[::-1] for edge in drawn]
    content: dict[str, Any] = {
        "nodes/node.#size": [num_base_nodes + 5],
        "edges/edge.#size": [len(drawn)],
        "edges/edge.#source": [source for source, _ in drawn],
        "edges/edge.#target": [target for _, target in drawn],
    }
    label = int(is_house)
    if task == "graphs":
        content["context/motif"] = [label]
    else:
        role = number % 5
        at = int(random.integers(num_base_nodes)) if role == 4 else num_base_nodes + (0, 2, 3, 4)[role]
        label = 0 if role == 4 else _ROLES[at - num_base_nodes]
        content |= {
            "nodes/_readout.#size": [1],
            "nodes/_readout.role": [label],
            "edges/_readout/seed.#size": [1],
            "edges/_readout/seed.#source": [at],
            "edges/_readout/seed.#target": [0],
        }
    features = {key: tf.train.Feature(int64_list=tf.train.Int64List(value=values)) for key, values in content.items()}
    return PlantedGraph(
        record=tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(),
        motif=frozenset(np.flatnonzero(order >= len(edges) - len(motif)).tolist()),
        is_house=is_house,
        label=label,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainedNetwork:
    """A network that has learned one of the tasks.

    Attributes:
        model: from graphs to the task's output.
        objective: objective of the task.
        spec: spec of one graph with labels.
    """

    model: tf_keras.Model
    objective: Objective
    spec: GraphTensorSpec

    def merged(self, graphs: Sequence[PlantedGraph]) -> tuple[GraphTensor, tf.Tensor]:
        """Merges graphs into one, and splits off their labels."""
        graph = parse_and_merge(self.spec, tf.constant([graph.record for graph in graphs]))
        return self.objective.split_off_labels(graph)

    def gradient_weights(self, graphs: Sequence[PlantedGraph], *, steps: int) -> _Weights:
        """Weighs the edges of each graph as the signature `explanations` does, [n, num_edges]."""
        graph, _ = self.merged(graphs)
        target = tf.fill(tf.shape(graph.context.sizes), tf.constant(-1, tf.int64))
        found = tf.function(lambda: explain_graph(self._served, graph, target, steps=steps), autograph=False)()
        return np.asarray(found["edges/edge"])

    def occlusion_weights(self, graphs: Sequence[PlantedGraph], *, num_contexts: int) -> _Weights:
        """Weighs the edges of each graph as `tfx-gnn explain --method occlusion` does, [n, num_edges]."""
        spec = self.objective.without_labels(self.spec)
        module = tf.Module()
        module.model = self.model
        signature = tf.function(
            lambda examples: self._served(parse_and_merge(spec, examples)),
            input_signature=[tf.TensorSpec([None], tf.string, name="examples")],
            autograph=False,
        )
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(module, folder, signatures={"serving_default": signature})
            explainer = Explainer(folder, method="occlusion", num_contexts=num_contexts)
            explanations = list(explainer.explain(graph.record for graph in graphs))
        return np.array(
            [[one.weight for one in sorted(found.edges, key=lambda edge: edge.position)] for found in explanations]
        )

    def is_right(self, graphs: Sequence[PlantedGraph]) -> npt.NDArray[np.bool_]:
        """Tells for which graphs the right class is predicted, [n]."""
        graph, labels = self.merged(graphs)
        return np.asarray(tf.argmax(self.model(graph, training=False), axis=1) == labels)

    def _served(self, graph: GraphTensor) -> dict[str, tf.Tensor]:
        return dict(self.objective.served_outputs(self.model(graph, training=False), graph))


def trained_network(
    task: str, *, num_graphs: int = 1000, num_steps: int = 400, **hyperparameters: Any
) -> TrainedNetwork:
    """Trains the ready GIN on graphs of seed 0.

    Args:
        task: "graphs" or "nodes".
        num_graphs: graphs to train on, in batches of 100.
        num_steps: training steps.
        hyperparameters: beside the usual ones, by name.

    Returns:
        The network.
    """
    objective = TASKS[task].objective()
    spec = create_graph_spec_from_schema_pb(text_format.Parse(SCHEMAS[task], GraphSchema()))
    tf_keras.utils.set_random_seed(1)
    model = model_fns.gin(
        objective.without_labels(spec).relax(num_components=True, num_nodes=True, num_edges=True),
        objective=objective,
        hyperparameters={"units": 16, "num_layers": 3, "dropout_rate": 0.0, **hyperparameters},
    )
    network = TrainedNetwork(model=model, objective=objective, spec=spec)
    graphs = planted_graphs(task, num_graphs, seed=0)
    num_batches = num_graphs // 100
    _train(model, [network.merged(graphs[start::num_batches]) for start in range(num_batches)], num_steps)
    return network


def _train(model: tf_keras.Model, batches: list[tuple[GraphTensor, tf.Tensor]], num_steps: int) -> None:
    rate = tf_keras.optimizers.schedules.CosineDecay(0.01, num_steps, alpha=0.01)
    optimizer = tf_keras.optimizers.Adam(rate)
    loss_of = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(model.trainable_variables)

    @tf.function(autograph=False, reduce_retracing=True)
    def step(graph: GraphTensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(graph, training=True)) + sum(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for number in range(num_steps):
        step(*batches[number % len(batches)])


def motif_shares(weights: _Weights, graphs: Sequence[PlantedGraph]) -> npt.NDArray[np.float64]:
    """Computes, for each graph, the share of its k heaviest edges that are of the motif, which has k edges.

    Args:
        weights: weights of edges, [n, num_edges]; all graphs have the same number of edges.
        graphs: the graphs.

    Returns:
        Shares, [n].
    """
    return np.asarray(
        [
            np.mean([edge in graph.motif for edge in np.argsort(-row, kind="stable")[: len(graph.motif)]])
            for row, graph in zip(weights, graphs, strict=True)
        ]
    )


def main() -> None:
    """Trains both networks, explains 100 houses that they have not seen, and prints how many are found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--task", choices=sorted(TASKS), action="append")
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--num-contexts", type=int, default=20)
    arguments = parser.parse_args()
    for task in arguments.task or sorted(TASKS):
        start = time.process_time()
        network = trained_network(task, **HYPERPARAMETERS[task])
        sys.stdout.write(f"{task}: {time.process_time() - start:.0f} s of processor time to train\n")
        houses = [one for one in planted_graphs(task, 300, seed=7) if one.is_house and one.label][:100]
        right = network.is_right(houses)
        weighings: dict[str, Callable[[], _Weights]] = {
            f"gradients, {arguments.steps} points": functools.partial(
                network.gradient_weights, houses, steps=arguments.steps
            )
        }
        for count in sorted({1, arguments.num_contexts}):
            weighings[f"occlusion, {count} contexts"] = functools.partial(
                network.occlusion_weights, houses, num_contexts=count
            )
        for name, weigh in weighings.items():
            start = time.process_time()
            weights = weigh()
            if task == "graphs":
                weights = np.sum(np.split(weights, 2, axis=1), axis=0)
            shares = motif_shares(weights, houses)
            sys.stdout.write(
                f"  {name}: of the six heaviest edges, at least five are of the house in {np.sum(shares > 0.8)} of "
                f"{len(houses)} graphs, all six in {np.sum(shares > 0.99)}; of the {right.sum()} that are predicted "
                f"rightly, at least five in {np.sum(shares[right] > 0.8)}; {time.process_time() - start:.1f} s of "
                "processor time\n"
            )


if __name__ == "__main__":
    main()
