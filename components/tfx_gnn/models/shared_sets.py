"""Layers that let several node sets share the weights of one network, as two graphs to be compared do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.adjacency import make_adjacency
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet

Groups = Sequence[Sequence[const.SetName]]


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class JoinSharedSets(tf_keras.layers.Layer):
    """Joins node sets, and the edge sets between them, so that one network with one set of weights updates all.

    In a graph of a pair, node sets "s" and "t" become node set "s". Component i of the graph becomes components i,
    with what was in the first sets of all groups, and num_components + i, with what was in the second sets, and so on.
    Sets that are in no group, and the context, are left out.

    Shapes: a scalar graph in; a scalar graph with as many times the components as groups have members out.

    Init args:
        node_sets: groups of names, all of the same length, such as (("s", "t"),). The sets of a group have the same
            features; the joined set has the name of the first.
        edge_sets: the same for edge sets; the k-th sets of their groups connect k-th sets of groups of node sets.

    Call args:
        graph: a scalar graph.

    Example:
        >>> bonds = tfx_gnn.EdgeSet.from_fields(
        ...     sizes=[1], adjacency=tfx_gnn.Adjacency.from_indices(("s", [0]), ("s", [1])))
        >>> others = tfx_gnn.EdgeSet.from_fields(
        ...     sizes=[1], adjacency=tfx_gnn.Adjacency.from_indices(("t", [0]), ("t", [2])))
        >>> graph = tfx_gnn.GraphTensor.from_pieces(
        ...     node_sets={
        ...         "s": tfx_gnn.NodeSet.from_fields(sizes=[2], features={"x": [1.0, 2.0]}),
        ...         "t": tfx_gnn.NodeSet.from_fields(sizes=[3], features={"x": [3.0, 4.0, 5.0]})},
        ...     edge_sets={"s_bond": bonds, "t_bond": others})
        >>> joined = JoinSharedSets([("s", "t")], [("s_bond", "t_bond")])(graph)
        >>> joined.node_sets["s"].sizes.numpy().tolist(), joined.edge_sets["s_bond"].adjacency.target.numpy().tolist()
        ([2, 3], [1, 4])
    """

    def __init__(self, node_sets: Groups, edge_sets: Groups, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._groups_of_nodes = tuple(map(tuple, node_sets))
        self._groups_of_edges = tuple(map(tuple, edge_sets))

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Joins the sets; see the class.

        Args:
            graph: a scalar graph.
        """
        num_members = len(self._groups_of_nodes[0])
        first_of = {name: group[0] for group in self._groups_of_nodes for name in group}
        starts: dict[const.NodeSetName, tf.Tensor] = {}
        node_sets = {}
        for group in self._groups_of_nodes:
            pieces = [graph.node_sets[name] for name in group]
            totals = [tf.cast(piece.total_size, graph.indices_dtype) for piece in pieces]
            for position, name in enumerate(group):
                starts[name] = tf.add_n([tf.zeros_like(totals[0]), *totals[:position]])
            node_sets[group[0]] = NodeSet.from_fields(
                sizes=_joined([piece.sizes for piece in pieces]), features=_joined_features(pieces), validate=False
            )
        edge_sets = {}
        for group in self._groups_of_edges:
            pieces = [graph.edge_sets[name] for name in group]
            ends: dict[int, list[tf.Tensor]] = {}
            for piece in pieces:
                for tag, (node_set, index) in piece.adjacency.get_indices_dict().items():
                    ends.setdefault(tag, []).append(index + starts[node_set])
            adjacency = pieces[0].adjacency
            edge_sets[group[0]] = EdgeSet.from_fields(
                sizes=_joined([piece.sizes for piece in pieces]),
                features=_joined_features(pieces),
                adjacency=make_adjacency(
                    {tag: (first_of[adjacency.node_set_name(tag)], _joined(parts)) for tag, parts in ends.items()},
                    like=adjacency,
                    validate=False,
                ),
                validate=False,
            )
        context = Context.from_fields(sizes=tf.tile(graph.context.sizes, [num_members]), validate=False)
        return GraphTensor.from_pieces(context, node_sets, edge_sets, validate=False)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "node_sets": [list(group) for group in self._groups_of_nodes],
            "edge_sets": [list(group) for group in self._groups_of_edges],
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SplitSharedStates(tf_keras.layers.Layer):
    """Gives each node of a graph the state that its joined set has in the result of `JoinSharedSets`.

    Shapes: (a scalar graph, the joined graph with states [num_nodes, units]) in; the first graph, with these states in
    its grouped node sets and without their other features, out.

    Init args:
        node_sets: as for `JoinSharedSets`.

    Call args:
        graphs: the graph and the joined graph.
    """

    def __init__(self, node_sets: Groups, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._groups_of_nodes = tuple(map(tuple, node_sets))

    def call(self, graphs: Sequence[GraphTensor]) -> GraphTensor:
        """Divides the states; see the class.

        Args:
            graphs: the graph and the joined graph.
        """
        graph, joined = graphs
        replaced = {}
        for group in self._groups_of_nodes:
            states = joined.node_sets[group[0]][const.HIDDEN_STATE]
            counts = [graph.node_sets[name].total_size for name in group]
            known = [tf.get_static_value(count) for count in counts]
            for name, part in zip(
                group, tf.split(states, counts if None in known else [int(count) for count in known]), strict=True
            ):
                replaced[name] = {const.HIDDEN_STATE: part}
        return graph.replace_features(node_sets=replaced)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "node_sets": [list(group) for group in self._groups_of_nodes]}


def shared_edge_sets(graph_spec: GraphTensorSpec, node_sets: Groups) -> tuple[tuple[const.EdgeSetName, ...], ...]:
    """Finds the groups of edge sets between groups of node sets; refuses what cannot be joined.

    Every node set of a group has the features of the first, and every edge set connects sets at the same place of their
    groups. There is one edge set at each place for each pair of groups.
    """
    groups = [tuple(group) for group in node_sets]
    place_of = {name: (number, place) for number, group in enumerate(groups) for place, name in enumerate(group)}
    num_members = len(groups[0]) if groups else 0
    known = sorted(name for name in graph_spec.node_sets_spec if get_aux_type_prefix(name) is None)
    named = [name for group in groups for name in group]
    if num_members < 2 or any(len(group) != num_members for group in groups) or sorted(named) != known:
        raise ValueError(
            f"`shared_node_sets` must be groups of equal length, which name each of the node sets {known} once; got "
            f"{groups}. Write [['s', 't']] for pairs of graphs with one node set each."
        )
    for group in groups:
        _check_alike(graph_spec.node_sets_spec, group, "shared_node_sets")
    found: dict[tuple[int, ...], list[list[const.EdgeSetName]]] = {}
    for name, spec in sorted(graph_spec.edge_sets_spec.items()):
        if get_aux_type_prefix(name) is not None:
            continue
        ends = [place_of[node_set] for node_set, _ in spec.adjacency_spec.get_index_specs_dict().values()]
        if len({place for _, place in ends}) > 1:
            raise ValueError(
                f"`shared_node_sets` must not separate the ends of edges; got edge set {name!r} between sets at "
                f"different places of {groups}. Leave the edge set out, or do not share weights."
            )
        by_place = found.setdefault(tuple(number for number, _ in ends), [[] for _ in range(num_members)])
        by_place[ends[0][1]].append(name)
    pairs = []
    for by_place in found.values():
        if len({len(names) for names in by_place}) > 1:
            raise ValueError(
                f"`shared_node_sets` must have the same edge sets at each place; got {by_place}. Give each graph the "
                "same sets, empty ones if need be."
            )
        # Several edge sets between the same node sets correspond to each other in alphabetical order.
        pairs += list(zip(*by_place, strict=True))
    for pair in pairs:
        _check_alike(graph_spec.edge_sets_spec, pair, "shared_node_sets")
    return tuple(pairs)


def _check_alike(specs: Any, group: Sequence[const.SetName], argument: str) -> None:
    described = {
        name: {
            feature: (spec.dtype.name, spec.shape[1:].as_list())
            for feature, spec in sorted(specs[name].features_spec.items())
            if not feature.startswith("#")
        }
        for name in group
    }
    if len(set(map(str, described.values()))) > 1:
        raise ValueError(
            f"`{argument}` must join sets with the same features; got {described}. Make their features alike in "
            "`preprocessing_fn`."
        )


def _joined(parts: Sequence[Any]) -> Any:
    return tf.concat(list(parts), axis=0)


def _joined_features(pieces: Sequence[Any]) -> dict[const.FieldName, const.Field]:
    common = set.intersection(*(set(piece.features) for piece in pieces))
    return {name: _joined([piece[name] for piece in pieces]) for name in pieces[0].features if name in common}
