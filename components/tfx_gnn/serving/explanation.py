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
from tfx_gnn.serving.explained_prediction import EdgeWeight, Explanation, NodeWeight
from tfx_gnn.serving.explanation_check import check_explanation
from tfx_gnn.serving.feature_columns import columns_of_features
from tfx_gnn.serving.full_precision import FULL_PRECISION
from tfx_gnn.serving.model_interface import read_served_task
from tfx_gnn.serving.occlusion import occlusion_weights
from tfx_gnn.serving.prediction import ServingModel, as_text, batches_of
from tfx_gnn.serving.raw_columns import ExampleColumns, RawColumns, split_key
from tfx_gnn.serving.true_labels import LabelReader

AUTO, GRADIENTS, OCCLUSION = "auto", "gradients", "occlusion"
METHODS = (AUTO, GRADIENTS, OCCLUSION)

LOG_ODDS, LOGIT, PROBABILITY = "log odds", "logit", "probability"
"""Units of what is explained, and of what a check measures, beside the label's own."""

_LARGE_ERROR = 0.2
_MOST_EXCHANGED = 8
"""Examples in which values are exchanged to find the columns of features."""
_Outputs = Mapping[str, npt.NDArray[Any]]


class Explainer:
    """Explains the predictions of an exported model.

    Args:
        saved_model_dir: folder that holds `saved_model.pb`.
        method: "gradients", "occlusion", or "auto" for gradients if the model has the signature, else occlusion.
        task: name of the task to explain; needed if the model has several.
        num_orders: random orders to check each explanation against; 0: no check. See `deletion_check`.
        reference: raw examples whose columns tell what a removed value becomes, and which columns features are made
            of; if none are given, the first ones to explain.
        num_contexts: for occlusion, in how many graphs each edge and node is removed: the whole graph, then graphs
            without up to a fifth of their other edges, drawn at random; weights are means. More find edges that can
            stand in for each other, by as many times the requests.

    Attributes:
        method: "gradients" or "occlusion".
        edge_ends: node sets at the source and the target, by edge set, as the model declares them.

    Raises:
        ValueError: if the method is unknown or the model lacks its signature, or there is no such task.
    """

    def __init__(
        self,
        saved_model_dir: str,
        *,
        method: str = AUTO,
        task: str = "",
        num_contexts: int = 1,
        num_orders: int = 0,
        reference: Sequence[bytes] = (),
    ) -> None:
        if num_orders < 0:
            raise ValueError(f"`num_orders` must be at least 0; got {num_orders}. 0 stands for no check.")
        if num_contexts < 1:
            raise ValueError(f"`num_contexts` must be at least 1; got {num_contexts}. 1 stands for the whole graph.")
        self._num_contexts, self._num_orders, self._reference = num_contexts, num_orders, list(reference)
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
        self._labels = LabelReader(served, task)
        self._saved_model_dir = saved_model_dir
        self._columns: RawColumns | None = None
        self._columns_of: dict[str, tuple[str, ...]] = {}
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
                found = self._by_gradients(batch, position)
            else:
                found = (self._by_occlusion(record, position) for record in batch)
            for record, explanation in zip(batch, found, strict=True):
                yield self.checked(explanation, record) if self._num_orders else explanation

    def checked(self, explanation: Explanation, record: bytes) -> Explanation:
        """Adds what removing the parts of an example shows."""
        example = tf.train.Example.FromString(record)
        assert self._columns is not None
        check = check_explanation(
            explanation,
            example,
            ExampleGraph.of(example, self.edge_ends),
            self._columns,
            lambda records: _predictions(self._ask(records), explanation.target),
            unit=PROBABILITY if explanation.unit == LOG_ODDS else explanation.unit,
            num_orders=self._num_orders,
        )
        return dataclasses.replace(explanation, check=check)

    def _learn_columns(self, batch: Sequence[bytes], features: Sequence[str]) -> RawColumns:
        """Learns once what raw columns hold, and which of them the features are made of."""
        if self._columns is None:
            sample = []
            for record in self._reference or batch:
                example = tf.train.Example.FromString(record)
                sample.append(ExampleColumns(example, ExampleGraph.of(example, self.edge_ends)))
            self._columns = RawColumns.of(sample, self._saved_model_dir)
            can_transform = model_interface.TRANSFORMED_GRAPH_SIGNATURE in self._model.signatures
            self._columns_of = columns_of_features(
                features, sample[:_MOST_EXCHANGED], self._columns, self._transform if can_transform else None
            )
        return self._columns

    def _transform(self, records: list[bytes]) -> _Outputs:
        signature = self._model.signatures[model_interface.TRANSFORMED_GRAPH_SIGNATURE]
        return {key: value.numpy() for key, value in signature(examples=tf.constant(records, tf.string)).items()}

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
        answers = self._ask(batch)  # refuses bad records with a good message
        inputs = {
            model_interface.EXAMPLES_INPUT: tf.constant(batch, tf.string),
            model_interface.TARGET_INPUT: tf.fill([len(batch)], tf.constant(position, tf.int64)),
        }
        with FULL_PRECISION:
            explained = self._explain_batch(**inputs)
        outputs = {name: value.numpy() for name, value in explained.items()}
        features = [key for key in outputs if key.partition("/")[0] in (NODES, EDGES, CONTEXT)]
        features = [key for key in features if not key.startswith(f"{EDGES}/") or "." in key]
        columns = self._learn_columns(batch, features)
        for row, record in enumerate(batch):
            example = tf.train.Example.FromString(record)
            answer = {name: values[row] for name, values in answers.items()}
            yield self._of_outputs({name: values[row] for name, values in outputs.items()}, answer, example, columns)

    def _of_outputs(
        self, row: _Outputs, answer: _Outputs, example: tf.train.Example, columns: RawColumns
    ) -> Explanation:
        graph = ExampleGraph.of(example, self.edge_ends)
        items = _Items(graph, ExampleColumns(example, graph), columns)
        features: dict[str, float] = {}
        of_items: dict[str, dict[str, npt.NDArray[np.float32]]] = {}
        for key in row:
            kind, _, rest = key.partition("/")
            if (kind == EDGES and rest in graph.edges) or kind not in (NODES, EDGES, CONTEXT):
                continue
            features[key] = float(row[key].sum())
            item_set, feature = split_key(key)
            of_items.setdefault(item_set, {})[feature] = row[key]
        value, no_edges = float(row[model_interface.VALUE_OUTPUT]), float(row[model_interface.WITHOUT_EDGES_OUTPUT])
        no_features = float(row[model_interface.WITHOUT_FEATURES_OUTPUT])
        errors = [
            float(row[name]) for name in (model_interface.EDGES_ERROR_OUTPUT, model_interface.FEATURES_ERROR_OUTPUT)
        ]
        nodes = {
            (name, index): float(sum(values[index] for values in of_items[f"{NODES}/{name}"].values()))
            for name in sorted(graph.node_sizes)
            if f"{NODES}/{name}" in of_items
            for index in range(graph.node_sizes[name])
        }
        return Explanation(
            **self._subject(answer, int(row[model_interface.TARGET_OUTPUT]), example, items),
            method=GRADIENTS,
            value=value,
            value_without_edges=no_edges,
            edges_error=errors[0],
            value_without_features=no_features,
            features_error=errors[1],
            edges=items.edges({name: row.get(f"{EDGES}/{name}") for name in graph.edges}, of_items),
            nodes=items.nodes(nodes, of_items),
            features=dict(sorted(features.items(), key=lambda item: -abs(item[1]))),
            columns={key: names for key, names in sorted(self._columns_of.items()) if key in features},
            check=None,
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
        items = _Items(graph, ExampleColumns(example, graph), self._learn_columns([record], []))
        return Explanation(
            **self._subject(row, target, example, items),
            method=OCCLUSION,
            value=float(explained_values(outputs, [target])[0]),
            value_without_edges=weights.value_without_edges,
            edges_error=None,
            value_without_features=None,
            features_error=None,
            edges=items.edges(weights.edges, {}),
            nodes=items.nodes(weights.nodes, {}),
            features={},
            columns={},
            check=None,
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

    def _subject(self, row: _Outputs, target: int, example: tf.train.Example, items: _Items) -> dict[str, Any]:
        """Returns what an explanation is about."""
        is_class = model_interface.LOGITS_OUTPUT in row
        table = _target_table(row)
        predicted: str | float
        if model_interface.PREDICTION_OUTPUT in row:
            predicted = float(table[target])
        else:
            count = int(row.get(model_interface.NUM_CANDIDATES_OUTPUT, table.shape[-1]))
            predicted = self._target_name(row, int(table[:count].argmax()))
        own = row.get(model_interface.ID_OUTPUT)
        return {
            "id": None if own is None else as_text(own.item() if isinstance(own, np.generic) else own),
            "task": self._task,
            "target": target,
            "target_name": self._target_name(row, target),
            "predicted": predicted,
            "probability": float(_probabilities(table[np.newaxis])[0, target]) if is_class else None,
            "label_name": self._labels.name,
            "label": self._labels.label(example, is_class=is_class, position=target),
            "unit": LOG_ODDS if is_class else self._unit(row),
            "values": items.values(CONTEXT, 0),
        }

    def _unit(self, row: _Outputs) -> str:
        if model_interface.SCORES_OUTPUT in row:
            return LOGIT
        return f"units of {self._labels.name}" if self._labels.name else "units of the label"

    def _target_name(self, row: _Outputs, target: int) -> str:
        ids = [row.get(end) for end in (model_interface.SOURCE_ID_OUTPUT, model_interface.TARGET_ID_OUTPUT)]
        if all(values is not None for values in ids):
            return " -> ".join(str(as_text(values[target])) for values in ids if values is not None)
        return self._classes[target] if self._classes else str(target)


class _Items:
    """The nodes and edges of an example, with their raw values."""

    def __init__(self, graph: ExampleGraph, example: ExampleColumns, columns: RawColumns) -> None:
        self._graph, self._example, self._columns = graph, example, columns

    def values(self, item_set: str, index: int) -> dict[str, Any]:
        return self._columns.values_of(self._example, item_set, index)

    def nodes(
        self, weights: Mapping[tuple[str, int], float], of_items: Mapping[str, _Outputs]
    ) -> tuple[NodeWeight, ...]:
        """Describes nodes by their weights, those with the largest first."""
        total = sum(map(abs, weights.values())) or 1.0
        found = [
            NodeWeight(
                node_set=name,
                index=index,
                id=self._graph.node_id(name, index),
                weight=weight,
                share=abs(weight) / total,
                features=_at(of_items.get(f"{NODES}/{name}", {}), index),
                values=self.values(f"{NODES}/{name}", index),
            )
            for (name, index), weight in weights.items()
        ]
        return tuple(sorted(found, key=lambda node: -abs(node.weight)))

    def edges(
        self, weights: Mapping[str, npt.NDArray[Any] | None], of_items: Mapping[str, _Outputs]
    ) -> tuple[EdgeWeight, ...]:
        """Describes all edges, those with the largest weights first."""
        total = sum(float(np.abs(values).sum()) for values in weights.values() if values is not None) or 1.0
        found = []
        for name, indices in self._graph.edges.items():
            values = weights[name]
            source_set, target_set = self._graph.ends[name]
            for position, (source, target) in enumerate(indices.T.tolist()):
                # An edge set without an output is one that the model does not read.
                weight = 0.0 if values is None else float(values[position])
                found.append(
                    EdgeWeight(
                        edge_set=name,
                        position=position,
                        source=source,
                        target=target,
                        source_id=self._graph.node_id(source_set, source),
                        target_id=self._graph.node_id(target_set, target),
                        weight=weight,
                        share=abs(weight) / total,
                        features=_at(of_items.get(f"{EDGES}/{name}", {}), position),
                        values=self.values(f"{EDGES}/{name}", position),
                    )
                )
        return tuple(sorted(found, key=lambda edge: -abs(edge.weight)))


def _at(weights: _Outputs, index: int) -> dict[str, float]:
    return {feature: float(values[index]) for feature, values in sorted(weights.items())}


def _probabilities(logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Computes probabilities of classes, [n, classes]."""
    logits = logits.astype(np.float64)
    return np.asarray(np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)))


def _predictions(outputs: _Outputs, target: int) -> npt.NDArray[np.float64]:
    """Returns the probability of a class, an output of a regression, or the score of a candidate, [n]."""
    table = _target_table(outputs)
    is_class = model_interface.LOGITS_OUTPUT in outputs
    return np.asarray((_probabilities(table) if is_class else table.astype(np.float64))[:, target])


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
