"""Type specs of pieces with features: contexts, node sets and edge sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, cast

import tensorflow as tf

from tfx_gnn.graph.graph_constants import (
    DEFAULT_INDICES_DTYPE,
    FieldName,
    FieldSpec,
    FieldsSpec,
    ShapeLike,
)
from tfx_gnn.graph.tensor import fields
from tfx_gnn.graph.tensor.adjacency import HyperAdjacencySpec
from tfx_gnn.graph.tensor.graph_piece import GraphPieceSpec, check_relaxable
from tfx_gnn.graph.tensor.piece_parts import FrozenMapping, Parts, check_batch_shape, check_index_dtype

_Spec = TypeVar("_Spec", bound="FeaturePieceSpec")

SIZES_PART = "sizes"
FEATURES_PART = "features"
ADJACENCY_PART = "adjacency"


class FeaturePieceSpec(GraphPieceSpec):
    """Base class of the specs of contexts, node sets and edge sets."""

    _EMPTY_SIZE: ClassVar[int | None] = 0
    _INDEX_PARTS = frozenset({SIZES_PART})

    @classmethod
    def _from_features_and_sizes(
        cls: type[_Spec],
        features_spec: FieldsSpec | None,
        sizes_spec: FieldSpec,
        **more_parts: GraphPieceSpec,
    ) -> _Spec:
        sizes = fields.as_field_spec(sizes_spec, "sizes_spec")
        check_index_dtype(sizes.dtype, "`sizes_spec`")
        features = {
            name: fields.as_field_spec(spec, f"features_spec[{name!r}]") for name, spec in (features_spec or {}).items()
        }
        rank = check_sizes_rank(sizes)
        parts: Parts = {SIZES_PART: sizes, FEATURES_PART: features, **more_parts}
        spec = cls._assemble(parts, shape=sizes.shape[:rank])
        check_batch_shape(spec.shape)
        check_item_counts(features, rank)
        return spec

    def _with_fields(self: _Spec, features_spec: FieldsSpec, sizes_spec: FieldSpec) -> _Spec:
        """Returns the spec with features and sizes replaced."""
        parts = {
            **self._parts_spec,
            SIZES_PART: sizes_spec,
            FEATURES_PART: dict(features_spec),
        }
        return type(self)._assemble(parts, shape=self._shape, row_splits_dtype=self._row_splits_dtype)

    def _relax(self: _Spec, *, num_components: bool, num_items: bool) -> _Spec:
        check_relaxable(self)
        sizes, features = self.sizes_spec, dict(self.features_spec)
        if num_components:
            sizes = fields.relax_item_dimension(sizes)
        if num_items:
            features = {name: fields.relax_item_dimension(spec) for name, spec in features.items()}
        return self._with_fields(features, sizes)

    @property
    def features_spec(self) -> FrozenMapping[FieldSpec]:
        """Feature names to the specs of the features."""
        return FrozenMapping(self._parts_spec[FEATURES_PART])

    @property
    def sizes_spec(self) -> FieldSpec:
        """The spec of the sizes, of shape [*batch_shape, num_components]."""
        return self._parts_spec[SIZES_PART]

    def __getitem__(self, feature_name: FieldName) -> FieldSpec:
        """Returns the spec of a feature.

        Args:
            feature_name: name of the feature.

        Raises:
            KeyError: if there is no feature of this name.
        """
        return self._parts_spec[FEATURES_PART][feature_name]

    @property
    def total_num_components(self) -> int | None:
        """The static number of components of all graphs together; None if unknown."""
        return fields.total_items(self.sizes_spec, self.rank)

    @property
    def total_size(self) -> int | None:
        """The static number of items of all graphs together; None if unknown."""
        for spec in self._parts_spec[FEATURES_PART].values():
            total = fields.total_items(spec, self.rank)
            if total is not None:
                return total
        return None


class ContextSpec(FeaturePieceSpec):
    """Type spec of a `Context`."""

    _EMPTY_SIZE: ClassVar[int | None] = 1

    @classmethod
    def from_field_specs(
        cls,
        *,
        features_spec: FieldsSpec | None = None,
        sizes_spec: FieldSpec | None = None,
        shape: ShapeLike = tf.TensorShape([]),  # noqa: B008 - immutable
        indices_dtype: tf.DType = DEFAULT_INDICES_DTYPE,
    ) -> ContextSpec:
        """Describes the context of a graph.

        Args:
            features_spec: feature names to specs of shape [*shape, num_components, ...].
            sizes_spec: spec of the sizes, of shape [*shape, num_components]. By default derived
                from the features; without features there are no components.
            shape: batch shape, used if `sizes_spec` is not given.
            indices_dtype: dtype of the sizes, used if `sizes_spec` is not given.

        Raises:
            ValueError: if features disagree on the number of components or on the batch shape.
        """
        features = {
            name: fields.as_field_spec(spec, f"features_spec[{name!r}]") for name, spec in (features_spec or {}).items()
        }
        if sizes_spec is None:
            sizes_spec = _component_sizes_spec(
                features, tf.TensorShape(shape), check_index_dtype(indices_dtype, "indices")
            )
        return cls._from_features_and_sizes(features, sizes_spec)

    def relax(self, *, num_components: bool = False) -> ContextSpec:
        """Forgets static sizes.

        Args:
            num_components: whether to forget the number of components.

        Raises:
            ValueError: if the spec is batched.
        """
        return self._relax(num_components=num_components, num_items=num_components)


class NodeSetSpec(FeaturePieceSpec):
    """Type spec of a `NodeSet`."""

    @classmethod
    def from_field_specs(cls, *, features_spec: FieldsSpec | None = None, sizes_spec: FieldSpec) -> NodeSetSpec:
        """Describes a node set.

        Args:
            features_spec: feature names to specs of shape [*batch_shape, num_nodes, ...].
            sizes_spec: spec of the number of nodes of each component, int32 or int64, of shape
                [*batch_shape, num_components].

        Raises:
            ValueError: if features disagree on the number of nodes or on the batch shape.

        Example:
            >>> NodeSetSpec.from_field_specs(
            ...     features_spec={"x": tf.TensorSpec([None, 4])},
            ...     sizes_spec=tf.TensorSpec([1], tf.int32),
            ... ).total_num_components
            1
        """
        return cls._from_features_and_sizes(features_spec, sizes_spec)

    def relax(self, *, num_components: bool = False, num_nodes: bool = False) -> NodeSetSpec:
        """Forgets static sizes.

        Args:
            num_components: whether to forget the number of components.
            num_nodes: whether to forget the number of nodes.

        Raises:
            ValueError: if the spec is batched.
        """
        return self._relax(num_components=num_components, num_items=num_nodes)


class EdgeSetSpec(FeaturePieceSpec):
    """Type spec of an `EdgeSet`."""

    @classmethod
    def from_field_specs(
        cls,
        *,
        features_spec: FieldsSpec | None = None,
        sizes_spec: FieldSpec,
        adjacency_spec: HyperAdjacencySpec,
    ) -> EdgeSetSpec:
        """Describes an edge set.

        Args:
            features_spec: feature names to specs of shape [*batch_shape, num_edges, ...].
            sizes_spec: spec of the number of edges of each component, int32 or int64, of shape
                [*batch_shape, num_components].
            adjacency_spec: spec of the nodes that the edges connect.

        Raises:
            TypeError: if `adjacency_spec` is not an adjacency spec.
            ValueError: if features disagree on the number of edges or on the batch shape.
        """
        if not isinstance(adjacency_spec, HyperAdjacencySpec):
            raise TypeError(
                f"`adjacency_spec` must be an AdjacencySpec or HyperAdjacencySpec; got {type(adjacency_spec).__name__}."
            )
        return cls._from_features_and_sizes(features_spec, sizes_spec, **{ADJACENCY_PART: adjacency_spec})

    @property
    def adjacency_spec(self) -> Any:
        """The spec of the adjacency, an `AdjacencySpec` or `HyperAdjacencySpec`."""
        return self._parts_spec[ADJACENCY_PART]

    @property
    def total_size(self) -> int | None:
        """The static number of edges of all graphs together; None if unknown."""
        total = super().total_size
        return self.adjacency_spec.total_size if total is None else total

    def relax(self, *, num_components: bool = False, num_edges: bool = False) -> EdgeSetSpec:
        """Forgets static sizes.

        Args:
            num_components: whether to forget the number of components.
            num_edges: whether to forget the number of edges.

        Raises:
            ValueError: if the spec is batched.
        """
        relaxed = self._relax(num_components=num_components, num_items=num_edges)
        parts = {
            **relaxed._parts_spec,
            ADJACENCY_PART: self.adjacency_spec.relax(num_edges=num_edges),
        }
        return EdgeSetSpec._assemble(parts, shape=self._shape, row_splits_dtype=self._row_splits_dtype)


def check_sizes_rank(sizes: Any) -> int:
    """Returns the batch rank that `sizes`, a field or spec, implies."""
    if not sizes.shape.rank:
        raise ValueError(f"Field rank must be greater than the batch rank: field shape={sizes.shape}, batch_rank=0")
    return int(sizes.shape.rank) - 1


def first_by_raggedness(features: Mapping[FieldName, Any]) -> Any:
    """Returns the feature that best determines the number of items, if there are features.

    It is the first by name among the features with the fewest ragged dimensions.
    """
    return min(
        features.items(),
        key=lambda item: (item[1].ragged_rank if fields.is_ragged(item[1]) else 0, item[0]),
        default=("", None),
    )[1]


def check_item_counts(features: Mapping[FieldName, Any], rank: int) -> None:
    """Refuses features whose static numbers of items differ."""
    known: tuple[FieldName, int] | None = None
    for name, feature in features.items():
        count = fields.item_dimension(feature, rank)
        if count is None:
            continue
        if known is None:
            known = (name, count)
        elif known[1] != count:
            raise ValueError(
                f'Features "{known[0]}" and "{name}" have shapes with incompatible items '
                f"dimension (dim={rank}): {known[1]} != {count}."
            )


def check_component_count(features: Mapping[FieldName, Any], sizes: Any) -> None:
    """Refuses context features whose static shape contradicts the number of components."""
    rank = sizes.shape.rank - 1
    expected = fields.item_dimension(sizes, rank)
    for name, feature in features.items():
        if feature.shape.rank is None or feature.shape.rank <= rank:
            raise ValueError(
                f"Field rank must be greater than the batch rank: field shape={feature.shape}, "
                f"batch_rank={rank} of context feature {name!r}."
            )
        count = fields.item_dimension(feature, rank)
        if expected is not None and count is not None and count != expected:
            raise ValueError(
                f"Context feature {name!r} must have one value per graph component; got field "
                f"shape={feature.shape} for {expected} components (dim={rank})."
            )


def _component_sizes_spec(features: Mapping[FieldName, FieldSpec], shape: tf.TensorShape, dtype: tf.DType) -> FieldSpec:
    rank = shape.rank
    spec = first_by_raggedness(features)
    if spec is None:
        return cast(FieldSpec, tf.TensorSpec(shape.concatenate([0]), dtype))
    if spec.shape.rank <= rank:
        raise ValueError(
            f"Field rank must be greater than the batch rank: field shape={spec.shape}, "
            f"batch_rank={rank} of a context feature. Give one more dimension, for the "
            "components of each graph."
        )
    dimensions = spec.shape[: rank + 1]
    if isinstance(spec, tf.RaggedTensorSpec) and rank and dimensions[-1] is None:
        ragged_rank = min(rank, spec.ragged_rank)
        return tf.RaggedTensorSpec(dimensions, dtype, ragged_rank, spec.row_splits_dtype)
    return tf.TensorSpec(dimensions, dtype)
