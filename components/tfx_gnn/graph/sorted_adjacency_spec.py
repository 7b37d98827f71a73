"""Type specs of adjacencies whose edges are sorted. `tfx_gnn.graph.sorted_adjacency` has the values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfx_gnn.graph.adjacency_spec import AdjacencySpec
from tfx_gnn.graph.graph_constants import SOURCE, TARGET, FieldSpec, IncidentNodeTag, NodeSetName

#: Positions of the edges in the order of their sources, and both ends in this order.
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
