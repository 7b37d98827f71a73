"""The tables of graph-level examples, checked against the options, and the schema of their examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import FULL, Feature, GraphSchema
from tfx_gnn.graph.schema.context_labels import mark_context_labels
from tfx_gnn.graph.schema.index_features import index_features, mark_index_features, sets_by_key
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.pair_tables import check_names_of_pairs, make_pair_schema, pairs_layout
from tfx_gnn.sampling.plan.plan import check_known
from tfx_gnn.tables.schema_layouts import CONTEXT, TableLayouts, layouts_of
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_layout import ID_FEATURE, TableLayout

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import Context, EdgeSet, NodeSet


def check_graph_level_examples(spec: GraphLevelExamples, schema: GraphSchema) -> None:
    """Checks that everything the spec names exists in the tables."""
    for name in (*schema.node_sets, *schema.edge_sets):
        if name.startswith("_"):
            raise ValueError(
                f"`schema` must not name a set with a leading underscore; got {name!r}. "
                "Such names are kept for auxiliary sets; rename it."
            )
    if not schema.node_sets:
        raise ValueError("`schema` must have a node set; got none. Describe the tables of nodes.")
    if spec.pairs is not None:
        for name in spec.label_features:
            check_known("label_features", name, spec.pairs.features, " in `features` of `pairs`")
        check_names_of_pairs(schema_of_graphs(schema, spec), spec.pairs)
    else:
        for name in spec.label_features:
            check_known("label_features", name, schema.context.features, " for the context")
    _check_splits(schema, spec)
    sets: dict[str, Context | NodeSet | EdgeSet] = {CONTEXT: schema.context}
    sets.update((name, node_set) for name, node_set in schema.node_sets.items())
    sets.update((name, edge_set) for name, edge_set in schema.edge_sets.items())
    for set_name, names in spec.excluded_features.items():
        check_known("excluded_features", set_name, sets)
        for name in names:
            check_known("excluded_features", name, sets[set_name].features, f" for {set_name!r}")


def _check_splits(schema: GraphSchema, spec: GraphLevelExamples) -> None:
    time = spec.splits.time_feature
    if spec.is_split_by_pair:
        assert spec.pairs is not None
        if time and spec.pairs.features.get(time) != "int64":
            raise ValueError(
                f"`splits.time_feature` must be a column of type 'int64' in `features` of `pairs`; got {time!r} of "
                f"type {spec.pairs.features.get(time)!r}. Declare it, or set `split_by`."
            )
        return
    context = schema.context.features
    needed = [name for name in (spec.splits.column, spec.splits.group_column) if name]
    if needed and not has_context_table(schema):
        raise ValueError(
            f"`splits` must be by hash of the graph id where there is no context table; got {needed}. "
            "Name the table in `context { metadata { filename } }`."
        )
    if time:
        check_known("splits.time_feature", time, context, " for the context")
        if not tf.dtypes.as_dtype(context[time].dtype).is_integer or context[time].shape.dim:
            raise ValueError(
                f"`splits.time_feature` must be one integer for each graph; got {time!r} of type "
                f"{tf.dtypes.as_dtype(context[time].dtype).name}. Give times as integers, seconds for example."
            )


def has_context_table(schema: GraphSchema) -> bool:
    """Returns whether the schema declares a context table, with one row per graph."""
    metadata = schema.context.metadata
    return bool(schema.context.features or metadata.filename or metadata.HasField("bigquery"))


def graph_level_layouts(
    tables_dir: str, schema: GraphSchema, spec: GraphLevelExamples, *, access: TableAccess | None = None
) -> TableLayouts:
    """Finds the tables of many graphs and the columns to read, including the graph id, as text, from each."""
    check_graph_level_examples(spec, schema)
    return layouts_of(
        schema,
        tables_dir,
        extra_columns={
            **{f"nodes/{name}": (spec.graph_id_column,) for name in schema.node_sets},
            **{f"edges/{name}": (spec.graph_id_column,) for name in schema.edge_sets},
            CONTEXT: spec.context_columns,
        },
        access=access,
    )


def graph_level_tables(
    tables_dir: str, schema: GraphSchema, spec: GraphLevelExamples, *, access: TableAccess | None = None
) -> tuple[TableLayout, ...]:
    """Finds the tables as `graph_level_layouts` does, and the table of pairs, if there is one."""
    layouts = graph_level_layouts(tables_dir, schema, spec, access=access).all
    return (
        layouts if spec.pairs is None else (*layouts, pairs_layout(tables_dir, spec.pairs, spec.splits, access=access))
    )


def make_graph_level_schema(tables_schema: GraphSchema, spec: GraphLevelExamples) -> GraphSchema:
    """Makes the schema of graph-level examples.

    The schema has all node sets and edge sets and their features, except excluded
    features and the columns of graph ids and splits; the graph's id is the context
    feature `#id`. Nodes have no `#id`, because their ids mean nothing outside their
    graph: to keep an id, declare a feature with that column as its `source`. The
    locations of the tables are left out. Labels are marked; see
    `tfx_gnn.graph.schema.context_labels`. Features that hold indices of nodes stay marked.
    With `pairs`, there are two copies of all that, named after their sides.
    """
    check_graph_level_examples(spec, tables_schema)
    schema = schema_of_graphs(tables_schema, spec)
    kept = {prefix: set(one_set.features) for prefix, one_set in sets_by_key(schema).items()}
    marked = {
        prefix: {name: node_sets for name, node_sets in by_name.items() if name in kept[prefix]}
        for prefix, by_name in index_features(tables_schema).items()
    }
    if spec.pairs is None:
        mark_index_features(schema, marked)
    else:
        split_column = spec.splits.column if spec.is_split_by_pair else ""
        schema = make_pair_schema(schema, spec.pairs, index_features=marked, left_out=split_column)
    mark_context_labels(schema, spec.label_features)
    return schema


def schema_of_graphs(tables_schema: GraphSchema, spec: GraphLevelExamples) -> GraphSchema:
    """Makes the schema of one graph of an example, without marks."""
    schema = GraphSchema()
    schema.info.graph_type = FULL
    _copy_features(schema.context.features, tables_schema.context.features, _left_out(spec, CONTEXT))
    schema.context.features[ID_FEATURE].dtype = tf.string.as_datatype_enum
    schema.context.features[ID_FEATURE].description = "Id of the graph."
    for name, node_set in sorted(tables_schema.node_sets.items()):
        copy = schema.node_sets[name]
        if node_set.HasField("description"):
            copy.description = node_set.description
        _copy_features(copy.features, node_set.features, _left_out(spec, name))
    for name, edge_set in sorted(tables_schema.edge_sets.items()):
        edges = schema.edge_sets[name]
        edges.source, edges.target = edge_set.source, edge_set.target
        if edge_set.HasField("description"):
            edges.description = edge_set.description
        _copy_features(edges.features, edge_set.features, _left_out(spec, name))
    return schema


def _left_out(spec: GraphLevelExamples, name: str) -> set[str]:
    names = {ID_FEATURE, spec.graph_id_column, *spec.excluded_features.get(name, ())}
    return names | {spec.splits.column} if name == CONTEXT and not spec.is_split_by_pair else names


def _copy_features(copies: Mapping[str, Feature], originals: Mapping[str, Feature], left_out: set[str]) -> None:
    for name in sorted(set(originals) - left_out):
        copies[name].CopyFrom(originals[name])
        copies[name].ClearField("source")  # the column of a table that the examples no longer show
