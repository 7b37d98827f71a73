"""Type specs of adjacencies. `tfx_gnn.graph.tensor.adjacency` has the values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.graph_constants import (
    DEFAULT_INDICES_DTYPE,
    SOURCE,
    TARGET,
    FieldSpec,
    IncidentNodeTag,
    NodeSetName,
)
from tfx_gnn.graph.tensor import fields
from tfx_gnn.graph.tensor.graph_piece_spec import GraphPieceSpec, check_relaxable

_IndexSpec = tuple[NodeSetName, FieldSpec]

_ANY_INDEX = tf.TensorSpec([None], DEFAULT_INDICES_DTYPE)


def check_tag(tag: Any) -> str:
    """Returns the name of the part that holds the indices of one end of the edges."""
    if not isinstance(tag, int) or isinstance(tag, bool):
        raise ValueError(
            f"Node set tag must be integer; got {tag!r}. Use tfx_gnn.SOURCE, tfx_gnn.TARGET or another small number."
        )
    return str(int(tag))


def check_has_ends(ends: Mapping[Any, Any]) -> None:
    """Refuses edges without ends."""
    if not ends:
        raise ValueError("`indices` must contain at least one entry; got none. Give the nodes of each end.")


def check_adjacency_dtype(tag: str, node_set_name: str, dtype: tf.DType) -> None:
    """Refuses indices of a dtype that cannot count nodes."""
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
            ValueError: if a tag is no integer or the index dtype is not int32 or int64.
        """
        return cls._from_named_specs({tag: (name, index_spec) for tag, name in incident_node_sets.items()})

    @classmethod
    def _from_named_specs(cls, indices: Mapping[IncidentNodeTag, _IndexSpec]) -> Any:
        check_has_ends(indices)
        names, parts = {}, {}
        for tag, (name, spec) in indices.items():
            key = check_tag(tag)
            names[key] = name
            parts[key] = fields.as_field_spec(spec, "index_spec")
            check_adjacency_dtype(key, name, parts[key].dtype)
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
        return self._parts_spec[check_tag(node_set_tag)]

    def node_set_name(self, node_set_tag: IncidentNodeTag) -> NodeSetName:
        """Returns the name of the node set at one end.

        Args:
            node_set_tag: tag of the end.

        Raises:
            KeyError: if no end has this tag.
        """
        assert self._static is not None
        return self._static[check_tag(node_set_tag)]

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
        """Describes edges from one node set to another, or to the same.

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
