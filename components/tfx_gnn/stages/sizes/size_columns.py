"""Sizes of graphs as columns: one for each node set and edge set, in the order of `SizeRule`."""

from __future__ import annotations

import dataclasses

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.size_constraints import SizeConstraints
from tfx_gnn.graph.size_rule import SetKey, SizeRule

_READOUT = "_readout"


@dataclasses.dataclass(frozen=True)
class SizeColumns:
    """What the columns of an array of sizes are about.

    Attributes:
        sets: ("nodes", name), ..., ("edges", name), ...
        edge_positions: column of the edge set of each edge end.
        end_positions: column of the node set of each edge end.
        readouts: columns of the node sets of readouts.
        readout_of: by column of an edge set that leads to readouts, the column of these.
    """

    sets: tuple[SetKey, ...]
    edge_positions: tuple[int, ...]
    end_positions: tuple[int, ...]
    readouts: tuple[int, ...]
    readout_of: tuple[tuple[int, int], ...]

    @staticmethod
    def of(spec: GraphTensorSpec) -> SizeColumns:
        """Reads the columns off the spec of one graph."""
        nothing = SizeConstraints(1, dict.fromkeys(spec.node_sets_spec, 0), dict.fromkeys(spec.edge_sets_spec, 0))
        rule = SizeRule.from_constraints(spec, nothing)
        ends = list(zip(rule.edge_positions.tolist(), rule.end_positions.tolist(), strict=True))
        readouts = tuple(
            column for column, (kind, name) in enumerate(rule.sets) if kind == const.NODES and name.startswith(_READOUT)
        )
        return SizeColumns(
            sets=rule.sets,
            edge_positions=tuple(edge for edge, _ in ends),
            end_positions=tuple(end for _, end in ends),
            readouts=readouts,
            readout_of=tuple((edge, end) for edge, end in ends if end in readouts),
        )

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The sets as in "nodes/package"."""
        return tuple(f"{kind}/{name}" for kind, name in self.sets)

    @property
    def size_keys(self) -> tuple[str, ...]:
        """The tf.Example key of each column."""
        return tuple(f"{prefix}.{const.SIZE_NAME}" for prefix in self.prefixes)
