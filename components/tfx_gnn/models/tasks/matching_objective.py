"""The objective of graph matching: one of two classes for each pair of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.models.pair_scoring import DifferenceScore, DotScore, HadamardScore
from tfx_gnn.models.tasks.label_objectives import ClassObjective
from tfx_gnn.models.tasks.label_places import ContextLabels, GraphReadout
from tfx_gnn.models.tasks.output_layers import OutputLayers
from tfx_gnn.models.tasks.task import LabelSummary, Vocabulary

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.pair_tasks import GraphMatching


class MatchingObjective(ClassObjective):
    """Objective with one of two classes per pair of graphs; see `Objective`."""

    def __init__(
        self,
        task: GraphMatching,
        *,
        vocabulary: Vocabulary | None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None,
    ) -> None:
        place = ContextLabels(task.label_feature, pooling=task.pooling)
        super().__init__(task, place, vocabulary=vocabulary, summary=summary)
        if self.num_classes != 2:
            raise ValueError(
                f"`class_vocabulary` must have two classes for pairs of graphs; got {list(self.class_names)}. Let the "
                "label tell whether they match."
            )
        self._matching = task
        self.readout_key = f"pairs of {task.left} and {task.right} by {task.pooling}"

    def check_spec(self, spec: GraphTensorSpec) -> None:
        """Requires an int64 class index and both graphs; see `Objective`."""
        super().check_spec(spec)
        missing = sorted({*self._matching.left, *self._matching.right} - set(spec.node_sets_spec))
        if missing:
            raise ValueError(
                f"`task` must name node sets of the examples as `left` and `right`; got {missing}. Known are "
                f"{sorted(spec.node_sets_spec)}. {did_you_mean(missing[0], spec.node_sets_spec)}"
            )

    def output_layers(self, *, embeddings_name: str = "embeddings", output_name: str = "logits") -> OutputLayers:
        """Makes the readout of both graphs, whose vectors side by side are the embeddings, and their comparison."""
        task = self._matching
        readout = GraphPairReadout(task.left, task.right, task.pooling, name=embeddings_name)
        return OutputLayers(readout, MatchLogits(task.scoring, task.hidden_units, dtype=tf.float32, name=output_name))


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class GraphPairReadout(tf_keras.layers.Layer):
    """Pools the states of both graphs of each pair.

    Shapes: a scalar graph in; out float [num_components, 2 * width]: the vector of the left graph and that of the right
    one, each as `GraphReadout` makes it.

    Args:
        left: node sets of one graph.
        right: node sets of the other one.
        pooling: as for `GraphReadout`.
        **kwargs: arguments of `tf_keras.layers.Layer`.
    """

    def __init__(
        self,
        left: Sequence[const.NodeSetName],
        right: Sequence[const.NodeSetName],
        pooling: str = "mean",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._left, self._right, self._pooling = tuple(left), tuple(right), pooling
        self._readouts = [GraphReadout(pooling, node_sets=side) for side in (left, right)]

    def call(self, graph: GraphTensor) -> tf.Tensor:
        """Pools; see the class for shapes.

        Args:
            graph: scalar graph.

        Raises:
            ValueError: if the vectors of both sides differ in width.
        """
        left, right = (readout(graph) for readout in self._readouts)
        if left.shape[-1] != right.shape[-1]:
            raise ValueError(
                f"`graph` must have states of the same widths on both sides, to be compared; got {left.shape[-1]} for "
                f"{self._left} and {right.shape[-1]} for {self._right}. Use the same network for both."
            )
        return tf.concat([left, right], axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "left": list(self._left),
            "right": list(self._right),
            "pooling": self._pooling,
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class MatchLogits(tf_keras.layers.Layer):
    """Turns the vectors of two graphs, side by side, into the logits of two classes: 0 and the score of the pair.

    Shapes: float [n, 2 * width] in; [n, 2] out.

    Args:
        scoring: "dot", "hadamard" or "difference"; see `GraphMatching`.
        hidden_units: widths of hidden layers, for the last two.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Example:
        >>> MatchLogits("dot")(tf.constant([[1.0, 2.0, 3.0, 4.0]])).numpy().tolist()
        [[0.0, 11.0]]
    """

    def __init__(self, scoring: str, hidden_units: Sequence[int] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._scoring, self._hidden_units = scoring, tuple(hidden_units)
        kinds: dict[str, tf_keras.layers.Layer] = {
            # Without a bias, no threshold could part the inner products of like and unlike graphs.
            "dot": lambda: DotScore(use_bias=True, dtype=self.dtype_policy),
            "hadamard": lambda: HadamardScore(self._hidden_units, dtype=self.dtype_policy),
            "difference": lambda: DifferenceScore(self._hidden_units, dtype=self.dtype_policy),
        }
        self._score = kinds[scoring]()

    def call(self, vectors: tf.Tensor) -> tf.Tensor:
        """Compares; see the class for shapes.

        Args:
            vectors: those of both graphs.
        """
        score = self._score(tf.split(vectors, 2, axis=-1))
        return tf.stack([tf.zeros_like(score), score], axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "scoring": self._scoring, "hidden_units": list(self._hidden_units)}
