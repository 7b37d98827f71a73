"""Node sets: the nodes of one type, with their features."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from tfx_gnn.graph import tf_hooks
from tfx_gnn.graph.feature_piece import FeaturePiece
from tfx_gnn.graph.feature_piece_spec import NodeSetSpec
from tfx_gnn.graph.graph_constants import Field, Fields
from tfx_gnn.graph.graph_piece_spec import GraphPieceSpec
from tfx_gnn.graph.piece_parts import refuse_positional_arguments


class NodeSet(FeaturePiece):
    """The nodes of one type in a graph, or in each graph of a batch."""

    _SPEC_TYPE: ClassVar[type[GraphPieceSpec]] = NodeSetSpec

    @classmethod
    @tf_hooks.supports_keras_tensors
    def from_fields(
        cls,
        *args: Any,
        features: Fields | None = None,
        sizes: Field,
        validate: bool | None = None,
    ) -> NodeSet:
        """Makes a node set.

        Args:
            *args: nothing; what follows are keyword arguments.
            features: feature names to values of shape [*batch_shape, num_nodes, ...], ragged
                where graphs of a batch have different numbers of nodes.
            sizes: number of nodes of each component, int32 or int64, of shape
                [*batch_shape, num_components].
            validate: whether to assert at run time that sizes fit; None for the process-wide setting.

        Raises:
            ValueError: if features disagree on the number of nodes or on the batch shape, or
                `sizes` has a wrong dtype or rank.

        Example:
            >>> NodeSet.from_fields(features={"x": [1.0, 2.0, 3.0]}, sizes=[2, 1])
            NodeSet(features={'x': <tf.Tensor: shape=(3,), dtype=tf.float32>}, sizes=[2 1])
        """
        refuse_positional_arguments(args)
        return cls._from_features_and_sizes(features, sizes, validate)

    def merge_batch(self) -> NodeSet:
        """Concatenates the nodes of all graphs of a batch into one scalar node set."""
        return self._assemble(self._merged_parts(), shape=tf.TensorShape([]), row_splits_dtype=self.row_splits_dtype)

    def __repr__(self) -> str:
        return self._describe()
