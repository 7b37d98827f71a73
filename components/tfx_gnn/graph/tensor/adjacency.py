"""Adjacencies, which hold the nodes that each edge connects, and their type specs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import tensorflow as tf

from tfx_gnn.graph.graph_constants import (
    DEFAULT_INDICES_DTYPE,
    SOURCE,
    TARGET,
    Field,
    FieldSpec,
    IncidentNodeTag,
    NodeSetName,
)
from tfx_gnn.graph.tensor import fields, run_time_checks, tf_hooks
from tfx_gnn.graph.tensor.graph_piece import GraphPiece, GraphPieceSpec, check_relaxable
from tfx_gnn.graph.tensor.piece_parts import refuse_positional_arguments

_IndexSpec = tuple[NodeSetName, FieldSpec]

_ANY_INDEX = tf.TensorSpec([None], DEFAULT_INDICES_DTYPE)


def _check_tag(tag: Any) -> str:
    """Returns the name of the part that holds the indices of one end of the edges."""
    if not isinstance(tag, int) or isinstance(tag, bool):
        raise ValueError(
            f"Node set tag must be integer; got {tag!r}. Use tfx_gnn.SOURCE, tfx_gnn.TARGET or another small number."
        )
    return str(int(tag))


def _check_has_ends(ends: Mapping[Any, Any]) -> None:
    """Refuses edges without ends."""
    if not ends:
        raise ValueError("`indices` must contain at least one entry; got none. Give the nodes of each end.")


def _check_dtype(tag: str, node_set_name: str, dtype: tf.DType) -> None:
    """Refuses indices that are neither int32 nor int64."""
    if dtype not in fields.INDEX_DTYPES:
        raise ValueError(
            f"Adjacency indices ({tag}, {node_set_name}) must have tf.int32 or tf.int64 dtype; got {dtype}."
        )


class HyperAdjacencySpec(GraphPieceSpec):
    """Type spec of a `HyperAdjacency`."""

    @classmethod
    def _is_index(cls, part_name: str) -> bool:
        return True

    @classmethod
    def from_incident_node_sets(
        cls,
        incident_node_sets: Mapping[IncidentNodeTag, NodeSetName],
        index_spec: FieldSpec = _ANY_INDEX,
    ) -> HyperAdjacencySpec:
        """Describes edges whose ends have the given tags.

        Args:
            incident_node_sets: tag of each end to the name of its node set.
            index_spec: spec of the node indices of every end, of shape
                [*batch_shape, num_edges]. The default fits a scalar graph of any size.

        Raises:
            ValueError: if a tag is not an integer or the index dtype is not int32 or int64.
        """
        return cls._from_named_specs({tag: (name, index_spec) for tag, name in incident_node_sets.items()})

    @classmethod
    def _from_named_specs(cls, indices: Mapping[IncidentNodeTag, _IndexSpec]) -> Any:
        _check_has_ends(indices)
        names, parts = {}, {}
        for tag, (name, spec) in indices.items():
            key = _check_tag(tag)
            names[key] = name
            parts[key] = fields.as_field_spec(spec, "index_spec")
            _check_dtype(key, name, parts[key].dtype)
        rank = max(spec.shape.rank - 1 for spec in parts.values())
        return cls._assemble(parts, shape=tf.TensorShape([None] * rank), static=names)

    def get_index_specs_dict(self) -> dict[IncidentNodeTag, _IndexSpec]:
        """Returns tag to (node set name, index spec)."""
        assert self._static is not None
        return {int(key): (self._static[key], spec) for key, spec in self._parts_spec.items()}

    def __getitem__(self, node_set_tag: IncidentNodeTag) -> FieldSpec:
        """Returns the spec of the node indices at one end.

        Args:
            node_set_tag: tag of the end.

        Raises:
            KeyError: if no end has this tag.
        """
        return self._parts_spec[_check_tag(node_set_tag)]

    def node_set_name(self, node_set_tag: IncidentNodeTag) -> NodeSetName:
        """Returns the name of the node set at one end.

        Args:
            node_set_tag: tag of the end.

        Raises:
            KeyError: if no end has this tag.
        """
        assert self._static is not None
        return self._static[_check_tag(node_set_tag)]

    @property
    def total_size(self) -> int | None:
        """The static number of edges of all graphs together; None if unknown."""
        totals = (fields.total_items(spec, self.rank) for spec in self._parts_spec.values())
        return next((total for total in totals if total is not None), None)

    def relax(self, *, num_edges: bool = False) -> Any:
        """Forgets static sizes.

        Args:
            num_edges: whether to forget the number of edges.

        Raises:
            ValueError: if the spec is batched.
        """
        check_relaxable(self)
        if not num_edges:
            return self
        return self._from_named_specs(
            {
                tag: (name, fields.relax_item_dimension(spec))
                for tag, (name, spec) in self.get_index_specs_dict().items()
            }
        ).with_row_splits_dtype(self.row_splits_dtype)


class AdjacencySpec(HyperAdjacencySpec):
    """Type spec of an `Adjacency`."""

    @classmethod
    def from_incident_node_sets(  # type: ignore[override]
        cls,
        source_node_set: NodeSetName,
        target_node_set: NodeSetName,
        index_spec: FieldSpec = _ANY_INDEX,
    ) -> AdjacencySpec:
        """Describes edges from one node set to another, or to itself.

        Args:
            source_node_set: name of the node set where the edges start.
            target_node_set: name of the node set where they end.
            index_spec: spec of the node indices of both ends, of shape
                [*batch_shape, num_edges]. The default fits a scalar graph of any size.

        Raises:
            ValueError: if the index dtype is not int32 or int64.

        Example:
            >>> AdjacencySpec.from_incident_node_sets("paper", "author").source_name
            'paper'
        """
        named = {SOURCE: (source_node_set, index_spec), TARGET: (target_node_set, index_spec)}
        spec: AdjacencySpec = cls._from_named_specs(named)
        return spec

    @property
    def source(self) -> FieldSpec:
        """The spec of the indices of source nodes."""
        return self[SOURCE]

    @property
    def source_name(self) -> NodeSetName:
        """The name of the node set where the edges start."""
        return self.node_set_name(SOURCE)

    @property
    def target(self) -> FieldSpec:
        """The spec of the indices of target nodes."""
        return self[TARGET]

    @property
    def target_name(self) -> NodeSetName:
        """The name of the node set where the edges end."""
        return self.node_set_name(TARGET)


_Index = tuple[NodeSetName, Field]
_Tag = TypeVar("_Tag", int, str)


class HyperAdjacency(GraphPiece):
    """Edges with any number of ends, each with its own node set.

    Each end is identified by a *tag*, a small integer. Index i of each end belongs to edge i.
    """

    _SPEC_TYPE: ClassVar[type[GraphPieceSpec]] = HyperAdjacencySpec

    @classmethod
    def _is_index(cls, part_name: str) -> bool:
        return True

    @classmethod
    @tf_hooks.supports_keras_tensors
    def from_indices(
        cls,
        indices: Mapping[IncidentNodeTag, _Index],
        *args: Any,
        validate: bool | None = None,
    ) -> HyperAdjacency:
        """Makes edges from the indices of their nodes.

        Args:
            indices: tag to (node set name, node indices). The indices are int32 or int64 of
                shape [*batch_shape, num_edges], dense or ragged, with values in
                [0, number of nodes of the graph).
            *args: not supported; pass all arguments by keyword.
            validate: whether to assert at run time that the ends have equal sizes; None for the
                process-wide setting.

        Raises:
            ValueError: if a tag is not an integer, the dtype is not int32 or int64, or the ends
                have different numbers of edges.

        Example:
            >>> trios = tfx_gnn.HyperAdjacency.from_indices({0: ("paper", [0]), 1: ("paper", [2]), 2: ("author", [1])})
            >>> trios.node_set_name(2), trios[2].numpy().tolist()
            ('author', [1])
        """
        refuse_positional_arguments(args)
        return cls._from_named_indices(indices, validate)

    @classmethod
    def _from_named_indices(
        cls,
        indices: Mapping[IncidentNodeTag, _Index],
        validate: bool | None,
    ) -> Any:
        names, parts = {}, {}
        _check_has_ends(indices)
        for tag, (name, index) in sorted(indices.items(), key=lambda item: int(_check_tag(item[0]))):
            key = _check_tag(tag)
            names[key] = name
            parts[key] = fields.as_field(index, f"indices[{key}]")
            _check_dtype(key, name, parts[key].dtype)
        if run_time_checks.checks_statically():
            _check_same_kind(parts, names)
            if validate is not False:
                _check_same_shapes(parts, names)
        rank = max((index.shape.rank or 0) - 1 for index in parts.values())
        adjacency = cls._assemble(parts, shape=tf.TensorShape([None] * rank), static=names)
        if run_time_checks.checks_at_runtime(validate):
            try:
                adjacency._assert_ends_agree()
            except tf.errors.InvalidArgumentError as error:
                raise ValueError(error.message) from error
        return adjacency

    def _assert_ends_agree(self) -> list[tf.Operation]:
        """Asserts that all ends have the same number of edges in each graph."""
        sizes = {
            tag: fields.items_per_graph(index, self.rank, tf.int64)
            for tag, (_, index) in self.get_indices_dict().items()
        }
        checks = []
        first = min(sizes, default=SOURCE)
        names = {tag: self.node_set_name(tag) for tag in sizes}
        for tag, counts in sizes.items():
            message = f"{_incompatible(names, first, tag)} must have the same number of edges in each graph."
            checks.append(tf.debugging.assert_equal(counts, sizes[first], message=message))
        return [check for check in checks if check is not None]

    def get_indices_dict(self) -> dict[IncidentNodeTag, _Index]:
        """Returns tag to (node set name, node indices)."""
        names = self._given_spec._static
        assert names is not None
        return {int(key): (names[key], index) for key, index in self._parts.items()}

    def __getitem__(self, node_set_tag: IncidentNodeTag) -> Field:
        """Returns the node indices at one end, of shape [*batch_shape, num_edges].

        Args:
            node_set_tag: tag of the end.

        Raises:
            KeyError: if no end has this tag.
        """
        return self._parts[_check_tag(node_set_tag)]

    def node_set_name(self, node_set_tag: IncidentNodeTag) -> NodeSetName:
        """Returns the name of the node set at one end.

        Args:
            node_set_tag: tag of the end.

        Raises:
            KeyError: if no end has this tag.
        """
        names = self._given_spec._static
        assert names is not None
        return names[_check_tag(node_set_tag)]

    def merge_batch(self, node_offsets: Mapping[NodeSetName, tf.Tensor]) -> Any:
        """Concatenates the edges of all graphs of a batch, renumbering their nodes.

        Args:
            node_offsets: node set name to a tensor of shape [num_graphs] with the number of
                nodes of all earlier graphs.

        Returns:
            Scalar adjacency.
        """
        assert self._given_spec._static is not None
        parts = {}
        for key, index in self._parts.items():
            offsets = node_offsets[self._given_spec._static[key]]
            parts[key] = _shift_and_merge(index, self.rank, offsets)
        return type(self)._assemble(
            parts,
            shape=tf.TensorShape([]),
            static=self._given_spec._static,
            row_splits_dtype=self.row_splits_dtype,
        )

    def __repr__(self) -> str:
        ends = ", ".join(
            f"{tag}: ({name!r}, {fields.describe_field(index)})"
            for tag, (name, index) in self.get_indices_dict().items()
        )
        return f"{type(self).__name__}({{{ends}}})"


class Adjacency(HyperAdjacency):
    """Edges that each lead from a source node to a target node."""

    _SPEC_TYPE: ClassVar[type[GraphPieceSpec]] = AdjacencySpec

    @classmethod
    @tf_hooks.supports_keras_tensors
    def from_indices(  # type: ignore[override]
        cls,
        source: _Index,
        target: _Index,
        *args: Any,
        validate: bool | None = None,
    ) -> Adjacency:
        """Makes edges from the indices of their nodes.

        Args:
            source: (node set name, indices of the nodes where the edges start). The indices
                are int32 or int64 of shape [*batch_shape, num_edges], dense or ragged, with
                values in [0, number of nodes of the graph).
            target: the same for the nodes where the edges end.
            *args: not supported; pass all arguments by keyword.
            validate: whether to assert at run time that the ends have equal sizes; None for the
                process-wide setting.

        Raises:
            ValueError: if the dtype is not int32 or int64, or the ends have different numbers
                of edges.

        Example:
            >>> cites = Adjacency.from_indices(("paper", [0, 2]), ("paper", [1, 1]))
            >>> cites.target.numpy().tolist()
            [1, 1]
        """
        refuse_positional_arguments(args)
        adjacency: Adjacency = cls._from_named_indices({SOURCE: source, TARGET: target}, validate)
        return adjacency

    @property
    def source(self) -> Field:
        """The indices of source nodes, shape [*batch_shape, num_edges]."""
        return self[SOURCE]

    @property
    def source_name(self) -> NodeSetName:
        """The name of the node set where the edges start."""
        return self.node_set_name(SOURCE)

    @property
    def target(self) -> Field:
        """The indices of target nodes, shape [*batch_shape, num_edges]."""
        return self[TARGET]

    @property
    def target_name(self) -> NodeSetName:
        """The name of the node set where the edges end."""
        return self.node_set_name(TARGET)

    def __repr__(self) -> str:
        return (
            f"Adjacency(source=({self.source_name!r}, {fields.describe_field(self.source)}), "
            f"target=({self.target_name!r}, {fields.describe_field(self.target)}))"
        )


def make_adjacency(
    indices: Mapping[IncidentNodeTag, _Index],
    like: HyperAdjacency | HyperAdjacencySpec,
    *,
    validate: bool | None = None,
) -> HyperAdjacency:
    """Makes an `Adjacency` if `like` is an `Adjacency`, sorted or not, or its spec; else a `HyperAdjacency`."""
    if isinstance(like, (Adjacency, AdjacencySpec)):
        return Adjacency.from_indices(indices[SOURCE], indices[TARGET], validate=validate)
    return HyperAdjacency.from_indices(indices, validate=validate)


def _incompatible(names: Mapping[_Tag, str], first_tag: _Tag, tag: _Tag) -> str:
    return f"Adjacency indices are not compatible: ({first_tag}, {names[first_tag]}) and ({tag}, {names[tag]})"


def _check_same_kind(indices: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Refuses indices of different dtypes, and a mix of dense and ragged indices."""
    first_tag = next(iter(indices))
    first = indices[first_tag]
    for tag, index in indices.items():
        is_ragged = isinstance(index, tf.RaggedTensor)
        if is_ragged and index.flat_values.shape.rank not in (None, 1):
            raise ValueError(
                f"Adjacency indices ({tag}, {names[tag]}) as ragged tensor must have flat values rank 1; got "
                f"{index.flat_values.shape.rank}."
            )
        if index.dtype != first.dtype:
            raise ValueError(
                f"{_incompatible(names, first_tag, tag)} must have the same dtype; got {first.dtype.name} and "
                f"{index.dtype.name}. Cast one of them."
            )
        if is_ragged != isinstance(first, tf.RaggedTensor) or (is_ragged and index.ragged_rank != first.ragged_rank):
            raise ValueError(
                f"{_incompatible(names, first_tag, tag)} must be both dense, or both ragged in the same dimensions; "
                f"got {fields.spec_of_field(first)} and {fields.spec_of_field(index)}."
            )


def _check_same_shapes(indices: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Refuses indices whose static shapes rule out that they belong to the same edges."""
    first_tag: str | None = None
    for tag, index in indices.items():
        if first_tag is None:
            first_tag = tag
        elif not indices[first_tag].shape.is_compatible_with(index.shape):
            raise ValueError(
                f"{_incompatible(names, first_tag, tag)} must hold one node index per edge each; got shapes "
                f"{indices[first_tag].shape} and {index.shape}."
            )


def _shift_and_merge(index: Field, rank: int, offsets: tf.Tensor) -> tf.Tensor:
    """Adds to each index the node offset of its graph, and concatenates the graphs."""
    levels = rank
    while isinstance(index, tf.RaggedTensor):
        if levels == 1:
            return index.values + tf.gather(offsets, fields.row_indices(index))
        index = index.values
        levels -= 1
    merged = fields.merge_outer_dimensions(index, levels - 1)
    return fields.merge_outer_dimensions(merged + offsets[:, tf.newaxis], 1)


for _spec_type in (HyperAdjacencySpec, AdjacencySpec):
    tf_hooks.register_type_spec(f"tfx_gnn.{_spec_type.__name__}")(_spec_type)
