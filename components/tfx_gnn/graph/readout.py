"""Reads values out of a graph along its readout structure."""

from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.readout_structure import (
    READOUT,
    index_checks,
    readout_edge_set_names,
    shadowed_edge_set,
)
from tfx_gnn.graph.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def structured_readout(
    graph: GraphTensor,
    key: str,
    *,
    feature_name: const.FieldName,
    readout_node_set: const.NodeSetName = READOUT,
    validate: bool = True,
) -> const.Field:
    """Reads a feature from the nodes, or edges, that the readout structure selects.

    The readout structure (see `readout_structure.py`) has one node in `readout_node_set` per
    value and edges "_readout/<key>" from where the value is. A node classifier reads its seeds by
    one key; a link predictor may read both ends of a link by the keys "source" and "target".

    Args:
        graph: a scalar graph.
        key: which edges of the structure to follow.
        feature_name: name of a feature that each set at the other end of those edges has, with
            the same dtype and shape per item.
        readout_node_set: name of the readout node set, "_readout" or "_readout:<tag>".
        validate: whether to check node indices at run time. False is for graphs that passed
            `validate_graph_tensor_for_readout` before.

    Returns:
        Field of shape [num_readouts, *feature_shape], in the order of the readout nodes.

    Raises:
        ValueError: if the graph is not scalar, or the structure is malformed.
        KeyError: if the structure lacks the key, or a set lacks the feature.
        tf.errors.InvalidArgumentError: at run time, if node indices are not sorted, or do not
            reach each readout node once.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> graph = tfx_gnn.add_readout_from_first_node(graph, "seed", node_set_name="nodes")
        >>> tfx_gnn.structured_readout(graph, "seed", feature_name="hidden_state").numpy().tolist()
        [5.0]
    """
    check_scalar_graph_tensor(graph, "structured_readout()")
    edge_set_names = readout_edge_set_names(graph.spec, key, readout_node_set)
    checks = index_checks(graph, edge_set_names, readout_node_set) if validate else []
    values = []
    targets = []
    with tf.control_dependencies([check for check in checks if check is not None]):
        for edge_set_name in edge_set_names:
            adjacency = graph.edge_sets[edge_set_name].adjacency
            source_name = adjacency.node_set_name(const.SOURCE)
            shadowed = shadowed_edge_set(source_name)
            piece = graph.node_sets[source_name] if shadowed is None else graph.edge_sets[shadowed]
            values.append(tf.gather(piece[feature_name], tf.identity(adjacency[const.SOURCE])))
            targets.append(adjacency[const.TARGET])
        if len(values) == 1:
            return values[0]
        return tf.gather(tf.concat(values, axis=0), tf.argsort(tf.concat(targets, axis=0)))


@becomes_keras_layer
def structured_readout_into_feature(
    graph: GraphTensor,
    key: str,
    *,
    feature_name: const.FieldName,
    new_feature_name: const.FieldName | None = None,
    remove_input_feature: bool = False,
    overwrite: bool = False,
    readout_node_set: const.NodeSetName = READOUT,
    validate: bool = True,
) -> GraphTensor:
    """Reads a feature like `structured_readout` and stores it on the readout node set.

    Args:
        graph: a scalar graph.
        key: which edges of the structure to follow.
        feature_name: name of the feature to read.
        new_feature_name: name of the feature to store; by default `feature_name`.
        remove_input_feature: whether the feature is removed from where it was read. This moves
            labels out of sight of a model.
        overwrite: whether a feature of that name on the readout node set may be replaced.
        readout_node_set: name of the readout node set, "_readout" or "_readout:<tag>".
        validate: whether to check node indices at run time.

    Returns:
        The graph with the new feature, of shape [num_readouts, *feature_shape].

    Raises:
        ValueError: as for `structured_readout`, or if the new feature exists.
        KeyError: as for `structured_readout`.
        tf.errors.InvalidArgumentError: as for `structured_readout`.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> graph = tfx_gnn.add_readout_from_first_node(graph, "seed", node_set_name="nodes")
        >>> graph = tfx_gnn.structured_readout_into_feature(graph, "seed", feature_name="hidden_state")
        >>> graph.node_sets["_readout"]["hidden_state"].numpy().tolist()
        [5.0]
    """
    values = structured_readout(
        graph, key, feature_name=feature_name, readout_node_set=readout_node_set, validate=validate
    )
    if remove_input_feature:
        graph = _without_input_feature(graph, key, feature_name, readout_node_set)
    return store_readout(
        graph,
        values,
        feature_name=new_feature_name or feature_name,
        overwrite=overwrite,
        readout_node_set=readout_node_set,
        caller="structured_readout_into_feature",
    )


# The older names of the same functions.
readout_named = structured_readout
readout_named_into_feature = structured_readout_into_feature


def store_readout(
    graph: GraphTensor,
    values: const.Field,
    *,
    feature_name: const.FieldName,
    overwrite: bool,
    readout_node_set: const.NodeSetName,
    caller: str,
) -> GraphTensor:
    """Adds a feature to the readout node set.

    Args:
        graph: a scalar graph with that node set.
        values: shape [num_readouts, ...].
        feature_name: name of the feature.
        overwrite: whether a feature of that name may be replaced.
        readout_node_set: name of the readout node set.
        caller: the function to name in the error.

    Returns:
        The graph with the feature.

    Raises:
        ValueError: if the feature exists.
    """
    features = graph.node_sets[readout_node_set].get_features_dict()
    if feature_name in features and not overwrite:
        raise ValueError(
            f"Output feature '{feature_name}' already exists on node set '{readout_node_set}'. "
            f"Pass {caller}(..., overwrite=True) to discard the old value, or choose another new_feature_name."
        )
    features[feature_name] = values
    return graph.replace_features(node_sets={readout_node_set: features})


def _without_input_feature(
    graph: GraphTensor, key: str, feature_name: const.FieldName, readout_node_set: const.NodeSetName
) -> GraphTensor:
    node_sets = {}
    edge_sets = {}
    for edge_set_name in readout_edge_set_names(graph.spec, key, readout_node_set):
        source_name = graph.edge_sets[edge_set_name].adjacency.node_set_name(const.SOURCE)
        shadowed = shadowed_edge_set(source_name)
        if shadowed is None:
            node_sets[source_name] = [feature_name]
        else:
            edge_sets[shadowed] = [feature_name]
    return graph.remove_features(node_sets=node_sets, edge_sets=edge_sets)
