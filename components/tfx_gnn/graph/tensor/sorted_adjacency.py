"""Adjacencies whose edges are sorted by target node, and their type spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from tfx_gnn.graph.graph_constants import SOURCE, TARGET, Field, FieldSpec, IncidentNodeTag, NodeSetName
from tfx_gnn.graph.tensor import tf_hooks
from tfx_gnn.graph.tensor.adjacency import Adjacency, AdjacencySpec
from tfx_gnn.graph.tensor.graph_piece import GraphPieceSpec
from tfx_gnn.graph.tensor.piece_parts import refuse_positional_arguments
from tfx_gnn.graph.tensor.run_time_checks import after_checks


def stable_order(index: tf.Tensor) -> tf.Tensor:
    """Returns the positions that sort indices, which have shape [num_items] and start from 0.

    Equal indices keep their order. XLA-compatible.

    Example:
        >>> stable_order(tf.constant([2, 0, 2, 1])).numpy().tolist()
        [1, 3, 0, 2]
    """
    if tf_hooks.in_xla_context():
        return tf.cast(tf.argsort(index, stable=True), index.dtype)
    # Transposing a sparse matrix with one element in each row is a counting sort: on 100,000
    # indices 7 times as fast as tf.argsort.
    with tf.device("/CPU:0"):
        columns = tf.cast(index, tf.int64)
        rows = tf.range(tf.size(columns, tf.int64))
        num_columns = tf.maximum(tf.reduce_max(columns), 0) + 1
        matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
            indices=tf.stack([rows, columns], axis=1),
            values=tf.ones_like(rows, tf.float32),
            dense_shape=tf.stack([tf.size(columns, tf.int64), num_columns]),
        )
        transposed = tf.raw_ops.SparseMatrixTranspose(input=matrix, type=tf.float32)
        parts = tf.raw_ops.CSRSparseMatrixComponents(csr_sparse_matrix=transposed, index=0, type=tf.float32)
    return tf.ensure_shape(tf.cast(parts.col_inds, index.dtype), index.shape)


#: Positions of the edges sorted by source, followed by both ends of the edges in this order.
ORDER_PART = "order_by_source"


SOURCE_PART = "source_by_source"


TARGET_PART = "target_by_source"


class SortedAdjacencySpec(AdjacencySpec):
    """Type spec of a `SortedAdjacency`."""

    @classmethod
    def _from_named_specs(cls, indices: Mapping[IncidentNodeTag, tuple[NodeSetName, FieldSpec]]) -> Any:
        plain = AdjacencySpec._from_named_specs(indices)
        by_source = dict.fromkeys((ORDER_PART, SOURCE_PART, TARGET_PART), plain.source)
        return cls._assemble({**plain._parts_spec, **by_source}, shape=plain.shape, static=plain._static)

    def get_index_specs_dict(self) -> dict[IncidentNodeTag, tuple[NodeSetName, FieldSpec]]:
        """Returns tag to (node set name, index spec)."""
        return {tag: (self.node_set_name(tag), self[tag]) for tag in (SOURCE, TARGET)}

    def without_order(self) -> AdjacencySpec:
        """Returns the spec of the same edges as an ordinary adjacency."""
        plain: AdjacencySpec = AdjacencySpec._from_named_specs(self.get_index_specs_dict())
        return plain.with_row_splits_dtype(self.row_splits_dtype)


_Index = tuple[NodeSetName, Field]


class SortedAdjacency(Adjacency):
    """Edges that each lead from a source node to a target node, sorted by target.

    It also stores the order by source, so that sums over the edges of a node access memory in order
    at either end, and in gradients. Pooling and broadcasting use these orders. `sort_edges` converts
    the edges of a graph to this form. Operations that change edges (padding, masking, merging a
    batch, adding loops, reordering nodes) return an ordinary `Adjacency`, so sort last.
    """

    _SPEC_TYPE: ClassVar[type[GraphPieceSpec]] = SortedAdjacencySpec

    @classmethod
    @tf_hooks.supports_keras_tensors
    def from_indices(  # type: ignore[override]
        cls,
        source: _Index,
        target: _Index,
        *args: Any,
        validate: bool | None = None,
    ) -> SortedAdjacency:
        """Makes edges from the indices of their nodes, which must already be sorted by target.

        Args:
            source: (node set name, indices of the nodes where the edges start). The indices are
                dense, int32 or int64, of shape [num_edges].
            target: the same for the nodes where the edges end; they must not decrease.
            *args: not supported; pass all arguments by keyword.
            validate: False to skip the check of the order, if it is known to be right.

        Raises:
            ValueError: if the dtype is not int32 or int64, the ends have different numbers of
                edges, or there is a batch of graphs.
            tf.errors.InvalidArgumentError: at run time, if targets decrease.

        Example:
            >>> cites = SortedAdjacency.from_indices(("paper", [2, 0]), ("paper", [0, 1]))
            >>> cites.in_order_of(tfx_gnn.SOURCE)[1].numpy().tolist()
            [0, 2]
        """
        refuse_positional_arguments(args)
        adjacency: SortedAdjacency = cls._from_named_indices({SOURCE: source, TARGET: target}, validate)
        return adjacency

    @classmethod
    def _from_named_indices(cls, indices: Mapping[IncidentNodeTag, _Index], validate: bool | None) -> Any:
        plain = Adjacency._from_named_indices(indices, validate)
        if plain.rank != 0 or plain.has_ragged_fields:
            raise ValueError(
                f"`source` and `target` must be vectors, of one graph; got shapes {plain.source.shape} and "
                f"{plain.target.shape}. Call merge_batch_to_components() first."
            )
        source, target = plain.source, plain.target
        if validate is not False:
            check = tf.debugging.assert_less_equal(
                target[:-1], target[1:], message="`target` must hold indices in ascending order. Call sort_edges()."
            )
            target = after_checks([check], target)
        order = stable_order(source)
        parts = {
            str(SOURCE): source,
            str(TARGET): target,
            ORDER_PART: order,
            SOURCE_PART: tf.gather(source, order),
            TARGET_PART: tf.gather(target, order),
        }
        return cls._assemble(parts, shape=plain.shape, static=plain._given_spec._static)

    def get_indices_dict(self) -> dict[IncidentNodeTag, _Index]:
        """Returns tag to (node set name, node indices)."""
        return {tag: (self.node_set_name(tag), self[tag]) for tag in (SOURCE, TARGET)}

    @property
    def order_by_source(self) -> Field:
        """The positions of the edges, sorted by source, shape [*batch_shape, num_edges]."""
        return self._parts[ORDER_PART]

    def in_order_of(self, tag: IncidentNodeTag) -> tuple[Field, Field]:
        """Returns the nodes at both ends of the edges, sorted by the nodes at one end.

        Args:
            tag: `SOURCE` or `TARGET`.

        Returns:
            The nodes at the other end, and the nodes at the end `tag`, which are non-decreasing;
            indices of shape [*batch_shape, num_edges].
        """
        if tag == TARGET:
            return self.source, self.target
        return self._parts[TARGET_PART], self._parts[SOURCE_PART]

    def without_order(self) -> Adjacency:
        """Returns the same edges as an ordinary adjacency."""
        return Adjacency._assemble(
            {key: self._parts[key] for key in (str(SOURCE), str(TARGET))},
            shape=self.shape,
            static=self._given_spec._static,
            row_splits_dtype=self.row_splits_dtype,
        )

    def merge_batch(self, node_offsets: Mapping[NodeSetName, tf.Tensor]) -> Any:
        """Concatenates the edges of all graphs of a batch, renumbering their nodes.

        Args:
            node_offsets: node set name to a tensor of shape [num_graphs] with the number of
                nodes of all earlier graphs.

        Returns:
            Scalar `Adjacency`, not known to be sorted.
        """
        return self.without_order().merge_batch(node_offsets)

    def __repr__(self) -> str:
        return f"Sorted{super().__repr__()}"


tf_hooks.register_type_spec("tfx_gnn.SortedAdjacencySpec")(SortedAdjacencySpec)
