"""The signature `explanations`: which edges, and which features of which items, carried a prediction.

Integrated gradients (arXiv:1703.01365) of the explained value over gates: factors of the messages of each edge, and of
each feature of each item. Edges are integrated from a graph without edges to the whole graph, with all features;
features from 0 to their value, with all edges. Integrals are Gauss-Legendre sums over a fixed number of points, so the
same request always gets the same answer.

What is attributed adds up to the difference of the explained value between both ends; what is missing is returned as
`edges_error` and `features_error`. The value without edges is computed by deleting them, not by gates. A model whose
messages cannot be gated therefore shows itself by an `edges_error` as large as the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.edge_edits import mask_edges
from tfx_gnn.graph.ops.gates import Gates, gated, scaled
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.models.candidate_groups import pad_candidates
from tfx_gnn.serving import model_interface

ServedOutputs = Callable[[GraphTensor], Mapping[str, tf.Tensor]]
"""Maps a scalar graph to the served outputs of one task."""


def explain_graph(
    served_outputs: ServedOutputs, graph: GraphTensor, target: tf.Tensor, *, steps: int
) -> dict[str, Any]:
    """Attributes the predictions for the examples of a merged graph to its edges and features.

    Args:
        served_outputs: the model.
        graph: scalar graph, one component per example, without padding.
        target: int64 [n]: class, output or candidate to explain; -1 for the one that is predicted.
        steps: points of each integral.

    Returns:
        Outputs of the signature, each [n, ...]; see `model_interface.EXPLANATIONS_SIGNATURE`.
    """
    outputs = served_outputs(graph)
    chosen = _chosen_target(outputs, target)

    def value_of(graph: GraphTensor) -> tf.Tensor:
        return _explained_value(served_outputs(graph), chosen)

    value = _explained_value(outputs, chosen)
    without_edges = value_of(_without_edges(graph))
    keys = _feature_sizes(graph)
    names = _edge_sets(graph)
    sizes = {name: tf.shape(_first_index(graph, name))[:1] for name in names}
    with_gates = _GatedModel(value_of, graph, numbers=_float_features(graph))
    without_features = with_gates.values(
        {name: tf.ones(size) for name, size in sizes.items()}, {key: tf.zeros(size) for key, size in keys.items()}
    )
    of_edges, of_features = with_gates.integrals(sizes, keys, steps)
    components = tf.size(graph.context.sizes)
    edges = {f"{const.EDGES}/{name}": values for name, values in of_edges.items()}
    result: dict[str, Any] = {
        model_interface.TARGET_OUTPUT: chosen,
        model_interface.VALUE_OUTPUT: value,
        model_interface.WITHOUT_EDGES_OUTPUT: without_edges,
        model_interface.WITHOUT_FEATURES_OUTPUT: without_features,
        model_interface.EDGES_ERROR_OUTPUT: value - without_edges - _sums(graph, edges, components),
        model_interface.FEATURES_ERROR_OUTPUT: value - without_features - _sums(graph, of_features, components),
    }
    for key, values in (edges | of_features).items():
        item_sizes = _item_sizes(graph, key)
        result[key] = values if item_sizes is None else pad_candidates(values, item_sizes, 0.0)
    return result


class _GatedModel:
    """A model as a function of gates."""

    def __init__(
        self, value_of: Callable[[GraphTensor], tf.Tensor], graph: GraphTensor, *, numbers: Mapping[str, tf.Tensor]
    ) -> None:
        self._value_of, self._graph, self._numbers = value_of, graph, numbers

    def values(self, edges: Mapping[str, tf.Tensor], features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Computes the explained values, [n], under gates."""
        changed = {key: scaled(value, features[key]) for key, value in self._numbers.items()}
        graph = _replaced(self._graph, changed)
        others = {key: gate for key, gate in features.items() if key not in changed}
        with gated(Gates(graph=graph, edges=edges, features=others)):
            return self._value_of(graph)

    def integrals(
        self, edge_sizes: Mapping[str, Any], feature_sizes: Mapping[str, Any], steps: int
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Integrates the gradients over the gates of edges, and over those of features.

        Both share one loop over points, so the model and its gradient are in the SavedModel once. Gates that change
        nothing are left out: those of features that the model does not read, or whose layers know nothing of gates.
        """
        points, weights = np.polynomial.legendre.leggauss(steps)  # type: ignore[no-untyped-call]
        # Normalized states change most where gates are small: squared points lie closer together there.
        points, weights = ((points + 1.0) / 2.0) ** 2, weights * (points + 1.0) / 2.0
        ones, zeros = np.ones(steps), np.zeros(steps)
        table = tf.constant(
            np.stack([np.r_[points, ones], np.r_[ones, points], np.r_[weights, zeros], np.r_[zeros, weights]], axis=1),
            tf.float32,
        )
        used: dict[str, bool] = {}
        kinds = [*((name, True) for name in edge_sizes), *((key, False) for key in feature_sizes)]

        def step(position: tf.Tensor, totals: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
            edge_gate, feature_gate, edge_weight, feature_weight = tf.unstack(table[position])
            edges = {name: tf.fill(size, edge_gate) for name, size in edge_sizes.items()}
            features = {key: tf.fill(size, feature_gate) for key, size in feature_sizes.items()}
            gates = [*edges.values(), *features.values()]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(gates)
                values = self.values(edges, features)
            gradients = tape.gradient(values, gates)
            sums = []
            for (key, is_edge), total, gradient in zip(kinds, totals, gradients, strict=True):
                used[key] = gradient is not None
                weight = edge_weight if is_edge else feature_weight
                sums.append(total if gradient is None else total + weight * tf.convert_to_tensor(gradient))
            return position + 1, sums

        start = [
            *(tf.zeros(size) for size in edge_sizes.values()),
            *(tf.zeros(size) for size in feature_sizes.values()),
        ]
        shapes = [tf.TensorShape([None]) for _ in start]
        _, totals = tf.while_loop(
            lambda position, _: position < 2 * steps,
            step,
            (tf.constant(0), start),
            shape_invariants=(tf.TensorShape([]), shapes),
            parallel_iterations=1,
        )
        found = {(key, is_edge): total for (key, is_edge), total in zip(kinds, totals, strict=True) if used[key]}
        return (
            {key: total for (key, is_edge), total in found.items() if is_edge},
            {key: total for (key, is_edge), total in found.items() if not is_edge},
        )


def _chosen_target(outputs: Mapping[str, tf.Tensor], target: tf.Tensor) -> tf.Tensor:
    """Replaces -1 by what is predicted, and checks that the others exist; int64 [n]."""
    table = _target_table(outputs)
    num_targets = outputs.get(model_interface.NUM_CANDIDATES_OUTPUT)
    if num_targets is None:
        num_targets = tf.fill(tf.shape(target), tf.shape(table, tf.int64)[1])
    message = (
        f"`{model_interface.TARGET_INPUT}` must hold, for each example, the position of a class, an output or a "
        "candidate, or -1 for the one that is predicted; got another number. Count them from 0."
    )
    check = tf.debugging.Assert(tf.reduce_all((target >= -1) & (target < num_targets)), [message])
    predicted = tf.zeros_like(target)
    if model_interface.PREDICTION_OUTPUT not in outputs:
        predicted = tf.argmax(table, axis=1, output_type=tf.int64)
    with tf.control_dependencies([] if check is None else [check]):
        return tf.where(target < 0, predicted, target)


def _target_table(outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
    for name in (model_interface.LOGITS_OUTPUT, model_interface.PREDICTION_OUTPUT, model_interface.SCORES_OUTPUT):
        if name in outputs:
            return outputs[name]
    raise ValueError(
        "`explanation_steps` must be 0 for a task without logits, numbers or scores of candidates; got outputs "
        f"{sorted(outputs)}. Explain such a model by occlusion."
    )


def _explained_value(outputs: Mapping[str, tf.Tensor], target: tf.Tensor) -> tf.Tensor:
    """Returns log odds of the target class, the target output, or the score of the target candidate; float32 [n]."""
    table = _target_table(outputs)
    chosen = tf.gather(table, target, axis=1, batch_dims=1)
    if model_interface.LOGITS_OUTPUT not in outputs:
        return chosen
    is_target = tf.one_hot(target, tf.shape(table)[1], on_value=True, off_value=False, dtype=tf.bool)
    # A logit alone would leave out that the other classes change, too; a probability has no slope where it is sure.
    return chosen - tf.reduce_logsumexp(tf.where(is_target, table.dtype.min, table), axis=1)


def _edge_sets(graph: GraphTensor) -> list[str]:
    return sorted(name for name in graph.edge_sets if get_aux_type_prefix(name) is None)


def _first_index(graph: GraphTensor, name: str) -> tf.Tensor:
    return next(iter(graph.edge_sets[name].adjacency.get_indices_dict().values()))[1]


def _without_edges(graph: GraphTensor) -> GraphTensor:
    for name in _edge_sets(graph):
        graph = mask_edges(graph, name, tf.zeros_like(_first_index(graph, name), tf.bool))
    return graph


def _features(graph: GraphTensor) -> dict[str, Any]:
    """Lists the features of all sets that are not auxiliary, by keys such as "nodes/paper.year" or "context/year"."""
    found = {f"{const.CONTEXT}/{name}": value for name, value in graph.context.features.items()}
    for kind, sets in ((const.NODES, graph.node_sets), (const.EDGES, graph.edge_sets)):
        for set_name in sorted(sets):
            if get_aux_type_prefix(set_name) is None:
                found |= {f"{kind}/{set_name}.{name}": value for name, value in sets[set_name].features.items()}
    return {key: value for key, value in sorted(found.items()) if not key.rpartition(".")[2].startswith("#")}


def _float_features(graph: GraphTensor) -> dict[str, tf.Tensor]:
    return {
        key: value
        for key, value in _features(graph).items()
        if isinstance(value, tf.Tensor) and value.dtype.is_floating
    }


def _feature_sizes(graph: GraphTensor) -> dict[str, tf.Tensor]:
    """Returns the shape of each feature's gates, [number of items]."""
    return {
        key: tf.reshape(tf.cast(value.nrows(), tf.int32), [1]) if _is_ragged(value) else tf.shape(value)[:1]
        for key, value in _features(graph).items()
    }


def _is_ragged(value: Any) -> bool:
    return isinstance(value, tf.RaggedTensor)


def _replaced(graph: GraphTensor, changed: Mapping[str, tf.Tensor]) -> GraphTensor:
    """Replaces features by key."""
    context = dict(graph.context.get_features_dict())
    nodes: dict[str, dict[str, Any]] = {}
    edges: dict[str, dict[str, Any]] = {}
    for key, value in changed.items():
        kind, _, rest = key.partition("/")
        if kind == const.CONTEXT:
            context[rest] = value
            continue
        set_name, _, feature = rest.rpartition(".")
        sets, kept = (graph.node_sets, nodes) if kind == const.NODES else (graph.edge_sets, edges)
        kept.setdefault(set_name, dict(sets[set_name].get_features_dict()))[feature] = value
    return graph.replace_features(context=context, node_sets=nodes, edge_sets=edges)


def _item_sizes(graph: GraphTensor, key: str) -> tf.Tensor | None:
    """Returns the number of items of each example to which a key's values belong; None for the context."""
    kind, _, rest = key.partition("/")
    if kind == const.CONTEXT:
        return None
    sets: Mapping[str, Any] = graph.node_sets if kind == const.NODES else graph.edge_sets
    name = rest if rest in sets else rest.rpartition(".")[0]
    return sets[name].sizes


def _sums(graph: GraphTensor, attributed: Mapping[str, tf.Tensor], num_components: tf.Tensor) -> tf.Tensor:
    """Adds up all values of each example, float32 [n]."""
    total = tf.zeros([num_components])
    for key, values in attributed.items():
        sizes = _item_sizes(graph, key)
        if sizes is not None:
            values = tf.math.unsorted_segment_sum(
                values, tf.repeat(tf.range(num_components), tf.cast(sizes, tf.int32)), num_components
            )
        total += values
    return total
