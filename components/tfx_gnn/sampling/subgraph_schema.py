"""The graph schema of sampled subgraphs."""

from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import SUBGRAPH, EdgeSet, Feature, GraphSchema, NodeSet
from tfx_gnn.sampling.plan import SEED, SamplingPlan, reached_node_sets
from tfx_gnn.sampling.plan_checks import check_plan
from tfx_gnn.tables.graph_tables import ID_FEATURE

READOUT_NODE_SET = "_readout"
"""Auxiliary node set with one node a seed; it carries the labels."""

READOUT_EDGE_SET = f"{READOUT_NODE_SET}/{SEED}"
"""Auxiliary edge set from each seed to its `_readout` node."""


def make_subgraph_schema(tables_schema: GraphSchema, plan: SamplingPlan) -> GraphSchema:
    """Describes the subgraphs that a plan cuts out of a graph.

    Args:
        tables_schema: schema of the whole graph.
        plan: a plan for that graph.

    Returns:
        Schema with the node sets and edge sets that the plan reaches, their features
        without labels, excluded ones and the split column, an `#id` in each set, and
        the `_readout` node set with the labels. Where the tables came from is left out.

    Raises:
        ValueError: if the plan does not fit the graph, or a set of the graph has a
            name that is kept for the readout.
    """
    check_plan(plan, tables_schema)
    for name in (*tables_schema.node_sets, *tables_schema.edge_sets):
        if name.startswith("_"):
            raise ValueError(
                f"`tables_schema` must not name a set with a leading underscore; got {name!r}. "
                "Such names are kept for auxiliary sets; rename it."
            )
    schema = GraphSchema()
    schema.info.graph_type = SUBGRAPH
    schema.info.root_set.append(plan.seed_node_set)
    for name in reached_node_sets(plan, tables_schema):
        node_set = tables_schema.node_sets[name]
        _copy_set(schema.node_sets[name], node_set, _left_out(plan, name))
        id_feature = schema.node_sets[name].features[ID_FEATURE]
        id_feature.dtype = tf.string.as_datatype_enum
        if ID_FEATURE in node_set.features:
            id_feature.CopyFrom(node_set.features[ID_FEATURE])
            id_feature.ClearField("source")
    for name in plan.edge_set_names:
        edge_set = tables_schema.edge_sets[name]
        _copy_set(schema.edge_sets[name], edge_set, set(plan.excluded_features.get(name, ())))
        schema.edge_sets[name].source = edge_set.source
        schema.edge_sets[name].target = edge_set.target
        id_feature = schema.edge_sets[name].features[ID_FEATURE]
        id_feature.dtype = tf.int64.as_datatype_enum
        id_feature.description = "Row of the edge in its table, from 0."
    readout = schema.node_sets[READOUT_NODE_SET]
    readout.description = "One node for the seed of each subgraph, with its labels."
    for label in plan.label_features:
        _copy_feature(readout.features[label], tables_schema.node_sets[plan.seed_node_set].features[label])
    schema.edge_sets[READOUT_EDGE_SET].source = plan.seed_node_set
    schema.edge_sets[READOUT_EDGE_SET].target = READOUT_NODE_SET
    return schema


def _left_out(plan: SamplingPlan, node_set: str) -> set[str]:
    names = set(plan.excluded_features.get(node_set, ()))
    if node_set == plan.seed_node_set:
        names.update((*plan.label_features, plan.splits.column))
    return names


def _copy_set(copy: NodeSet | EdgeSet, original: NodeSet | EdgeSet, left_out: set[str]) -> None:
    if original.HasField("description"):
        copy.description = original.description
    for name in sorted(original.features):
        if name not in left_out and name != ID_FEATURE:
            _copy_feature(copy.features[name], original.features[name])


def _copy_feature(copy: Feature, original: Feature) -> None:
    copy.CopyFrom(original)
    copy.ClearField("source")  # the column of a table that the examples no longer show
