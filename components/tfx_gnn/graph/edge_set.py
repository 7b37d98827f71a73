"""Edge sets: the edges of one type, with the nodes they connect and their features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from tfx_gnn.graph import fields, tf_hooks, validation_mode
from tfx_gnn.graph.adjacency import HyperAdjacency
from tfx_gnn.graph.feature_piece import FeaturePiece
from tfx_gnn.graph.feature_piece_spec import ADJACENCY_PART, EdgeSetSpec, check_item_counts
from tfx_gnn.graph.graph_constants import Field, Fields, NodeSetName
from tfx_gnn.graph.graph_piece_spec import GraphPieceSpec
from tfx_gnn.graph.piece_parts import refuse_positional_arguments


class EdgeSet(FeaturePiece):
    """The edges of one type in a graph, or in each graph of a batch."""

    _SPEC_TYPE: ClassVar[type[GraphPieceSpec]] = EdgeSetSpec

    @classmethod
    @tf_hooks.supports_keras_tensors
    def from_fields(
        cls,
        *args: Any,
        features: Fields | None = None,
        sizes: Field,
        adjacency: HyperAdjacency,
        validate: bool | None = None,
    ) -> EdgeSet:
        """Makes an edge set.

        Args:
            *args: nothing; what follows are keyword arguments.
            features: feature names to values of shape [*batch_shape, num_edges, ...], ragged
                where graphs of a batch have different numbers of edges.
            sizes: number of edges of each component, int32 or int64, of shape
                [*batch_shape, num_components].
            adjacency: the nodes that the edges connect.
            validate: whether to assert at run time that sizes fit; None for the process-wide setting.

        Raises:
            TypeError: if `adjacency` is no adjacency.
            ValueError: if features and adjacency disagree on the number of edges or on the
                batch shape, or `sizes` has a wrong dtype or rank.

        Example:
            >>> cites = tfx_gnn.EdgeSet.from_fields(
            ...     sizes=[2], adjacency=tfx_gnn.Adjacency.from_indices(("paper", [1, 2]), ("paper", [0, 0])))
            >>> cites.adjacency.target.numpy().tolist()
            [0, 0]
        """
        refuse_positional_arguments(args)
        if not isinstance(adjacency, HyperAdjacency):
            raise TypeError(
                "`adjacency` must be an Adjacency or HyperAdjacency; got "
                f"{type(adjacency).__name__}. Make one with Adjacency.from_indices()."
            )
        edge_set = cls._from_features_and_sizes(features, sizes, validate, **{ADJACENCY_PART: adjacency})
        if validation_mode.checks_sizes_statically(validate):
            ends = {f"end {tag}": index for tag, (_, index) in adjacency.get_indices_dict().items()}
            check_item_counts({**ends, **edge_set.features}, edge_set.rank)
        if validation_mode.checks_at_runtime(validate):
            edge_set._assert_edge_counts_match()
        return edge_set

    def _assert_edge_counts_match(self) -> list[tf.Operation]:
        """Asserts that the adjacency has as many edges as the sizes say."""
        expected = self._items_per_graph()
        checks = []
        for tag, (_, index) in self.adjacency.get_indices_dict().items():
            message = (
                f"Adjacency has number of edges which is incompatible with EdgeSet `sizes` at tag {tag}: each graph "
                "must have the sum of its sizes."
            )
            found = fields.items_per_graph(index, self.rank, self.indices_dtype)
            checks.append(tf.debugging.assert_equal(found, expected, message=message))
        return [check for check in checks if check is not None]

    @property
    def adjacency(self) -> Any:
        """The nodes that the edges connect, an `Adjacency` or `HyperAdjacency`."""
        return self._parts[ADJACENCY_PART]

    def merge_batch(self, node_offsets: Mapping[NodeSetName, tf.Tensor]) -> EdgeSet:
        """Concatenates the edges of all graphs of a batch into one scalar edge set.

        Args:
            node_offsets: node set name to a tensor of shape [num_graphs] with the number of
                nodes of all earlier graphs.
        """
        parts = {
            **self._merged_parts(),
            ADJACENCY_PART: self.adjacency.merge_batch(node_offsets),
        }
        return self._assemble(parts, shape=tf.TensorShape([]), row_splits_dtype=self.row_splits_dtype)

    def __repr__(self) -> str:
        return self._describe(f"adjacency={self.adjacency!r}")
