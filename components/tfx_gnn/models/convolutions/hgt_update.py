"""The heterogeneous graph transformer."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.keras.layer_arguments import clone_initializer
from tfx_gnn.keras.layers.layer_normalization import LayerNormalization
from tfx_gnn.models.convolutions.attention import Attended, softmax_weighted_sum
from tfx_gnn.models.convolutions.relation_kernels import block_diagonal, glorot_matrices
from tfx_gnn.models.message_passing import copy_to_edges, next_state_where_read, pool_edges
from tfx_gnn.models.relations import Relation
from tfx_gnn.models.state_blocks import check_normalization

SKIPS = ("weighted", "sum", "none")


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class HGTGraphUpdate(GraphLayer):
    """One layer of the heterogeneous graph transformer, HGT of arXiv:2003.01332.

    Keys, queries and messages are projected per node set; matrices of the relation then transform messages and
    compare keys with queries (equations 3 and 4). A single softmax runs over all edges that reach a node, of all
    relations. The update is equation 5 with a learned fraction of the old state, as in the authors' code and in
    tensorflow-gnn's `HGTGraphUpdate`. Unlike there, a relation may also run against its edges.

    Shapes: a scalar graph with states [num_nodes, any] in; the same graph out, with states [num_nodes, num_heads *
    per_head_channels] for the node sets in `node_sets`.

    Init args:
        num_heads: number of attention heads.
        per_head_channels: width of each head.
        node_sets: names of the node sets to update.
        relations: the relations that lead to these node sets, as listed by `rounds_of`.
        skip: how the old state is used: "weighted" mixes it into the new state by a learned fraction; "sum" adds
            it; "none" drops it. "weighted" and "sum" need old states as wide as the new ones.
        normalization: "layer" or "none", of the new state.
        dropout_rate: fraction of the new state's values that training drops, in [0, 1).
        activation: Keras activation of the sum of messages that a node receives.
        use_bias: whether projections of nodes have biases.
        kernel_initializer: as for `tf_keras.layers.Dense`.
        read_nodes_only: whether only nodes that are read out get a new state; see `next_state_where_read`.

    Call args:
        graph: a scalar graph.

    Raises:
        ValueError: if `skip` or `normalization` is unknown; when called, if `skip` is not "none" and the widths of
            old and new states differ.

    Example:
        >>> from tfx_gnn.models.relations import relations_of
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 8]))
        >>> update = HGTGraphUpdate(
        ...     num_heads=2, per_head_channels=4, node_sets=["nodes"], relations=relations_of(graph.spec))
        >>> update(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 8]
        >>> wider = HGTGraphUpdate(
        ...     num_heads=2, per_head_channels=8, node_sets=["nodes"], relations=relations_of(graph.spec), skip="none")
        >>> wider(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 16]
    """

    def __init__(
        self,
        *,
        num_heads: int,
        per_head_channels: int,
        node_sets: Sequence[const.NodeSetName],
        relations: Sequence[Relation],
        skip: str = "weighted",
        normalization: str = "layer",
        dropout_rate: float = 0.2,
        activation: Any = "gelu",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        read_nodes_only: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_normalization(normalization)
        if skip not in SKIPS:
            advice = did_you_mean(skip, SKIPS, otherwise="The paper uses 'sum'.")
            raise ValueError(f"`skip` must be one of {SKIPS}; got {skip!r}. {advice}")
        initializer = tf_keras.initializers.get(kernel_initializer)
        self._relations = tuple(Relation(*relation) for relation in relations)
        self._activation = tf_keras.activations.get(activation)
        self._arguments = {
            "num_heads": num_heads,
            "per_head_channels": per_head_channels,
            "node_sets": list(node_sets),
            "skip": skip,
            "normalization": normalization,
            "dropout_rate": dropout_rate,
            "activation": tf_keras.activations.serialize(self._activation),
            "use_bias": use_bias,
            "kernel_initializer": tf_keras.initializers.serialize(initializer),
            "read_nodes_only": read_nodes_only,
        }
        self._heads = (num_heads, per_head_channels)

        def projections(kind: str, names: Sequence[str]) -> dict[str, tf_keras.layers.Layer]:
            return {
                name: tf_keras.layers.Dense(
                    num_heads * per_head_channels,
                    use_bias=use_bias,
                    kernel_initializer=clone_initializer(initializer),
                    dtype=self.dtype_policy,
                    name=f"{kind}_{name}",
                )
                for name in sorted(set(names))
            }

        senders, receivers = ([getattr(way, end) for way in self._relations] for end in ("sender", "receiver"))
        self._keys = projections("key", senders)
        self._messages = projections("message", senders)
        self._queries = projections("query", receivers)
        self._outputs = projections("output", node_sets)
        self._norms = {}
        if normalization == "layer":
            self._norms = {
                name: LayerNormalization(dtype=self.dtype_policy, name=f"norm_{name}") for name in sorted(node_sets)
            }
        self._dropout = tf_keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Makes the weights of the relations, and the weights of the old states."""
        heads, channels = self._heads
        shape = (heads, channels, channels)

        def matrices(kind: str) -> list[tf.Variable]:
            return [
                self.add_weight(
                    f"{kind}_{way.edge_set_name}_{way.receiver_tag}", shape, initializer=glorot_matrices(shape)
                )
                for way in self._relations
            ]

        self._attention_matrices = matrices("attention")
        self._message_matrices = matrices("message")
        self._priors = [
            self.add_weight(f"prior_{way.edge_set_name}_{way.receiver_tag}", (heads,), initializer="ones")
            for way in self._relations
        ]
        self._skips = {}
        if self._arguments["skip"] == "weighted":
            self._skips = {name: self.add_weight(f"skip_{name}", (), initializer="ones") for name in self._outputs}
        super().build(input_shape)

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Updates the graph; see the class.

        Args:
            graph: a scalar graph.
        """
        states = {
            name: tf.cast(graph.node_sets[name][const.HIDDEN_STATE], self.compute_dtype)
            for name in sorted({*self._outputs, *self._keys})
        }
        queries = {name: layer(states[name]) for name, layer in self._queries.items()}
        keys = {name: layer(states[name]) for name, layer in self._keys.items()}
        messages = {name: layer(states[name]) for name, layer in self._messages.items()}
        attended: dict[str, list[Attended]] = {name: [] for name in self._outputs}
        for position, way in enumerate(self._relations):
            attended[way.receiver].append(
                self._attend(graph, position, queries[way.receiver], keys[way.sender], messages[way.sender])
            )
        new_features = {}
        for name, relations in attended.items():
            features = graph.node_sets[name].get_features_dict()
            inputs = states[name], [tf.cast(softmax_weighted_sum(relations), self.compute_dtype)] if relations else []
            next_state = functools.partial(self._next_state, name)
            if self._arguments["read_nodes_only"]:
                features[const.HIDDEN_STATE] = next_state_where_read(graph, name, next_state, inputs)
            else:
                features[const.HIDDEN_STATE] = next_state(inputs)
            new_features[name] = features
        return graph.replace_features(node_sets=new_features)

    def _attend(
        self, graph: GraphTensor, position: int, queries: tf.Tensor, keys: tf.Tensor, messages: tf.Tensor
    ) -> Attended:
        way = self._relations[position]
        sender_tag = reverse_tag(way.receiver_tag)

        def to_edges(tag: const.IncidentNodeTag, values: tf.Tensor) -> tf.Tensor:
            return copy_to_edges(graph, way.edge_set_name, tag, values)

        def transformed(values: tf.Tensor, matrices: tf.Variable) -> tf.Tensor:
            return tf.matmul(values, block_diagonal(tf.cast(matrices, values.dtype)))

        # Matrices are applied to nodes, because there are fewer of them than edges.
        compared = to_edges(way.receiver_tag, transformed(queries, self._attention_matrices[position]))
        logits = tf.reduce_sum(self._split_heads(compared * to_edges(sender_tag, keys)), axis=-1)
        scale = tf.cast(self._priors[position], logits.dtype) / math.sqrt(self._heads[1])
        return Attended(
            logits * scale,
            self._split_heads(to_edges(sender_tag, transformed(messages, self._message_matrices[position]))),
            functools.partial(_pool, graph, way),
            functools.partial(to_edges, way.receiver_tag),
        )

    @tf.autograph.experimental.do_not_convert
    def _next_state(self, name: const.NodeSetName, inputs: tuple[tf.Tensor, list[tf.Tensor]]) -> tf.Tensor:
        """Computes rows of the new state from the same rows of the old state and of the messages, if any."""
        width, skip = self._heads[0] * self._heads[1], self._arguments["skip"]
        old_state, summed = inputs
        received = self._activation(tf.reshape(summed[0], [-1, width])) if summed else old_state
        state = self._dropout(self._outputs[name](received))
        if skip != "none" and old_state.shape[-1] != width:
            raise ValueError(
                f"`skip` must be 'none' where a state changes its width; got {skip!r} for node set {name!r} with width "
                f"{old_state.shape[-1]}, not {width}. Give it a Dense layer of that width first."
            )
        if skip == "weighted":
            share = tf.cast(tf.sigmoid(self._skips[name]), state.dtype)
            state = state * share + old_state * (1 - share)
        elif skip == "sum":
            state += old_state
        return self._norms[name](state) if name in self._norms else state

    def _split_heads(self, values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(values, [-1, *self._heads])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            **self._arguments,
            "relations": [list(relation) for relation in self._relations],
        }


def _pool(graph: GraphTensor, way: Relation, values: tf.Tensor, *, reduce_type: str) -> tf.Tensor:
    return pool_edges(graph, way.edge_set_name, way.receiver_tag, values, reduce_type)
