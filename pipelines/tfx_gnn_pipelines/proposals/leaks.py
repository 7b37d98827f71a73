"""What a proposal leaves out because it tells the label almost alone: columns of the seeds and of their neighbors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.tables.label_splits import SPLIT_COLUMN
from tfx_gnn.tables.prepared_tables import PreparedTables
from tfx_gnn_pipelines.proposals.label_leaks import LabelLeak, find_label_leaks
from tfx_gnn_pipelines.proposals.labels import Label
from tfx_gnn_pipelines.proposals.neighbor_leaks import Neighbors, Seeds, find_neighbor_leaks
from tfx_gnn_pipelines.proposals.tables import SetTable, declared_set


def find_leaks(
    schema: GraphSchema,
    tables: Mapping[str, SetTable],
    label: Label,
    prepared: PreparedTables | None,
) -> tuple[LabelLeak, ...]:
    """Finds what tells the label of a seed almost alone, in its own row and in those next to it.

    Args:
        schema: graph schema of the tables.
        tables: the tables by label, such as "nodes/user".
        label: what is predicted; nothing is looked for if it is several numbers.
        prepared: the times of rows and edges, where they are known.
    """
    if label.num_outputs > 1:
        return ()
    layout = tables[f"nodes/{label.node_set}"].layout
    is_class = label.kind == "node_classification"
    features = {prefix: _features(schema, table, label, prepared) for prefix, table in tables.items()}
    own = find_label_leaks(layout, label=label.feature, is_class=is_class, features=features[layout.label])
    seeds = Seeds(
        layout=layout,
        label=label.feature,
        time=prepared.node_times.get(label.node_set, "") if prepared is not None else "",
        is_class=is_class,
    )
    ways = list(_ways(schema, tables, label.node_set, features, prepared))
    return (*own, *find_neighbor_leaks(seeds, ways))


def _features(schema: GraphSchema, table: SetTable, label: Label, prepared: PreparedTables | None) -> list[str]:
    times = prepared.times.get(table.layout.label, ()) if prepared is not None else ()
    left_out = {SPLIT_COLUMN, *times} | ({label.feature} if table.layout.label == f"nodes/{label.node_set}" else set())
    declared = declared_set(schema, table.layout).features
    return [name for name in sorted(declared) if name not in left_out and not name.startswith("#")]


def _ways(
    schema: GraphSchema,
    tables: Mapping[str, SetTable],
    node_set: str,
    features: Mapping[str, list[str]],
    prepared: PreparedTables | None,
) -> Iterator[Neighbors]:
    for name in sorted(schema.edge_sets):
        edge_set = schema.edge_sets[name]
        for near, far, is_forward in (
            (edge_set.source, edge_set.target, True),
            (edge_set.target, edge_set.source, False),
        ):
            if near == node_set:
                yield Neighbors(
                    edges=tables[f"edges/{name}"].layout,
                    is_forward=is_forward,
                    nodes=tables[f"nodes/{far}"].layout,
                    time=prepared.edge_times.get(name, "") if prepared is not None else "",
                    features=features,
                )
