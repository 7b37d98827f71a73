"""Whether a trained network does better on its own training examples than an answer that is the same for all.

Losses of users need not be comparable with that of a constant, so both are measured here: classes by cross-entropy and
accuracy, numbers by squared and absolute errors. A network is useless if it is better in neither, beyond chance and by
more than a trifle. That alone may mean a hard task or a short training. It is an error only after enough steps, and
with a cause that can be seen: inputs of an insane scale, answers that are equal for all examples, or a loss far above
that of the constant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.models.tasks import GraphClassification, GraphRegression, NodeClassification, NodeRegression
from tfx_gnn.models.tasks.task import LabelSummary, Objective
from tfx_gnn.records.warning_kinds import LEARNED_NOTHING
from tfx_gnn.training.data.input_pipeline import LabelledBatch

Array = npt.NDArray[Any]

FEWEST_STEPS = 100
"""Steps before which a network may still know nothing."""

_FEWEST_LABELS = 30
_LEAST_SHARE = 0.002
"""Share of the constant's loss that a network must save."""
_STANDARD_ERRORS = 2.0
_LARGE_INPUT = 30.0
"""Typical size of a number that saturates units which learn from numbers of about 1."""
_SAME_ANSWER = 1e-3
_FAR_ABOVE = 2.0
_MOST_INPUTS_NAMED = 3
_MOST_GRAPHS = 4
"""Batches whose inputs are looked at."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class UselessOutput:
    """An output that is no better than a constant.

    Attributes:
        measures: what was measured of the network and of the constant, in words.
        num_labels: labels that were looked at.
        causes: what probably went wrong, each with a remedy; empty if nothing can be seen.
    """

    measures: str
    num_labels: int
    causes: tuple[str, ...]

    def describe(self, name: str, num_steps: int) -> str:
        """Describes it in sentences; `name` is that of the task, "" for a single one."""
        place = f"Task {name!r}: after" if name else "After"
        likely = (
            f"Likely cause: {'; and '.join(self.causes)}."
            if self.causes
            else "No cause can be seen: train longer, change the learning rate, and look at whether anything in the "
            "tables tells the label."
        )
        return LEARNED_NOTHING.mark(
            f"{place} {num_steps:,} steps, the network is no better than a constant on {self.num_labels:,} of its own "
            f"training labels: {self.measures}. {likely}"
        )


def find_useless_outputs(
    batches: Iterable[LabelledBatch],
    model: Callable[[GraphTensor], Any],
    objective: Objective,
    summaries: Mapping[str, LabelSummary],
) -> dict[str, UselessOutput]:
    """Compares a network with constants.

    Args:
        batches: some training examples.
        model: the trained network.
        objective: what is predicted. Tasks about pairs are left out: each example has its own constant.
        summaries: labels of the training split, by task name.

    Returns:
        The outputs that are no better than a constant, by task name, "" for a single task.
    """
    compared = {name: part for name, part in objective.parts.items() if _constant(part, summaries[name]) is not None}
    if not compared:
        return {}
    graphs: list[GraphTensor] = []
    rows: dict[str, list[tuple[Array, Array, Array]]] = {name: [] for name in compared}
    for batch in batches:
        graphs += [batch.graph] * (len(graphs) < _MOST_GRAPHS)
        output = model(batch.graph)
        for name in compared:
            answers, labels, counts, weights = (
                np.asarray(tf.cast(part[name] if name else part, tf.float32))
                for part in (output, batch.labels, batch.counts, batch.weights)
            )
            rows[name].append((answers, labels, counts * weights))
    large = [words] if (words := describe_large_inputs(graphs)) else []
    found = {}
    for name, part in compared.items():
        answers, labels, weights = (np.concatenate(arrays) for arrays in zip(*rows[name], strict=True))
        constant = _constant(part, summaries[name])
        assert constant is not None
        useless = _compare(answers, labels, weights, constant, is_class=bool(part.class_names))
        if useless is not None:
            found[name] = dataclasses.replace(useless, causes=(*large, *useless.causes))
    return found


def describe_large_inputs(graphs: Iterable[GraphTensor]) -> str:
    """Says which numbers that go into a network as they are would saturate it; empty if there are none.

    The size of an input is its median, of the largest of its columns; 0 may be padding, and is left aside.
    """
    inputs: dict[str, list[Array]] = {}
    for graph in graphs:
        for key, values in _numbers(graph):
            inputs.setdefault(key, []).append(np.abs(values))
    sizes = {
        key: max(
            (float(np.median(column[column > 0.0])) for column in np.concatenate(parts).T if column.any()), default=0.0
        )
        for key, parts in inputs.items()
    }
    large = sorted(((size, key) for key, size in sizes.items() if size > _LARGE_INPUT), reverse=True)
    if not large:
        return ""
    named = ", ".join(f"{key} of about {size:,.4g}" for size, key in large[:_MOST_INPUTS_NAMED])
    more = f" and {len(large) - _MOST_INPUTS_NAMED} more" if len(large) > _MOST_INPUTS_NAMED else ""
    return (
        f"inputs are too large for units that learn from numbers of about 1: {named}{more}. Standardize them by "
        "`z_score` or `log1p_z_score`, or drop what is constant"
    )


def _compare(answers: Array, labels: Array, weights: Array, constant: Array, *, is_class: bool) -> UselessOutput | None:
    measure = _class_measures if is_class else _number_measures
    counts = weights > 0.0
    num_labels = int(counts.sum())
    if num_labels < _FEWEST_LABELS:
        return None
    of_network, of_constant = measure(answers, labels), measure(np.broadcast_to(constant, answers.shape), labels)
    words, ratios = [], []
    for name, losses in of_network.items():
        mine, other, weight = losses[counts], of_constant[name][counts], weights[counts]
        mean, of_other = np.average(mine, weights=weight), np.average(other, weights=weight)
        gains = other - mine
        error = np.sqrt(np.sum((weight * (gains - gains.mean())) ** 2)) / weight.sum()
        if of_other - mean > max(_LEAST_SHARE * of_other, _STANDARD_ERRORS * error):
            return None
        words.append(f"{name} {mean:.4g} against {of_other:.4g}")
        ratios.append(mean / max(of_other, np.finfo(np.float32).tiny))
    causes = []
    if np.all(np.std(answers[counts.reshape(len(answers), -1).any(axis=1)], axis=0) < _SAME_ANSWER):
        causes.append(
            "its answers are the same for all examples, as those of saturated or dead units are: standardize the "
            "inputs, or lower the learning rate"
        )
    if ratios[0] > _FAR_ABOVE:
        causes.append("its loss is far above that of the constant: lower the learning rate, or clip gradients")
    return UselessOutput(measures=" and ".join(words), num_labels=num_labels, causes=tuple(causes))


def _class_measures(logits: Array, labels: Array) -> dict[str, Array]:
    wide = logits.astype(np.float64)
    wide = wide - wide.max(axis=1, keepdims=True)
    log_probabilities = wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))
    classes = labels.astype(np.int64)
    return {
        "cross-entropy": -log_probabilities[np.arange(len(classes)), classes],
        "share of errors": (wide.argmax(axis=1) != classes).astype(np.float64),
    }


def _number_measures(answers: Array, labels: Array) -> dict[str, Array]:
    errors = answers.astype(np.float64) - labels
    return {"squared error": errors**2, "absolute error": np.abs(errors)}


def _constant(objective: Objective, summary: LabelSummary) -> Array | None:
    """Returns what a network without inputs would best answer, in the unit of its outputs; None for pairs."""
    task = objective.task
    if isinstance(task, (NodeClassification, GraphClassification)):
        counts = np.asarray(summary.class_counts, np.float64)
        weighted = counts * np.asarray(objective.weights(tf.range(len(counts), dtype=tf.int64)), np.float64)
        return np.log(np.maximum(weighted / weighted.sum(), 1e-9))
    if isinstance(task, (NodeRegression, GraphRegression)):
        return np.zeros(task.num_outputs) if task.standardize else np.asarray(summary.mean, np.float64)
    return None


def _numbers(graph: GraphTensor) -> Iterator[tuple[str, Array]]:
    """Lists the numbers that go into a network as they are, one row an item, by feature."""
    pieces: dict[str, Mapping[str, Any]] = {const.CONTEXT: graph.context.features}
    pieces |= {f"{const.NODES}/{name}": one.features for name, one in graph.node_sets.items()}
    pieces |= {f"{const.EDGES}/{name}": one.features for name, one in graph.edge_sets.items()}
    for prefix, features in pieces.items():
        for name, value in features.items():
            if isinstance(value, tf.Tensor) and value.dtype.is_floating and value.shape.rank:
                values = np.asarray(tf.cast(value, tf.float32))
                yield f"{prefix}.{name}", values.reshape(len(values), -1)
