"""Networks on batches of trees: GraphSAGE, GATv2 and GIN, without a gather or a sparse sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.ego_batches import SEED_READOUT, EgoHop, ego_trees_of_batch
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.keras.layer_arguments import as_layer
from tfx_gnn.models.convolutions.attention import channels_per_head
from tfx_gnn.models.convolutions.ego_convolutions import EgoGATConv, EgoGINConv, EgoSAGEConv
from tfx_gnn.models.state_blocks import NextStateFromConvolutions, next_state_from_block


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class EgoLayer(tf_keras.layers.Layer):
    """Updates the nodes of all levels but the last from their neighbors.

    All levels of one node set share the next-state layer, and all hops of one relation the convolution.

    Shapes: a list of states [n_i, any], one for each level, and a list of masks [n_i, k_i], one for each hop, with
    n_(i+1) = n_i * k_i; result: a list of states that is shorter by one.

    Init args:
        convolutions: layers that map own states, neighbors' states and mask to [n, units], by relation.
        next_states: layers that combine the own state with the results of convolutions, by node set; as for
            `NodeSetUpdate`.
        relations: the relation of each hop.
        node_sets: the node set of each level but the last.

    Call args:
        inputs: states and masks.

    Example:
        >>> layer = EgoLayer({"cites": EgoSAGEConv(8)}, {"paper": NextStateFromConvolutions(8)},
        ...     relations=["cites", "cites"], node_sets=["paper", "paper"])
        >>> states = [tf.ones([2, 4]), tf.ones([2 * 3, 4]), tf.ones([2 * 3 * 4, 4])]
        >>> masks = [tf.ones([2, 3], tf.bool), tf.ones([6, 4], tf.bool)]
        >>> [state.shape.as_list() for state in layer((states, masks))]
        [[2, 8], [6, 8]]
    """

    def __init__(
        self,
        convolutions: Mapping[str, tf_keras.layers.Layer],
        next_states: Mapping[const.NodeSetName, tf_keras.layers.Layer],
        *,
        relations: Sequence[str],
        node_sets: Sequence[const.NodeSetName],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._convolutions = dict(convolutions)
        self._next_states = dict(next_states)
        self._relations = list(relations)
        self._node_sets = list(node_sets)

    def call(self, inputs: tuple[Sequence[tf.Tensor], Sequence[tf.Tensor]]) -> list[tf.Tensor]:
        """Updates levels; see the class.

        Args:
            inputs: states and masks.

        Returns:
            The new states.
        """
        states, masks = inputs
        updated = []
        for own, children, mask, relation, node_set in zip(
            states, states[1:], masks, self._relations, self._node_sets, strict=False
        ):
            neighbors = tf.reshape(children, [-1, mask.shape[1], children.shape[-1]])
            received = self._convolutions[relation]((own, neighbors, mask))
            updated.append(self._next_states[node_set]((own, {relation: received}, {})))
        return updated

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "convolutions": dict(self._convolutions),
            "next_states": dict(self._next_states),
            "relations": list(self._relations),
            "node_sets": list(self._node_sets),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> EgoLayer:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        layers = {
            name: {key: as_layer(layer) for key, layer in config[name].items()}
            for name in ("convolutions", "next_states")
        }
        return cls(**{**config, **layers})


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class EgoGNN(tf_keras.layers.Layer):
    """Computes the states of seeds from batches of trees: GraphLearn's EgoGNN.

    The i-th of n layers updates the first n - i levels of nodes, so that after the last one the seeds have seen all
    their neighbors.

    Shapes: a scalar graph as batching "ego" makes it, with states [num_nodes, any]; a scalar graph with the seeds alone
    and their states [num_seeds, units], and with `_readout` and `_readout/seed`, out.

    Init args:
        layers: one `EgoLayer` for each hop or, to leave out the last hops, fewer.

    Call args:
        graph: a scalar graph.

    Raises:
        ValueError: when called, if the graph is not one of trees, or there are more layers than hops.
    """

    def __init__(self, layers: Sequence[tf_keras.layers.Layer], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._layers_in_order = list(layers)

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Computes the states of seeds; see the class.

        Args:
            graph: a scalar graph.

        Returns:
            The graph of seeds.
        """
        states, masks = ego_levels(graph, len(self._layers_in_order))
        for layer in self._layers_in_order:
            states = layer((states, masks))
        return _graph_of_seeds(graph, states[0])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "layers": list(self._layers_in_order)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> EgoGNN:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        return cls(**{**config, "layers": [as_layer(layer) for layer in config["layers"]]})


@tf.autograph.experimental.do_not_convert
def ego_levels(graph: GraphTensor, num_hops: int) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Takes the states of each level and the mask of each hop out of a batch of trees.

    Returns:
        States [num_examples * width, units] of `num_hops` + 1 levels, and bools [number of parents, fan_out].
    """
    trees = ego_trees_of_batch(graph.spec)
    if num_hops > len(trees.hops):
        raise ValueError(
            f"`layers` must be at most the hops of the trees, {len(trees.hops)}; got {num_hops}. Sample more hops, or "
            "use fewer layers."
        )
    parts: dict[const.NodeSetName, Iterator[tf.Tensor]] = {}
    for name, total in trees.nodes_per_example.items():
        state = graph.node_sets[name][const.HIDDEN_STATE]
        widths = [level.width for level in trees.levels if level.node_set == name]
        # Not slices: the gradient of each would be as large as all states together.
        parts[name] = iter(tf.split(tf.reshape(state, [-1, total, state.shape[-1]]), widths, axis=1))
    levels = [next(parts[level.node_set]) for level in trees.levels][: num_hops + 1]
    states = [tf.reshape(part, [-1, part.shape[-1]]) for part in levels]
    masks = [tf.reshape(graph.context[hop.feature], [-1, hop.fan_out]) for hop in trees.hops[:num_hops]]
    return states, masks


@tf.autograph.experimental.do_not_convert
def _graph_of_seeds(graph: GraphTensor, states: tf.Tensor) -> GraphTensor:
    readout = graph.edge_sets[SEED_READOUT]
    seed_set = readout.adjacency.source_name
    sizes = graph.context.sizes
    seeds = NodeSet.from_fields(features={const.HIDDEN_STATE: states}, sizes=sizes, validate=False)
    targets = readout.adjacency.target
    adjacency = Adjacency.from_indices((seed_set, targets), (READOUT_NODE_SET, targets), validate=False)
    return GraphTensor.from_pieces(
        Context.from_fields(features=graph.context.get_features_dict(), sizes=sizes, validate=False),
        {seed_set: seeds, READOUT_NODE_SET: graph.node_sets[READOUT_NODE_SET]},
        {SEED_READOUT: EdgeSet.from_fields(sizes=readout.sizes, adjacency=adjacency, validate=False)},
        validate=False,
    )


def ego_sage(
    graph_spec: GraphTensorSpec,
    *,
    units: int,
    num_layers: int = 0,
    dropout_rate: float = 0.0,
    aggregator: str = "mean",
    hidden_units: int | None = None,
    activation: str = "relu",
    normalization: str = "l2",
    residual: bool = False,
) -> EgoGNN:
    """Makes a GraphSAGE network on trees: `graph_sage` along the hops of the sampling plan.

    Args:
        graph_spec: spec of a batch of trees.
        units: width of the states.
        num_layers: number of layers, at most that of hops; 0: as many as hops.
        dropout_rate: fraction of the state values that training drops, in [0, 1).
        aggregator: as for `EgoSAGEConv`.
        hidden_units: as for `EgoSAGEConv`.
        activation: as for `NextStateFromConvolutions`.
        normalization: as for `NextStateFromConvolutions`; the paper uses "l2".
        residual: whether the old state is added; not in the first layer.

    Returns:
        Layer from a scalar graph of trees to one of seeds.

    Raises:
        ValueError: if an argument is out of range, or the graph is not one of trees.
    """

    def next_state(position: int) -> tf_keras.layers.Layer:
        return NextStateFromConvolutions(
            units,
            normalization=normalization,
            activation=activation,
            dropout_rate=dropout_rate,
            residual=residual and position > 0,
        )

    def convolution() -> tf_keras.layers.Layer:
        return EgoSAGEConv(units, aggregator=aggregator, hidden_units=hidden_units)

    return _ego_gnn(graph_spec, num_layers, convolution, next_state, name="ego_sage")


def ego_gat(
    graph_spec: GraphTensorSpec,
    *,
    units: int,
    num_layers: int = 0,
    dropout_rate: float = 0.0,
    num_heads: int = 4,
    heads_merge_type: str = "concat",
    edge_dropout: float = 0.0,
    activation: str = "relu",
    normalization: str = "layer",
    residual: bool = False,
) -> EgoGNN:
    """Makes a graph attention network on trees: `gat_v2` along the hops of the sampling plan.

    Args:
        graph_spec: as for `ego_sage`.
        units: width of the states.
        num_layers: as for `ego_sage`.
        dropout_rate: as for `ego_sage`.
        num_heads: number of attention heads; must divide `units` if heads are concatenated.
        heads_merge_type: "concat" or "mean".
        edge_dropout: as for `EgoGATConv`.
        activation: Keras activation of attention results and states.
        normalization: as for `state_block`.
        residual: as for `ego_sage`.

    Returns:
        Layer, as for `ego_sage`.

    Raises:
        ValueError: as for `ego_sage`.
    """
    channels = channels_per_head(units, num_heads, heads_merge_type)

    def next_state(position: int) -> tf_keras.layers.Layer:
        return next_state_from_block(
            units,
            dropout_rate,
            activation=activation,
            normalization=normalization,
            residual=residual and position > 0,
        )

    def convolution() -> tf_keras.layers.Layer:
        return EgoGATConv(
            num_heads=num_heads,
            per_head_channels=channels,
            edge_dropout=edge_dropout,
            heads_merge_type=heads_merge_type,
            activation=activation,
        )

    return _ego_gnn(graph_spec, num_layers, convolution, next_state, name="ego_gat")


def ego_gin(
    graph_spec: GraphTensorSpec,
    *,
    units: int,
    num_layers: int = 0,
    dropout_rate: float = 0.0,
    hidden_units: int | None = None,
    epsilon: float = 0.0,
    learn_epsilon: bool = False,
    activation: str = "relu",
    normalization: str = "layer",
    residual: bool = False,
) -> EgoGNN:
    """Makes a graph isomorphism network on trees: `gin` along the hops of the sampling plan.

    Args:
        graph_spec: as for `ego_sage`.
        units: width of the states.
        num_layers: as for `ego_sage`.
        dropout_rate: as for `ego_sage`.
        hidden_units: as for `EgoGINConv`.
        epsilon: as for `EgoGINConv`.
        learn_epsilon: as for `EgoGINConv`.
        activation: Keras activation of convolutions and states.
        normalization: as for `EgoGINConv`.
        residual: as for `ego_sage`.

    Returns:
        Layer, as for `ego_sage`.

    Raises:
        ValueError: as for `ego_sage`.
    """

    def next_state(position: int) -> tf_keras.layers.Layer:
        return NextStateFromConvolutions(
            units,
            own_state=False,
            use_bias=False,
            activation=activation,
            dropout_rate=dropout_rate,
            residual=residual and position > 0,
        )

    def convolution() -> tf_keras.layers.Layer:
        return EgoGINConv(
            units,
            hidden_units=hidden_units,
            epsilon=epsilon,
            learn_epsilon=learn_epsilon,
            activation=activation,
            normalization=normalization,
        )

    return _ego_gnn(graph_spec, num_layers, convolution, next_state, name="ego_gin")


def _ego_gnn(
    graph_spec: GraphTensorSpec,
    num_layers: int,
    convolution: Callable[[], tf_keras.layers.Layer],
    next_state: Callable[[int], tf_keras.layers.Layer],
    *,
    name: str,
) -> EgoGNN:
    trees = ego_trees_of_batch(graph_spec)
    if not 0 <= num_layers <= len(trees.hops):
        raise ValueError(
            f"`num_layers` must lie in [0, {len(trees.hops)}], the number of hops of the trees; got {num_layers}. "
            "Sample more hops, or leave it out."
        )
    depth = num_layers or len(trees.hops)
    layers = []
    for position in range(depth):
        hops: Sequence[EgoHop] = trees.hops[: depth - position]
        node_sets = [level.node_set for level in trees.levels[: depth - position]]
        layers.append(
            EgoLayer(
                {relation: convolution() for relation in dict.fromkeys(hop.relation for hop in hops)},
                {node_set: next_state(position) for node_set in dict.fromkeys(node_sets)},
                relations=[hop.relation for hop in hops],
                node_sets=node_sets,
            )
        )
    return EgoGNN(layers, name=name)
