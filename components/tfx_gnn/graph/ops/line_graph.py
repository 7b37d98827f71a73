"""The line graph: its nodes are the edges of a graph, connected where two edges share a node."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_checks import num_items_of
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.adjacency import Adjacency, HyperAdjacency
from tfx_gnn.graph.tensor.fields import component_indices
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor, get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet, NodeSet
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer

_ORIGINAL = "original/"


@becomes_keras_layer
def convert_to_line_graph(
    graph_tensor: GraphTensor,
    *,
    connect_from: const.IncidentNodeTag = const.TARGET,
    connect_to: const.IncidentNodeTag = const.SOURCE,
    connect_with_original_nodes: bool = False,
    non_backtracking: bool = False,
    use_node_features_as_line_graph_edge_features: bool = False,
) -> GraphTensor:
    """Makes the line graph of a graph.

    Each edge set becomes a node set of the same name, with its features. Two edges are connected
    if the first ends (at `connect_from`) where the second starts (at `connect_to`); these
    connections are edge sets "<first>=><second>", ordered by the shared node.

    Args:
        graph_tensor: a scalar graph with ordinary edges. A readout structure is the only kind of
            auxiliary sets allowed.
        connect_from: end of the first edge, `TARGET` or `SOURCE`.
        connect_to: end of the second edge, `SOURCE` or `TARGET`.
        connect_with_original_nodes: whether to keep the nodes, in node sets "original/<name>", and
            connect them to the new nodes: "original/to/<edge set>" from the source of each edge,
            "original/from/<edge set>" to its target. A readout structure is kept, too.
        non_backtracking: whether to leave out pairs of edges whose other ends are the same node.
        use_node_features_as_line_graph_edge_features: whether each connection gets the features of
            the node that its two edges share.

    Returns:
        Scalar graph with the same context and components. A set of n edges becomes a set of n
        nodes, with features of shape [n, ...].

    Raises:
        ValueError: if the graph is not scalar, holds auxiliary sets that cannot be converted or
            hyperedges, or a tag is neither `SOURCE` nor `TARGET`.

    Example:
        >>> triangle = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1, 2]), target=tf.constant([1, 2, 0]), node_features=tf.zeros([3, 1]))
        >>> lines = tfx_gnn.convert_to_line_graph(triangle).edge_sets["edges=>edges"].adjacency
        >>> list(zip(lines.source.numpy().tolist(), lines.target.numpy().tolist()))
        [(2, 0), (0, 1), (1, 2)]
    """
    check_scalar_graph_tensor(graph_tensor, "convert_to_line_graph()")
    ends = _Ends(connect_from, connect_to)
    _check_sets(graph_tensor, keeps_readout=connect_with_original_nodes)
    edge_sets = {name: edge_set for name, edge_set in graph_tensor.edge_sets.items() if not _is_readout(name)}

    new_node_sets = {
        name: NodeSet.from_fields(sizes=edge_set.sizes, features=edge_set.features)
        for name, edge_set in edge_sets.items()
    }
    new_edge_sets = {}
    if connect_with_original_nodes:
        for name, node_set in graph_tensor.node_sets.items():
            new_node_sets[_original_name(name)] = node_set
        for name, edge_set in edge_sets.items():
            new_edge_sets.update(_connections_to_nodes(name, edge_set))
        for name, edge_set in graph_tensor.edge_sets.items():
            if _is_readout(name):
                new_edge_sets[name] = _readout_from_original(edge_set)
    for first_name, first in edge_sets.items():
        for second_name, second in edge_sets.items():
            shared = first.adjacency.node_set_name(connect_from)
            if shared != second.adjacency.node_set_name(connect_to):
                continue
            pairs = _pairs(graph_tensor, first, second, ends, non_backtracking=non_backtracking)
            features = {}
            if use_node_features_as_line_graph_edge_features:
                shared_node = tf.gather(first.adjacency[connect_from], pairs.first)
                node_features = graph_tensor.node_sets[shared].features
                features = {name: tf.gather(value, shared_node) for name, value in node_features.items()}
            new_edge_sets[f"{first_name}=>{second_name}"] = EdgeSet.from_fields(
                sizes=pairs.sizes,
                features=features,
                adjacency=Adjacency.from_indices((first_name, pairs.first), (second_name, pairs.second)),
            )
    return GraphTensor.from_pieces(context=graph_tensor.context, node_sets=new_node_sets, edge_sets=new_edge_sets)


@dataclasses.dataclass(frozen=True)
class _Ends:
    connect_from: const.IncidentNodeTag
    connect_to: const.IncidentNodeTag

    def __post_init__(self) -> None:
        for tag in (self.connect_from, self.connect_to):
            reverse_tag(tag)  # Raises for anything but SOURCE and TARGET.


@dataclasses.dataclass(frozen=True)
class _Pairs:
    first: tf.Tensor
    second: tf.Tensor
    sizes: tf.Tensor


def _pairs(graph: GraphTensor, first: EdgeSet, second: EdgeSet, ends: _Ends, *, non_backtracking: bool) -> _Pairs:
    """Joins edges on their shared nodes."""
    # A sort-merge join: once the second set is sorted, the partners at a node are `degrees[node]` consecutive edges.
    dtype = graph.indices_dtype
    first_node, second_node = first.adjacency[ends.connect_from], second.adjacency[ends.connect_to]
    num_nodes = graph.node_sets[first.adjacency.node_set_name(ends.connect_from)].total_size
    degrees = tf.math.unsorted_segment_sum(tf.ones_like(second_node), second_node, num_nodes)
    starts = tf.cumsum(degrees, exclusive=True)
    first_order = tf.cast(tf.argsort(first_node, stable=True), dtype)
    second_order = tf.cast(tf.argsort(second_node, stable=True), dtype)

    node_of_first = tf.gather(first_node, first_order)
    num_partners = tf.gather(degrees, node_of_first)
    first_of_pair = tf.repeat(first_order, num_partners)
    position = tf.range(tf.size(first_of_pair, dtype)) - tf.repeat(
        tf.cumsum(num_partners, exclusive=True), num_partners
    )
    start = tf.repeat(tf.gather(starts, node_of_first), num_partners)
    second_of_pair = tf.gather(second_order, start + position)

    if non_backtracking:
        first_other, second_other = reverse_tag(ends.connect_from), reverse_tag(ends.connect_to)
        if first.adjacency.node_set_name(first_other) == second.adjacency.node_set_name(second_other):
            differ = tf.not_equal(
                tf.gather(first.adjacency[first_other], first_of_pair),
                tf.gather(second.adjacency[second_other], second_of_pair),
            )
            first_of_pair = tf.boolean_mask(first_of_pair, differ)
            second_of_pair = tf.boolean_mask(second_of_pair, differ)
    components = tf.gather(component_indices(first.sizes, num_items_of(first)), first_of_pair)
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(components), components, graph.total_num_components)
    return _Pairs(first_of_pair, second_of_pair, tf.ensure_shape(sizes, first.sizes.shape))


def _connections_to_nodes(name: const.EdgeSetName, edge_set: EdgeSet) -> dict[const.EdgeSetName, EdgeSet]:
    source, target = _original_ends(edge_set.adjacency)
    edges = (name, tf.range(tf.size(source[1], source[1].dtype)))
    return {
        f"{_ORIGINAL}to/{name}": EdgeSet.from_fields(
            sizes=edge_set.sizes, adjacency=Adjacency.from_indices(source, edges)
        ),
        f"{_ORIGINAL}from/{name}": EdgeSet.from_fields(
            sizes=edge_set.sizes, adjacency=Adjacency.from_indices(edges, target)
        ),
    }


def _readout_from_original(edge_set: EdgeSet) -> EdgeSet:
    source, target = _original_ends(edge_set.adjacency)
    return EdgeSet.from_fields(
        sizes=edge_set.sizes, features=edge_set.features, adjacency=Adjacency.from_indices(source, target)
    )


def _original_ends(adjacency: HyperAdjacency) -> tuple[tuple[const.NodeSetName, tf.Tensor], ...]:
    return tuple((_original_name(adjacency.node_set_name(tag)), adjacency[tag]) for tag in (const.SOURCE, const.TARGET))


def _is_readout(set_name: const.SetName) -> bool:
    return get_aux_type_prefix(set_name) == READOUT_NODE_SET


def _original_name(node_set_name: const.NodeSetName) -> const.NodeSetName:
    return node_set_name if _is_readout(node_set_name) else _ORIGINAL + node_set_name


def _check_sets(graph: GraphTensor, *, keeps_readout: bool) -> None:
    for kind, sets in (("node", graph.node_sets), ("edge", graph.edge_sets)):
        for name in sets:
            if get_aux_type_prefix(name) is None:
                continue
            if not _is_readout(name):
                raise ValueError(
                    f"The original graph contains an auxiliary {kind} set '{name}' that convert_to_line_graph() "
                    "cannot handle. Delete it first."
                )
            if not keeps_readout:
                raise ValueError(
                    f"The original graph contains an auxiliary {kind} set '{name}'. Pass "
                    "`connect_with_original_nodes=True` to keep readout sets, or delete them first."
                )
    for name, edge_set in graph.edge_sets.items():
        tags = sorted(edge_set.adjacency.get_indices_dict())
        if tags != [const.SOURCE, const.TARGET]:
            raise ValueError(
                f"convert_to_line_graph() requires edges of one source and one target; got tags {tags} "
                f"for edge set '{name}'."
            )
