"""Where a task's labels are in a graph, and which states its outputs are read from."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.ops.pooling import pool_nodes_to_context
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.fields import component_indices
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, NodeSetSpec
from tfx_gnn.keras.layers.readout import StructuredReadout
from tfx_gnn.models.tasks.task import check_pooling

_PieceSpec = TypeVar("_PieceSpec", ContextSpec, NodeSetSpec)

# All of these return zeros for a component without nodes.
_REDUCTIONS = {"mean": "mean", "sum": "sum", "max": "max_no_inf"}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class GraphReadout(tf_keras.layers.Layer):
    """Pools the states of all nodes of each graph, and concatenates the results of the node sets.

    Auxiliary node sets, whose names begin with "_", and node sets without the feature are ignored, unless `node_sets`
    says which to pool.

    Shapes: a scalar graph in; out float [num_components, width], the results of the node sets side by side in
    alphabetical order, each as wide as its states times the number of poolings. A component without nodes, such as
    padding, gets zeros.

    Args:
        pooling: "mean", "sum", "max", or several of them joined by "|".
        feature_name: node feature to pool, float [num_nodes, units].
        node_sets: names of the node sets to pool, each of which has the feature; by default all that have it.
        **kwargs: arguments of `tf_keras.layers.Layer`.
    """

    def __init__(
        self,
        pooling: str = "mean",
        *,
        feature_name: const.FieldName = const.HIDDEN_STATE,
        node_sets: Collection[const.NodeSetName] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_pooling(pooling)
        self._pooling = pooling
        self._feature_name = feature_name
        self._node_sets = None if node_sets is None else tuple(node_sets)

    def call(self, graph: GraphTensor) -> tf.Tensor:
        """Pools; see the class for shapes.

        Args:
            graph: scalar graph.

        Returns:
            One row per component.

        Raises:
            ValueError: if no node set has the feature, or a chosen one lacks it.
        """
        reduce_type = "|".join(_REDUCTIONS[part] for part in self._pooling.split("|"))
        with_feature = [
            name
            for name in sorted(graph.node_sets)
            if not name.startswith("_") and self._feature_name in graph.node_sets[name].features
        ]
        chosen = with_feature if self._node_sets is None else sorted(self._node_sets)
        if not set(chosen) <= set(with_feature):
            raise ValueError(
                f"`node_sets` must name node sets with feature {self._feature_name!r}; got {chosen}. Known are "
                f"{with_feature}."
            )
        pooled = [pool_nodes_to_context(graph, name, reduce_type, feature_name=self._feature_name) for name in chosen]
        if not pooled:
            raise ValueError(
                f"`graph` must have a node set with feature {self._feature_name!r}; got node sets "
                f"{sorted(graph.node_sets)} without it. Let the network give nodes a state first."
            )
        return pooled[0] if len(pooled) == 1 else tf.concat(pooled, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "pooling": self._pooling,
            "feature_name": self._feature_name,
            "node_sets": None if self._node_sets is None else list(self._node_sets),
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SubgraphReadout(GraphReadout):
    """Pools the states of all nodes of each example, once for each of its `_readout` nodes.

    Shapes: a scalar graph in; out float [num_readouts, width]: for each `_readout` node, the vector that
    `GraphReadout` makes of its component.

    Args:
        pooling: as for `GraphReadout`.
        **kwargs: arguments of `GraphReadout`.
    """

    def call(self, graph: GraphTensor) -> tf.Tensor:
        """Pools; see the class for shapes.

        Args:
            graph: scalar graph with `_readout`.
        """
        vectors: Any = super().call(graph)
        return tf.gather(vectors, readout_components(graph))


class LabelPlace(abc.ABC):
    """Where a label feature is stored.

    Attributes:
        label_feature: name of the feature.
        readout_key: equal for places that read out the same values.
        reads_seeds: as in `Objective`.
        pools_nodes: as in `Objective`.
    """

    readout_key: str
    reads_seeds: bool = False
    pools_nodes: bool = False

    def __init__(self, label_feature: str) -> None:
        self.label_feature = label_feature

    def label_spec(self, spec: GraphTensorSpec) -> tf.TypeSpec:
        """Returns the spec of the label in the spec of a graph."""
        features = self._features(spec)
        if features is None or self.label_feature not in features:
            raise ValueError(
                f"`task` must name a label of {self.description}; got {self.label_feature!r}, but found "
                f"{sorted(features) if features is not None else 'no such node set'}. {self._advice} Keep it in "
                "`preprocessing_fn`."
            )
        label: tf.TypeSpec = features[self.label_feature]
        return label

    @property
    @abc.abstractmethod
    def description(self) -> str:
        """The name of the place in error messages."""

    @property
    @abc.abstractmethod
    def _advice(self) -> str: ...

    @abc.abstractmethod
    def _features(self, spec: GraphTensorSpec) -> Any: ...

    @abc.abstractmethod
    def check_budget(self, budget: SizeConstraints, spec: GraphTensorSpec) -> None:
        """See `Objective`."""

    @abc.abstractmethod
    def without_label(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Removes the label from the spec of a graph; it may already be missing."""

    @abc.abstractmethod
    def label_only(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Returns the spec of a graph with only the label."""

    @abc.abstractmethod
    def split_off(self, graph: GraphTensor) -> tuple[GraphTensor, tf.Tensor]:
        """Splits the label off a graph."""

    @abc.abstractmethod
    def num_rows(self, graph: GraphTensor) -> int | None:
        """Returns the number of predictions for a graph; None if it is not static."""

    @abc.abstractmethod
    def by_row(self, graph: GraphTensor, values: tf.Tensor) -> tf.Tensor:
        """Gives each prediction the value of its component."""

    @abc.abstractmethod
    def readout_layer(self, name: str) -> Callable[[GraphTensor], tf.Tensor]:
        """Makes the Keras layer that maps a graph with hidden states to [rows, units]."""


class ReadoutLabels(LabelPlace):
    """Labels of node set `_readout`.

    The budget check and the readout layer expect one node per example, connected to the seed by
    `_readout/seed`; the objective of links replaces both. With `pooling`, predictions are read from all nodes of the
    example instead of the seed.
    """

    reads_seeds = True

    def __init__(self, label_feature: str, *, pooling: str = "") -> None:
        super().__init__(label_feature)
        self._pooling = pooling
        self.pools_nodes = bool(pooling)
        self.readout_key = f"subgraph by {pooling}" if pooling else "seed"

    @property
    def description(self) -> str:
        """The name of the place in error messages."""
        return f"node set {READOUT_NODE_SET!r}"

    @property
    def _advice(self) -> str:
        return "Sample it as a label feature."

    def _features(self, spec: GraphTensorSpec) -> Any:
        readout = spec.node_sets_spec.get(READOUT_NODE_SET)
        return None if readout is None else readout.features_spec

    def check_budget(self, budget: SizeConstraints, spec: GraphTensorSpec) -> None:
        """Requires one readout node, and one edge to it, in each component of a padded batch.

        A padding component has a readout node, as every example does. Without an edge from some
        padding node to it, the readout of a padded batch is incomplete.
        """
        sizes = readout_sizes(budget, spec)
        least = dict(budget.min_nodes_per_component).get(READOUT_NODE_SET, 0)
        if least != 1 or set(sizes.values()) != {budget.total_num_components}:
            raise ValueError(
                f"`size_constraints_dir` must hold a budget with one {READOUT_NODE_SET!r} node per component, and one "
                f"edge to it; got {sizes} for {budget.total_num_components} components, at least {least} nodes each. "
                "Learn it from examples with one readout."
            )

    def without_label(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Removes the label from the spec of a graph; it may already be missing."""
        node_sets = dict(spec.node_sets_spec)
        readout = node_sets[READOUT_NODE_SET]
        features = {name: feature for name, feature in readout.features_spec.items() if name != self.label_feature}
        node_sets[READOUT_NODE_SET] = _with_features(readout, features)
        return GraphTensorSpec.from_piece_specs(spec.context_spec, node_sets, dict(spec.edge_sets_spec))

    def label_only(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Returns the spec of a graph with only `_readout` and the label."""
        readout = spec.node_sets_spec[READOUT_NODE_SET]
        kept = _with_features(readout, {self.label_feature: readout.features_spec[self.label_feature]})
        return GraphTensorSpec.from_piece_specs(_with_features(spec.context_spec, {}), {READOUT_NODE_SET: kept}, {})

    def split_off(self, graph: GraphTensor) -> tuple[GraphTensor, tf.Tensor]:
        """Splits the label, [num_readouts, ...], off a graph."""
        label = graph.node_sets[READOUT_NODE_SET][self.label_feature]
        return graph.remove_features(node_sets={READOUT_NODE_SET: [self.label_feature]}), label

    def num_rows(self, graph: GraphTensor) -> int | None:
        """Returns the number of `_readout` nodes; None if it is not static."""
        rows: int | None = graph.spec.node_sets_spec[READOUT_NODE_SET].total_size
        return rows

    def by_row(self, graph: GraphTensor, values: tf.Tensor) -> tf.Tensor:
        """Gives each `_readout` node the value of its component."""
        return tf.gather(values, readout_components(graph))

    def readout_layer(self, name: str) -> Callable[[GraphTensor], tf.Tensor]:
        """Makes the layer that reads the states of the seeds, or pools those of all nodes."""
        if self._pooling:
            return SubgraphReadout(self._pooling, name=name)
        layer: Callable[[GraphTensor], tf.Tensor] = StructuredReadout("seed", name=name)
        return layer


class ContextLabels(LabelPlace):
    """Labels of whole graphs, in the context."""

    def __init__(self, label_feature: str, *, pooling: str) -> None:
        super().__init__(label_feature)
        self._pooling = pooling
        self.readout_key = f"graph by {pooling}"

    @property
    def description(self) -> str:
        """The name of the place in error messages."""
        return "the context"

    @property
    def _advice(self) -> str:
        return "Declare it as a feature of the context."

    def _features(self, spec: GraphTensorSpec) -> Any:
        return spec.context_spec.features_spec

    def check_budget(self, budget: SizeConstraints, spec: GraphTensorSpec) -> None:
        """Accepts any budget: each component has a context."""

    def without_label(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Removes the label from the spec of a graph; it may already be missing."""
        return without_context_features(spec, [self.label_feature])

    def label_only(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Returns the spec of a graph with only the label."""
        context = spec.context_spec
        features = {self.label_feature: context.features_spec[self.label_feature]}
        return GraphTensorSpec.from_piece_specs(_with_features(context, features), {}, {})

    def split_off(self, graph: GraphTensor) -> tuple[GraphTensor, tf.Tensor]:
        """Splits the label, [num_components, ...], off a graph."""
        label = graph.context[self.label_feature]
        return graph.remove_features(context=[self.label_feature]), label

    def num_rows(self, graph: GraphTensor) -> int | None:
        """Returns the number of components; None if it is not static."""
        rows: int | None = graph.spec.total_num_components
        return rows

    def by_row(self, graph: GraphTensor, values: tf.Tensor) -> tf.Tensor:
        """Returns the values: a graph is a component."""
        return values

    def readout_layer(self, name: str) -> Callable[[GraphTensor], tf.Tensor]:
        """Makes the layer that pools the states of all nodes."""
        layer: Callable[[GraphTensor], tf.Tensor] = GraphReadout(self._pooling, name=name)
        return layer


def readout_sizes(budget: SizeConstraints, spec: GraphTensorSpec) -> dict[str, Any]:
    """Returns the padded sizes of `_readout` and of the edge sets to it; None for sizes that the budget lacks."""
    sizes = {READOUT_NODE_SET: budget.total_num_nodes.get(READOUT_NODE_SET)}
    for name in spec.edge_sets_spec:
        if name.startswith(f"{READOUT_NODE_SET}/"):
            sizes[name] = budget.total_num_edges.get(name)
    return sizes


def readout_components(graph: GraphTensor) -> tf.Tensor:
    """Looks up the component of each `_readout` node, [num_readouts]."""
    readout = graph.node_sets[READOUT_NODE_SET]
    return component_indices(readout.sizes, readout.total_size)


def without_context_features(spec: GraphTensorSpec, feature_names: Collection[const.FieldName]) -> GraphTensorSpec:
    """Removes context features from the spec of a graph; they may already be missing."""
    context = spec.context_spec
    features = {name: feature for name, feature in context.features_spec.items() if name not in feature_names}
    return GraphTensorSpec.from_piece_specs(
        _with_features(context, features), dict(spec.node_sets_spec), dict(spec.edge_sets_spec)
    )


def without_other_readout_features(spec: GraphTensorSpec, kept: Collection[const.FieldName]) -> GraphTensorSpec:
    """Removes the features of `_readout` from the spec of a graph, except original ids and those to be kept."""
    if READOUT_NODE_SET not in spec.node_sets_spec:
        return spec
    readout = spec.node_sets_spec[READOUT_NODE_SET]
    features = {
        name: feature for name, feature in readout.features_spec.items() if name.startswith("#") or name in kept
    }
    return GraphTensorSpec.from_piece_specs(
        spec.context_spec,
        {**spec.node_sets_spec, READOUT_NODE_SET: _with_features(readout, features)},
        dict(spec.edge_sets_spec),
    )


def _with_features(piece: _PieceSpec, features: dict[str, Any]) -> _PieceSpec:
    """Returns the spec of a node set or context with other features and the same sizes."""
    return type(piece).from_field_specs(features_spec=features, sizes_spec=piece.sizes_spec)
