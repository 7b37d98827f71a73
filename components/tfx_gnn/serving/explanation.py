"""Explanations of an exported model's predictions; needs nothing but TensorFlow.

Two methods say what a prediction rests on:

- "gradients" asks the signature `explanations`, which a model has if it was trained with `explanation_steps`. It weighs
  edges and features, and its weights add up.
- "occlusion" removes edges from the example, one at a time, and asks again. It works for every model, takes a request
  for each edge and node, and weighs no features. Edges that can stand in for each other get no weight, unless others
  are removed at random as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph.graph_constants import CONTEXT, EDGES, NODES
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.serving import model_interface
from tfx_gnn.serving.example_edges import ExampleGraph
from tfx_gnn.serving.full_precision import FULL_PRECISION
from tfx_gnn.serving.model_interface import read_served_task
from tfx_gnn.serving.occlusion import occlusion_weights
from tfx_gnn.serving.prediction import ServingModel, as_text, batches_of

AUTO, GRADIENTS, OCCLUSION = "auto", "gradients", "occlusion"
METHODS = (AUTO, GRADIENTS, OCCLUSION)

_LARGE_ERROR = 0.2
_Outputs = Mapping[str, npt.NDArray[Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EdgeWeight:
    """What an edge adds to the explained value.

    Attributes:
        edge_set: name of its set.
        position: position in its set.
        source: index of its source in that node set.
        target: index of its target in that node set.
        source_id: original id of the source; None if the example has none.
        target_id: original id of the target; None if the example has none.
        weight: the share of the explained value; negative if the edge speaks against the prediction.
    """

    edge_set: str
    position: int
    source: int
    target: int
    source_id: str | int | None
    target_id: str | int | None
    weight: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeWeight:
    """What a node adds to the explained value.

    Attributes:
        node_set: name of its set.
        index: position in its set.
        id: original id; None if the example has none.
        weight: by gradients, the sum of its features' weights; by occlusion, what all of its edges add together.
        features: weights by feature after the transform; empty by occlusion.
    """

    node_set: str
    index: int
    id: str | int | None
    weight: float
    features: dict[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """What one prediction rests on.

    Attributes:
        id: original id that the prediction is about, if it is known.
        task: name of the task in a model of several tasks, else "".
        method: "gradients" or "occlusion".
        target: position of the explained class, output or candidate.
        target_name: name of the class, "source -> target" of a candidate with ids, or the position as text.
        value: the explained value: log odds of a class, an output in the label's unit, or the score of a candidate.
        value_without_edges: the same of the graph without its edges.
        edges_error: what the weights of edges miss of the difference; None by occlusion, whose weights do not add up.
        value_without_features: the same with all features 0; None by occlusion.
        features_error: what the weights of features miss of the difference; None by occlusion.
        edges: all edges, those with the largest absolute weight first.
        nodes: all nodes with a weight, in the same order.
        features: sums of weights over all items, by key such as "nodes/paper.year", in the same order.
        warnings: sentences on why not to trust the weights.
    """

    id: str | int | None
    task: str
    method: str
    target: int
    target_name: str
    value: float
    value_without_edges: float
    edges_error: float | None
    value_without_features: float | None
    features_error: float | None
    edges: tuple[EdgeWeight, ...]
    nodes: tuple[NodeWeight, ...]
    features: dict[str, float]
    warnings: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """Returns the explanation as JSON values."""
        return dataclasses.asdict(self)


class Explainer:
    """Explains the predictions of an exported model.

    Args:
        saved_model_dir: folder that holds `saved_model.pb`.
        method: "gradients", "occlusion", or "auto" for gradients if the model has the signature, else occlusion.
        task: name of the task to explain; needed if the model has several.
        num_contexts: for occlusion, in how many graphs each edge and node is removed: the whole graph, then graphs
            without up to a fifth of their other edges, drawn at random; weights are means. More find edges that can
            stand in for each other, by as many times the requests.

    Attributes:
        method: "gradients" or "occlusion".
        edge_ends: node sets at the source and the target, by edge set, as the model declares them.

    Raises:
        ValueError: if the method is unknown or the model lacks its signature, or there is no such task.
    """

    def __init__(self, saved_model_dir: str, *, method: str = AUTO, task: str = "", num_contexts: int = 1) -> None:
        if num_contexts < 1:
            raise ValueError(f"`num_contexts` must be at least 1; got {num_contexts}. 1 stands for the whole graph.")
        self._num_contexts = num_contexts
        if method not in METHODS:
            advice = did_you_mean(method, METHODS, otherwise="'auto' takes what there is.")
            raise ValueError(f"`method` must be one of {list(METHODS)}; got {method!r}. {advice}")
        self._model = ServingModel(saved_model_dir)
        served = read_served_task(saved_model_dir)
        self.edge_ends: Mapping[str, Sequence[str]] = {} if served is None else served.edge_ends
        tasks = sorted(served.task["tasks"]) if served is not None and "tasks" in served.task else [""]
        if task not in tasks:
            raise ValueError(
                f"`task` must be one of {tasks}, the tasks of the model; got {task!r}. "
                f"{did_you_mean(task, tasks, otherwise='Name the one to explain.')}"
            )
        self._task = task
        self._prefix = f"{task}/" if task else ""
        self._classes = [] if served is None else served.classes.get(task, [])
        signature = self._prefix + model_interface.EXPLANATIONS_SIGNATURE
        self._explain_batch = self._model.signatures.get(signature)
        if method == GRADIENTS and self._explain_batch is None:
            raise ValueError(
                f"`method` must not be {GRADIENTS!r} for a model without signature {signature!r}; got "
                f"{saved_model_dir!r}. Train with `explanation_steps`, or explain by {OCCLUSION!r}."
            )
        self.method = OCCLUSION if method == OCCLUSION or self._explain_batch is None else GRADIENTS

    def explain(
        self, records: Iterable[bytes], *, target: str | int | None = None, batch_size: int = 16
    ) -> Iterator[Explanation]:
        """Explains a stream of examples in its order.

        Args:
            records: serialized raw graph tf.Examples.
            target: name of a class; or, for a model without names of classes, the position of a class, an output or a
                candidate. None for what is predicted: the most probable class, the first output or the best candidate.
            batch_size: examples per call of the model, at least 1; occlusion has requests of its own.

        Yields:
            One explanation per example.

        Raises:
            ValueError: if `target` does not exist, or an example's edges cannot be removed.
            tf.errors.InvalidArgumentError: if a record is not a graph tf.Example of the model's schema.
        """
        position = self._position(target)
        for batch in batches_of(records, batch_size):
            if self.method == GRADIENTS:
                yield from self._by_gradients(batch, position)
            else:
                yield from (self._by_occlusion(record, position) for record in batch)

    def _position(self, target: str | int | None) -> int:
        if target is None:
            return -1
        if str(target) in self._classes:
            return self._classes.index(str(target))
        if str(target).isdecimal() and not self._classes:
            return int(target)
        known = f"one of {self._classes}" if self._classes else "a position, counted from 0"
        raise ValueError(
            f"`target` must be {known}; got {target!r}. "
            f"{did_you_mean(target, self._classes, otherwise='Leave it out to explain what is predicted.')}"
        )

    def _by_gradients(self, batch: list[bytes], position: int) -> Iterator[Explanation]:
        assert self._explain_batch is not None
        self._model(tf.constant(batch, tf.string))  # refuses bad records with a good message
        inputs = {
            model_interface.EXAMPLES_INPUT: tf.constant(batch, tf.string),
            model_interface.TARGET_INPUT: tf.fill([len(batch)], tf.constant(position, tf.int64)),
        }
        with FULL_PRECISION:
            answers = self._explain_batch(**inputs)
        outputs = {name: value.numpy() for name, value in answers.items()}
        for row, record in enumerate(batch):
            example = tf.train.Example.FromString(record)
            yield self._of_outputs({name: values[row] for name, values in outputs.items()}, example)

    def _of_outputs(self, row: _Outputs, example: tf.train.Example) -> Explanation:
        graph = ExampleGraph.of(example, self.edge_ends)
        features: dict[str, float] = {}
        of_nodes: dict[str, dict[str, npt.NDArray[np.float32]]] = {}
        for key in row:
            kind, _, rest = key.partition("/")
            set_name, _, feature = rest.rpartition(".")
            if (kind == EDGES and rest in graph.edges) or kind not in (NODES, EDGES, CONTEXT):
                continue
            features[key] = float(row[key].sum())
            if kind == NODES:
                of_nodes.setdefault(set_name, {})[feature] = row[key]
        value, no_edges = float(row[model_interface.VALUE_OUTPUT]), float(row[model_interface.WITHOUT_EDGES_OUTPUT])
        no_features = float(row[model_interface.WITHOUT_FEATURES_OUTPUT])
        errors = [
            float(row[name]) for name in (model_interface.EDGES_ERROR_OUTPUT, model_interface.FEATURES_ERROR_OUTPUT)
        ]
        nodes = [
            NodeWeight(
                node_set=name,
                index=index,
                id=graph.node_id(name, index),
                weight=float(sum(values[index] for values in weights.values())),
                features={feature: float(values[index]) for feature, values in sorted(weights.items())},
            )
            for name, weights in sorted(of_nodes.items())
            for index in range(graph.node_sizes[name])
        ]
        target = int(row[model_interface.TARGET_OUTPUT])
        return Explanation(
            **self._subject(row, target),
            method=GRADIENTS,
            value=value,
            value_without_edges=no_edges,
            edges_error=errors[0],
            value_without_features=no_features,
            features_error=errors[1],
            edges=_edge_weights(graph, {name: row.get(f"{EDGES}/{name}") for name in graph.edges}),
            nodes=_largest_first(nodes),
            features=dict(sorted(features.items(), key=lambda item: -abs(item[1]))),
            warnings=tuple(
                f"The weights of {what} miss {error:.3g} of a difference of {value - without:.3g}. {advice}"
                for what, error, without, advice in (
                    ("edges", errors[0], no_edges, f"Explain by {OCCLUSION!r}, or train with more steps."),
                    ("features", errors[1], no_features, "Train with more `explanation_steps`."),
                )
                if abs(error) > _LARGE_ERROR * max(abs(value - without), _LARGE_ERROR)
            ),
        )

    def _by_occlusion(self, record: bytes, position: int) -> Explanation:
        example = tf.train.Example.FromString(record)
        outputs = self._ask([record])
        row = {name: values[0] for name, values in outputs.items()}
        target = self._check_target(row, position)
        graph = ExampleGraph.of(example, self.edge_ends)
        weights = occlusion_weights(
            example,
            graph,
            lambda records: explained_values(self._ask(records), [target] * len(records)),
            num_contexts=self._num_contexts,
        )
        return Explanation(
            **self._subject(row, target),
            method=OCCLUSION,
            value=float(explained_values(outputs, [target])[0]),
            value_without_edges=weights.value_without_edges,
            edges_error=None,
            value_without_features=None,
            features_error=None,
            edges=_edge_weights(graph, weights.edges),
            nodes=_largest_first(
                NodeWeight(node_set=name, index=index, id=graph.node_id(name, index), weight=weight, features={})
                for (name, index), weight in weights.nodes.items()
            ),
            features={},
            warnings=(),
        )

    def _ask(self, records: list[bytes]) -> dict[str, npt.NDArray[Any]]:
        """Returns the outputs of the task, without its prefix, and the ids."""
        outputs = self._model(tf.constant(records, tf.string))
        return {
            name.removeprefix(self._prefix): value.numpy()
            for name, value in outputs.items()
            if name.startswith(self._prefix) or "/" not in name
        }

    def _check_target(self, row: _Outputs, position: int) -> int:
        table = _target_table(row)
        count = int(row.get(model_interface.NUM_CANDIDATES_OUTPUT, table.shape[-1]))
        if position >= count:
            raise ValueError(
                f"`target` must be below {count}, the number of classes, outputs or candidates of the example; got "
                f"{position}. Positions count from 0."
            )
        if position >= 0:
            return position
        return 0 if model_interface.PREDICTION_OUTPUT in row else int(table[:count].argmax())

    def _subject(self, row: _Outputs, target: int) -> dict[str, Any]:
        """Returns what an explanation is about."""
        name = self._classes[target] if self._classes else str(target)
        ids = [row.get(end) for end in (model_interface.SOURCE_ID_OUTPUT, model_interface.TARGET_ID_OUTPUT)]
        if all(values is not None for values in ids):
            name = " -> ".join(str(as_text(values[target])) for values in ids if values is not None)
        own = row.get(model_interface.ID_OUTPUT)
        own_id = None if own is None else as_text(own.item() if isinstance(own, np.generic) else own)
        return {"id": own_id, "task": self._task, "target": target, "target_name": name}


def explained_values(outputs: _Outputs, targets: Sequence[int]) -> npt.NDArray[np.float64]:
    """Computes from served outputs, [n, ...], the value that explanations are about, [n]."""
    table = _target_table(outputs).astype(np.float64)
    rows = np.arange(len(table))
    chosen = table[rows, list(targets)]
    if model_interface.LOGITS_OUTPUT not in outputs:
        return np.asarray(chosen)
    others = table.copy()
    others[rows, list(targets)] = -np.inf
    return np.asarray(chosen - np.logaddexp.reduce(others, axis=1))


def _target_table(outputs: _Outputs) -> npt.NDArray[Any]:
    for name in (model_interface.LOGITS_OUTPUT, model_interface.PREDICTION_OUTPUT, model_interface.SCORES_OUTPUT):
        if name in outputs:
            return outputs[name]
    raise ValueError(
        f"The model must return logits, numbers or scores of candidates; got {sorted(outputs)}. Choose a model that "
        "GraphTrainer made."
    )


def _edge_weights(graph: ExampleGraph, weights: Mapping[str, npt.NDArray[Any] | None]) -> tuple[EdgeWeight, ...]:
    found = []
    for name, indices in graph.edges.items():
        values = weights[name]
        source_set, target_set = graph.ends[name]
        for position, (source, target) in enumerate(indices.T.tolist()):
            found.append(
                EdgeWeight(
                    edge_set=name,
                    position=position,
                    source=source,
                    target=target,
                    source_id=graph.node_id(source_set, source),
                    target_id=graph.node_id(target_set, target),
                    # An edge set without an output is one that the model does not read.
                    weight=0.0 if values is None else float(values[position]),
                )
            )
    return _largest_first(found)


def _largest_first(items: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(items, key=lambda item: -abs(item.weight)))
