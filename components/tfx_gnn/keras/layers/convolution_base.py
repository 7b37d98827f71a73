"""The base class of convolutions, which extracts tensors from the graph for subclasses."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.broadcasting import broadcast
from tfx_gnn.graph.ops.pooling import pool
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.keras.graph_layer import GraphLayer

_Function = Callable[..., Any]


class AnyToAnyConvolutionBase(GraphLayer, abc.ABC):
    """Base class of layers that send messages along edges, or from nodes to the context.

    A subclass implements `convolve`, which gets the input tensors and functions that move values
    along the graph. The layer then works in four ways, depending on `receiver_tag` and on which
    sender features are set:

    * from nodes to nodes, along an edge set (`SOURCE` or `TARGET`, a sender node feature, and
      possibly a sender edge feature);
    * from nodes to the context (`CONTEXT`, called with `node_set_name`);
    * from edges to their nodes (`sender_node_feature=None`, with a sender edge feature);
    * from edges to the context (the same with `CONTEXT`, called with `edge_set_name`).

    Init args:
        receiver_tag: the receiver: `SOURCE` or `TARGET` of the edges, or `CONTEXT`; here or in the
            call.
        receiver_feature: feature of the receiver to use as input; None for none.
        sender_node_feature: feature of the sending nodes to use as input; None for none.
        sender_edge_feature: feature of the edges to use as input; None for none.
        extra_receiver_ops: functions with the signature of `softmax`, by name. `convolve` gets
            them bound to the graph, so that they only take a value. They are not in the config: a
            subclass must pass them.

    Call args:
        graph: a scalar graph.
        edge_set_name: the edges to convolve over. Give either this or `node_set_name`.
        node_set_name: the nodes to convolve over; only with `CONTEXT`.
        receiver_tag: as above; if also given to the constructor, the values must agree.
        training: as for any Keras layer.

    Returns:
        The result of `convolve`: a tensor of shape [num_receivers, ...].

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> class SumOfSources(tfx_gnn.keras.layers.AnyToAnyConvolutionBase):
        ...     def convolve(self, *, sender_node_input, broadcast_from_sender_node, pool_to_receiver, **others):
        ...         return pool_to_receiver(broadcast_from_sender_node(sender_node_input), reduce_type="sum")
        >>> SumOfSources(receiver_tag=tfx_gnn.TARGET)(graph, edge_set_name="edges").numpy().tolist()
        [0.0, 5.0, 6.0]
    """

    def __init__(
        self,
        *,
        receiver_tag: const.IncidentNodeOrContextTag | None = None,
        receiver_feature: const.FieldName | None = const.HIDDEN_STATE,
        sender_node_feature: const.FieldName | None = const.HIDDEN_STATE,
        sender_edge_feature: const.FieldName | None = None,
        extra_receiver_ops: Mapping[str, _Function] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._receiver_tag = receiver_tag
        self._receiver_feature = receiver_feature
        self._sender_node_feature = sender_node_feature
        self._sender_edge_feature = sender_edge_feature
        self._extra_receiver_ops = None if extra_receiver_ops is None else dict(extra_receiver_ops)

    @property
    def takes_receiver_input(self) -> bool:
        """Whether `convolve` gets a receiver input."""
        return self._receiver_feature is not None

    @property
    def takes_sender_node_input(self) -> bool:
        """Whether `convolve` gets a sender node input."""
        return self._sender_node_feature is not None

    @property
    def takes_sender_edge_input(self) -> bool:
        """Whether `convolve` gets a sender edge input."""
        return self._sender_edge_feature is not None

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, without `extra_receiver_ops`."""
        return {
            **super().get_config(),
            "receiver_tag": self._receiver_tag,
            "receiver_feature": self._receiver_feature,
            "sender_node_feature": self._sender_node_feature,
            "sender_edge_feature": self._sender_edge_feature,
        }

    def call(
        self,
        graph: GraphTensor,
        *,
        edge_set_name: const.EdgeSetName | None = None,
        node_set_name: const.NodeSetName | None = None,
        receiver_tag: const.IncidentNodeOrContextTag | None = None,
        training: bool | None = False,
    ) -> tf.Tensor:
        """Reads the inputs from the graph and convolves.

        Args:
            graph: a scalar graph.
            edge_set_name: the edges to convolve over.
            node_set_name: the nodes to convolve over.
            receiver_tag: as for the constructor.
            training: as for any Keras layer.

        Raises:
            ValueError: if the graph is not scalar, or arguments contradict each other.
        """
        check_scalar_graph_tensor(graph, type(self).__name__)
        tag = self._resolve_tag(receiver_tag)
        items = self._resolve_items(tag, edge_set_name=edge_set_name, node_set_name=node_set_name)
        if tag == const.CONTEXT:
            receiver_input = _feature(graph.context, self._receiver_feature)
        else:
            receiver_input = _feature(_end_of_edges(graph, edge_set_name, tag), self._receiver_feature)
        inputs = self._sender_inputs(graph, tag, edge_set_name, node_set_name)
        if self._extra_receiver_ops is not None:
            inputs["extra_receiver_ops"] = {
                op_name: functools.partial(_call_with_value, operation, graph, tag, items)
                for op_name, operation in self._extra_receiver_ops.items()
            }
        return self.convolve(
            **inputs,
            receiver_input=receiver_input,
            broadcast_from_receiver=functools.partial(_call_with_value, broadcast, graph, tag, items),
            pool_to_receiver=functools.partial(_call_with_value, pool, graph, tag, items),
            training=training,
        )

    @abc.abstractmethod
    def convolve(
        self,
        *,
        sender_node_input: tf.Tensor | None,
        sender_edge_input: tf.Tensor | None,
        receiver_input: tf.Tensor | None,
        broadcast_from_sender_node: _Function,
        broadcast_from_receiver: _Function,
        pool_to_receiver: _Function,
        extra_receiver_ops: Mapping[str, _Function] | None = None,
        training: bool | None,
    ) -> tf.Tensor:
        """Computes the result from tensors; subclasses implement it.

        Messages are computed for "items": the edges, or the nodes if messages go from nodes to the
        context.

        Args:
            sender_node_input: shape [num_sender_nodes, ...], or None.
            sender_edge_input: shape [num_items, ...], or None.
            receiver_input: shape [num_receivers, ...], or None.
            broadcast_from_sender_node: maps [num_sender_nodes, ...] to [num_items, ...]; None if
                messages go from edges to the context, where there are no sender nodes.
            broadcast_from_receiver: maps [num_receivers, ...] to [num_items, ...].
            pool_to_receiver: maps [num_items, ...] to [num_receivers, ...]; call it as
                `pool_to_receiver(value, reduce_type=...)`, with the reduce types of `pool`.
            extra_receiver_ops: the functions given to the constructor, which take a value of shape
                [num_items, ...]; passed only if the constructor got any.
            training: as for any Keras layer.

        Returns:
            Tensor of shape [num_receivers, ...].
        """

    def _resolve_tag(self, at_call: const.IncidentNodeOrContextTag | None) -> const.IncidentNodeOrContextTag:
        name = type(self).__name__
        if self._receiver_tag is None and at_call is None:
            raise ValueError(f"{name} requires receiver_tag to be set at init or call time.")
        if self._receiver_tag is not None and at_call not in (None, self._receiver_tag):
            raise ValueError(
                f"{name}(..., receiver_tag={self._receiver_tag}) was called with contradictory value "
                f"receiver_tag={at_call}. Leave one of them out."
            )
        tag = at_call if self._receiver_tag is None else self._receiver_tag
        if tag != const.CONTEXT:
            reverse_tag(tag)  # type: ignore[arg-type]  # Raises for anything but SOURCE and TARGET.
        assert tag is not None
        return tag

    def _resolve_items(
        self,
        tag: const.IncidentNodeOrContextTag,
        *,
        edge_set_name: const.EdgeSetName | None,
        node_set_name: const.NodeSetName | None,
    ) -> dict[str, str]:
        """Returns the argument that names the items for which messages are computed."""
        got = f"got {edge_set_name!r} and {node_set_name!r}"
        if tag != const.CONTEXT and (edge_set_name is None or node_set_name is not None):
            raise ValueError(
                f"Must pass edge_set_name, not node_set_name, to {type(self).__name__} for receiver_tag {tag}; {got}."
            )
        if (edge_set_name is None) == (node_set_name is None):
            raise ValueError(
                "Must pass exactly one of edge_set_name, node_set_name for receiver_tag CONTEXT "
                f"to {type(self).__name__}; {got}."
            )
        if edge_set_name is not None:
            return {"edge_set_name": edge_set_name}
        assert node_set_name is not None
        return {"node_set_name": node_set_name}

    def _sender_inputs(
        self,
        graph: GraphTensor,
        tag: const.IncidentNodeOrContextTag,
        edge_set_name: const.EdgeSetName | None,
        node_set_name: const.NodeSetName | None,
    ) -> dict[str, Any]:
        inputs: dict[str, Any] = dict.fromkeys(("sender_node_input", "sender_edge_input", "broadcast_from_sender_node"))
        if edge_set_name is not None:
            inputs["sender_edge_input"] = _feature(graph.edge_sets[edge_set_name], self._sender_edge_feature)
        if node_set_name is not None:
            inputs["sender_node_input"] = _feature(graph.node_sets[node_set_name], self._sender_node_feature)
            # The nodes themselves are the items for which messages are computed.
            inputs["broadcast_from_sender_node"] = lambda feature_value: feature_value
        elif isinstance(tag, int):
            sender_tag = reverse_tag(tag)
            senders = _end_of_edges(graph, edge_set_name, sender_tag)
            inputs["sender_node_input"] = _feature(senders, self._sender_node_feature)
            inputs["broadcast_from_sender_node"] = functools.partial(
                _call_with_value, broadcast, graph, sender_tag, {"edge_set_name": edge_set_name}
            )
        return inputs


def _end_of_edges(graph: GraphTensor, edge_set_name: Any, tag: Any) -> Any:
    return graph.node_sets[graph.edge_sets[edge_set_name].adjacency.node_set_name(tag)]


def _feature(piece: Any, feature_name: const.FieldName | None) -> Any:
    return None if feature_name is None else piece[feature_name]


def _call_with_value(
    operation: _Function,
    graph: GraphTensor,
    tag: const.IncidentNodeOrContextTag,
    items: Mapping[str, str | None],
    feature_value: Any,
    **options: Any,
) -> Any:
    return operation(graph, tag, **items, feature_value=feature_value, **options)
