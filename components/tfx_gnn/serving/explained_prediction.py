"""What an explanation says of one prediction."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfx_gnn.serving.deletion_check import DeletionCheck


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
        weight: what it adds, in the unit of the explained value; negative if the edge speaks against the prediction.
        share: its absolute weight over that of all edges, in [0, 1].
        features: weights of its features after the transform, in the same unit; empty by occlusion.
        values: its values by raw column; see `Explanation.values`.
    """

    edge_set: str
    position: int
    source: int
    target: int
    source_id: str | int | None
    target_id: str | int | None
    weight: float
    share: float
    features: dict[str, float]
    values: dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeWeight:
    """What a node adds to the explained value.

    Attributes:
        node_set: name of its set.
        index: position in its set.
        id: original id; None if the example has none.
        weight: what it adds, in the unit of the explained value: by gradients, the sum of its features' weights; by
            occlusion, what all of its edges add together.
        share: its absolute weight over that of all nodes, in [0, 1].
        features: weights by feature after the transform; empty by occlusion.
        values: its values by raw column; see `Explanation.values`.
    """

    node_set: str
    index: int
    id: str | int | None
    weight: float
    share: float
    features: dict[str, float]
    values: dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """What one prediction rests on.

    Attributes:
        id: original id that the prediction is about, if it is known.
        task: name of the task in a model of several tasks, else "".
        method: "gradients" or "occlusion".
        target: position of the explained class, output or candidate.
        target_name: name of the class, "source -> target" of a candidate with ids, or the position as text.
        predicted: name of the most probable class, the explained output of a regression, or the best candidate.
        probability: that of the explained class, in [0, 1]; None for other tasks.
        label_name: name of the label; "" if the model does not say it.
        label: the true class, number or, of a pair, 1 or 0; None if the example does not hold it.
        unit: unit of the explained value and of all weights: "log odds", "logit" of a candidate's score, or the label's
            own unit, such as "units of price".
        value: the explained value: log odds of a class, an output in the label's unit, or the score of a candidate.
        value_without_edges: the same of the graph without its edges.
        edges_error: what the weights of edges miss of the difference; None by occlusion, whose weights do not add up.
        value_without_features: the same with all features 0; None by occlusion.
        features_error: what the weights of features miss of the difference; None by occlusion.
        edges: all edges, those with the largest absolute weight first.
        nodes: all nodes with a weight, in the same order.
        features: sums of weights over all items, by key such as "nodes/paper.year", in the same order.
        columns: names of the raw columns that each of these features is made of, as far as they were found.
        values: values of the context by raw column, as the tables had them: numbers, truth values and texts; lists in
            columns of several; None where a value is missing; times as texts in ISO 8601.
        check: what removing parts shows; None if it was not asked for, or if nothing can be removed.
        warnings: sentences on why not to trust the weights.
    """

    id: str | int | None
    task: str
    method: str
    target: int
    target_name: str
    predicted: str | float
    probability: float | None
    label_name: str
    label: str | int | float | None
    unit: str
    value: float
    value_without_edges: float
    edges_error: float | None
    value_without_features: float | None
    features_error: float | None
    edges: tuple[EdgeWeight, ...]
    nodes: tuple[NodeWeight, ...]
    features: dict[str, float]
    columns: dict[str, tuple[str, ...]]
    values: dict[str, Any]
    check: DeletionCheck | None
    warnings: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """Returns the explanation as JSON values."""
        return dataclasses.asdict(self)
