"""Type specs of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfx_gnn.graph.graph_constants import EdgeSetName, NodeSetName, SetName
from tfx_gnn.graph.tensor import run_time_checks, tf_hooks
from tfx_gnn.graph.tensor.graph_piece import GraphPieceSpec, check_relaxable
from tfx_gnn.graph.tensor.notebook_html import graph_html
from tfx_gnn.graph.tensor.piece_parts import FrozenMapping
from tfx_gnn.graph.tensor.piece_specs import (
    ContextSpec,
    EdgeSetSpec,
    FeaturePieceSpec,
    NodeSetSpec,
    check_component_count,
)

CONTEXT_PART = "context"
NODE_SETS_PART = "node_sets"
EDGE_SETS_PART = "edge_sets"


class GraphTensorSpec(GraphPieceSpec):
    """Type spec of a `GraphTensor`: node sets, edge sets and all features, without values."""

    @classmethod
    def from_piece_specs(
        cls,
        context_spec: ContextSpec | None = None,
        node_sets_spec: Mapping[NodeSetName, NodeSetSpec] | None = None,
        edge_sets_spec: Mapping[EdgeSetName, EdgeSetSpec] | None = None,
    ) -> GraphTensorSpec:
        """Describes a graph.

        Args:
            context_spec: spec of the context; by default one without features.
            node_sets_spec: node set names to specs.
            edge_sets_spec: edge set names to specs.

        Raises:
            ValueError: if a spec is of the wrong kind, the pieces have different batch shapes, or the
                context disagrees with the sets on the number of components.

        Example:
            >>> spec = GraphTensorSpec.from_piece_specs(
            ...     node_sets_spec={
            ...         "paper": NodeSetSpec.from_field_specs(sizes_spec=tf.TensorSpec([1], tf.int32))
            ...     }
            ... )
            >>> spec.total_num_components
            1
        """
        node_sets, edge_sets = dict(node_sets_spec or {}), dict(edge_sets_spec or {})
        context = ContextSpec.from_field_specs() if context_spec is None else context_spec
        check_piece_types(context, node_sets, edge_sets, (ContextSpec, NodeSetSpec, EdgeSetSpec))
        piece = first_set(node_sets, edge_sets)
        if piece is not None:
            context = _context_like(context, piece)
        parts = {CONTEXT_PART: context, NODE_SETS_PART: node_sets, EDGE_SETS_PART: edge_sets}
        return cls._assemble(parts, shape=context.shape)

    @classmethod
    def _decides_row_splits(cls, part_name: str, leaf: Any) -> bool:
        return part_name != CONTEXT_PART or leaf.has_ragged_fields

    def _repr_html_(self) -> str:
        """Shows the spec in a notebook."""
        return graph_html("GraphTensorSpec", self)

    @property
    def context_spec(self) -> ContextSpec:
        """The spec of the context."""
        return self._parts_spec[CONTEXT_PART]

    @property
    def node_sets_spec(self) -> FrozenMapping[NodeSetSpec]:
        """Node set names to specs."""
        return FrozenMapping(self._parts_spec[NODE_SETS_PART])

    @property
    def edge_sets_spec(self) -> FrozenMapping[EdgeSetSpec]:
        """Edge set names to specs."""
        return FrozenMapping(self._parts_spec[EDGE_SETS_PART])

    @property
    def total_num_components(self) -> int | None:
        """The static number of components of all graphs together; None if unknown."""
        return self.context_spec.total_num_components

    def relax(
        self,
        *,
        num_components: bool = False,
        num_nodes: bool = False,
        num_edges: bool = False,
    ) -> GraphTensorSpec:
        """Forgets static sizes, so that the spec fits graphs of other sizes too.

        Args:
            num_components: whether to forget the number of components.
            num_nodes: whether to forget the number of nodes of every node set.
            num_edges: whether to forget the number of edges of every edge set.

        Raises:
            ValueError: if the spec is batched.
        """
        check_relaxable(self)
        return GraphTensorSpec.from_piece_specs(
            self.context_spec.relax(num_components=num_components),
            {
                name: spec.relax(num_components=num_components, num_nodes=num_nodes)
                for name, spec in self.node_sets_spec.items()
            },
            {
                name: spec.relax(num_components=num_components, num_edges=num_edges)
                for name, spec in self.edge_sets_spec.items()
            },
        ).with_row_splits_dtype(self.row_splits_dtype)


def check_piece_types(
    context: Any,
    node_sets: Mapping[NodeSetName, Any],
    edge_sets: Mapping[EdgeSetName, Any],
    expected: tuple[type[Any], type[Any], type[Any]],
) -> None:
    """Refuses pieces, or specs, of the wrong kind."""
    given = [
        ("Context", context, expected[0]),
        *((f"Node set {name}", piece, expected[1]) for name, piece in node_sets.items()),
        *((f"Edge set {name}", piece, expected[2]) for name, piece in edge_sets.items()),
    ]
    for name, piece, piece_type in given:
        if not isinstance(piece, piece_type):
            raise ValueError(f"{name} has to be instance of {piece_type.__name__}; got {type(piece).__name__}.")


def first_set(node_sets: Mapping[SetName, Any], edge_sets: Mapping[SetName, Any]) -> Any:
    """Returns the set, or its spec, that determines the number of components of a graph.

    It is the first edge set by name, else the first node set by name; None if there are no sets.
    """
    for sets in (edge_sets, node_sets):
        if sets:
            return sets[min(sets)]
    return None


def _context_like(context: FeaturePieceSpec, piece: FeaturePieceSpec) -> ContextSpec:
    """Returns the context spec with the number of components and the dtypes of `piece`."""
    if run_time_checks.checks_sizes_statically():
        check_component_count(context.features_spec, piece.sizes_spec)
    return ContextSpec.from_field_specs(
        features_spec=context.with_row_splits_dtype(piece.row_splits_dtype).features_spec,
        sizes_spec=piece.sizes_spec,
    )


for _spec_type in (GraphTensorSpec, ContextSpec, NodeSetSpec, EdgeSetSpec):
    tf_hooks.register_type_spec(f"tfx_gnn.{_spec_type.__name__}")(_spec_type)
