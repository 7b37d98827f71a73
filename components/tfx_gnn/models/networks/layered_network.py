"""A stack of layers that returns the last state, or a combination of all states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras.layer_arguments import as_layer
from tfx_gnn.models.relations import BOTH_DIRECTIONS, Round, rounds_of

_COMBINATIONS: dict[str, Callable[[list[tf.Tensor]], tf.Tensor]] = {
    "concat": lambda states: tf.concat(states, axis=-1),
    "max": lambda states: tf.reduce_max(tf.stack(states), axis=0),
    "sum": tf.add_n,
}
JUMPING_KNOWLEDGE = ("none", *_COMBINATIONS)
"""How the states of all layers are combined; "none" returns the last state."""


def layered_network(
    graph_spec: GraphTensorSpec,
    layer: Callable[[Round], tf_keras.layers.Layer],
    *,
    name: str,
    units: int,
    num_layers: int,
    jumping_knowledge: str = "none",
    receiver_tags: Sequence[const.IncidentNodeTag] = BOTH_DIRECTIONS,
    readout_node_sets: Collection[const.NodeSetName] | None = None,
    read_nodes_only: bool = False,
) -> tf_keras.Sequential:
    """Makes a network with one layer per round.

    Args:
        graph_spec: as for `rounds_of`.
        layer: makes the layer of a round, which maps a scalar graph to the graph with new states.
        name: name of the network.
        units: width of the states that each layer returns.
        num_layers: as for `rounds_of`.
        jumping_knowledge: "none" returns the states of the last layer; "concat", "max" and "sum" combine all states,
            as for `JumpingKnowledge`.
        receiver_tags: as for `rounds_of`.
        readout_node_sets: as for `rounds_of`.
        read_nodes_only: as for `rounds_of`.

    Returns:
        Layer that maps a scalar graph to the graph with new states.

    Raises:
        ValueError: if an argument is out of range, or names something that `graph_spec` lacks.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 8]))
        >>> def layer(plan):
        ...     return tfx_gnn.models.HGTGraphUpdate(
        ...         num_heads=2, per_head_channels=4, node_sets=plan.node_sets, relations=plan.relations)
        >>> network = layered_network(
        ...     graph.spec, layer, name="mine", units=8, num_layers=2, jumping_knowledge="concat")
        >>> network(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 24]
    """
    if jumping_knowledge not in JUMPING_KNOWLEDGE:
        advice = did_you_mean(
            jumping_knowledge, JUMPING_KNOWLEDGE, otherwise="For graph-level tasks, 'concat' is often best."
        )
        raise ValueError(f"`jumping_knowledge` must be one of {JUMPING_KNOWLEDGE}; got {jumping_knowledge!r}. {advice}")
    plans = rounds_of(
        graph_spec,
        num_layers=num_layers,
        units=units,
        receiver_tags=receiver_tags,
        readout_node_sets=readout_node_sets,
        read_nodes_only=read_nodes_only,
    )
    layers = [layer(plan) for plan in plans]
    if jumping_knowledge != "none":
        layers = [JumpingKnowledge(layers, plans[-1].node_sets, jumping_knowledge)]
    return tf_keras.Sequential(layers, name=name)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class JumpingKnowledge(tf_keras.layers.Layer):
    """Runs layers one after another, and combines all states of a node into one.

    This is jumping knowledge, arXiv:1806.03536, section 4, including the first state as in equation 4.2 of GIN,
    arXiv:1810.00826. A readout then sees local information as well as that from distant nodes.

    Shapes: a scalar graph with states [num_nodes, any] in and out. The combined states have shape
    [num_nodes, sum of the widths of all states] for "concat", else [num_nodes, units].

    Init args:
        layers: layers that map a scalar graph to the graph with new states; at least one.
        node_sets: names of the node sets whose states are combined; other node sets keep their last state.
        combination: "concat" joins the states side by side, the first state first; "max" and "sum" are elementwise,
            and need states of the same width.

    Call args:
        graph: a scalar graph.

    Raises:
        ValueError: when called, if "max" or "sum" is to combine states of different widths.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> layers = [tfx_gnn.models.relational_graph_update(graph.spec, units=4) for _ in range(2)]
        >>> beside = JumpingKnowledge(layers, ["nodes"], "concat")
        >>> beside(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 12]
        >>> JumpingKnowledge(layers, ["nodes"], "max")(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 4]
    """

    def __init__(
        self,
        layers: Sequence[tf_keras.layers.Layer],
        node_sets: Collection[const.NodeSetName],
        combination: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._layers_in_order = list(layers)
        self._node_sets = sorted(node_sets)
        self._combination = combination

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Updates the graph; see the class.

        Args:
            graph: a scalar graph.
        """
        states = {name: [graph.node_sets[name][const.HIDDEN_STATE]] for name in self._node_sets}
        for layer in self._layers_in_order:
            graph = layer(graph)
            for name, kept in states.items():
                kept.append(graph.node_sets[name][const.HIDDEN_STATE])
        combined = {}
        for name, kept in states.items():
            features = graph.node_sets[name].get_features_dict()
            features[const.HIDDEN_STATE] = self.combine(name, kept)
            combined[name] = features
        return graph.replace_features(node_sets=combined)

    def combine(self, name: const.NodeSetName, states: list[tf.Tensor]) -> tf.Tensor:
        """Combines all states of a node set.

        Args:
            name: the node set.
            states: its states, [num_nodes, any] each, the first one first.

        Returns:
            The combined states, see the class.

        Raises:
            ValueError: if "max" or "sum" is to combine states of different widths.
        """
        widths = [state.shape[-1] for state in states]
        if self._combination != "concat" and len(set(widths)) > 1:
            raise ValueError(
                "`jumping_knowledge` must be 'concat' or 'none' if states have different widths; got "
                f"{self._combination!r} for node set {name!r} with widths {widths}, in the order of layers. "
                "Give it a Dense layer of the width `units` first, or choose 'concat'."
            )
        return _COMBINATIONS[self._combination]([tf.cast(state, self.compute_dtype) for state in states])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "layers": list(self._layers_in_order),
            "node_sets": list(self._node_sets),
            "combination": self._combination,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> JumpingKnowledge:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        return cls(**{**config, "layers": [as_layer(layer) for layer in config["layers"]]})
