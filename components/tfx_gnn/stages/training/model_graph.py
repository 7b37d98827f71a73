"""The graph as a model sees it: numbers only, no label, no original id.

Training batches and served requests go through the functions here, so a model
meets the same features in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec


def check_numeric_features(spec: GraphTensorSpec) -> None:
    """Checks that transformed graphs hold what a model can compute with.

    Args:
        spec: spec of one transformed graph.

    Raises:
        ValueError: if a feature is no number, save those whose names begin with `#`.
    """
    strings = []
    for kind, sets in (("nodes", spec.node_sets_spec), ("edges", spec.edge_sets_spec)):
        for set_name, set_spec in sets.items():
            strings += [f"{kind}/{set_name}.{name}" for name in _strings(set_spec.features_spec)]
    strings += [f"context/{name}" for name in _strings(spec.context_spec.features_spec)]
    if strings:
        raise ValueError(
            f"`preprocessing_fn` must turn every feature into numbers; got strings in {sorted(strings)}. Map them to "
            "numbers, for example by tft.compute_and_apply_vocabulary, or leave them out."
        )


def without_reserved_features(graph: GraphTensor) -> GraphTensor:
    """Removes the features whose names begin with `#`, such as original ids.

    Args:
        graph: any graph.

    Returns:
        The graph without them.
    """
    return graph.remove_features(
        context=_reserved(graph.context.features),
        node_sets={name: _reserved(node_set.features) for name, node_set in graph.node_sets.items()},
        edge_sets={name: _reserved(edge_set.features) for name, edge_set in graph.edge_sets.items()},
    )


def with_declared_shapes(value: const.Field, spec: Any) -> const.Field:
    """Gives a feature the dtype, and all its items the static shape, that a spec declares.

    Args:
        value: feature of a scalar graph with any number of items.
        spec: spec of the feature in one graph, TensorSpec or RaggedTensorSpec.

    Returns:
        The feature. Its number of items is as static as before.

    Raises:
        tf.errors.InvalidArgumentError: at run time, if the items have another shape.
    """
    value = tf.cast(value, spec.dtype)
    if isinstance(value, tf.RaggedTensor):
        return value.with_row_splits_dtype(spec.row_splits_dtype)
    return tf.ensure_shape(value, [value.shape[0], *spec.shape[1:]])


def _reserved(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith("#")]


def _strings(features_spec: Mapping[str, Any]) -> list[str]:
    return [name for name, spec in features_spec.items() if spec.dtype == tf.string and not name.startswith("#")]
