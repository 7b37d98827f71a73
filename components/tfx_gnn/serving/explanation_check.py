"""The parts of an explanation that can be removed from its example, and the check that removes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph.graph_constants import CONTEXT, EDGES, NODES
from tfx_gnn.serving.deletion_check import DeletionCheck, Part, check_by_deletion
from tfx_gnn.serving.example_edges import ExampleGraph, has_ragged_feature, without_edges
from tfx_gnn.serving.raw_columns import ExampleColumns, RawColumns

if TYPE_CHECKING:
    from tfx_gnn.serving.explained_prediction import Explanation

_REQUEST_SIZE = 64


def check_explanation(
    explanation: Explanation,
    example: tf.train.Example,
    graph: ExampleGraph,
    columns: RawColumns,
    predict: Callable[[list[bytes]], npt.NDArray[np.float64]],
    *,
    unit: str,
    num_orders: int,
) -> DeletionCheck | None:
    """Checks an explanation by removing parts from its example, as requests to the model.

    An edge is left out of the example. A feature of an item gets the typical value of each raw column that it is made
    of; features that share a column are one part, whose weight is the sum of theirs. Requests have up to 64 examples.

    Args:
        explanation: what to check.
        example: the raw graph tf.Example that it is of.
        graph: its structure.
        columns: what raw columns hold.
        predict: returns the prediction of serialized examples.
        unit: of the predictions.
        num_orders: random orders to compare with, at least 1.

    Returns:
        The check; None if nothing that can be removed has a weight.
    """
    ragged = {name for name in graph.edges if has_ragged_feature(example, name)}
    parts = [
        Part(edge_set=edge.edge_set, index=edge.position, weight=edge.weight)
        for edge in explanation.edges
        if edge.edge_set not in ragged
    ]
    num_kept = sum(edge.edge_set in ragged and edge.weight != 0 for edge in explanation.edges)
    for item_set, index, weights in _weighed_items(explanation):
        for features, names in feature_groups(item_set, list(weights), explanation.columns):
            keys = tuple(key for key in (_key(item_set, name) for name in names) if key in columns.typical)
            weight = sum(weights[feature] for feature in features)
            if keys:
                parts.append(Part(columns=keys, index=index, weight=weight))
            elif weight:
                num_kept += 1
    of_example = ExampleColumns(example, graph)

    def predict_without(removed: Sequence[Sequence[Part]]) -> npt.NDArray[np.float64]:
        found = []
        for start in range(0, len(removed), _REQUEST_SIZE):
            some = removed[start : start + _REQUEST_SIZE]
            found.append(predict([_without(of_example, columns, one) for one in some]))
        return np.concatenate(found)

    return check_by_deletion(parts, predict_without, unit=unit, num_kept=num_kept, num_orders=num_orders)


def _weighed_items(explanation: Explanation) -> list[tuple[str, int, Mapping[str, float]]]:
    """Lists the items whose features have weights: their set, position and weights by feature."""
    found: list[tuple[str, int, Mapping[str, float]]] = [
        (f"{NODES}/{node.node_set}", node.index, node.features) for node in explanation.nodes
    ]
    found += [(f"{EDGES}/{edge.edge_set}", edge.position, edge.features) for edge in explanation.edges]
    start = f"{CONTEXT}/"
    context = {key.removeprefix(start): weight for key, weight in explanation.features.items() if key.startswith(start)}
    return [one for one in [*found, (CONTEXT, 0, context)] if one[2]]


def feature_groups(
    item_set: str, features: Sequence[str], columns: Mapping[str, Sequence[str]]
) -> list[tuple[list[str], list[str]]]:
    """Groups the features of a set that share raw columns, directly or through others.

    Args:
        item_set: such as "nodes/user", or "context".
        features: names of features.
        columns: names of columns by key of a feature, as in `Explanation.columns`.

    Returns:
        Names of features and of columns, group by group.

    Example:
        >>> feature_groups("nodes/u", ["x", "y", "z"], {"nodes/u.x": ["a"], "nodes/u.y": ["b"], "nodes/u.z": ["a"]})
        [(['x', 'z'], ['a']), (['y'], ['b'])]
    """
    groups: list[tuple[list[str], list[str]]] = []
    for feature in features:
        names = list(columns.get(_key(item_set, feature), ()))
        joined = [group for group in groups if set(group[1]) & set(names)]
        groups = [group for group in groups if group not in joined]
        members = [*(member for group in joined for member in group[0]), feature]
        groups.append((members, sorted({*names, *(name for group in joined for name in group[1])})))
    return sorted(groups, key=lambda group: features.index(group[0][0]))


def _key(item_set: str, name: str) -> str:
    return f"{CONTEXT}/{name}" if item_set == CONTEXT else f"{item_set}.{name}"


def _without(example: ExampleColumns, columns: RawColumns, parts: Sequence[Part]) -> bytes:
    """Serializes an example without some parts."""
    changes: dict[str, dict[int, Sequence[Any]]] = {}
    edges: dict[str, list[int]] = {}
    for part in parts:
        for key in part.columns:
            if key in example.rows:
                changes.setdefault(key, {})[part.index] = columns.typical[key]
        if part.edge_set:
            edges.setdefault(part.edge_set, []).append(part.index)
    return without_edges(example.replaced(changes), edges)
