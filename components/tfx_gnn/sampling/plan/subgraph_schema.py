"""The graph schema of sampled subgraphs."""

from __future__ import annotations

from collections.abc import Collection

import tensorflow as tf

from tfx_gnn.graph.graph_constants import CONTEXT
from tfx_gnn.graph.proto.graph_schema_pb2 import SUBGRAPH, EdgeSet, Feature, GraphSchema, NodeSet
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET, SHADOW_PREFIX, STRUCTURE_LABEL
from tfx_gnn.graph.schema.ego_trees import mark_ego_hops
from tfx_gnn.graph.schema.feature_defaults import copy_feature_defaults
from tfx_gnn.graph.schema.index_features import index_features, mark_index_features
from tfx_gnn.sampling.plan.hop import SEED, Hop
from tfx_gnn.sampling.plan.plan import LABEL_FEATURE, SamplingPlan, hop_ends, reached_node_sets, root_node_sets
from tfx_gnn.sampling.plan.plan_checks import check_plan
from tfx_gnn.tables.table_layout import ID_FEATURE

READOUT_EDGE_SET = f"{READOUT_NODE_SET}/{SEED}"
"""Auxiliary edge set from each seed to its `_readout` node."""

_STRUCTURE_LABELS = {
    "common_neighbor": "0: node of the pair. 1: neighbor of both. 2: other node.",
    "distance": "Distances to the source and to the target of the pair.",
    "drnl": "Double radius node label relative to the pair. 0: no path to one of its nodes.",
}
_SEED_DTYPES = {"int64": tf.int64, "float32": tf.float32, "string": tf.string}


def readout_edge_set(key: str) -> str:
    """Names the auxiliary edge set through which values of "seed", "source" or "target" are read out."""
    return f"{READOUT_NODE_SET}/{key}"


def shadow_node_set(edge_set: str) -> str:
    """Names the auxiliary node set that stands for the edges of a set where they are read out."""
    return f"{SHADOW_PREFIX}{edge_set}"


def make_subgraph_schema(tables_schema: GraphSchema, plan: SamplingPlan) -> GraphSchema:
    """Makes the schema of the subgraphs that a plan samples from a graph.

    The schema has the node sets and edge sets that the plan reaches, with an `#id` in
    each set and their features except labels, excluded features and the split column;
    the context features of the plan and the inputs of its seed table; and the `_readout` node set with the labels and
    the edge sets that lead to it; and the structure labels of the plan in every node set. The locations of the tables
    are left out; the values that stand for missing ones stay.
    """
    check_plan(plan, tables_schema)
    _refuse_index_features(tables_schema)
    reached = {*reached_node_sets(plan, tables_schema), *plan.edge_set_names}
    for name, declared in (*tables_schema.node_sets.items(), *tables_schema.edge_sets.items()):
        # A set without a table describes what examples will have, as TF-GNN requires it for link seeds.
        if name.startswith("_") and (name in reached or declared.HasField("metadata")):
            raise ValueError(
                f"`tables_schema` must not name a table with a leading underscore; got {name!r}. "
                "Such names are kept for auxiliary sets; rename it."
            )
    schema = GraphSchema()
    schema.info.graph_type = SUBGRAPH
    root_sets = root_node_sets(plan, tables_schema)
    schema.info.root_set.extend(dict.fromkeys(root_sets.values()))
    _describe_context(schema, tables_schema, plan)
    for name in reached_node_sets(plan, tables_schema):
        node_set = tables_schema.node_sets[name]
        _copy_set(schema.node_sets[name], node_set, _left_out(plan, name, {plan.seed_node_set}))
        id_feature = schema.node_sets[name].features[ID_FEATURE]
        id_feature.dtype = tf.string.as_datatype_enum
        if ID_FEATURE in node_set.features:
            id_feature.CopyFrom(node_set.features[ID_FEATURE])
            id_feature.ClearField("source")
    for name in plan.edge_set_names:
        edge_set = tables_schema.edge_sets[name]
        # A reverse edge would leak the label of the seed edge.
        _copy_set(
            schema.edge_sets[name], edge_set, _left_out(plan, name, {plan.seed_edge_set, *plan.reverse_edge_sets})
        )
        schema.edge_sets[name].source = edge_set.source
        schema.edge_sets[name].target = edge_set.target
        id_feature = schema.edge_sets[name].features[ID_FEATURE]
        id_feature.dtype = tf.int64.as_datatype_enum
        id_feature.description = "Row of the edge in its table, from 0."
    _describe_readout(schema, tables_schema, plan)
    for root, root_set in root_sets.items():
        schema.edge_sets[readout_edge_set(root)].source = root_set
        schema.edge_sets[readout_edge_set(root)].target = READOUT_NODE_SET
    if plan.keeps_seed_edge:
        shadow = shadow_node_set(plan.seed_edge_set)
        schema.node_sets[shadow].description = f"One node for each edge of {plan.seed_edge_set!r}, in their order."
        schema.edge_sets[READOUT_EDGE_SET].source = shadow
        schema.edge_sets[READOUT_EDGE_SET].target = READOUT_NODE_SET
    if plan.is_ego:
        _describe_trees(schema, tables_schema, plan)
    _describe_structure_labels(schema, reached_node_sets(plan, tables_schema), plan.structure_labels)
    return schema


def _describe_context(schema: GraphSchema, tables_schema: GraphSchema, plan: SamplingPlan) -> None:
    for name in plan.context_features:
        _copy_feature(schema.context.features[name], tables_schema.context.features[name])
    for name in plan.seed_inputs:
        feature = schema.context.features[name]
        feature.dtype = _SEED_DTYPES[plan.seed_table_features[name]].as_datatype_enum
        feature.description = "Of the seed, from its row in the table of seeds."


def _refuse_index_features(tables_schema: GraphSchema) -> None:
    marked = index_features(tables_schema)
    if marked:
        raise ValueError(
            f"`tables_schema` must not mark features as indices of nodes for sampled subgraphs; got {marked}: the "
            "nodes may not be in the subgraph. Make them an edge set, or make examples of whole graphs."
        )


def _describe_structure_labels(schema: GraphSchema, node_sets: Collection[str], kind: str) -> None:
    for name in node_sets if kind else ():
        feature = schema.node_sets[name].features[STRUCTURE_LABEL]
        feature.dtype = tf.int64.as_datatype_enum
        feature.description = _STRUCTURE_LABELS[kind]
        if kind == "distance":
            feature.shape.dim.add(size=2)


def _describe_trees(schema: GraphSchema, tables_schema: GraphSchema, plan: SamplingPlan) -> None:
    width = 1
    for name, hop in plan.ego_hops.items():
        width *= hop.fan_out
        feature = schema.context.features[name]
        feature.dtype = tf.int64.as_datatype_enum
        feature.description = f"Nodes that hop {hop.name!r} found, as a tree."
        feature.shape.dim.add(size=width)
    ends = {name: hop_ends(hop, tables_schema)[1] for name, hop in plan.ego_hops.items()}
    mark_index_features(schema, {CONTEXT: ends})
    mark_ego_hops(schema, {name: _relation(hop) for name, hop in plan.ego_hops.items()})


def _relation(hop: Hop) -> str:
    return hop.edge_set if hop.direction == "forward" else f"{hop.edge_set}_reverse"


def _describe_readout(schema: GraphSchema, tables_schema: GraphSchema, plan: SamplingPlan) -> None:
    readout = schema.node_sets[READOUT_NODE_SET]
    if plan.negatives and plan.negatives.own_subgraphs:
        readout.description = "One node for the pair of each subgraph: a seed pair or a negative pair."
    elif plan.negatives:
        readout.description = "One node for the seed pair of each subgraph, then one for each negative pair."
    else:
        readout.description = "One node for the seed of each subgraph, with its labels."
    for label in plan.label_features:
        if label in plan.seed_table_features:
            readout.features[label].dtype = _SEED_DTYPES[plan.seed_table_features[label]].as_datatype_enum
        elif plan.is_link_plan:
            _copy_feature(readout.features[label], tables_schema.edge_sets[plan.seed_edge_set].features[label])
        else:
            _copy_feature(readout.features[label], tables_schema.node_sets[plan.seed_node_set].features[label])
    if plan.negatives:
        readout.features[LABEL_FEATURE].dtype = tf.int64.as_datatype_enum
        readout.features[LABEL_FEATURE].description = "1 for the seed pair, 0 for pairs drawn beside it."


def _left_out(plan: SamplingPlan, set_name: str, seed_sets: Collection[str]) -> set[str]:
    names = set(plan.excluded_features.get(set_name, ()))
    if set_name in seed_sets:
        names.update(set(plan.label_features) - set(plan.seed_table_features))
        if not plan.seed_table:
            names.add(plan.splits.column)
    return names


def _copy_set(copy: NodeSet | EdgeSet, original: NodeSet | EdgeSet, left_out: set[str]) -> None:
    if original.HasField("description"):
        copy.description = original.description
    for name in sorted(original.features):
        if name not in left_out and name != ID_FEATURE:
            _copy_feature(copy.features[name], original.features[name])
    copy_feature_defaults(copy, original)


def _copy_feature(copy: Feature, original: Feature) -> None:
    copy.CopyFrom(original)
    copy.ClearField("source")  # the column of a table that the examples no longer show
