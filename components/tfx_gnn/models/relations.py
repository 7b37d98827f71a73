"""Relations, which are edge sets in one direction, and the rounds in which messages are passed along them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec

BOTH_DIRECTIONS = (const.SOURCE, const.TARGET)
"""Tags of both ends of an edge: messages go to both."""


class Relation(NamedTuple):
    """One direction of an edge set.

    Attributes:
        edge_set_name: name of the edge set.
        receiver_tag: the end that receives messages, `SOURCE` or `TARGET`.
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
        relations: relations along which these node sets receive messages.
        position: number of layers before this one.
        keeps_width: whether the old states of these node sets are known to be as wide as the new ones, so that
            they can be added.
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
    """Lists the relations of a graph, sorted by edge set name and then `SOURCE` before `TARGET`.

    Auxiliary edge sets, whose names begin with "_", are left out.
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
    argument: str = "readout_node_sets",
) -> tuple[Round, ...]:
    """Plans which node sets each layer updates, and along which relations.

    If only some node sets are read out, the last layer updates only these, the layer before it only
    the node sets that the last layer needs, and so on. `readout_node_sets=None` means all node sets, or with
    `read_nodes_only` all node sets where an edge set "_readout/..." begins. Auxiliary sets are ignored.
    `argument` names the option for the error.
    """
    if num_layers < 1:
        raise ValueError(f"`num_layers` must be at least 1; got {num_layers}. A network without layers sees no edge.")
    if units is not None and units < 1:
        raise ValueError(f"`units` must be at least 1; got {units}. Choose the width of the states.")
    known = sorted(name for name in graph_spec.node_sets_spec if get_aux_type_prefix(name) is None)
    read = sorted(set(read_node_sets(graph_spec)) & set(known))
    chosen = sorted(set(readout_node_sets)) if readout_node_sets is not None else read if read_nodes_only else known
    if not chosen or not set(chosen) <= set(known):
        raise ValueError(f"`{argument}` must name node sets among {known}; got {chosen}. Auxiliary sets have no state.")
    if read_nodes_only and not set(chosen) <= set(read):
        raise ValueError(
            f'`readout_node_sets` must be read out by edge sets "{READOUT_NODE_SET}/..." where `read_nodes_only` is '
            f"set; got {chosen}, and such edges begin in {read}. Leave the others out, or set `read_nodes_only` to "
            "False."
        )
    relations = relations_of(graph_spec, receiver_tags)
    needed = set(chosen)
    rounds: list[Round] = []
    # From the last layer to the first: each must update the senders and the receivers of the next layer.
    for position in reversed(range(num_layers)):
        received = tuple(relation for relation in relations if relation.receiver in needed)
        # All earlier layers update these node sets, too, so from the second layer on they have the new width.
        keeps_width = units is not None and (position > 0 or _have_width(graph_spec, needed, units))
        is_last = position == num_layers - 1
        rounds.append(Round(tuple(sorted(needed)), received, position, keeps_width, read_nodes_only and is_last))
        needed = needed | {relation.sender for relation in received}
    return tuple(reversed(rounds))


def edge_sets_with(
    graph_spec: GraphTensorSpec, feature_name: const.FieldName | None, *, argument: str
) -> frozenset[const.EdgeSetName]:
    """Returns the names of the edge sets that have a feature, at least one; an empty set for None.

    `argument` names the option for the error.
    """
    if feature_name is None:
        return frozenset()
    found = frozenset(name for name, spec in graph_spec.edge_sets_spec.items() if feature_name in spec.features_spec)
    if not found:
        known = {name: sorted(spec.features_spec) for name, spec in sorted(graph_spec.edge_sets_spec.items())}
        raise ValueError(
            f"`{argument}` must be a feature of some edge set; got {feature_name!r}, known are {known}. "
            "Correct the name, or leave it out."
        )
    return found


def _have_width(graph_spec: GraphTensorSpec, node_sets: Collection[const.NodeSetName], units: int) -> bool:
    states = [graph_spec.node_sets_spec[name].features_spec.get(const.HIDDEN_STATE) for name in node_sets]
    return all(state is not None and state.shape[-1] == units for state in states)


def read_node_sets(graph_spec: GraphTensorSpec) -> dict[const.NodeSetName, list[const.EdgeSetName]]:
    """Maps each node set that is read out to the edge sets "_readout/..." that begin there."""
    readouts: dict[const.NodeSetName, list[const.EdgeSetName]] = {}
    for name, spec in sorted(graph_spec.edge_sets_spec.items()):
        if name.startswith(f"{READOUT_NODE_SET}/"):
            readouts.setdefault(spec.adjacency_spec.source_name, []).append(name)
    return readouts
