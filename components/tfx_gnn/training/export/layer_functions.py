"""Exports the layers of a model one by one: the functions that `tfx_gnn.serving.layerwise_model` calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.serving.layerwise_model import LayerPlan, ReadRelation
from tfx_gnn.training.export.model_layers import ModelLayers

Outputs = dict[str, tf.Tensor]


def layer_functions(
    found: ModelLayers,
    *,
    encoder_inputs: Callable[[tf.Tensor], GraphTensor],
    served_outputs: Callable[[Any, Outputs, GraphTensor], Outputs],
) -> tuple[dict[str, Any], LayerPlan]:
    """Makes the functions.

    Args:
        found: the parts of the model.
        encoder_inputs: maps serialized raw graph tf.Examples, string [n], to the graph that the encoder gets.
        served_outputs: maps the model's output, its embeddings by output, and a graph of n components to the response.

    Returns:
        tf.functions by name, and what they read and return.

    Raises:
        ValueError: if a layer reads a feature of edges that is not a tensor.
    """
    spec = found.encoder.output.type_spec
    ways = [way for of_layer in found.relations for of_set in of_layer.values() for way in of_set]
    features = {f"{const.EDGES}/{way.edge_set}.{name}": (way.edge_set, name) for way in ways for name in way.features}
    states = {
        name: node_set.features_spec[const.HIDDEN_STATE]
        for name, node_set in spec.node_sets_spec.items()
        if const.HIDDEN_STATE in node_set.features_spec
    }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def encode(examples: tf.Tensor) -> Outputs:
        graph = found.encoder(encoder_inputs(examples), training=False)
        outputs = {
            f"{const.NODES}/{name}": tf.cast(graph.node_sets[name][const.HIDDEN_STATE], tf.float32) for name in states
        }
        return outputs | {key: graph.edge_sets[name][feature] for key, (name, feature) in features.items()}

    functions: dict[str, Any] = {"encoder": encode}
    widths = {name: int(state.shape[-1]) for name, state in states.items()}
    current = dict(states)
    of_seeds = [current[found.seed_set]]
    layers = []
    dtypes = {state.dtype for state in states.values()}
    for number, (update, relations) in enumerate(zip(found.updates, found.relations, strict=True)):
        new = {}
        for node_set in relations:
            function, new[node_set] = _update_function(update, spec, current, relations, node_set)
            functions[f"{number}/{node_set}"] = function
        current |= new
        dtypes |= {state.dtype for state in new.values()}
        of_seeds.append(current[found.seed_set])
        layers.append({name: int(state.shape[-1]) for name, state in new.items()})
    read = of_seeds if found.combine else of_seeds[-1:]

    @tf.function(input_signature=[[tf.TensorSpec([None, state.shape[-1]], tf.float32) for state in read]])
    def answer(seed_states: list[tf.Tensor]) -> Outputs:
        in_dtype = [tf.cast(values, state.dtype) for values, state in zip(seed_states, read, strict=True)]
        state = in_dtype[0] if found.combine is None else found.combine(in_dtype)
        sizes = tf.ones(tf.shape(state)[:1], tf.int32)
        graph = GraphTensor.from_pieces(context=Context.from_fields(features={}, sizes=sizes))
        return served_outputs(found.head(state, training=False), found.embeddings(state), graph)

    functions["head"] = answer
    plan = LayerPlan(
        seed_set=found.seed_set,
        widths=widths,
        layers=tuple(layers),
        relations=found.relations,
        reads_all_states=found.combine is not None,
        is_half_precision=not dtypes.isdisjoint({tf.bfloat16, tf.float16}),
    )
    return functions, plan


def _update_function(
    update: Callable[[GraphTensor], GraphTensor],
    spec: GraphTensorSpec,
    states: Mapping[const.NodeSetName, tf.TensorSpec],
    relations: Mapping[const.NodeSetName, tuple[ReadRelation, ...]],
    node_set: const.NodeSetName,
) -> tuple[Any, tf.TensorSpec]:
    """Makes the function of a layer that updates one node set, and describes the new states.

    The layer also computes the states of other node sets, from empty edge sets; TensorFlow prunes that.
    """
    received = {way.edge_set for way in relations[node_set]}
    needed = {node_set, *(way.sender for way in relations[node_set])}
    ways = [way for of_set in relations.values() for way in of_set]
    inputs = {"num_targets": tf.TensorSpec([], tf.int32)}
    for name in needed:
        inputs[f"{const.NODES}/{name}"] = tf.TensorSpec([None, states[name].shape[-1]], tf.float32)
    edge_features: dict[str, dict[str, tf.TensorSpec]] = {way.edge_set: {} for way in ways}
    for way in ways:
        for name in way.features:
            edge_features[way.edge_set][name] = _feature_spec(spec, way.edge_set, name)
    for name in received:
        inputs |= {
            f"{const.EDGES}/{name}.{end}": tf.TensorSpec([None], tf.int32)
            for end in (const.SOURCE_NAME, const.TARGET_NAME)
        }
        inputs |= {f"{const.EDGES}/{name}.{feature}": one for feature, one in edge_features[name].items()}

    def given(tensors: Mapping[str, tf.Tensor], key: str, absent: tf.TensorSpec) -> tf.Tensor:
        empty = tf.zeros([0, *absent.shape[1:]], absent.dtype)
        return tf.cast(tensors[key], absent.dtype) if key in inputs else empty

    @tf.function(input_signature=[inputs])
    def new_states(tensors: dict[str, tf.Tensor]) -> tf.Tensor:
        targets = tf.range(tensors["num_targets"])
        node_sets = {READOUT_NODE_SET: NodeSet.from_fields(features={}, sizes=tf.shape(targets))}
        for name in {*relations, *(way.sender for way in ways)}:
            values = given(tensors, f"{const.NODES}/{name}", states[name])
            node_sets[name] = NodeSet.from_fields(features={const.HIDDEN_STATE: values}, sizes=tf.shape(values)[:1])
        edge_sets = {
            f"{READOUT_NODE_SET}/seed": EdgeSet.from_fields(
                features={},
                sizes=tf.shape(targets),
                adjacency=Adjacency.from_indices((node_set, targets), (READOUT_NODE_SET, targets)),
            )
        }
        index = tf.TensorSpec([None], tf.int32)
        for name, features in edge_features.items():
            start = f"{const.EDGES}/{name}."
            source, target = (given(tensors, start + end, index) for end in (const.SOURCE_NAME, const.TARGET_NAME))
            ends = spec.edge_sets_spec[name].adjacency_spec
            edge_sets[name] = EdgeSet.from_fields(
                features={feature: given(tensors, start + feature, one) for feature, one in features.items()},
                sizes=tf.shape(source),
                adjacency=Adjacency.from_indices((ends.source_name, source), (ends.target_name, target)),
            )
        graph = update(GraphTensor.from_pieces(node_sets=node_sets, edge_sets=edge_sets))
        return graph.node_sets[node_set][const.HIDDEN_STATE][: tensors["num_targets"]]

    return new_states, new_states.get_concrete_function().structured_outputs


def _feature_spec(spec: GraphTensorSpec, edge_set: const.EdgeSetName, feature: const.FieldName) -> tf.TensorSpec:
    found = spec.edge_sets_spec[edge_set].features_spec[feature]
    if not isinstance(found, tf.TensorSpec):
        raise ValueError(
            f"`layerwise_inference` must be False if a layer reads lists of edges; got {feature!r} of {edge_set!r}. "
            "Leave it out, and infer from subgraphs."
        )
    return tf.TensorSpec([None, *found.shape[1:]], found.dtype)
