"""Reads values from a graph by its readout structure, or from the first node of each component.

The first node is the older convention, for rooted subgraphs.
"""

from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.readout_structure import (
    index_checks,
    readout_edge_set_names,
    shadowed_edge_set,
)
from tfx_gnn.graph.ops.tags import check_one_feature
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet, NodeSet
from tfx_gnn.graph.tensor.run_time_checks import after_checks
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def structured_readout(
    graph: GraphTensor,
    key: str,
    *,
    feature_name: const.FieldName,
    readout_node_set: const.NodeSetName = READOUT_NODE_SET,
    validate: bool = True,
) -> const.Field:
    """Reads a feature from the nodes, or edges, that the readout structure selects.

    The readout structure (see `readout_structure.py`) has one node in `readout_node_set` per
    value, and edges "_readout/<key>" from the node or edge that holds the value. A node classifier
    reads its seeds with one key; a link predictor may read both ends of a link with the keys
    "source" and "target".

    Args:
        graph: a scalar graph.
        key: which edges of the structure to follow.
        feature_name: name of a feature that each set at the other end of those edges has, with
            the same dtype and shape per item.
        readout_node_set: name of the readout node set, "_readout" or "_readout:<tag>".
        validate: whether to check node indices at run time. Use False for graphs that have
            already passed `validate_graph_tensor_for_readout`.

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
    readout_node_set: const.NodeSetName = READOUT_NODE_SET,
    validate: bool = True,
) -> GraphTensor:
    """Reads a feature like `structured_readout` and stores it on the readout node set.

    Args:
        graph: a scalar graph.
        key: which edges of the structure to follow.
        feature_name: name of the feature to read.
        new_feature_name: name of the feature to store; by default `feature_name`.
        remove_input_feature: whether to remove the feature from the sets it was read from, for
            example to hide labels from the model.
        overwrite: whether an existing feature of that name on the readout node set may be replaced.
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


# Older names of the same functions.
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
    """Adds a feature to the readout node set."""
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


@becomes_keras_layer
def gather_first_node(
    graph_tensor: GraphTensor,
    node_set_name: const.NodeSetName,
    *,
    feature_value: const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> const.Field:
    """Reads a feature from the first node of each graph component.

    Samplers put the root of a subgraph first in its node set.

    Args:
        graph_tensor: a scalar graph. Each component must have at least one node in the node set.
        node_set_name: the node set to read.
        feature_value: dense or ragged, shape [num_nodes, *feature_shape]. Either this or
            `feature_name`.
        feature_name: name of a feature of the node set.

    Returns:
        Field of shape [num_components, *feature_shape].

    Raises:
        ValueError: if the graph is not scalar, or not exactly one feature is given.
        tf.errors.InvalidArgumentError: at run time, if a component has no node in the node set.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([2]), target=tf.constant([1]), node_features=tf.constant([1., 2., 3.]),
        ...     node_set_sizes=[1, 2], edge_set_sizes=[0, 1])
        >>> tfx_gnn.gather_first_node(graph, "nodes", feature_name="hidden_state").numpy().tolist()
        [1.0, 2.0]
    """
    check_scalar_graph_tensor(graph_tensor, "gather_first_node()")
    check_one_feature(feature_value, feature_name, caller="gather_first_node()")
    node_set = graph_tensor.node_sets[node_set_name]
    if feature_name is not None:
        feature_value = node_set[feature_name]
    return tf.gather(feature_value, _first_nodes(node_set, f"gather_first_node(..., node_set_name='{node_set_name}')"))


@becomes_keras_layer
def add_readout_from_first_node(
    graph: GraphTensor,
    key: str,
    *,
    node_set_name: const.NodeSetName,
    readout_node_set: const.NodeSetName = READOUT_NODE_SET,
) -> GraphTensor:
    """Adds a readout structure that reads the first node of each graph component.

    Args:
        graph: a scalar graph. If it already has the readout node set, that set must have one node
            per component.
        key: key of the new readout edges; it must not exist yet.
        node_set_name: the node set to read. Each component must have at least one node in it.
        readout_node_set: name of the readout node set, "_readout" or "_readout:<tag>".

    Returns:
        Scalar graph with an edge set "<readout_node_set>/<key>". `structured_readout` with that key
        returns the same values as `gather_first_node`.

    Raises:
        ValueError: if the graph is not scalar, lacks the node set or has the key already.
        tf.errors.InvalidArgumentError: at run time, if a component has no node to read, or the
            existing readout node set has other sizes.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> graph = tfx_gnn.add_readout_from_first_node(graph, "seed", node_set_name="nodes")
        >>> tfx_gnn.structured_readout(graph, "seed", feature_name="hidden_state").numpy().tolist()
        [5.0]
    """
    check_scalar_graph_tensor(graph, "add_readout_from_first_node()")
    prefix = f"{readout_node_set}/{key}"
    for name in graph.edge_sets:
        if name == prefix or name.startswith(prefix + "/"):
            raise ValueError(f"Requested readout key already exists: found edge set name '{name}'. Choose another key.")
    if node_set_name not in graph.node_sets:
        raise ValueError(f"Unknown node set name '{node_set_name}'. Known node sets are {list(graph.node_sets)}.")
    node_set = graph.node_sets[node_set_name]
    first_nodes = _first_nodes(node_set, f"add_readout_from_first_node(..., node_set_name='{node_set_name}')")
    graph = with_readout_node_per_component(graph, readout_node_set)
    edge_set = EdgeSet.from_fields(
        sizes=tf.ones_like(node_set.sizes),
        adjacency=Adjacency.from_indices(
            source=(node_set_name, first_nodes),
            target=(readout_node_set, tf.range(tf.size(first_nodes, first_nodes.dtype))),
        ),
    )
    return GraphTensor.from_pieces(
        context=graph.context, node_sets=graph.node_sets, edge_sets={**graph.edge_sets, prefix: edge_set}
    )


@becomes_keras_layer
def context_readout_into_feature(
    graph: GraphTensor,
    *,
    feature_name: const.FieldName,
    new_feature_name: const.FieldName | None = None,
    remove_input_feature: bool = False,
    overwrite: bool = False,
    readout_node_set: const.NodeSetName = READOUT_NODE_SET,
) -> GraphTensor:
    """Copies a context feature to the readout node set, which has one node per component.

    Args:
        graph: a scalar graph. The readout node set must have one node per component; it is added
            if missing.
        feature_name: name of the context feature.
        new_feature_name: name of the feature to store; by default `feature_name`.
        remove_input_feature: whether to remove the feature from the context.
        overwrite: whether an existing feature of that name on the readout node set may be replaced.
        readout_node_set: name of the readout node set, "_readout" or "_readout:<tag>".

    Returns:
        The graph with the new feature, of shape [num_components, *feature_shape].

    Raises:
        ValueError: if the graph is not scalar, or the new feature exists.
        KeyError: if the context lacks the feature.
        tf.errors.InvalidArgumentError: at run time, if the existing readout node set has other
            sizes.
    """
    check_scalar_graph_tensor(graph, "context_readout_into_feature()")
    values = graph.context[feature_name]
    if remove_input_feature:
        graph = graph.remove_features(context=[feature_name])
    return store_readout(
        with_readout_node_per_component(graph, readout_node_set),
        values,
        feature_name=new_feature_name or feature_name,
        overwrite=overwrite,
        readout_node_set=readout_node_set,
        caller="context_readout_into_feature",
    )


def with_readout_node_per_component(graph: GraphTensor, readout_node_set: const.NodeSetName) -> GraphTensor:
    """Adds the readout node set if it is missing; checks that it has one node per component."""
    sizes = tf.ones_like(graph.context.sizes)
    if readout_node_set not in graph.node_sets:
        node_sets = {**graph.node_sets, readout_node_set: NodeSet.from_fields(sizes=sizes)}
        return GraphTensor.from_pieces(context=graph.context, node_sets=node_sets, edge_sets=graph.edge_sets)
    check = tf.debugging.assert_equal(
        graph.node_sets[readout_node_set].sizes,
        sizes,
        message=f"Existing aux node set '{readout_node_set}' does not match requested sizes of 1 per component",
    )
    return after_checks([check], graph)


def _first_nodes(node_set: NodeSet, caller: str) -> tf.Tensor:
    check = tf.debugging.assert_positive(
        node_set.sizes,
        message=f"{caller} called for a graph in which one or more components contain no nodes.",
    )
    return tf.cumsum(after_checks([check], node_set.sizes), exclusive=True)
