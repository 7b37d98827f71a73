"""The plan that samples what a trained model is asked about: every node, or a table of ids, in one split."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable
from tfx_gnn.sampling.plan.split_plan import SplitPlan

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

ALL_SPLIT = "all"
"""The only split of such a plan."""

_IDS_OF_REQUEST = "request"
"""Stands for the table of seeds, which a request is."""


def plan_for_inference(plan: SamplingPlan, *, ids: str = "", schema: GraphSchema | None = None) -> SamplingPlan:
    """Changes a training plan so that its seeds are what a model is asked about.

    A subgraph is that of the training plan for the same seed, but for its label, which is left out, and for nodes and
    edges that a split may not see: here every node and edge is visible. Where the training plan may hide some, edges
    are chosen as if some could be hidden: otherwise, the choices among the visible ones would be others.

    Args:
        plan: the plan of the examples that the model was trained on.
        ids: table of the seeds, relative to the tables folder: column `id`, or `source` and `target` for links; and
            `seed_time`, as the plan calls it, if the plan is temporal, and the `input_features` of its seed table.
            Empty: every node of the seed node set.
        schema: schema of the tables. Only with it are two features left out that training has left out, and that models
            do not read: the column of splits, if it is declared, and labels of the seed edges in reverse edge sets.

    Returns:
        The plan, whose seeds are in the one split `all`.

    Raises:
        ValueError: if a plan whose seeds are edges or rows of a table has no `ids`, or if its examples read out the
            seed edge itself, which a pair of nodes without an edge does not have.
    """
    if plan.keeps_seed_edge:
        raise ValueError(
            f"`plan` must not keep its seed edges, which a table of pairs does not have; got `keeps_seed_edge` for "
            f"{plan.seed_set!r}. Take the examples of the plan itself."
        )
    if not ids and (plan.is_link_plan or plan.seed_table):
        raise ValueError(
            f"`ids` must name a table of the seeds to ask about, unless they are all nodes of a set; got none for "
            f"{plan.seed_set!r}. Give a table of pairs, or of the ids with what else the plan reads of its seeds."
        )
    splits = SplitPlan(weights={ALL_SPLIT: 1}, visibility=plan.splits.visibility)
    of_table = set(plan.seed_table_features) & set(plan.label_features)
    labels = set(plan.label_features) - of_table
    left_out = labels | (set() if plan.seed_table else {plan.splits.column})
    excluded = dict(plan.excluded_features)
    for name in {plan.seed_set, *plan.reverse_edge_sets} & {plan.seed_node_set, *plan.edge_set_names}:
        known = labels if name == plan.seed_set else set()
        if schema is not None:
            sets = schema.edge_sets if plan.is_link_plan else schema.node_sets
            # A set that is not there would appear when it is asked for; the plan is checked later.
            known = left_out & set(sets[name].features if name in sets else ())
        if known:
            excluded[name] = tuple(sorted({*excluded.get(name, ()), *known}))
    table = None
    if ids:
        kept = {name: kind for name, kind in plan.seed_table_features.items() if name not in of_table}
        if plan.temporal:
            kept[plan.temporal.seed_time] = "int64"
        identity = plan.seed_table.identity_features if plan.seed_table else ()
        table = SeedTable(
            filename=ids,
            features=kept,
            identity_features=tuple(name for name in identity if name in kept),
            splits_edges=plan.seed_table is None or plan.seed_table.splits_edges,
            is_forecast=plan.seed_table is not None and plan.seed_table.is_forecast,
            input_features=plan.seed_inputs,
            now_feature=plan.seed_table.now_feature if plan.seed_table else "",
        )
    return dataclasses.replace(
        plan,
        seed_table=table,
        label_features=(),
        excluded_features=excluded,
        splits=splits,
        negatives=None,
    )


def plan_of_ids(plan: SamplingPlan, schema: GraphSchema | None = None) -> SamplingPlan:
    """Returns the plan that samples around the ids of a request.

    Args:
        plan: the plan of the examples that the model was trained on.
        schema: as for `plan_for_inference`.

    Raises:
        ValueError: if ids alone do not say what its examples hold.
    """
    ids = _IDS_OF_REQUEST if plan.is_link_plan or plan.seed_table else ""
    found = plan_for_inference(plan, ids=ids, schema=schema)
    if plan.is_link_plan and plan.seed_table is None and inputs_of_request(found):
        raise ValueError(
            "`plan` must have pairs as seeds of which the graph tells all but their ids, to be asked by these; got "
            f"{list(inputs_of_request(found))} of the seed edges. Send examples or graphs."
        )
    return found


def inputs_of_request(plan: SamplingPlan) -> tuple[str, ...]:
    """Names the columns that a request has beside ids: the inputs of the model, and the time that hides newer edges.

    Args:
        plan: a plan that `plan_of_ids` made.
    """
    seed_time = plan.temporal.seed_time if plan.temporal else ""
    is_column = bool(seed_time) and plan.seed_table is not None and seed_time not in plan.seed_inputs
    return (*plan.seed_inputs, *((seed_time,) if is_column else ()))
