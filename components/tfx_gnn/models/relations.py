"""Relations to pass messages along: an edge set in one of its directions.

In a sampled subgraph only the seeds are read, a tenth of the nodes or less. The last layer's states of
the others are never used, so its matrix products can leave them out. Shapes stay static, as TPUs demand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.readout_structure import READOUT
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.layers.set_updates import NodeSetUpdate

BOTH_DIRECTIONS = (const.SOURCE, const.TARGET)
"""Tags of both ends of an edge: messages go to either."""


class Relation(NamedTuple):
    """One direction of an edge set.

    Attributes:
        edge_set_name: the edges.
        receiver_tag: the end that receives, `SOURCE` or `TARGET`.
        sender: name of the node set at the other end.
        receiver: name of the node set that receives.
    """

    edge_set_name: const.EdgeSetName
    receiver_tag: const.IncidentNodeTag
    sender: const.NodeSetName
    receiver: const.NodeSetName


class Round(NamedTuple):
    """What one layer of a network updates.

    Attributes:
        node_sets: names of the node sets that get a new state, in alphabetical order.
        relations: those along which they receive messages.
        position: number of layers before this one.
        keeps_width: whether the states of these node sets are known to have the width of the new ones, so that
            old ones can be added to them.
        read_nodes_only: whether only nodes that are read out need a new state.
    """

    node_sets: tuple[const.NodeSetName, ...]
    relations: tuple[Relation, ...]
    position: int
    keeps_width: bool
    read_nodes_only: bool


def relations_of(
    graph_spec: GraphTensorSpec, receiver_tags: Sequence[const.IncidentNodeTag] = BOTH_DIRECTIONS
) -> tuple[Relation, ...]:
    """Lists the relations of a graph; auxiliary edge sets, whose names begin with "_", are none.

    Args:
        graph_spec: spec of the graph.
        receiver_tags: ends of the edges that receive: one or both of `SOURCE` and `TARGET`.

    Returns:
        Relations in the order of the names of their edge sets, `SOURCE` before `TARGET`.

    Raises:
        ValueError: if `receiver_tags` is empty or holds something else.
    """
    if not receiver_tags or not set(receiver_tags) <= set(BOTH_DIRECTIONS):
        raise ValueError(
            f"`receiver_tags` must hold SOURCE or TARGET or both; got {receiver_tags!r}. "
            "Name the ends of the edges to which messages go."
        )
    relations = []
    for name, spec in sorted(graph_spec.edge_sets_spec.items()):
        if get_aux_type_prefix(name) is not None:
            continue
        for tag in sorted(set(receiver_tags)):
            ends = (spec.adjacency_spec.node_set_name(end) for end in (reverse_tag(tag), tag))
            relations.append(Relation(name, tag, *ends))
    return tuple(relations)


def rounds_of(
    graph_spec: GraphTensorSpec,
    *,
    num_layers: int,
    units: int | None = None,
    receiver_tags: Sequence[const.IncidentNodeTag] = BOTH_DIRECTIONS,
    readout_node_sets: Collection[const.NodeSetName] | None = None,
    read_nodes_only: bool = False,
) -> tuple[Round, ...]:
    """Plans which node sets each layer updates, and along which relations.

    Where only some node sets are read out, the last layer updates no others, the one before only
    those that the last one needs, and so on.

    Args:
        graph_spec: spec of the graph. Auxiliary node sets, whose names begin with "_", take no part.
        num_layers: how far a node sees, in edges; at least 1.
        units: width of the new states; None if they have none in common.
        receiver_tags: as for `relations_of`.
        readout_node_sets: names of the node sets whose last state matters; None for all.
        read_nodes_only: whether of these only the nodes matter at which an edge set "_readout/..." begins. None
            then stands for all node sets that have such nodes.

    Returns:
        One round a layer.

    Raises:
        ValueError: if there would be no layer, or one without width, a node set is not known or not read out, or
            `receiver_tags` is wrong.
    """
    if num_layers < 1:
        raise ValueError(f"`num_layers` must be at least 1; got {num_layers}. A network without layers sees no edge.")
    if units is not None and units < 1:
        raise ValueError(f"`units` must be at least 1; got {units}. Choose the width of the states.")
    known = sorted(name for name in graph_spec.node_sets_spec if get_aux_type_prefix(name) is None)
    read = sorted(set(read_node_sets(graph_spec)) & set(known))
    chosen = sorted(set(readout_node_sets)) if readout_node_sets is not None else read if read_nodes_only else known
    if not chosen or not set(chosen) <= set(known):
        raise ValueError(f"`node_sets` must name node sets among {known}; got {chosen}. Auxiliary sets have no state.")
    if read_nodes_only and not set(chosen) <= set(read):
        raise ValueError(
            f'`readout_node_sets` must be read out by edge sets "{READOUT}/..." where `read_nodes_only` is set; got '
            f"{chosen}, and such edges begin in {read}. Leave the others out, or set `read_nodes_only` to False."
        )
    relations = relations_of(graph_spec, receiver_tags)
    needed = set(chosen)
    rounds: list[Round] = []
    for position in reversed(range(num_layers)):
        heard = tuple(relation for relation in relations if relation.receiver in needed)
        # All earlier layers update these sets as well.
        keeps_width = units is not None and (position > 0 or _have_width(graph_spec, needed, units))
        is_last = position == num_layers - 1
        rounds.append(Round(tuple(sorted(needed)), heard, position, keeps_width, read_nodes_only and is_last))
        needed = needed | {relation.sender for relation in heard}
    return tuple(reversed(rounds))


def edge_sets_with(graph_spec: GraphTensorSpec, feature_name: const.FieldName | None) -> frozenset[const.EdgeSetName]:
    """Names the edge sets that have a feature.

    Args:
        graph_spec: spec of the graph.
        feature_name: the feature; None: no edge set has it.

    Returns:
        Names of edge sets.

    Raises:
        ValueError: if there is a name, but no edge set has a feature of it.
    """
    if feature_name is None:
        return frozenset()
    found = frozenset(name for name, spec in graph_spec.edge_sets_spec.items() if feature_name in spec.features_spec)
    if not found:
        known = {name: sorted(spec.features_spec) for name, spec in sorted(graph_spec.edge_sets_spec.items())}
        raise ValueError(
            f"a feature of edges must be one that an edge set has; got {feature_name!r}, known are {known}. "
            "Correct the name, or leave it out."
        )
    return found


def _have_width(graph_spec: GraphTensorSpec, node_sets: Collection[const.NodeSetName], units: int) -> bool:
    states = [graph_spec.node_sets_spec[name].features_spec.get(const.HIDDEN_STATE) for name in node_sets]
    return all(state is not None and state.shape[-1] == units for state in states)


def read_node_sets(graph_spec: GraphTensorSpec) -> dict[const.NodeSetName, list[const.EdgeSetName]]:
    """Tells which node sets are read out.

    Args:
        graph_spec: spec of a graph.

    Returns:
        By name of a node set, the edge sets "_readout/..." that begin in it.
    """
    readouts: dict[const.NodeSetName, list[const.EdgeSetName]] = {}
    for name, spec in sorted(graph_spec.edge_sets_spec.items()):
        if name.startswith(f"{READOUT}/"):
            readouts.setdefault(spec.adjacency_spec.source_name, []).append(name)
    return readouts


@tf.autograph.experimental.do_not_convert
def next_state_where_read(
    graph: GraphTensor, node_set_name: const.NodeSetName, next_state: Callable[[Any], tf.Tensor], inputs: Any
) -> tf.Tensor:
    """Computes the next state of the nodes of a node set that are read out.

    Where as many nodes are read as there are, as static shapes tell, it computes those of all.

    Args:
        graph: a scalar graph.
        node_set_name: the nodes.
        next_state: makes of inputs a state [num_nodes, units], each row from the same rows of the inputs alone.
        inputs: nested tensors of shape [num_nodes, ...].

    Returns:
        Tensor of shape [num_nodes, units]; zeros for nodes that no edge set "_readout/..." reads.

    Raises:
        ValueError: if no such edge set begins in the node set.
    """
    readouts = read_node_sets(graph.spec)
    if node_set_name not in readouts:
        raise ValueError(
            f'`graph` must have edge sets "{READOUT}/..." from each node set whose nodes are read; got none from '
            f"{node_set_name!r}, only {readouts}. Compute the next state of all its nodes."
        )
    read = tf.concat([graph.edge_sets[name].adjacency[const.SOURCE] for name in readouts[node_set_name]], axis=0)
    node_set = graph.node_sets[node_set_name]
    num_nodes = graph.spec.node_sets_spec[node_set_name].total_size
    if num_nodes is not None and read.shape[0] is not None and read.shape[0] >= num_nodes:
        return next_state(inputs)
    num_nodes = node_set.total_size if num_nodes is None else num_nodes
    states = next_state(tf.nest.map_structure(lambda values: tf.gather(values, read), inputs))
    # A node may be read many times, and its state is that of the last time.
    times = tf.range(tf.size(read, out_type=read.dtype), dtype=read.dtype)
    is_last = tf.gather(tf.math.unsorted_segment_max(times, read, num_nodes), read) == times
    return tf.math.unsorted_segment_sum(tf.where(is_last[:, tf.newaxis], states, 0), read, num_nodes)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ReadNodeSetUpdate(NodeSetUpdate):
    """Computes the next state of those nodes of a node set that are read out; others get zeros.

    Its arguments are those of `NodeSetUpdate`. What edge sets bring is computed for all nodes, and `next_state`, which
    must make each row of the same rows of its inputs alone, for those that edge sets "_readout/..." begin at.

    Call args:
        graph: a scalar graph.
        node_set_name: the node set.

    Returns:
        Tensor of shape [num_nodes, units].
    """

    def call(self, graph: GraphTensor, node_set_name: const.NodeSetName) -> tf.Tensor:
        """Computes the next state.

        Args:
            graph: a scalar graph.
            node_set_name: the node set.
        """
        inputs = self._inputs(graph, node_set_name)
        return next_state_where_read(graph, node_set_name, self._next_state, inputs)
