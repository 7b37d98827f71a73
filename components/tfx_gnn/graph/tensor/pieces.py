"""Context, node sets and edge sets: the pieces of a graph, each with sizes and features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import tensorflow as tf

from tfx_gnn.graph.graph_constants import (
    DEFAULT_INDICES_DTYPE,
    Field,
    FieldName,
    Fields,
    NodeSetName,
    ShapeLike,
)
from tfx_gnn.graph.tensor import fields, run_time_checks, tf_hooks
from tfx_gnn.graph.tensor.adjacency import HyperAdjacency
from tfx_gnn.graph.tensor.graph_piece import GraphPiece, GraphPieceSpec
from tfx_gnn.graph.tensor.piece_parts import (
    FrozenMapping,
    Parts,
    check_batch_shape,
    check_index_dtype,
    check_mapping,
    refuse_positional_arguments,
)
from tfx_gnn.graph.tensor.piece_specs import (
    ADJACENCY_PART,
    FEATURES_PART,
    SIZES_PART,
    ContextSpec,
    EdgeSetSpec,
    NodeSetSpec,
    check_item_counts,
    check_sizes_rank,
    first_by_raggedness,
)

_Piece = TypeVar("_Piece", bound="FeaturePiece")


class FeaturePiece(GraphPiece):
    """A piece with items: nodes, edges, or the components of a graph.

    `sizes` holds the number of items of each component. Every feature has one value per item, in
    the order of the components.
    """

    _INDEX_PARTS = frozenset({SIZES_PART})

    @classmethod
    def _from_features_and_sizes(
        cls: type[_Piece],
        features: Fields | None,
        sizes: Field,
        validate: bool | None,
        row_splits_dtype: tf.DType | None = None,
        **more_parts: GraphPiece,
    ) -> _Piece:
        check_mapping(features, "features", "values of all items")
        sizes = fields.as_field(sizes, "sizes")
        check_index_dtype(sizes.dtype, "`sizes`")
        rank = check_sizes_rank(sizes)
        feature_fields = {
            name: fields.as_field(value, f"features[{name!r}]") for name, value in (features or {}).items()
        }
        parts: Parts = {SIZES_PART: sizes, FEATURES_PART: feature_fields, **more_parts}
        piece = cls._assemble(parts, shape=sizes.shape[:rank], row_splits_dtype=row_splits_dtype)
        if run_time_checks.checks_statically():
            check_batch_shape(piece.shape)
            check_item_counts(feature_fields, rank)
        if run_time_checks.checks_at_runtime(validate):
            piece._assert_sizes_match()
        return piece

    def _assert_sizes_match(self) -> list[tf.Operation]:
        """Asserts that every feature has the number of items given by the sizes."""
        expected = self._items_per_graph()
        checks = []
        for name, feature in self._parts[FEATURES_PART].items():
            message = (
                f"The number of graph items for feature {name} is incompatible with piece `sizes`: each graph of the "
                f"{type(self).__name__} must have the sum of its sizes."
            )
            found = fields.items_per_graph(feature, self.rank, self.indices_dtype)
            checks.append(tf.debugging.assert_equal(found, expected, message=message))
        return [check for check in checks if check is not None]

    def _items_per_graph(self) -> tf.Tensor:
        """Returns the number of items of each graph, of shape [total number of graphs]."""
        return tf.reshape(_dense(tf.reduce_sum(self.sizes, axis=-1)), [-1])

    @property
    def features(self) -> FrozenMapping[Field]:
        """Feature names to values of shape [*batch_shape, items, ...]."""
        return FrozenMapping(self._parts[FEATURES_PART])

    @property
    def sizes(self) -> Field:
        """The number of items of each component, shape [*batch_shape, num_components]."""
        return self._parts[SIZES_PART]

    def __getitem__(self, feature_name: FieldName) -> Field:
        """Returns a feature, of shape [*batch_shape, items, ...].

        Args:
            feature_name: name of the feature.

        Raises:
            KeyError: if there is no feature of this name.
        """
        return self._parts[FEATURES_PART][feature_name]

    def get_features_dict(self) -> dict[FieldName, Field]:
        """Returns the features as a new dict, which the caller may change."""
        return dict(self._parts[FEATURES_PART])

    def replace_features(self: _Piece, features: Fields) -> _Piece:
        """Returns the piece with exactly the given features.

        Args:
            features: feature names to values of shape [*batch_shape, items, ...].

        Raises:
            ValueError: if features disagree on the number of items or on the batch shape.
        """
        more_parts = {name: part for name, part in self._parts.items() if name not in (SIZES_PART, FEATURES_PART)}
        return type(self)._from_features_and_sizes(
            features,
            self.sizes,
            None,
            row_splits_dtype=self.row_splits_dtype,
            **more_parts,
        )

    @property
    def num_components(self) -> tf.Tensor:
        """The number of components of each graph: a tensor of the batch shape."""
        sizes = self.sizes
        count = fields.item_dimension(sizes, self.rank)
        if count is not None and isinstance(sizes, tf.Tensor):
            batch_shape = sizes.shape[:-1]
            dims = batch_shape if batch_shape.is_fully_defined() else tf.shape(sizes)[:-1]
            return tf.fill(dims, tf.constant(count, self.indices_dtype))
        return _dense(tf.reduce_sum(tf.ones_like(sizes), axis=-1))

    @property
    def total_num_components(self) -> tf.Tensor:
        """The number of components of all graphs together: a scalar tensor."""
        total = self.spec.total_num_components
        if total is not None:
            return tf.constant(total, self.indices_dtype)
        sizes = self.sizes
        flat = sizes.flat_values if isinstance(sizes, tf.RaggedTensor) else sizes
        return tf.size(flat, out_type=self.indices_dtype)

    @property
    def total_size(self) -> tf.Tensor:
        """The number of items of all graphs together: a scalar tensor."""
        total = self.spec.total_size
        if total is not None:
            return tf.constant(total, self.indices_dtype)
        sizes = self.sizes
        return tf.reduce_sum(sizes.flat_values if isinstance(sizes, tf.RaggedTensor) else sizes)

    def _merged_parts(self) -> Parts:
        """Returns features and sizes with batch dimensions merged into the item dimension."""
        rank = self.rank
        features = {
            name: fields.merge_outer_dimensions(feature, rank) for name, feature in self._parts[FEATURES_PART].items()
        }
        total = self.spec.total_size
        if total is not None:
            features = {name: fields.with_item_count(feature, total) for name, feature in features.items()}
        return {
            SIZES_PART: fields.merge_outer_dimensions(self.sizes, rank),
            FEATURES_PART: features,
        }

    def _describe(self, *more: str) -> str:
        features = ", ".join(
            f"{name!r}: {fields.describe_field(value)}" for name, value in self._parts[FEATURES_PART].items()
        )
        entries = [f"features={{{features}}}", f"sizes={self.sizes}", *more]
        return f"{type(self).__name__}({', '.join(entries)})"


def _dense(field: Field) -> tf.Tensor:
    """Converts a field to a dense tensor; its dimensions must all be uniform."""
    return field.to_tensor() if isinstance(field, tf.RaggedTensor) else field


class Context(FeaturePiece):
    """Features with one value per component of a graph, or of each graph of a batch.

    The items of a context are the components, so its `sizes` are all 1.
    """

    _SPEC_TYPE: ClassVar[type[GraphPieceSpec]] = ContextSpec

    @classmethod
    @tf_hooks.supports_keras_tensors
    def from_fields(
        cls,
        *args: Any,
        features: Fields | None = None,
        sizes: Field | None = None,
        shape: ShapeLike | None = None,
        indices_dtype: tf.DType | None = None,
        validate: bool | None = None,
    ) -> Context:
        """Makes a context.

        Args:
            *args: not supported; pass all arguments by keyword.
            features: feature names to values of shape [*shape, num_components, ...].
            sizes: ones of shape [*shape, num_components]. By default derived from the features;
                without features there are no components.
            shape: batch shape; by default that of `sizes`, or `[]`. If there are features but no
                `sizes`, only its rank is used.
            indices_dtype: dtype of the sizes; by default that of `sizes`, or int32.
            validate: whether to assert at run time that sizes fit; None for the process-wide setting.

        Raises:
            ValueError: if features disagree on the number of components or on the batch shape.

        Example:
            >>> int(Context.from_fields(features={"label": [3, 5]}).total_num_components)
            2
        """
        refuse_positional_arguments(args)
        check_mapping(features, "features", "values of all items")
        feature_fields = {
            name: fields.as_field(value, f"features[{name!r}]") for name, value in (features or {}).items()
        }
        batch_shape = None if shape is None else tf.TensorShape(shape)
        if sizes is None:
            size_field = _component_sizes(
                feature_fields,
                tf.TensorShape([]) if batch_shape is None else batch_shape,
                check_index_dtype(indices_dtype or DEFAULT_INDICES_DTYPE, "indices"),
            )
        else:
            size_field = fields.as_field(sizes, "sizes")
            if indices_dtype is not None:
                size_field = fields.with_dtype(size_field, check_index_dtype(indices_dtype, "indices"))
            if batch_shape is not None:
                _check_sizes_shape(size_field, batch_shape)
        return cls._from_features_and_sizes(feature_fields, size_field, validate)

    def with_sizes(self, sizes: Field) -> Context:
        """Returns the context with other sizes, without checking them against the features at run time.

        Args:
            sizes: ones of shape [*batch_shape, num_components].
        """
        return self._assemble(
            {SIZES_PART: sizes, FEATURES_PART: self._parts[FEATURES_PART]},
            shape=sizes.shape[:-1],
            row_splits_dtype=self.row_splits_dtype,
        )

    def merge_batch(self) -> Context:
        """Concatenates the components of all graphs of a batch into one scalar context."""
        return self._assemble(self._merged_parts(), shape=tf.TensorShape([]), row_splits_dtype=self.row_splits_dtype)

    def __repr__(self) -> str:
        return self._describe(f"shape={self.shape}", f"indices_dtype={self.indices_dtype!r}")


def _check_sizes_shape(sizes: Field, shape: tf.TensorShape) -> None:
    """Refuses sizes that do not fit the given batch shape."""
    if sizes.shape.rank != shape.rank + 1:
        raise ValueError(
            "The `sizes` must have one dimension more than `shape`, but their `rank != shape.rank + 1`; got "
            f"sizes.shape={sizes.shape}, shape={shape}."
        )
    if not shape.is_compatible_with(sizes.shape[: shape.rank]):
        raise ValueError(
            f"The `sizes` is not compatible with the `shape`: got sizes.shape={sizes.shape}, shape={shape}. "
            "All but the last dimension of the sizes are batch dimensions."
        )


def _component_sizes(features: Mapping[FieldName, Field], shape: tf.TensorShape, dtype: tf.DType) -> Field:
    """Returns a one per component; the least ragged feature determines how many there are."""
    rank = shape.rank
    feature = first_by_raggedness(features)
    if feature is None:
        return tf.zeros([size or 0 for size in shape.as_list()] + [0], dtype)
    if feature.shape.rank is None or feature.shape.rank <= rank:
        raise ValueError(
            f"Field rank must be greater than the batch rank: field shape={feature.shape}, batch_rank={rank} of a "
            "context feature. Give one more dimension, for the components of each graph."
        )
    return _ones_per_item(feature, rank, dtype)


def _ones_per_item(feature: Field, rank: int, dtype: tf.DType) -> Field:
    if rank and isinstance(feature, tf.RaggedTensor):
        return feature.with_values(_ones_per_item(feature.values, rank - 1, dtype))
    if isinstance(feature, tf.RaggedTensor):
        return tf.ones([fields.num_items(feature)], dtype)
    dimensions = feature.shape[: rank + 1]
    if dimensions.is_fully_defined():
        return tf.ones(dimensions, dtype)
    return tf.ensure_shape(tf.ones(tf.shape(feature)[: rank + 1], dtype), dimensions)


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
            *args: not supported; pass all arguments by keyword.
            features: feature names to values of shape [*batch_shape, num_nodes, ...], ragged
                if graphs of a batch have different numbers of nodes.
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
            *args: not supported; pass all arguments by keyword.
            features: feature names to values of shape [*batch_shape, num_edges, ...], ragged
                if graphs of a batch have different numbers of edges.
            sizes: number of edges of each component, int32 or int64, of shape
                [*batch_shape, num_components].
            adjacency: the nodes that the edges connect.
            validate: whether to assert at run time that sizes fit; None for the process-wide setting.

        Raises:
            TypeError: if `adjacency` is not an adjacency.
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
        if run_time_checks.checks_sizes_statically(validate):
            ends = {f"end {tag}": index for tag, (_, index) in adjacency.get_indices_dict().items()}
            check_item_counts({**ends, **edge_set.features}, edge_set.rank)
        if run_time_checks.checks_at_runtime(validate):
            edge_set._assert_edge_counts_match()
        return edge_set

    def _assert_edge_counts_match(self) -> list[tf.Operation]:
        """Asserts that the adjacency has the number of edges given by the sizes."""
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
