"""Checks that a sampling plan fits a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import tensorflow as tf

from tfx_gnn.graph.reserved_names import ID_NAME, STRUCTURE_LABEL
from tfx_gnn.sampling.plan.plan import SamplingPlan, check_known, hop_ends, reached_node_sets, root_node_sets
from tfx_gnn.sampling.plan.seed_splits import split_time_feature, tables_with_splits

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import EdgeSet, Feature, GraphSchema, NodeSet


def check_plan(plan: SamplingPlan, schema: GraphSchema) -> None:
    """Checks that everything the plan names exists in the graph and has a suitable type."""
    for problem in plan_problems(plan, schema):
        raise problem


def plan_problems(plan: SamplingPlan, schema: GraphSchema) -> Iterator[ValueError]:
    """Finds what `check_plan` refuses: one error for each part of the plan that does not depend on a wrong one."""
    try:
        if plan.is_link_plan:
            check_known("seed_edge_set", plan.seed_edge_set, schema.edge_sets)
        else:
            check_known("seed_node_set", plan.seed_node_set, schema.node_sets)
    except ValueError as error:
        yield error
        return
    has_good_hops = True
    independent = (_check_hops, _check_labels)
    dependent = (_check_induced, _check_links, _check_temporal, _check_features, check_split_features)
    has_good_hops = True
    for check in (*independent, *dependent):
        if check in dependent and not has_good_hops:
            return
        try:
            check(plan, schema)
        except ValueError as error:
            has_good_hops &= check is not _check_hops
            yield error


def _check_hops(plan: SamplingPlan, schema: GraphSchema) -> None:
    ends = root_node_sets(plan, schema) if plan.is_link_plan else {"seed": plan.seed_node_set}
    for hop in plan.hops:
        place = f" in hop {hop.name!r}"
        check_known("edge_set", hop.edge_set, schema.edge_sets, place)
        start, end = hop_ends(hop, schema)
        for name in hop.inputs:
            if ends[name] != start:
                raise ValueError(
                    f"`inputs` must end in node set {start!r}, where edge set {hop.edge_set!r} starts when followed "
                    f"{hop.direction}; got {name!r}, which ends in {ends[name]!r}, in hop {hop.name!r}. "
                    "Change `inputs` or `direction`."
                )
        ends[hop.name] = end
        if hop.weight_feature:
            _check_weight(hop.weight_feature, schema.edge_sets[hop.edge_set], f"hop {hop.name!r}")


def _check_weight(name: str, items: NodeSet | EdgeSet, place: str) -> None:
    check_known("weight_feature", name, set(items.features) - {ID_NAME}, f" in {place}")
    feature = items.features[name]
    dtype = tf.dtypes.as_dtype(feature.dtype)
    if not (dtype.is_floating or dtype.is_integer) or not _is_scalar(feature):
        raise ValueError(
            f"`weight_feature` must be one number for each node or edge; got {name!r} of type {dtype.name} and shape "
            f"{_shape(feature)} in {place}. Name a scalar numeric feature."
        )


def _check_induced(plan: SamplingPlan, schema: GraphSchema) -> None:
    followed = {hop.edge_set for hop in plan.hops}
    reached = set(root_node_sets(plan, schema).values())
    for name in followed:
        reached |= {schema.edge_sets[name].source, schema.edge_sets[name].target}
    for name in plan.induced_edge_sets:
        check_known("induced_edge_sets", name, schema.edge_sets)
        ends = {schema.edge_sets[name].source, schema.edge_sets[name].target}
        if not ends <= reached:
            raise ValueError(
                f"`induced_edge_sets` must be between node sets that hops reach, {sorted(reached)}; got {name!r} "
                f"between {sorted(ends)}. Add a hop that finds such nodes."
            )


def _check_links(plan: SamplingPlan, schema: GraphSchema) -> None:
    if not plan.is_link_plan:
        return
    seed_edges = schema.edge_sets[plan.seed_edge_set]
    for name in plan.reverse_edge_sets:
        check_known("reverse_edge_sets", name, schema.edge_sets)
        ends = schema.edge_sets[name].source, schema.edge_sets[name].target
        if ends != (seed_edges.target, seed_edges.source):
            raise ValueError(
                f"`reverse_edge_sets` must lead from {seed_edges.target!r} to {seed_edges.source!r}, as "
                f"{plan.seed_edge_set!r} the other way round; got {name!r}, which leads from {ends[0]!r} to "
                f"{ends[1]!r}. Name the edge set that holds the reversed edges."
            )
    if plan.structure_labels:
        taken = [
            name
            for name in reached_node_sets(plan, schema)
            if STRUCTURE_LABEL in schema.node_sets[name].features
            and STRUCTURE_LABEL not in plan.excluded_features.get(name, ())
        ]
        if taken:
            raise ValueError(
                f"`structure_labels` must be left out where a table has a feature {STRUCTURE_LABEL!r}, which is their "
                f"name in the examples; got it in {taken}. Rename the column, or exclude it by `excluded_features`."
            )
    if plan.negatives:
        _check_negatives(plan, schema)


def _check_negatives(plan: SamplingPlan, schema: GraphSchema) -> None:
    negatives = plan.negatives
    assert negatives is not None
    node_set = root_node_sets(plan, schema)[negatives.side]
    features = schema.node_sets[node_set].features
    field = "same_feature" if negatives.same_feature else "conditions"
    for name in negatives.condition_features:
        check_known(field, name, set(features) - {ID_NAME}, f" for {node_set!r}")
        if not _is_scalar(features[name]):
            raise ValueError(
                f"`{field}` must name features with one value for each node; got {name!r} of shape "
                f"{_shape(features[name])} for {node_set!r}. Name another feature."
            )
    if negatives.weight_feature:
        _check_weight(negatives.weight_feature, schema.node_sets[node_set], "`negatives`")
    if negatives.time_feature:
        name = negatives.time_feature
        check_known("time_feature", name, set(features) - {ID_NAME}, f" for {node_set!r}, in `negatives`")
        if not tf.dtypes.as_dtype(features[name].dtype).is_integer or not _is_scalar(features[name]):
            raise ValueError(
                f"`time_feature` must be one integer for each node; got {name!r} of shape {_shape(features[name])} for "
                f"{node_set!r}, in `negatives`. Name a column of times, in the unit of `temporal`."
            )


def _check_temporal(plan: SamplingPlan, schema: GraphSchema) -> None:
    if plan.temporal is None:
        return
    seed_time = plan.temporal.seed_time
    if seed_time in plan.seed_table_features:
        if plan.seed_table_features[seed_time] != "int64":
            raise ValueError(
                f"`seed_time` must be an int64 column; got {seed_time!r} of type "
                f"{plan.seed_table_features[seed_time]!r} in `seed_table`. Declare it as 'int64'."
            )
    elif plan.seed_table:
        raise ValueError(
            f"`seed_time` must be a column of the seed table, whose rows are the seeds; got {seed_time!r}, and the "
            f"columns {sorted(plan.seed_table_features)}. Declare it in `features`."
        )
    else:
        _check_integer("seed_time", seed_time, _seed_features(plan, schema), f" for {plan.seed_set!r}")
    for edge_set, feature in plan.temporal.edge_times.items():
        check_known("edge_times", edge_set, plan.edge_set_names, " among the edge sets of the plan")
        _check_integer("edge_times", feature, schema.edge_sets[edge_set].features, f" for {edge_set!r}")


def check_split_features(plan: SamplingPlan, schema: GraphSchema) -> None:
    """Checks that each table whose rows belong to splits has the time feature that decides them."""
    seed_time = plan.splits.time_feature
    if not seed_time:
        return
    tables = tables_with_splits(plan)
    if tables.has_seed_table and plan.seed_table_features.get(seed_time) != "int64":
        raise ValueError(
            f"`splits.time_feature` must be an int64 column of the seed table; got {seed_time!r}, and the "
            f"columns "
            f"{dict(plan.seed_table_features)}. Declare it in `features`."
        )
    holders: list[tuple[str, str, Mapping[str, Feature]]] = [
        *((f"node set {node_set!r}", seed_time, schema.node_sets[node_set].features) for node_set in tables.node_sets),
        *(
            (f"edge set {edge_set!r}", split_time_feature(plan, edge_set), schema.edge_sets[edge_set].features)
            for edge_set in tables.edge_sets
        ),
    ]
    for place, name, features in holders:
        if name not in features:
            raise ValueError(
                f"`splits.time_feature` must be a feature of every table that has splits; got {name!r}, which "
                f"{place} lacks; it has {sorted(features)}. Add it there, or split by hash."
            )
        feature = features[name]
        if not tf.dtypes.as_dtype(feature.dtype).is_integer or feature.shape.dim or feature.shape.unknown_rank:
            raise ValueError(
                f"`splits.time_feature` must be one integer for each row; got {name!r} of type "
                f"{tf.dtypes.as_dtype(feature.dtype).name} in {place}. Give times as integers, seconds for example."
            )


def _check_labels(plan: SamplingPlan, schema: GraphSchema) -> None:
    seed_features = _seed_features(plan, schema)
    # A pair from a seed table need not be an edge, so it has no edge features.
    of_seed_set = () if plan.is_link_plan and plan.seed_table else seed_features
    known = {*of_seed_set, *plan.seed_table_features} - {ID_NAME}
    for name in plan.label_features:
        check_known("label_features", name, known, f" for {plan.seed_set!r}")
        if name in plan.seed_table_features and name in seed_features:
            raise ValueError(
                f"`label_features` must name a feature of the seed table or of {plan.seed_set!r}; got {name!r}, "
                "which both have. Rename the column of the seed table."
            )


def _check_features(plan: SamplingPlan, schema: GraphSchema) -> None:
    for name in plan.context_features:
        check_known("context_features", name, schema.context.features, " for the context")
    reached = {*reached_node_sets(plan, schema), *plan.edge_set_names}
    for set_name, feature_names in plan.excluded_features.items():
        check_known("excluded_features", set_name, reached, " among the sets that the plan reaches")
        features = {
            *(schema.node_sets[set_name].features if set_name in schema.node_sets else ()),
            *(schema.edge_sets[set_name].features if set_name in schema.edge_sets else ()),
        }
        for name in feature_names:
            check_known("excluded_features", name, features, f" for {set_name!r}")


def _seed_features(plan: SamplingPlan, schema: GraphSchema) -> Mapping[str, Feature]:
    if plan.is_link_plan:
        return schema.edge_sets[plan.seed_edge_set].features
    return schema.node_sets[plan.seed_node_set].features


def _check_integer(field: str, name: str, features: Mapping[str, Feature], place: str) -> None:
    check_known(field, name, features, place)
    dtype = tf.dtypes.as_dtype(features[name].dtype)
    if not dtype.is_integer or not _is_scalar(features[name]):
        raise ValueError(
            f"`{field}` must be an integer feature without a shape{place}; got {name!r} of type {dtype.name} and "
            f"shape {_shape(features[name])}. Give times as integers, seconds for example."
        )


def _is_scalar(feature: Feature) -> bool:
    return not feature.shape.dim and not feature.shape.unknown_rank


def _shape(feature: Feature) -> list[int]:
    return [dim.size for dim in feature.shape.dim]
