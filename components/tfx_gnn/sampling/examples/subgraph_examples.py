"""Sampled subgraphs as serialized tf.Examples in TF-GNN's layout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.engine.sampled_subgraphs import SampledReadouts, SampledSubgraphs
from tfx_gnn.sampling.examples.record_encoder import RecordEncoder, Slices
from tfx_gnn.sampling.plan.hop import SEED
from tfx_gnn.sampling.plan.plan import LABEL_FEATURE, SamplingPlan
from tfx_gnn.sampling.plan.subgraph_schema import (
    READOUT_EDGE_SET,
    READOUT_NODE_SET,
    make_subgraph_schema,
    readout_edge_set,
    shadow_node_set,
)
from tfx_gnn.tables.graph_tables import ID_FEATURE, GraphTables

_Rows = npt.NDArray[np.int64]


class SubgraphExampleEncoder:
    """Turns sampled subgraphs into serialized tf.Examples.

    The keys are `context/<feature>`, `nodes/<set>.#size`, `nodes/<set>.<feature>`,
    `edges/<set>.#size`, `edges/<set>.#source`, `edges/<set>.#target` and
    `edges/<set>.<feature>`, for exactly the sets and features of `schema`. Every key
    is there in every record; an empty set has empty lists.

    Attributes:
        schema: graph schema of the records.
    """

    def __init__(
        self,
        tables: GraphTables,
        plan: SamplingPlan,
        *,
        seed_features: Mapping[str, pa.Array] | None = None,
    ) -> None:
        """Encodes the values of all tables: the graph, or the part of it that subgraphs have.

        `seed_features` are the columns of the seed table that `plan.label_features` names;
        `SampledReadouts.seed_rows` are rows of these.
        """
        self.schema: GraphSchema = make_subgraph_schema(tables.schema, plan)
        self._plan = plan
        columns: dict[str, pa.Array] = {}
        for name in self._node_sets():
            table = tables.node_tables[name]
            for feature in self.schema.node_sets[name].features:
                columns[f"nodes/{name}.{feature}"] = table.ids if feature == ID_FEATURE else table.features[feature]
        for name in plan.edge_set_names:
            edges = tables.edge_tables[name]
            for feature in self.schema.edge_sets[name].features:
                column = pa.array(edges.rows) if feature == ID_FEATURE else edges.features[feature]
                columns[f"edges/{name}.{feature}"] = column
        for label in plan.label_features:
            columns[_readout_key(label)] = _label_column(label, tables, plan, seed_features or {})
        for name in plan.context_features:
            columns[f"context/{name}"] = _context_column(name, tables)
        self._encoder = RecordEncoder(columns)

    def encode(self, subgraphs: SampledSubgraphs) -> list[bytes]:
        """Writes one serialized tf.Example a subgraph, in order."""
        readouts = subgraphs.readouts
        if readouts is None:
            raise ValueError("`subgraphs` must have readouts; got none. Sample them by the plan.")
        slices = _RecordSlices(subgraphs.num_subgraphs)
        for name in self._node_sets():
            nodes = subgraphs.node_sets[name]
            slices.add_nodes(name, nodes.splits)
            for feature in self.schema.node_sets[name].features:
                slices.columns[f"nodes/{name}.{feature}"] = nodes.rows, nodes.splits
        for name in self._plan.edge_set_names:
            edges = subgraphs.edge_sets[name]
            slices.add_edges(name, edges.sources, edges.targets, edges.splits)
            for feature in self.schema.edge_sets[name].features:
                slices.columns[f"edges/{name}.{feature}"] = edges.rows, edges.splits
        for name in self._plan.context_features:
            zeros = np.zeros(subgraphs.num_subgraphs, np.int64)
            slices.columns[f"context/{name}"] = zeros, slices.one_each
        self._add_readouts(slices, subgraphs, readouts)
        if readouts.seed_edges is not None:
            edge_set = self._plan.seed_edge_set
            slices.add_nodes(shadow_node_set(edge_set), subgraphs.edge_sets[edge_set].splits)
            targets = np.zeros_like(readouts.seed_edges)
            slices.add_edges(READOUT_EDGE_SET, readouts.seed_edges, targets, readouts.splits)
        return self._encoder.encode(subgraphs.num_subgraphs, slices.columns, slices.integers)

    def _add_readouts(self, slices: _RecordSlices, subgraphs: SampledSubgraphs, readouts: SampledReadouts) -> None:
        slices.add_nodes(READOUT_NODE_SET, readouts.splits)
        sizes = np.diff(readouts.splits)
        # Of a node in a seed table, the table's row is one thing, the node's own another.
        for label in self._plan.label_features:
            rows = readouts.seed_rows
            if self._plan.seed_table and label not in self._plan.seed_table_features:
                rows = _seed_nodes(self._plan, subgraphs, readouts)
            slices.columns[_readout_key(label)] = np.repeat(rows, sizes), readouts.splits
        if readouts.labels is not None:
            slices.integers[_readout_key(LABEL_FEATURE)] = readouts.labels.astype(np.int64), readouts.splits
        numbers = np.arange(int(readouts.splits[-1])) - np.repeat(readouts.splits[:-1], sizes)
        for root, positions in readouts.positions.items():
            slices.add_edges(readout_edge_set(root), positions, numbers, readouts.splits)

    def _node_sets(self) -> list[str]:
        return [name for name in self.schema.node_sets if not name.startswith("_")]


class _RecordSlices:
    """What each record has of columns, and which integers."""

    def __init__(self, num_records: int) -> None:
        self.one_each = np.arange(num_records + 1)
        self.columns: dict[str, Slices] = {}
        self.integers: dict[str, Slices] = {}

    def add_nodes(self, name: str, splits: _Rows) -> None:
        self.integers[f"nodes/{name}.#size"] = np.diff(splits), self.one_each

    def add_edges(self, name: str, sources: _Rows, targets: _Rows, splits: _Rows) -> None:
        self.integers[f"edges/{name}.#size"] = np.diff(splits), self.one_each
        self.integers[f"edges/{name}.#source"] = sources, splits
        self.integers[f"edges/{name}.#target"] = targets, splits


def _readout_key(feature: str) -> str:
    return f"nodes/{READOUT_NODE_SET}.{feature}"


def _label_column(
    label: str, tables: GraphTables, plan: SamplingPlan, seed_features: Mapping[str, pa.Array]
) -> pa.Array:
    if label in plan.seed_table_features:
        if label not in seed_features:
            raise ValueError(
                f"`seed_features` must have the columns of the seed table that are labels; got "
                f"{sorted(seed_features)}, without {label!r}. Read it with the seeds."
            )
        return seed_features[label]
    if plan.is_link_plan:
        return tables.edge_tables[plan.seed_edge_set].features[label]
    return tables.node_tables[plan.seed_node_set].features[label]


def _seed_nodes(plan: SamplingPlan, subgraphs: SampledSubgraphs, readouts: SampledReadouts) -> _Rows:
    nodes = subgraphs.node_sets[plan.seed_node_set]
    return nodes.rows[nodes.splits[:-1] + readouts.positions[SEED]]


def _context_column(name: str, tables: GraphTables) -> pa.Array:
    if tables.context_table is None or tables.context_table.num_rows != 1:
        raise ValueError(
            f"`context_features` must be those of a context table with one row; got {name!r} and "
            f"{'no table' if tables.context_table is None else f'{tables.context_table.num_rows} rows'}. "
            "Add the table, or leave the feature out of the plan."
        )
    return tables.context_table.features[name]
