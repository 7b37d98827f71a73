"""Ready-made model functions: pass one by name as `model_fn`, such as "tfx_gnn.models.model_fns:graph_sage".

Each function encodes all node features (`FeatureEncoder`), runs the network of the same name and ends with the task's
output layers, whose readout is the layer "embeddings". The model is not compiled; the trainer compiles it with the
task's loss and metrics.

`hyperparameters` holds arguments of the network by name. In addition:

- "units", "num_layers" and "dropout_rate" default to 64, 2 and 0.1;
- "features" holds fields of `FeatureEncoderOptions`, such as {"ignored": ["paper.title"]}; the integers
  `structure_label` of sampling plans are embedded unless it says otherwise;
- "input_dropout_rate" (default 0) is the fraction of the encoded features' values that training drops before the first
  layer, and before the encoder's own: {"features": {"projection_units": 0}} leaves that one out, as the papers of GCN
  and GAT do;
- "l2" (default 0) is the factor of the sum of squares of all matrices that is added to the loss;
- "sort_edges" (default true) says whether `SortEdgesInTraining` comes first;
- "read_nodes_only" defaults to true unless a task is graph-level, scores links by "seal" or has `pooling`;
- "shared_node_sets" holds groups of node sets, such as [["s", "t"]], that share all weights: the encoder and the
  network see them as one node set (`JoinSharedSets`), as graphs to be compared should be;
- "learning_rate" is accepted, but used by the trainer only.

`ego_sage`, `ego_gat` and `ego_gin` are for batches of trees (batching "ego"). They have as many layers as the sampling
plan has hops, unless "num_layers" says fewer, and neither "sort_edges" nor "shared_node_sets".

`gat_v2`, `mpnn` and `gin` also use edge features: all of them, encoded, unless "edge_feature" names a single float
feature. `gcn` uses only the named edge weight, `rgcn` only the relation, `graph_sage` and `hgt` no edge features.

Example:
    >>> task = tfx_gnn.models.GraphRegression(label_feature="energy", pooling="sum")
    >>> graph = tfx_gnn.homogeneous(
    ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]),
    ...     node_features={"charge": tf.constant([0.1, -0.2, 0.1]), "element": tf.constant([6, 8, 6])})
    >>> model = graph_sage(graph.spec, objective=task.objective(), hyperparameters={
    ...     "units": 8, "aggregator": "pool", "features": {"embeddings": {"nodes.element": {"rows": 119}}}})
    >>> model(graph).shape.as_list()
    [1, 1]
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.ego_batches import is_ego_batch
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.graph.reserved_names import STRUCTURE_LABEL
from tfx_gnn.graph.tensor import tf_hooks
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras.feature_encoders import FeatureEncoder
from tfx_gnn.keras.feature_encoders.category_values import TransformOutput
from tfx_gnn.keras.feature_encoders.encoder_options import full_name
from tfx_gnn.models.networks import ego_gnn
from tfx_gnn.models.networks import gat_v2 as gat_v2_network
from tfx_gnn.models.networks import gcn as gcn_network
from tfx_gnn.models.networks import gin as gin_network
from tfx_gnn.models.networks import graph_sage as graph_sage_network
from tfx_gnn.models.networks import hgt as hgt_network
from tfx_gnn.models.networks import mpnn as mpnn_network
from tfx_gnn.models.networks import rgcn as rgcn_network
from tfx_gnn.models.relations import read_node_sets
from tfx_gnn.models.shared_sets import JoinSharedSets, SplitSharedStates, shared_edge_sets
from tfx_gnn.models.tasks import Objective
from tfx_gnn.models.weight_penalty import add_weight_penalty
from tfx_gnn.sampling.engine.structure_labels import NUM_STRUCTURE_LABELS


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SortEdgesInTraining(tf_keras.layers.Layer):
    """Sorts edges by target during training, so that sums and gradients access memory in order.

    Sorting 100,000 edges takes a twentieth of a training step on unsorted edges, and makes the step of a GCN or
    GraphSAGE three times as fast on CPUs. The layer does nothing under XLA, which gains little from it, and nothing
    outside training, so that an exported model has no custom gradients.

    Shapes: a scalar graph in, the same graph out; features move with their edges.

    Call args:
        graph: a scalar graph.
        training: whether to sort.
    """

    def call(self, graph: GraphTensor, training: bool | None = None) -> GraphTensor:  # noqa: FBT001 - Keras' form.
        """Sorts the edges if `training` is set; see the class.

        Args:
            graph: a scalar graph.
            training: whether to sort.
        """
        if not training or tf_hooks.in_xla_context():
            return graph
        return _sorted(graph)


@tf.autograph.experimental.do_not_convert
def _sorted(graph: GraphTensor) -> GraphTensor:
    return sort_edges(graph)


_DEFAULTS = {"units": 64, "num_layers": 2, "dropout_rate": 0.1}
_OF_THE_TRAINER = ("learning_rate",)
_OF_ALL = ("features", "input_dropout_rate", "l2")


class _ModelFn(Protocol):
    def __call__(
        self,
        graph_spec: GraphTensorSpec,
        *,
        objective: Objective,
        hyperparameters: Mapping[str, Any] | None = None,
        tft_output: TransformOutput | None = None,
    ) -> tf_keras.Model: ...


def _model_fn(make: Callable[..., tf_keras.Model], network: Callable[..., Any]) -> _ModelFn:
    def model_fn(
        graph_spec: GraphTensorSpec,
        *,
        objective: Objective,
        hyperparameters: Mapping[str, Any] | None = None,
        tft_output: TransformOutput | None = None,
    ) -> tf_keras.Model:
        """Makes a model for a task, with the network of the same name in `tfx_gnn.models.networks`.

        Args:
            graph_spec: spec of a batch of graphs merged into one scalar graph, without labels; for the models of trees,
                of a batch of trees.
            objective: objective of the task.
            hyperparameters: see the module; all others are arguments of the network.
            tft_output: output of tf.Transform; needed if a feature is a vocabulary index.

        Returns:
            Uncompiled model that maps such a graph to the task's output.

        Raises:
            ValueError: if a hyperparameter is unknown, a feature cannot be encoded, or the graphs are trees for a
                model of other graphs or the other way round.
        """
        return make(network, graph_spec, objective, hyperparameters, tft_output)

    # The function is pickled by the name that this module has for it.
    model_fn.__name__ = model_fn.__qualname__ = network.__name__
    return model_fn


def _ego_model(
    network: Callable[..., ego_gnn.EgoGNN],
    graph_spec: GraphTensorSpec,
    objective: Objective,
    hyperparameters: Mapping[str, Any] | None,
    tft_output: TransformOutput | None,
) -> tf_keras.Model:
    arguments = {**_DEFAULTS, "num_layers": 0, **(hyperparameters or {})}
    for name in _OF_THE_TRAINER:
        arguments.pop(name, None)
    l2 = _l2(arguments)
    features = _features(arguments)
    _check_known(network, arguments, (*_OF_ALL, "learning_rate"))
    features.setdefault("projection_units", arguments["units"])
    inputs = tf_keras.layers.Input(type_spec=graph_spec)
    with _json_types(network, hyperparameters):
        graph = FeatureEncoder(graph_spec, features, tft_output=tft_output)(inputs)
        graph = network(graph.spec, **arguments)(graph)
    return _penalized(tf_keras.Model(inputs, objective.output_layer()(graph)), l2)


def _features(arguments: dict[str, Any]) -> dict[str, Any]:
    """Takes the encoder's options out of the hyperparameters."""
    features = dict(arguments.pop("features", {}))
    rate = arguments.pop("input_dropout_rate", None)
    if rate is not None:
        if "input_dropout_rate" in features:
            raise ValueError(
                f"`hyperparameters` must have 'input_dropout_rate' once; got {rate!r}, and "
                f"{features['input_dropout_rate']!r} in 'features'. Keep one of them."
            )
        features["input_dropout_rate"] = rate
    return features


def _l2(arguments: dict[str, Any]) -> float:
    """Takes the factor of the penalty out of the hyperparameters."""
    l2 = arguments.pop("l2", 0.0)
    if isinstance(l2, bool) or not isinstance(l2, (int, float)) or not 0.0 <= l2 < math.inf:
        raise ValueError(f"`hyperparameters` must have a number of at least 0 as 'l2'; got {l2!r}. 0.0005 is usual.")
    return l2


def _penalized(model: tf_keras.Model, l2: float) -> tf_keras.Model:
    if l2:
        add_weight_penalty(model, l2)
    return model


def _check_known(network: Callable[..., Any], arguments: Mapping[str, Any], others: tuple[str, ...]) -> list[str]:
    """Refuses hyperparameters that are neither arguments of the network nor others; returns these arguments."""
    known = sorted(set(inspect.signature(network).parameters) - {"graph_spec"})
    unknown = sorted(set(arguments) - set(known))
    if unknown:
        *first, last = map(repr, others)
        raise ValueError(
            f"`hyperparameters` must be arguments of {network.__name__}(), {known}, or {', '.join(first)} or {last}; "
            f"got {unknown}. {did_you_mean(unknown[0], [*known, *others], otherwise='Correct the names.')}"
        )
    return known


@contextlib.contextmanager
def _json_types(network: Callable[..., Any], hyperparameters: Mapping[str, Any] | None) -> Iterator[None]:
    """Explains a TypeError: JSON values are not converted, and may be a string instead of a number."""
    try:
        yield
    except TypeError as error:
        raise ValueError(
            f"`hyperparameters` must have the types that {network.__name__}() and FeatureEncoderOptions take; got "
            f"{dict(hyperparameters or {})}. Fix the cause: {error}"
        ) from error


def _model(
    network: Callable[..., tf_keras.Sequential],
    graph_spec: GraphTensorSpec,
    objective: Objective,
    hyperparameters: Mapping[str, Any] | None,
    tft_output: TransformOutput | None,
) -> tf_keras.Model:
    if is_ego_batch(graph_spec):
        raise ValueError(
            f"`batching` must not be 'ego' for {network.__name__}, which would take missing neighbors for nodes. "
            "Choose 'packed', or one of the models ego_sage, ego_gat and ego_gin."
        )
    # Graph-level tasks, SEAL and `pooling` pool all nodes. Other tasks only use the last states of nodes that are read
    # out.
    reads_nodes_only = not any(part.task.reads_context or part.pools_nodes for part in objective.parts.values())
    arguments = {
        **_DEFAULTS,
        "readout_node_sets": sorted(read_node_sets(graph_spec)) if reads_nodes_only else None,
        "read_nodes_only": reads_nodes_only,
        **(hyperparameters or {}),
    }
    for name in _OF_THE_TRAINER:
        arguments.pop(name, None)
    l2 = _l2(arguments)
    features = _features(arguments)
    sorts_edges = arguments.pop("sort_edges", True)
    shared = arguments.pop("shared_node_sets", None)
    known = _check_known(network, arguments, (*_OF_ALL, "sort_edges", "shared_node_sets", "learning_rate"))
    if "edge_feature" in known and "edge_feature" not in arguments:
        features.setdefault("encode_edges", _edges_have_features(graph_spec))
        arguments["edge_feature"] = const.HIDDEN_STATE if features["encode_edges"] else None
    features.setdefault("projection_units", arguments["units"])
    if shared and reads_nodes_only:
        raise ValueError(
            f"`shared_node_sets` must be left out unless a task is about whole graphs; got {shared!r} for "
            f"{type(objective.task).__name__}."
        )
    graph = inputs = tf_keras.layers.Input(type_spec=graph_spec)
    encoded_spec = graph_spec
    if shared:
        graph = JoinSharedSets(shared, shared_edge_sets(graph_spec, shared))(graph)
        encoded_spec = graph.spec
    if sorts_edges:
        graph = SortEdgesInTraining()(graph)
    with _json_types(network, hyperparameters):
        features = _with_structure_labels(features, encoded_spec)
        graph = FeatureEncoder(encoded_spec, features, tft_output=tft_output)(graph)
        graph = network(graph.spec, **arguments)(graph)
    if shared:
        graph = SplitSharedStates(shared)((inputs, graph))
    return _penalized(tf_keras.Model(inputs, objective.output_layer()(graph)), l2)


def _with_structure_labels(features: Mapping[str, Any], graph_spec: GraphTensorSpec) -> dict[str, Any]:
    """Embeds the structure labels that sampling plans make, unless `features` says how to encode them."""
    named = {full_name(name) for field in ("embeddings", "numeric", "ignored") for name in features.get(field, ())}
    labels = {
        f"{const.NODES}/{name}.{STRUCTURE_LABEL}"
        for name, node_set in graph_spec.node_sets_spec.items()
        if STRUCTURE_LABEL in node_set.features_spec and node_set.features_spec[STRUCTURE_LABEL].dtype == tf.int64
    }
    added = {name: {"rows": NUM_STRUCTURE_LABELS} for name in sorted(labels - named)}
    return {**features, "embeddings": {**features.get("embeddings", {}), **added}} if added else dict(features)


def _edges_have_features(graph_spec: GraphTensorSpec) -> bool:
    return any(
        not feature.startswith("#")
        for name, spec in graph_spec.edge_sets_spec.items()
        if get_aux_type_prefix(name) is None
        for feature in spec.features_spec
    )


gcn = _model_fn(_model, gcn_network.gcn)
graph_sage = _model_fn(_model, graph_sage_network.graph_sage)
gat_v2 = _model_fn(_model, gat_v2_network.gat_v2)
mpnn = _model_fn(_model, mpnn_network.mpnn)
gin = _model_fn(_model, gin_network.gin)
rgcn = _model_fn(_model, rgcn_network.rgcn)
hgt = _model_fn(_model, hgt_network.hgt)
ego_sage = _model_fn(_ego_model, ego_gnn.ego_sage)
ego_gat = _model_fn(_ego_model, ego_gnn.ego_gat)
ego_gin = _model_fn(_ego_model, ego_gnn.ego_gin)
