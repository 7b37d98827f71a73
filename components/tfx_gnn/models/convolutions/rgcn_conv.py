"""The relational graph convolution R-GCN, where relations are edge sets or values of an edge feature."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.gates import gate_messages
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.models.convolutions.relation_kernels import RelationKernels
from tfx_gnn.models.message_passing import copy_to_edges, next_state_where_read, pool_neighbors
from tfx_gnn.models.relations import Relation
from tfx_gnn.models.state_blocks import NextStateFromConvolutions


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class RGCNGraphUpdate(GraphLayer):
    """One layer of R-GCN, arXiv:1703.06103, where each direction of each edge set is a relation.

    It computes equation 2: the sum over relations of the neighbours' mean times the relation's matrix, plus
    the own state times a matrix of the node set. The matrices of relations share weights as in the paper,
    so all node sets must have states of the same width.

    Shapes: a scalar graph with states [num_nodes, width] in; the same graph out, with states [num_nodes, units] for
    the node sets in `node_sets`.

    Init args:
        units: width of the new states.
        node_sets: names of the node sets to update.
        relations: the relations that lead to these node sets, as listed by `rounds_of`.
        num_bases: as for `RelationKernels`.
        num_blocks: as for `RelationKernels`.
        activation: as for `NextStateFromConvolutions`.
        normalization: as for `NextStateFromConvolutions`.
        dropout_rate: as for `NextStateFromConvolutions`.
        residual: as for `NextStateFromConvolutions`.
        read_nodes_only: whether only nodes that are read out get a new state; see `next_state_where_read`.

    Call args:
        graph: a scalar graph.

    Raises:
        ValueError: when called, if states have different widths.

    Example:
        >>> from tfx_gnn.models.relations import relations_of
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> update = RGCNGraphUpdate(8, ["nodes"], relations_of(graph.spec), num_bases=2)
        >>> update(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 8]
        >>> [tuple(relation) for relation in relations_of(graph.spec)]
        [('edges', 0, 'nodes', 'nodes'), ('edges', 1, 'nodes', 'nodes')]
    """

    def __init__(
        self,
        units: int,
        node_sets: Sequence[const.NodeSetName],
        relations: Sequence[Relation],
        *,
        num_bases: int | None = None,
        num_blocks: int | None = None,
        activation: str = "relu",
        normalization: str = "none",
        dropout_rate: float = 0.0,
        residual: bool = False,
        read_nodes_only: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._relations = tuple(Relation(*relation) for relation in relations)
        self._arguments = {
            "units": units,
            "node_sets": list(node_sets),
            "num_bases": num_bases,
            "num_blocks": num_blocks,
            "activation": activation,
            "normalization": normalization,
            "dropout_rate": dropout_rate,
            "residual": residual,
            "read_nodes_only": read_nodes_only,
        }
        # A graph without edges has no relations; these kernels are then never built.
        self._kernels = RelationKernels(
            max(len(self._relations), 1),
            units,
            num_bases=num_bases,
            num_blocks=num_blocks,
            dtype=self.dtype_policy,
            name="relations",
        )
        self._next_states = {
            name: NextStateFromConvolutions(
                units,
                normalization=normalization,
                activation=activation,
                dropout_rate=dropout_rate,
                residual=residual,
                dtype=self.dtype_policy,
                name=f"next_state_{name}",
            )
            for name in sorted(node_sets)
        }

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Updates the graph; see the class.

        Args:
            graph: a scalar graph.
        """
        senders = sorted({way.sender for way in self._relations})
        widths = {name: graph.node_sets[name][const.HIDDEN_STATE].shape[-1] for name in senders}
        if len(set(widths.values())) > 1:
            raise ValueError(
                f"`graph` must have states of one width, since relations share weights; got {widths}. "
                "Give all node sets a Dense layer of the same width first."
            )
        new_features = {}
        for name in self._next_states:
            features = graph.node_sets[name].get_features_dict()
            inputs = (
                features[const.HIDDEN_STATE],
                [self._mean(graph, self._relations[i]) for i in self._relations_to(name)],
            )
            next_state = functools.partial(self._next_state, name)
            if self._arguments["read_nodes_only"]:
                features[const.HIDDEN_STATE] = next_state_where_read(graph, name, next_state, inputs)
            else:
                features[const.HIDDEN_STATE] = next_state(inputs)
            new_features[name] = features
        return graph.replace_features(node_sets=new_features)

    def _relations_to(self, name: const.NodeSetName) -> tuple[int, ...]:
        return tuple(position for position, way in enumerate(self._relations) if way.receiver == name)

    def _mean(self, graph: GraphTensor, way: Relation) -> tf.Tensor:
        states = tf.cast(graph.node_sets[way.sender][const.HIDDEN_STATE], self.compute_dtype)
        return pool_neighbors(graph, way.edge_set_name, way.receiver_tag, states, "mean")

    @tf.autograph.experimental.do_not_convert
    def _next_state(self, name: const.NodeSetName, inputs: tuple[tf.Tensor, list[tf.Tensor]]) -> tf.Tensor:
        """Computes rows of the new state from the same rows of the old state and of the means by relation."""
        old_state, means = inputs
        from_edges = {}
        if means:
            from_edges = {"relations": self._kernels(tf.stack(means, axis=1), relations=self._relations_to(name))}
        return self._next_states[name]((old_state, from_edges, {}))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            **self._arguments,
            "relations": [list(relation) for relation in self._relations],
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class RGCNConv(GraphLayer):
    """Averages the neighbours of each relation, and sums the means times the relations' matrices.

    This is equation 2 of R-GCN, arXiv:1703.06103, without the own state, which the next-state layer adds
    (`NextStateFromConvolutions`). It is for knowledge graphs, whose edge set has the relation as a feature.
    If relations are edge sets, use `RGCNGraphUpdate`. The layer needs memory for num_receivers * num_relations
    states.

    Shapes: states [num_senders, any] of a scalar graph; result [num_receivers, units], zeros for a node without
    neighbours.

    Init args:
        units: width of the result.
        num_relations: number of relations.
        relation_feature: integer feature of the edges, shape [num_edges], in [0, num_relations);
            edges with other values are ignored.
        num_bases: as for `RelationKernels`.
        num_blocks: as for `RelationKernels`.
        receiver_tag: the end of the edges that receives, `SOURCE` or `TARGET`.
        node_feature: the states.

    Call args:
        graph: a scalar graph.
        edge_set_name: the edges.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]),
        ...     edge_features={"relation": tf.constant([0, 2])})
        >>> convolution = RGCNConv(8, 3, "relation", num_bases=2)
        >>> convolution(graph, edge_set_name="edges").shape.as_list()
        [3, 8]
        >>> update = tfx_gnn.keras.layers.NodeSetUpdate(
        ...     {"edges": convolution}, tfx_gnn.models.NextStateFromConvolutions(8))
        >>> update(graph, node_set_name="nodes").shape.as_list()
        [3, 8]
    """

    def __init__(
        self,
        units: int,
        num_relations: int,
        relation_feature: const.FieldName,
        *,
        num_bases: int | None = None,
        num_blocks: int | None = None,
        receiver_tag: const.IncidentNodeTag = const.TARGET,
        node_feature: const.FieldName = const.HIDDEN_STATE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._num_relations = num_relations
        self._relation_feature = relation_feature
        self._receiver_tag = receiver_tag
        self._node_feature = node_feature
        self._kernels = RelationKernels(
            num_relations, units, num_bases=num_bases, num_blocks=num_blocks, dtype=self.dtype_policy, name="relations"
        )

    def call(self, graph: GraphTensor, *, edge_set_name: const.EdgeSetName) -> tf.Tensor:
        """Convolves along one edge set; see the class.

        Args:
            graph: a scalar graph.
            edge_set_name: the edges.

        Returns:
            Tensor of shape [num_receivers, units].
        """
        edge_set = graph.edge_sets[edge_set_name]
        sender_tag = reverse_tag(self._receiver_tag)
        states = graph.node_sets[edge_set.adjacency.node_set_name(sender_tag)][self._node_feature]
        messages = copy_to_edges(graph, edge_set_name, sender_tag, tf.cast(states, tf.float32))
        messages = gate_messages(graph, edge_set_name, messages)
        receivers = edge_set.adjacency[self._receiver_tag]
        relations = tf.cast(edge_set[self._relation_feature], receivers.dtype)
        is_known = (relations >= 0) & (relations < self._num_relations)
        # Segment sums ignore negative segments.
        segments = tf.where(is_known, receivers * self._num_relations + relations, -1)
        receiver = graph.node_sets[edge_set.adjacency.node_set_name(self._receiver_tag)]
        num_segments = receiver.total_size * self._num_relations
        counts = tf.math.unsorted_segment_sum(tf.ones_like(segments), segments, num_segments)
        sums = tf.math.unsorted_segment_sum(messages, segments, num_segments)
        means = sums / tf.cast(tf.maximum(counts, 1), sums.dtype)[:, tf.newaxis]
        gathered = tf.reshape(means, [-1, self._num_relations, states.shape[-1]])
        return self._kernels(tf.cast(gathered, self.compute_dtype), relations=tuple(range(self._num_relations)))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        kernels = self._kernels.get_config()
        return {
            **super().get_config(),
            **{name: kernels[name] for name in ("units", "num_relations", "num_bases", "num_blocks")},
            "relation_feature": self._relation_feature,
            "receiver_tag": self._receiver_tag,
            "node_feature": self._node_feature,
        }
