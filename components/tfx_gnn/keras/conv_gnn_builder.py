"""Builds graph updates with the same kind of convolution for all edge sets."""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Mapping
from typing import Any

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.layers.graph_update import GraphUpdate, NodeSetUpdate


class ConvGNNBuilder:
    """Makes `GraphUpdate` layers in which node sets are updated from convolutions over edge sets.

    Example:
        >>> gnn = ConvGNNBuilder(
        ...     lambda edge_set_name, receiver_tag: layers.SimpleConv(
        ...         tf_keras.layers.Dense(16, "relu"), receiver_tag=receiver_tag),
        ...     lambda node_set_name: layers.NextStateFromConcat(tf_keras.layers.Dense(16)),
        ...     receiver_tag=tfx_gnn.TARGET)
        >>> model = tf_keras.Sequential([gnn.Convolve(), gnn.Convolve({"paper"})])
    """

    def __init__(
        self,
        convolutions_factory: Callable[..., tf_keras.layers.Layer],
        nodes_next_state_factory: Callable[[const.NodeSetName], tf_keras.layers.Layer],
        *,
        receiver_tag: const.IncidentNodeTag | None = None,
        node_set_update_factory: Callable[..., tf_keras.layers.Layer] | None = None,
        graph_update_factory: Callable[..., tf_keras.layers.Layer] | None = None,
    ) -> None:
        """Stores the factories, which are called when a layer is first called on a graph.

        Args:
            convolutions_factory: called as `f(edge_set_name, receiver_tag=receiver_tag)`; returns
                the convolution over an edge set. Without `receiver_tag`, called as
                `f(edge_set_name)`.
            nodes_next_state_factory: called as `f(node_set_name)`; returns the next-state layer.
            receiver_tag: the end of the edges that receives, `SOURCE` or `TARGET`; `TARGET` by
                default.
            node_set_update_factory: called as `f(node_set_name, edge_set_inputs, next_state)`;
                returns the update of a node set. By default a `NodeSetUpdate`.
            graph_update_factory: called as `f(deferred_init_callback=..., name=...)`; returns the
                update of the graph. By default a `GraphUpdate`.
        """
        self._convolutions_factory = convolutions_factory
        self._nodes_next_state_factory = nodes_next_state_factory
        self._receiver_tag = receiver_tag
        self._node_set_update_factory = node_set_update_factory or _node_set_update
        self._graph_update_factory = graph_update_factory or GraphUpdate

    def Convolve(  # noqa: N802 - TF-GNN's name
        self, node_sets: Collection[const.NodeSetName] | None = None, name: str | None = None
    ) -> tf_keras.layers.Layer:
        """Makes one round of updates.

        Args:
            node_sets: node sets to update, each of which must receive from an edge set; by default
                all node sets that do. Auxiliary sets are left out.
            name: name of the layer.

        Returns:
            A layer that maps a scalar graph to the graph with new states. Each call of this
            method makes new weights.

        Raises:
            ValueError: if `node_sets` names an auxiliary node set; when the layer is first
                called, if `node_sets` names a set that is unknown or receives from no edge set.
        """
        for node_set_name in node_sets or ():
            if get_aux_type_prefix(node_set_name) is not None:
                raise ValueError(
                    f"Convolution requested towards aux node set '{node_set_name}'. Leave it out of `node_sets`."
                )

        def updates(spec: GraphTensorSpec) -> Mapping[str, Any]:
            return {"node_sets": self._node_set_updates(spec, node_sets)}

        return self._graph_update_factory(deferred_init_callback=updates, name=name)

    def _node_set_updates(
        self, spec: GraphTensorSpec, node_sets: Collection[const.NodeSetName] | None
    ) -> dict[const.NodeSetName, tf_keras.layers.Layer]:
        tag = const.TARGET if self._receiver_tag is None else self._receiver_tag
        if not isinstance(tag, int):
            raise ValueError(
                f"`receiver_tag` must be the integer tag of an end of the edges, such as tfx_gnn.TARGET; got {tag!r}. "
                "Use ContextUpdate for the context."
            )
        convolutions: dict[str, dict[str, tf_keras.layers.Layer]] = collections.defaultdict(dict)
        for edge_set_name, edge_set_spec in spec.edge_sets_spec.items():
            if get_aux_type_prefix(edge_set_name) is not None:
                continue
            receiver = edge_set_spec.adjacency_spec.node_set_name(tag)
            if node_sets is not None and receiver not in node_sets:
                continue
            if get_aux_type_prefix(receiver) is not None:
                raise ValueError(
                    f"Node set '{receiver}' is auxiliary but the incident edge set '{edge_set_name}' "
                    f"(at tag {tag}) is not. Give the edge set a name that starts with '_', too."
                )
            convolutions[receiver][edge_set_name] = self._convolution(edge_set_name)
        wrong = sorted(set(node_sets or ()) - set(convolutions))
        if wrong:
            raise ValueError(
                f"`node_sets` must not name node sets that do not receive inputs from any edge set; got {wrong}. "
                f"At receiver tag {tag}, edges lead to {sorted(_receivers(spec, tag))}."
            )
        return {
            name: self._node_set_update_factory(name, inputs, self._nodes_next_state_factory(name))
            for name, inputs in convolutions.items()
        }

    def _convolution(self, edge_set_name: const.EdgeSetName) -> tf_keras.layers.Layer:
        if self._receiver_tag is None:
            return self._convolutions_factory(edge_set_name)
        return self._convolutions_factory(edge_set_name, receiver_tag=self._receiver_tag)


def _node_set_update(
    node_set_name: const.NodeSetName,  # noqa: ARG001 - part of the factory's contract
    edge_set_inputs: Mapping[const.EdgeSetName, tf_keras.layers.Layer],
    next_state: tf_keras.layers.Layer,
) -> tf_keras.layers.Layer:
    return NodeSetUpdate(edge_set_inputs, next_state)


def _receivers(spec: GraphTensorSpec, tag: const.IncidentNodeTag) -> set[const.NodeSetName]:
    return {
        edge_set_spec.adjacency_spec.node_set_name(tag)
        for name, edge_set_spec in spec.edge_sets_spec.items()
        if get_aux_type_prefix(name) is None
    }
