"""The auxiliary node set and edge sets that say which nodes a model's outputs are for.

A readout structure consists of the node set "_readout" (or "_readout:<tag>"), with one node per
value to read, and of edge sets "_readout/<key>" or "_readout/<key>/<anything>" that lead to it from
the nodes whose values are read. The edge sets of one key together have the targets 0, 1, ..., n-1,
each exactly once and sorted within each edge set. To read from an edge set "links", the source is
a node set "_shadow/links" of the same sizes, without features.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET, SHADOW_PREFIX
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.run_time_checks import after_checks
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer


def validate_graph_tensor_spec_for_readout(
    graph_spec: GraphTensorSpec,
    required_keys: Sequence[str] | None = None,
    *,
    readout_node_set: const.NodeSetName = READOUT_NODE_SET,
) -> None:
    """Checks that a type of graph has a well-formed readout structure.

    Args:
        graph_spec: spec of a scalar graph.
        required_keys: keys that the structure must provide.
        readout_node_set: name of the readout node set, "_readout" or "_readout:<tag>".

    Raises:
        ValueError: if the readout node set is missing, nothing points to it, or an edge set of
            the structure has a bad name, source or target.
        KeyError: if a required key is missing.
    """
    check_scalar_graph_tensor(graph_spec, "validate_graph_tensor_spec_for_readout()")
    _check_readout_node_set(graph_spec, readout_node_set)
    edge_sets_by_key = _edge_sets_by_key(graph_spec, readout_node_set)
    if not edge_sets_by_key:
        raise ValueError(
            f"Found node set '{readout_node_set}' but no edge sets for readout into it. "
            f"Add edge sets named '{readout_node_set}/<key>', or drop the node set."
        )
    _check_keys(edge_sets_by_key, required_keys or (), readout_node_set)


@becomes_keras_layer
def validate_graph_tensor_for_readout(
    graph: GraphTensor,
    required_keys: Sequence[str] | None = None,
    *,
    readout_node_set: const.NodeSetName = READOUT_NODE_SET,
) -> GraphTensor:
    """Checks that a graph has a well-formed readout structure, node indices included.

    Call it once, in the input pipeline, because it takes time for each graph.

    Args:
        graph: a scalar graph.
        required_keys: keys that the structure must provide and whose indices are checked. By
            default, all keys are checked.
        readout_node_set: name of the readout node set, "_readout" or "_readout:<tag>".

    Returns:
        The same scalar graph; the checks run before any use of it.

    Raises:
        ValueError: as for `validate_graph_tensor_spec_for_readout`.
        KeyError: if a required key is missing.
        tf.errors.InvalidArgumentError: at run time, if node indices are not sorted, do not reach
            each readout node once, or a "_shadow/..." node set has other sizes than its edge set.
    """
    check_scalar_graph_tensor(graph, "validate_graph_tensor_for_readout()")
    validate_graph_tensor_spec_for_readout(graph.spec, required_keys, readout_node_set=readout_node_set)
    edge_sets_by_key = _edge_sets_by_key(graph.spec, readout_node_set)
    checks: list[tf.Operation] = []
    for key in edge_sets_by_key if required_keys is None else required_keys:
        checks.extend(index_checks(graph, edge_sets_by_key[key], readout_node_set))
    return after_checks(checks, graph)


def readout_edge_set_names(
    graph_spec: GraphTensorSpec, key: str, readout_node_set: const.NodeSetName
) -> list[const.EdgeSetName]:
    """Returns the edge sets of a key, at least one."""
    _check_readout_node_set(graph_spec, readout_node_set)
    edge_sets_by_key = _edge_sets_by_key(graph_spec, readout_node_set)
    _check_keys(edge_sets_by_key, [key], readout_node_set)
    return edge_sets_by_key[key]


def shadowed_edge_set(source_name: const.NodeSetName) -> const.EdgeSetName | None:
    """Returns the edge set that a "_shadow/..." node set stands for; None for other node sets."""
    return source_name[len(SHADOW_PREFIX) :] if source_name.startswith(SHADOW_PREFIX) else None


def index_checks(
    graph: GraphTensor, edge_set_names: Sequence[const.EdgeSetName], readout_node_set: const.NodeSetName
) -> list[tf.Operation]:
    """Makes the assertions on the node indices of one key; in eager mode, each is None instead of an op."""
    checks = []
    targets = []
    for name in edge_set_names:
        adjacency = graph.edge_sets[name].adjacency
        target = adjacency[const.TARGET]
        targets.append(target)
        checks.append(
            tf.debugging.assert_less(target[:-1], target[1:], message=f"Not strictly sorted by target: '{name}'")
        )
        source_name = adjacency.node_set_name(const.SOURCE)
        shadowed = shadowed_edge_set(source_name)
        if shadowed is not None:
            checks.append(
                tf.debugging.assert_equal(
                    graph.node_sets[source_name].sizes,
                    graph.edge_sets[shadowed].sizes,
                    message=(
                        f"Shadow node set '{source_name}' does not have the same sizes as shadowed edge set "
                        f"'{shadowed}'."
                    ),
                )
            )
    merged = targets[0] if len(targets) == 1 else tf.sort(tf.concat(targets, axis=0))
    num_targets = tf.size(merged, merged.dtype)
    num_readouts = tf.cast(graph.node_sets[readout_node_set].total_size, merged.dtype)
    message = "Target indices not equal to range(readout_size)"
    # Compare the counts first: elementwise, a single readout node would broadcast to any number of targets, even none.
    checks.append(tf.debugging.assert_equal(num_targets, num_readouts, message=message))
    with tf.control_dependencies([check for check in checks[-1:] if check is not None]):
        # XLA needs a static end of the range. The number of targets is static if their shapes are.
        checks.append(tf.debugging.assert_equal(merged, tf.range(num_targets), message=message))
    return checks


def _check_readout_node_set(graph_spec: GraphTensorSpec, readout_node_set: const.NodeSetName) -> None:
    if not re.fullmatch(READOUT_NODE_SET + r"(:[a-zA-Z0-9_]+)?", readout_node_set):
        raise ValueError(
            "Malformed name of readout_node_set. Expected '_readout' or '_readout:'+tag, where tag consists of "
            f"letters, digits and underscores; got '{readout_node_set}'."
        )
    if readout_node_set not in graph_spec.node_sets_spec:
        raise ValueError(
            f"GraphTensor lacks auxiliary node set '{readout_node_set}'. "
            f"Existing node sets are: {', '.join(graph_spec.node_sets_spec) or 'none'}."
        )


def _edge_sets_by_key(
    graph_spec: GraphTensorSpec, readout_node_set: const.NodeSetName
) -> dict[str, list[const.EdgeSetName]]:
    edge_sets_by_key: dict[str, list[const.EdgeSetName]] = {}
    for name in sorted(graph_spec.edge_sets_spec):
        if not name.startswith(readout_node_set + "/"):
            continue
        key = name.split("/")[1]
        if not key:
            raise ValueError(
                f"Malformed auxiliary edge set name: '{name}'. Expected '{readout_node_set}/<key>' or "
                f"'{readout_node_set}/<key>/<suffix>', with a key that is not empty."
            )
        adjacency_spec = graph_spec.edge_sets_spec[name].adjacency_spec
        target_name = adjacency_spec.node_set_name(const.TARGET)
        if target_name != readout_node_set:
            raise ValueError(
                f"Malformed auxiliary edge set '{name}': Expected target node set '{readout_node_set}' "
                f"but found '{target_name}'."
            )
        shadowed = shadowed_edge_set(adjacency_spec.node_set_name(const.SOURCE))
        if shadowed is not None and shadowed not in graph_spec.edge_sets_spec:
            raise ValueError(f"GraphTensor lacks edge set '{shadowed}' referenced by auxiliary edge set '{name}'.")
        _check_source(graph_spec, name, edge_sets_by_key.get(key, ()))
        edge_sets_by_key.setdefault(key, []).append(name)
    return edge_sets_by_key


def _check_source(
    graph_spec: GraphTensorSpec, name: const.EdgeSetName, others_of_key: Sequence[const.EdgeSetName]
) -> None:
    def source_name(edge_set_name: const.EdgeSetName) -> const.NodeSetName:
        return graph_spec.edge_sets_spec[edge_set_name].adjacency_spec.node_set_name(const.SOURCE)

    for other in others_of_key:
        if source_name(other) == source_name(name):
            shadowed = shadowed_edge_set(source_name(name))
            origin = f"nodes '{source_name(name)}'" if shadowed is None else f"edges '{shadowed}'"
            raise ValueError(
                f"Duplicate readout edge set from {origin}: '{name}' vs '{other}'. Merge the two into one."
            )


def _check_keys(
    edge_sets_by_key: Mapping[str, object], required_keys: Sequence[str], readout_node_set: const.NodeSetName
) -> None:
    unknown = [key for key in required_keys if key not in edge_sets_by_key]
    if unknown:
        raise KeyError(
            f"Unknown readout keys {unknown}: No edge sets found with name prefix "
            f"'{readout_node_set}/{unknown[0]}' and so on. Known keys are {sorted(edge_sets_by_key)}."
        )
