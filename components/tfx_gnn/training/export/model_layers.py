"""Finds the layers of a model that can be computed one after the other for all nodes of a graph.

That takes a network whose layers are local: the next state of a node depends on nothing but its own state, on the edges
that lead to it, on their states, and on the states at their other ends.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.feature_encoders.feature_encoder import FeatureEncoder
from tfx_gnn.keras.layer_arguments import pop_with_prefix
from tfx_gnn.keras.layers.convolution_base import AnyToAnyConvolutionBase
from tfx_gnn.keras.layers.edge_layers import SortEdges
from tfx_gnn.keras.layers.graph_update import GraphUpdate, NodeSetUpdate
from tfx_gnn.keras.layers.map_features import MapFeatures
from tfx_gnn.keras.layers.readout import StructuredReadout
from tfx_gnn.models.convolutions.gcn_conv import GCNConv
from tfx_gnn.models.convolutions.gin_conv import GINConv
from tfx_gnn.models.convolutions.hgt_update import HGTGraphUpdate
from tfx_gnn.models.convolutions.mpnn_conv import MPNNConv
from tfx_gnn.models.convolutions.rgcn_conv import RGCNConv, RGCNGraphUpdate
from tfx_gnn.models.convolutions.sage_conv import SAGEConv
from tfx_gnn.models.message_passing import BothDirections, ReadNodeSetUpdate
from tfx_gnn.models.model_fns import SortEdgesInTraining
from tfx_gnn.models.networks.layered_network import JumpingKnowledge
from tfx_gnn.models.relations import BOTH_DIRECTIONS, Relation
from tfx_gnn.models.tasks import Objective
from tfx_gnn.serving.layerwise_model import ReadRelation

_SEED_READOUT = f"{READOUT_NODE_SET}/seed"
_CONVOLUTIONS = (AnyToAnyConvolutionBase, GCNConv, GINConv, MPNNConv, RGCNConv, SAGEConv)
_ENCODERS = (tf_keras.layers.InputLayer, FeatureEncoder, MapFeatures, SortEdges, SortEdgesInTraining)
"""Layers that change each node and edge by itself; others may read seeds or edges, as HideSeedFeature does."""

_LOCAL_DEGREES = ("none", "in")
_NODE_FEATURES = ("node_feature", "sender_node_feature", "receiver_feature")
_EDGE_FEATURES = ("edge_feature", "sender_edge_feature", "relation_feature", "edge_weight_feature_name")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelLayers:
    """The parts of a model between which the states of all nodes can be stored.

    Attributes:
        encoder: maps a transformed graph to the graph with the first states.
        updates: map a scalar graph to the graph with new states.
        relations: for each update, the relations along which each node set receives, by node set.
        combine: maps all states of seed nodes, [num_nodes, any] each, to what is read; None: the last state is read.
        head: maps the states that are read, [num_nodes, units], to the output.
        embeddings: maps them to the embeddings by output.
        seed_set: node set of the seeds.
    """

    encoder: tf_keras.Model
    updates: tuple[tf_keras.layers.Layer, ...]
    relations: tuple[Mapping[const.NodeSetName, tuple[ReadRelation, ...]], ...]
    combine: Callable[[list[tf.Tensor]], tf.Tensor] | None
    head: tf_keras.Model
    embeddings: Callable[[tf.Tensor], dict[str, tf.Tensor]]
    seed_set: const.NodeSetName


def find_layers(
    model: tf_keras.Model, objective: Objective, *, embeddings: tf_keras.Model | None = None
) -> ModelLayers:
    """Takes a model apart.

    Args:
        model: a functional model: encoder, graph updates, and `objective.output_layer()`.
        objective: what it predicts.
        embeddings: the part of the model that computes its embeddings, if there are any.

    Returns:
        The parts, which share the model's variables.

    Raises:
        ValueError: if the model has another form, or some layer is not known to be local.
    """
    for name, part in objective.parts.items():
        if not part.reads_seeds or part.pools_nodes or part.input_features:
            task = type(part.task).__name__ + (f" {name!r}" if name else "")
            raise _refusal("every task reads the state of the seed alone", task)
    layers = getattr(model, "layers", [])
    readouts = [layer for layer in layers if isinstance(layer, StructuredReadout)]
    if (
        not getattr(model, "_is_graph_network", False)
        or len(readouts) != 1
        or readouts[0].get_config()["feature_name"] != const.HIDDEN_STATE
    ):
        raise _refusal(
            "a functional model reads the states of seeds in one layer, as `objective.output_layer()` does",
            f"layers {[type(layer).__name__ for layer in layers]}",
        )
    encoded, updates = _updates_before(readouts[0].input)
    encoder = tf_keras.Model(model.input, encoded)
    if not updates or any(_is_update(layer) for layer in encoder.layers):
        raise _refusal(
            "graph updates of this library follow each other up to the readout",
            f"layers {[type(layer).__name__ for layer in layers]}",
        )
    others = [type(layer).__name__ for layer in encoder.layers if type(layer) not in _ENCODERS]
    if others:
        raise _refusal("FeatureEncoder or MapFeatures alone make the first states", f"{others} before the first update")
    spec: GraphTensorSpec = encoded.type_spec
    seed_set = spec.edge_sets_spec[_SEED_READOUT].adjacency_spec.source_name
    combine = None
    if len(updates) == 1 and isinstance(updates[0], JumpingKnowledge):
        combine = functools.partial(updates[0].combine, seed_set)
        updates = updates[0].get_config()["layers"]
    read = readouts[0].output
    return ModelLayers(
        encoder=encoder,
        updates=tuple(updates),
        relations=tuple(_relations_of(update, spec) for update in updates),
        combine=combine,
        head=_part_of_states(read, model.output),
        embeddings=_embeddings_of_states(read, {} if embeddings is None else embeddings.output),
        seed_set=seed_set,
    )


def _part_of_states(read: Any, output: Any) -> tf_keras.Model:
    """Takes the part of a model that computes an output from the states that are read."""
    try:
        return tf_keras.Model(read, output)
    except ValueError as error:
        # Keras says which tensor is missing, in the words of the graph's spec.
        raise _refusal(
            "the states of seeds alone lead to predictions and embeddings", "other inputs of these"
        ) from error


def _embeddings_of_states(read: Any, outputs: Mapping[str, Any]) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Makes the function from the states that are read to the embeddings, which usually are these states."""
    others = {name: output for name, output in outputs.items() if output is not read}
    computed = _part_of_states(read, others) if others else None

    def embeddings(states: tf.Tensor) -> dict[str, tf.Tensor]:
        found = {} if computed is None else computed(states, training=False)
        return {name: found.get(name, states) for name in outputs}

    return embeddings


def _updates_before(graph: Any) -> tuple[Any, list[tf_keras.layers.Layer]]:
    """Returns the Keras tensor of the graph that the first update gets, and the updates from it to a graph."""
    updates: list[tf_keras.layers.Layer] = []
    while _is_update(graph.node.layer):
        layer = graph.node.layer
        updates = [*(layer.layers if isinstance(layer, tf_keras.Sequential) else [layer]), *updates]
        (graph,) = graph.node.keras_inputs
    return graph, updates


def _is_update(layer: tf_keras.layers.Layer) -> bool:
    if isinstance(layer, tf_keras.Sequential):
        return any(_is_update(one) for one in layer.layers)
    return isinstance(layer, (GraphUpdate, HGTGraphUpdate, JumpingKnowledge, RGCNGraphUpdate))


def _relations_of(
    update: tf_keras.layers.Layer, spec: GraphTensorSpec
) -> dict[const.NodeSetName, tuple[ReadRelation, ...]]:
    """Lists the relations along which a layer's node sets receive; refuses layers that are not known to be local."""
    config = update.get_config()
    if isinstance(update, (HGTGraphUpdate, RGCNGraphUpdate)):
        ways = [Relation(*way) for way in config["relations"]]
        return {
            name: tuple(
                ReadRelation(edge_set=way.edge_set_name, receiver_tag=way.receiver_tag, sender=way.sender)
                for way in ways
                if way.receiver == name
            )
            for name in config["node_sets"]
        }
    if type(update) is not GraphUpdate:
        raise _refusal("every layer is a graph update of this library", type(update).__name__)
    if pop_with_prefix("edge_sets", config) or config["context"] is not None:
        raise _refusal("layers update nodes alone", "updates of edges or of the context, such as `update_edges`")
    return {
        name: tuple(_relations_to(node_update, spec))
        for name, node_update in pop_with_prefix("node_sets", config).items()
    }


def _relations_to(update: tf_keras.layers.Layer, spec: GraphTensorSpec) -> Iterator[ReadRelation]:
    if type(update) not in (NodeSetUpdate, ReadNodeSetUpdate):
        raise _refusal("node sets have a NodeSetUpdate", type(update).__name__)
    config = update.get_config()
    if config["context_input_feature"] or config["node_input_feature"] != const.HIDDEN_STATE:
        raise _refusal(
            "nodes read no feature but their state",
            f"{config['node_input_feature']!r}, and {config['context_input_feature']!r} of the context",
        )
    for edge_set, layer in pop_with_prefix("edge_set_inputs", config).items():
        directions = [layer]
        if isinstance(layer, BothDirections):
            directions = [layer.get_config()[name] for name in ("to_source", "to_target")]
        for convolution in directions:
            _check_is_local(convolution)
            options = convolution.get_config()
            tag = options["receiver_tag"]
            if tag not in BOTH_DIRECTIONS:
                raise _refusal("convolutions have SOURCE or TARGET as `receiver_tag`", repr(tag))
            yield ReadRelation(
                edge_set=edge_set,
                receiver_tag=tag,
                sender=spec.edge_sets_spec[edge_set].adjacency_spec.node_set_name(reverse_tag(tag)),
                features=tuple(sorted({options[name] for name in _EDGE_FEATURES if options.get(name)})),
            )


def _check_is_local(convolution: tf_keras.layers.Layer) -> None:
    name, options = type(convolution).__name__, convolution.get_config()
    if not isinstance(convolution, _CONVOLUTIONS):
        raise _refusal("convolutions are known to be local", name)
    others = [options[field] for field in _NODE_FEATURES if options.get(field) not in (None, const.HIDDEN_STATE)]
    if others:
        raise _refusal("convolutions read no feature of nodes but their state", f"{others} in {name}")
    if isinstance(convolution, GCNConv) and options["degree_normalization"] not in _LOCAL_DEGREES:
        raise _refusal(
            f"`degree_normalization` is one of {list(_LOCAL_DEGREES)}, because the degree of a neighbor is not that of "
            "the whole graph where a subgraph ends",
            repr(options["degree_normalization"]),
        )
    if isinstance(convolution, GINConv) and options["normalization"] == "graph":
        raise _refusal("`normalization` is not 'graph', whose statistics are those of a subgraph", "'graph'")


def _refusal(rule: str, got: str) -> ValueError:
    return ValueError(
        f"`layerwise_inference` must be False unless {rule}; got {got}. Leave it out, and infer from subgraphs."
    )
